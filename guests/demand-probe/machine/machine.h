/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A virtual machine of one vCPU without paging, so that it touches guest physical addresses. It runs one of a few programs
 * of some instructions each. Their names are x86's: arm64 has stores to where no memory is for OUT.
 */
#ifndef PAGETOLL_MACHINE_H
#define PAGETOLL_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* The guest physical address of the area that is paged in. */
#define AREA_GPA 0x40000000ul
/* That of the list of pages that PROGRAM_VISIT reads. */
#define LIST_GPA 0x20000000ul

enum program {
	/* For each of `count` pages: write the remaining count, add the first word to the sum. */
	PROGRAM_TOUCH,
	/* Read one word. */
	PROGRAM_READ,
	/* Jump to the area. */
	PROGRAM_JUMP,
	/* OUTS one byte of the area, which KVM reads. */
	PROGRAM_OUTS,
	/* OUT `count` times to a port that KVM answers by itself: an eventfd is signalled that nothing waits for. */
	PROGRAM_OUT_ANSWERED,
	/* OUT `count` times: exits to user space. */
	PROGRAM_OUT,
	/* For each of `count` pages: add 1 to the second word. */
	PROGRAM_COUNT,
	/* For each of `count` pages, of every second chunk: add the first word to the sum. */
	PROGRAM_READ_CHUNKS,
	/* The work of PROGRAM_TOUCH on each of `count` pages, of every second chunk. */
	PROGRAM_TOUCH_CHUNKS,
	/*
	 * For each of `count` words of a list, which are guest physical addresses of pages: add the page's first word to the
	 * sum, and before that write the remaining count to its second, where bit 0 is set.
	 */
	PROGRAM_VISIT,
	/* For each of `count` words: multiply the sum by MACHINE_HASH_FACTOR and add the word. */
	PROGRAM_HASH,
};

#define MACHINE_HASH_FACTOR 31u

enum stop {
	STOP_END,
	/* An OUT or OUTS of a program. */
	STOP_PORT,
	/* KVM_EXIT_MEMORY_FAULT. */
	STOP_MISSING,
	/* EFAULT, without a word of where. */
	STOP_FAULT,
	/* A signal came first. */
	STOP_INTERRUPTED,
	STOP_OTHER,
};

struct machine {
	int kvm, vm, vcpu, stats, answered;
	struct kvm_run *run;
	/* Offset of "exits" in the vCPU's statistics. */
	uint64_t exits_offset;
	void *code;
	/* Calls of KVM_RUN. */
	uint64_t entries;
};

/* Creates the machine, without the area. Ends the guest when that fails. */
struct machine machine_open(void);

/* Creates one whose vCPU logs dirty pages in a ring, by one of KVM's two capabilities for that; none where `bytes` is 0. */
struct machine machine_open_with_ring(unsigned int capability, uint64_t bytes);
void machine_close(struct machine *machine);

/* Whether KVM offers exits on missing pages. */
bool machine_can_exit_on_missing(const struct machine *machine);

/* Sets the memslot of the area, or changes its flags; 0 or an errno. */
int machine_attach(struct machine *machine, void *area, uint64_t pages, uint32_t flags);

/* Whether KVM offers exits on pages that a bitmap marks. */
bool machine_can_exit_on_marked(const struct machine *machine);

/* Sets the memslot of the area, with a bit for each page that is to be left at; 0 or an errno. */
int machine_attach_marked(struct machine *machine, void *area, uint64_t pages, uint32_t flags, const uint64_t *marks);

/* Sets the memslot of the list that PROGRAM_VISIT reads. */
void machine_attach_list(struct machine *machine, const void *list, uint64_t pages);

/* A guest_memfd that user space may map, or -1. */
int machine_make_guest_memfd(const struct machine *machine, uint64_t pages);

/* Sets the memslot of the area to a guest_memfd from its start, which user space maps at `area`; 0 or an errno. */
int machine_attach_guest_memfd(struct machine *machine, void *area, uint64_t pages, int guest_memfd, uint32_t flags);

/* Reads and clears the area's log of dirty pages, a bit each. */
void machine_dirty_log(struct machine *machine, uint64_t *log);

/* Points the vCPU at a program that works on guest physical addresses from `gpa` on. */
void machine_load(struct machine *machine, enum program program, uint32_t gpa, uint32_t count);

/*
 * Points the vCPU at a program that works on `count` pages of the area in every second chunk of `chunk` pages, a power of
 * two: from the chunk of number `first` on, 0 or 1.
 */
void machine_load_chunks(struct machine *machine, enum program program, uint32_t count, uint32_t chunk, uint32_t first);

enum stop machine_run(struct machine *machine);

/* Whether KVM offers KVM_PRE_FAULT_MEMORY. */
bool machine_can_prefault(const struct machine *machine);

/* Maps pages of the area for the guest, as far as they are present. */
void machine_prefault(struct machine *machine, uint64_t page, uint64_t pages);

/* The page that PROGRAM_TOUCH is at. */
uint64_t machine_touching(const struct machine *machine);

/* The page that PROGRAM_VISIT is at. */
uint64_t machine_visiting(const struct machine *machine);

uint32_t machine_sum(const struct machine *machine);

/* Exits of the vCPU so far, by KVM's statistics. */
uint64_t machine_exits(const struct machine *machine);

/* Sets the pages that KVM's tables map for the guest, by KVM's statistics; false where it does not count them. */
bool machine_mapped(const struct machine *machine, uint64_t *pages);

/* Entries of 2 MiB in KVM's tables, by its statistics. */
uint64_t machine_mapped_huge(const struct machine *machine);

#endif
