/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

__attribute__((visibility("default"))) int qemu_plugin_version = INTERFACE;

#if INTERFACE == 1

extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int operation, void *sum,
						       uint64_t operand);
extern void qemu_plugin_register_vcpu_mem_inline(struct qemu_plugin_insn *insn, int accesses, int operation, void *sum,
						 uint64_t operand);

static char *all;

size_t copy_code(const struct qemu_plugin_insn *insn, uint8_t *code, size_t room)
{
	size_t size = qemu_plugin_insn_size(insn);

	if (size > room)
		size = room;
	memcpy(code, qemu_plugin_insn_data(insn), size);
	return size;
}

void sums_begin(size_t size)
{
	all = calloc(1, size);
}

void *sums(void)
{
	return all;
}

void sum_executions(struct qemu_plugin_insn *insn, size_t offset)
{
	qemu_plugin_register_vcpu_insn_exec_inline(insn, ADD, all + offset, 1);
}

void sum_accesses(struct qemu_plugin_insn *insn, size_t offset)
{
	qemu_plugin_register_vcpu_mem_inline(insn, READS_AND_WRITES, ADD, all + offset, 1);
}

#else

/* Memory for each vCPU. */
struct qemu_plugin_scoreboard;

/* qemu_plugin_u64 */
struct sum {
	struct qemu_plugin_scoreboard *board;
	size_t offset;
};

extern size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *code, size_t room);
extern struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t size);
extern void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *board, unsigned int vcpu);
extern void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn, int operation,
								 struct sum sum, uint64_t operand);
extern void qemu_plugin_register_vcpu_mem_inline_per_vcpu(struct qemu_plugin_insn *insn, int accesses, int operation,
							   struct sum sum, uint64_t operand);

static struct qemu_plugin_scoreboard *board;

size_t copy_code(const struct qemu_plugin_insn *insn, uint8_t *code, size_t room)
{
	return qemu_plugin_insn_data(insn, code, room);
}

void sums_begin(size_t size)
{
	board = qemu_plugin_scoreboard_new(size);
}

void *sums(void)
{
	return qemu_plugin_scoreboard_find(board, 0);
}

void sum_executions(struct qemu_plugin_insn *insn, size_t offset)
{
	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, (struct sum){ board, offset }, 1);
}

void sum_accesses(struct qemu_plugin_insn *insn, size_t offset)
{
	qemu_plugin_register_vcpu_mem_inline_per_vcpu(insn, READS_AND_WRITES, ADD, (struct sum){ board, offset }, 1);
}

#endif
