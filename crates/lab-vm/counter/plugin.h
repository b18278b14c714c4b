/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * QEMU's interface for plugins: what this one needs of include/qemu/qemu-plugin.h, declared here because distributions do not
 * ship the header. INTERFACE is its version: 1, tried on QEMU 7.2, or 3, tried on 10.0.
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

/* QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_INLINE_ADD_U64, QEMU_PLUGIN_MEM_RW. */
#define NO_REGISTERS 0
#define ADD 0
#define READS_AND_WRITES 3

typedef void (*translated)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*reset)(qemu_plugin_id_t id);
typedef void (*executed)(unsigned int vcpu, void *data);
typedef void (*accessed)(unsigned int vcpu, uint32_t access, uint64_t address, void *data);

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, translated cb);
/* Forgets all translations and callbacks, then calls `cb`. */
extern void qemu_plugin_reset(qemu_plugin_id_t id, reset cb);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, executed cb, int flags, void *data);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, executed cb, int flags, void *data);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, accessed cb, int flags, int accesses, void *data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

/* Copies an instruction's code, as far as there is room, and returns how much. */
size_t copy_code(const struct qemu_plugin_insn *insn, uint8_t *code, size_t room);

/* Begins to keep sums of so many bytes, all of them uint64_t, of the one vCPU that there is. */
void sums_begin(size_t size);
/* Where they are, once there is a vCPU. */
void *sums(void);
/* Adds 1 to the sum at an offset whenever an instruction is executed. */
void sum_executions(struct qemu_plugin_insn *insn, size_t offset);
/* Adds 1 to the sum at an offset whenever an instruction accesses memory. */
void sum_accesses(struct qemu_plugin_insn *insn, size_t offset);

#endif
