/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A QEMU plugin that counts the instructions that flush a TLB: writes of CR3 and CR4, INVLPG, INVPCID. Executed ones,
 * whoever executes them, between the marks that the guest's own code carries (MARK_NOP in
 * guests/lib/marks.h). It does not see what is written, and changes no count of QEMU's.
 *
 * After each step of the order one line is appended to the file out=PATH: the step's number and the four counts.
 * With check=on it ends QEMU at once with status 0: then this QEMU takes it.
 *
 * The interface is that of QEMU's include/qemu/qemu-plugin.h, version 1 (QEMU 6.0 to 8.x), declared here because
 * distributions do not ship the header. One vCPU only: nothing is locked.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

/* The beginning of qemu_info_t. */
struct info {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
};

typedef void (*translated)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*executed)(unsigned int vcpu, void *data);

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, translated cb);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, executed cb, int flags, void *data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/* From version 3 on (QEMU 9.1) qemu_plugin_insn_data() copies instead. */
#define LAST_VERSION 2
#define CB_NO_REGS 0

/* As in guests/lib/marks.h. */
#define MARK_BEGIN 0x50540000u
#define MARK_END 0x50550000u
#define MARK_STEP 0x50560000u

enum kind { CR3, CR4, INVLPG, INVPCID, KINDS };

static uint64_t counts[KINDS];
static bool counting;
static unsigned int step;
static int out = -1;

static void on_kind(unsigned int vcpu, void *data)
{
	(void)vcpu;
	counts[(uintptr_t)data] += counting;
}

static void on_begin(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	counting = true;
}

static void on_end(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	counting = false;
}

static void on_step(unsigned int vcpu, void *data)
{
	char line[128];
	int size = snprintf(line, sizeof(line), "%u %llu %llu %llu %llu\n", step, (unsigned long long)counts[CR3],
			    (unsigned long long)counts[CR4], (unsigned long long)counts[INVLPG],
			    (unsigned long long)counts[INVPCID]);

	(void)vcpu;
	(void)data;
	/* A line that is not there is missed by the reader. */
	if (step && write(out, line, size) != size)
		fprintf(stderr, "control_registers: cannot write counts\n");
	memset(counts, 0, sizeof(counts));
	step++;
}

/* nopl disp32(%rax): 0f 1f 80. */
static executed mark_of(const uint8_t *code, size_t size)
{
	uint32_t what;

	if (size != 7 || code[0] != 0x0f || code[1] != 0x1f || code[2] != 0x80)
		return NULL;
	memcpy(&what, code + 3, sizeof(what));
	switch (what) {
	case MARK_BEGIN:
		return on_begin;
	case MARK_END:
		return on_end;
	case MARK_STEP:
		return on_step;
	default:
		return NULL;
	}
}

/*
 * Intel SDM 2: MOV CRn, r64 is 0f 22 /n; INVLPG is 0f 01 /7 with a memory operand; INVPCID 66 0f 38 82 /r. With REX.R
 * the first would be CR8 and above.
 */
static int kind_of(const uint8_t *code, size_t size)
{
	bool operand_size = false, rex_r = false;

	for (; size && (*code == 0x66 || *code == 0x67 || (*code >= 0x26 && *code <= 0x3e && (*code & 0xe7) == 0x26) ||
			*code == 0x64 || *code == 0x65 || *code == 0xf2 || *code == 0xf3); code++, size--)
		operand_size |= *code == 0x66;
	if (size && (*code & 0xf0) == 0x40) {
		rex_r = *code & 4;
		code++;
		size--;
	}
	if (size < 3 || code[0] != 0x0f)
		return -1;
	if (code[1] == 0x22 && !rex_r)
		return (code[2] >> 3 & 7) == 3 ? CR3 : (code[2] >> 3 & 7) == 4 ? CR4 : -1;
	if (code[1] == 0x01 && (code[2] >> 3 & 7) == 7 && code[2] >> 6 != 3)
		return INVLPG;
	return operand_size && code[1] == 0x38 && code[2] == 0x82 ? INVPCID : -1;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *code = qemu_plugin_insn_data(insn);
		size_t size = qemu_plugin_insn_size(insn);
		executed mark = mark_of(code, size);
		int kind = kind_of(code, size);

		if (mark)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, mark, CB_NO_REGS, NULL);
		else if (kind >= 0)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_kind, CB_NO_REGS, (void *)(uintptr_t)kind);
	}
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const struct info *info, int argc,
								char **argv)
{
	if (info->version.cur > LAST_VERSION)
		return -1;
	for (int i = 0; i < argc; i++) {
		if (!strcmp(argv[i], "check=on"))
			_exit(0);
		if (!strncmp(argv[i], "out=", 4))
			out = open(argv[i] + 4, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	}
	if (out < 0)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
