/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The virtual machine of a case. Its guest does one access of a word at a time, by a program of two instructions in a
 * slot of its own, and says by the second that it is done. vCPUs are made when they are first named.
 */
#ifndef PAGETOLL_CONFORMANCE_GUEST_H
#define PAGETOLL_CONFORMANCE_GUEST_H

#include <stdint.h>

#include "answer.h"

struct vcpu {
	int fd;
	struct kvm_run *run;
};

/* A descriptor of a virtual machine without slots, which is never run. */
int guest_open_empty(void);

/* Makes the virtual machine of the case. */
void guest_open(void);

/* Its descriptor, or -1. */
int guest_vm(void);

struct vcpu guest_add_vcpu(unsigned int number);

/* Reads, or writes, the word at a guest physical address. */
struct answer vcpu_read(const struct vcpu *vcpu, uint64_t gpa);
struct answer vcpu_write(const struct vcpu *vcpu, uint64_t gpa, uint64_t word);

/* KVM_RUN again, with a word in kvm_run.mmio.data. */
struct answer vcpu_run(const struct vcpu *vcpu, uint64_t word);

#endif
