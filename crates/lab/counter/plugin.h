/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The interface of QEMU's plugins: what this one needs of include/qemu/qemu-plugin.h, version 1 (QEMU 6.0 to 8.x), declared
 * here because distributions do not ship the header.
 */
#ifndef PAGETOLL_PLUGIN_H
#define PAGETOLL_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

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

/* From version 3 on (QEMU 9.1) qemu_plugin_insn_data() copies instead. */
#define LAST_VERSION 2
/* QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_INLINE_ADD_U64, QEMU_PLUGIN_MEM_RW. */
#define NO_REGISTERS 0
#define ADD 0
#define READS_AND_WRITES 3

typedef void (*translated)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*executed)(unsigned int vcpu, void *data);

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, translated cb);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, executed cb, int flags, void *data);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, executed cb, int flags, void *data);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int operation, void *counter,
						       uint64_t operand);
extern void qemu_plugin_register_vcpu_mem_inline(struct qemu_plugin_insn *insn, int accesses, int operation,
						 void *counter, uint64_t operand);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

#endif
