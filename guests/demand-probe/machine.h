/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A virtual machine of one vCPU in flat 32-bit mode without paging, so that the addresses that it touches are guest
 * physical ones. It runs one of a few programs of some instructions each.
 */
#ifndef PAGETOLL_MACHINE_H
#define PAGETOLL_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define PAGE 4096ul
/* Where the guest sees the memory that is paged in. */
#define AREA_GPA 0x40000000ul

enum program {
	/* For each of `count` pages: write the count that is left, read the first word into the sum. */
	PROGRAM_TOUCH,
	/* Read one word. */
	PROGRAM_READ,
	/* Jump to the area. */
	PROGRAM_JUMP,
	/* OUTS one byte of the area: KVM itself reads it. */
	PROGRAM_OUTS,
	/* CPUID `count` times: exits that KVM answers. */
	PROGRAM_CPUID,
	/* OUT `count` times: exits that user space answers. */
	PROGRAM_OUT,
};

enum stop {
	/* The program has ended. */
	STOP_END,
	/* An OUT or OUTS of a program. */
	STOP_PORT,
	/* KVM_EXIT_MEMORY_FAULT. */
	STOP_MISSING,
	/* A signal came first. */
	STOP_INTERRUPTED,
	/* Anything else. */
	STOP_OTHER,
};

struct machine {
	int kvm, vm, vcpu, stats;
	struct kvm_run *run;
	/* Where "exits" lies in the vCPU's statistics. */
	uint64_t exits_offset;
	void *code;
	/* How often KVM_RUN was called. */
	uint64_t entries;
};

/* Makes the machine, without the area. Ends the guest when that fails. */
struct machine machine_open(void);
void machine_close(struct machine *machine);

/* Whether user space can ask for exits on missing pages. */
bool machine_can_exit_on_missing(const struct machine *machine);

/* Shows `pages` pages at `area` to the guest, or changes the flags they are shown with; 0 or an errno. */
int machine_attach(struct machine *machine, void *area, uint64_t pages, uint32_t flags);

/* Sets the vCPU at the beginning of a program that works on guest physical addresses from `gpa` on. */
void machine_load(struct machine *machine, enum program program, uint32_t gpa, uint32_t count);

/* Lets it run until it stops. */
enum stop machine_run(struct machine *machine);

/* The page that PROGRAM_TOUCH is at. */
uint64_t machine_touching(const struct machine *machine);

/* What the program has summed up. */
uint32_t machine_sum(const struct machine *machine);

/* How often the vCPU has left the guest by now, for whatever reason: KVM's own statistics. */
uint64_t machine_exits(const struct machine *machine);

#endif
