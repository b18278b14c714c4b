/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A QEMU plugin that counts what is executed, by any program or kernel, between the marks that the guest's own code carries
 * (MARK_NOP in guests/lib/marks.h). It changes no count of QEMU's.
 *
 * For each step of the order it appends to the file out=PATH a line "step" with the step's number and counts of events, in
 * the order of enum event, then exceptions, traps, accesses of memory, and marks that began; with stacks=on the stacks follow
 * (stack.h), and without it exceptions, traps and accesses are 0; a line "end" is the last of a step. Until the first step nothing but its mark is looked for, so
 * that a boot takes no longer. With check=on it ends QEMU at once with status 0: then this QEMU takes it.
 *
 * One vCPU only: nothing is locked.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "instruction.h"
#include "plugin.h"
#include "stack.h"

struct counts {
	uint64_t events[EVENTS];
	uint64_t instructions;
	uint64_t accesses;
};

/* Since QEMU started; known once the first block is translated. */
static const struct counts *all;
static struct counts at_begin;
/* Of this step. */
static struct counts inside;
static uint64_t begins;
static bool counting;
static bool with_stacks;
static unsigned int step;
static FILE *out;

static void on_begin(unsigned int vcpu, void *data)
{
	(void)vcpu;
	begins++;
	counting = true;
	at_begin = *all;
	if (with_stacks)
		stack_begin(data, all->instructions);
}

static void on_end(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	if (!counting)
		return;
	counting = false;
	for (int event = 0; event < EVENTS; event++)
		inside.events[event] += all->events[event] - at_begin.events[event];
	inside.accesses += all->accesses - at_begin.accesses;
	if (with_stacks)
		stack_end(all->instructions);
}

static void write_step(void)
{
	struct entries entries = stack_entries();

	fprintf(out, "step %u", step);
	for (int event = 0; event < EVENTS; event++)
		fprintf(out, " %" PRIu64, inside.events[event]);
	fprintf(out, " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", entries.exceptions, entries.traps, inside.accesses,
		begins);
	stack_write(out);
	fprintf(out, "end\n");
	/* What is not there is missed by the reader. */
	if (fflush(out))
		fprintf(stderr, "counter: cannot write counts\n");
}

static void on_step(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	if (step)
		write_step();
	inside = (struct counts){ 0 };
	begins = 0;
	step++;
}

static executed on_mark(enum mark mark)
{
	switch (mark) {
	case MARK_BEGIN:
		return on_begin;
	case MARK_END:
		return on_end;
	case MARK_STEP:
		return on_step;
	case NO_MARK:
		break;
	}
	return NULL;
}

static void on_block(unsigned int vcpu, void *data)
{
	(void)vcpu;
	if (counting)
		stack_enter(data, all->instructions);
}

static void on_switch_out(unsigned int vcpu, uint32_t access, uint64_t address, void *data)
{
	(void)vcpu;
	(void)access;
	(void)data;
	if (counting)
		stack_switch_out(address);
}

static void on_switch_in(unsigned int vcpu, uint32_t access, uint64_t address, void *data)
{
	(void)vcpu;
	(void)access;
	(void)data;
	if (counting)
		stack_switch_in(address, all->instructions);
}

/* Of the processor that is emulated. */
static reader *instruction_of;

static struct instruction read_instruction(const struct qemu_plugin_insn *insn)
{
	uint8_t code[LONGEST_INSTRUCTION];
	size_t size = copy_code(insn, code, sizeof(code));

	return instruction_of(code, size, qemu_plugin_insn_vaddr(insn));
}

static struct block *describe(const struct qemu_plugin_tb *tb, size_t count)
{
	struct block *block = block_new(count);
	const struct qemu_plugin_insn *insn;
	struct instruction last;

	for (size_t i = 0; i < count; i++)
		block->addresses[i] = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, i));
	insn = qemu_plugin_tb_get_insn(tb, count - 1);
	last = read_instruction(insn);
	block->next = block->addresses[count - 1] + qemu_plugin_insn_size(insn);
	block->target = last.target;
	block->flow = last.flow;
	block->repeats = last.repeats;
	return block;
}

static void count_instruction(struct qemu_plugin_insn *insn, struct block *block)
{
	struct instruction found = read_instruction(insn);
	executed mark = on_mark(found.mark);

	for (int event = 0; event < EVENTS; event++)
		if (found.events & 1u << event)
			sum_executions(insn, offsetof(struct counts, events[event]));
	if (block) {
		sum_executions(insn, offsetof(struct counts, instructions));
		sum_accesses(insn, offsetof(struct counts, accesses));
		if (found.task_switch)
			qemu_plugin_register_vcpu_mem_cb(insn, found.task_switch == SWITCH_IN ? on_switch_in : on_switch_out,
							 NO_REGISTERS, READS_AND_WRITES, NULL);
	}
	if (mark)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, mark, NO_REGISTERS, block);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	struct block *block = with_stacks && count ? describe(tb, count) : NULL;

	(void)id;
	all = sums();
	for (size_t i = 0; i < count; i++)
		count_instruction(qemu_plugin_tb_get_insn(tb, i), block);
	if (block)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, NO_REGISTERS, block);
}

static qemu_plugin_id_t plugin;
static bool awake;

/* QEMU has forgotten all that it had translated. */
static void on_reset(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
}

static void on_first_step(unsigned int vcpu, void *data)
{
	if (awake)
		return;
	awake = true;
	on_step(vcpu, data);
	qemu_plugin_reset(plugin, on_reset);
}

static void on_translation_asleep(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (read_instruction(insn).mark == MARK_STEP)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_first_step, NO_REGISTERS, NULL);
	}
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const struct info *info, int argc,
								char **argv)
{
	int fd = -1;

	instruction_of = instruction_of_x86_64;
	if (!strcmp(info->target_name, "aarch64")) {
		instruction_of = instruction_of_arm64;
		stack_without_hypervisor();
	}
	for (int i = 0; i < argc; i++) {
		if (!strcmp(argv[i], "check=on"))
			_exit(0);
		if (!strncmp(argv[i], "out=", 4))
			fd = open(argv[i] + 4, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
		with_stacks |= !strcmp(argv[i], "stacks=on");
	}
	out = fd < 0 ? NULL : fdopen(fd, "a");
	if (!out)
		return -1;
	plugin = id;
	sums_begin(sizeof(struct counts));
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation_asleep);
	return 0;
}
