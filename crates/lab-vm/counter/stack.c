/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "map.h"
#include "stack.h"

#define ROOT 0u
/* A deeper stack begins anew. */
#define DEPTH 256u

/* Xen's part of the address space: xen/arch/x86/include/asm/config.h, HYPERVISOR_VIRT_START to _END. */
#define HYPERVISOR_FIRST 0xffff800000000000u
#define HYPERVISOR_END 0xffff880000000000u

struct frame {
	/* The stack that it was called on. */
	uint32_t below;
	/* Else a trap or an exception. */
	bool is_call;
	/* Returns to an address in here, which is after an instruction that was emulated, */
	uint64_t first, last;
	/* or to this. */
	uint64_t target;
};

struct count {
	uint64_t instructions;
	uint64_t repeated;
	/* Where the block's last instruction jumps to; 0 of a call. */
	uint64_t target;
};

struct task {
	struct frame frames[DEPTH];
	unsigned int depth;
	uint32_t node;
};

static struct task *task;
/* By the address that their stack pointers are stored at. */
static struct map tasks;
static struct task **known;
static uint32_t known_size;
/* The task has not returned from the switch to it yet, and had this depth then. */
static bool switched;
static unsigned int switched_depth;

static struct block *current;
/* It was entered in its middle, by the mark. */
static bool begun_inside;
static uint64_t charged;
/* Of the current block: what another task has executed of it. */
static uint32_t executed_before;
static struct entries entries;

/* By the caller's node and the site; numbered from 0 on, nodes from 1 on. */
static struct map nodes;
/* By node and address. */
static struct map cells;
static struct count *counts;
static uint32_t counts_size;
/* Blocks know cells of before the last clearing. */
static uint32_t clears = 1;
/* arm64's kernels may lie where Xen lies on x86. */
static bool with_hypervisor = true;

struct block *block_new(uint32_t count)
{
	struct block *block = grown(NULL, 1, sizeof(*block) + count * sizeof(block->addresses[0]));

	*block = (struct block){ .count = count };
	return block;
}

static struct task *task_new(void)
{
	struct task *new = grown(NULL, 1, sizeof(*new));

	new->depth = 0;
	new->node = ROOT;
	return new;
}

/* Where the task of an address is; a null pointer of one that is not known yet. */
static struct task **task_at(uint64_t address)
{
	uint32_t before = tasks.count, number = map_number(&tasks, address, 0);

	if (number >= known_size) {
		known_size = known_size ? 2 * known_size : 64;
		known = grown(known, known_size, sizeof(struct task *));
	}
	if (number == before)
		known[number] = NULL;
	return &known[number];
}

static void forget_tasks(void)
{
	bool found = false;

	for (uint32_t i = 0; i < tasks.count; i++) {
		found |= known[i] == task;
		free(known[i]);
	}
	if (!found)
		free(task);
	map_clear(&tasks);
	task = task_new();
	switched = false;
}

static uint32_t find_cell(uint64_t address)
{
	uint32_t before = cells.count, cell = map_number(&cells, task->node, address);

	if (cell >= counts_size) {
		counts_size = counts_size ? 2 * counts_size : 1024;
		counts = grown(counts, counts_size, sizeof(*counts));
	}
	if (cell == before)
		counts[cell] = (struct count){ 0 };
	return cell;
}

static struct count *count_of(struct block *block)
{
	if (block->node != task->node || block->clears != clears) {
		block->node = task->node;
		block->clears = clears;
		block->cell = find_cell(block->addresses[0]);
		if (block->target && block->flow == ONWARD)
			counts[block->cell].target = block->target;
	}
	return &counts[block->cell];
}

static void push(bool is_call, uint64_t site, struct frame frame)
{
	if (task->depth == DEPTH) {
		task->depth = 0;
		task->node = ROOT;
	}
	frame.is_call = is_call;
	frame.below = task->node;
	task->frames[task->depth++] = frame;
	task->node = map_number(&nodes, task->node, site) + 1;
}

/* Goes back to what called the frame `to`. */
static void pop(unsigned int to)
{
	task->depth = to;
	task->node = task->frames[to].below;
}

static bool returns_to(const struct frame *frame, uint64_t address)
{
	return (address >= frame->first && address <= frame->last) || address == frame->target;
}

static void empty_stack(void)
{
	task->depth = 0;
	task->node = ROOT;
}

/* Goes back to what called, or to what was interrupted, where a frame of that kind returns to this address. */
static bool return_to(bool from_call, uint64_t address)
{
	for (unsigned int i = task->depth; i--;)
		if (task->frames[i].is_call == from_call && returns_to(&task->frames[i], address)) {
			pop(i);
			return true;
		}
	return false;
}

/*
 * A return to elsewhere is a jump with its target on the stack, as a retpoline's; or it was interrupted before anything was
 * executed there, by a handler that goes there; or it is the first of a new task, which may be where one was that has ended.
 */
static void return_from_call(uint64_t address)
{
	if (return_to(true, address)) {
		switched &= task->depth >= switched_depth;
	} else if (switched && task->depth == switched_depth) {
		empty_stack();
		switched = false;
	}
}

static bool is_hypervisors(uint64_t address)
{
	return with_hypervisor && address >= HYPERVISOR_FIRST && address < HYPERVISOR_END;
}

/*
 * Where a handler was entered after a jump or a return, which no frame tells, it goes on where that went. A hypervisor that
 * does not go back to where it was entered from goes on to a handler of its guest's: that takes its place on the stack, until
 * execution goes back there. User space is entered elsewhere by a new program, or for a signal.
 */
static void return_from_trap(uint64_t address)
{
	if (return_to(false, address) || return_to(true, address))
		return;
	if (address < KERNELS) {
		empty_stack();
		return;
	}
	while (task->depth && task->frames[task->depth - 1].is_call &&
	       is_hypervisors(task->frames[task->depth - 1].target))
		pop(task->depth - 1);
}

/* What has been executed since it was charged last. */
static uint64_t charge_rest(uint64_t instructions)
{
	uint64_t executed = instructions - charged;

	charged = instructions;
	count_of(current)->instructions += executed;
	return executed;
}

/* How many of the current block's instructions have been executed. */
static uint32_t charge(uint64_t instructions)
{
	uint64_t executed = charge_rest(instructions) + executed_before;

	executed_before = 0;
	return begun_inside || executed > current->count ? current->count : executed;
}

static bool is_next(const struct block *next)
{
	uint64_t address = next->addresses[0];

	switch (current->flow) {
	case ONWARD:
		return address == current->next || address == current->target;
	case CALL:
		return !current->target || address == current->target;
	default:
		return true;
	}
}

/* Another block follows than the last instruction leads to. */
static void interrupt(const struct block *next, uint32_t executed)
{
	uint64_t last = current->addresses[executed ? executed - 1 : 0];
	struct frame frame = { .first = last, .last = current->next + LONGEST_INSTRUCTION, .target = current->target };
	bool again = next->addresses[0] == last;

	/* What faults is not retired; QEMU also begins an access of a device anew. */
	if (executed && (again || executed < current->count))
		count_of(current)->instructions--;
	if (again)
		return;
	entries.exceptions++;
	push(false, last, frame);
}

static void go(const struct block *next, uint32_t executed)
{
	uint64_t address = next->addresses[0], last = current->addresses[current->count - 1];
	struct frame frame = { .first = current->next, .last = current->next, .target = current->next };

	if (current->repeats && executed == current->count && address == last) {
		count_of(current)->repeated++;
		return;
	}
	/* A block may end before what QEMU says is its last instruction: where that one is in two pages. */
	if (executed < current->count && address == current->addresses[executed])
		return;
	if (executed < current->count || !is_next(next)) {
		interrupt(next, executed);
		return;
	}
	switch (current->flow) {
	case CALL:
		push(true, last, frame);
		break;
	case TRAP:
		entries.traps++;
		/* A hypercall that was interrupted is made again. */
		frame.first = last;
		push(false, last, frame);
		break;
	case RET:
		return_from_call(address);
		break;
	case TRAP_RETURN:
		return_from_trap(address);
		break;
	case ONWARD:
	case JUMP:
		break;
	}
}

void stack_without_hypervisor(void)
{
	with_hypervisor = false;
}

void stack_begin(struct block *block, uint64_t instructions)
{
	forget_tasks();
	executed_before = 0;
	current = block;
	begun_inside = true;
	charged = instructions;
}

void stack_enter(struct block *next, uint64_t instructions)
{
	go(next, charge(instructions));
	current = next;
	begun_inside = false;
}

void stack_end(uint64_t instructions)
{
	charge(instructions);
}

void stack_switch_out(uint64_t address)
{
	struct task **at = task_at(address);

	if (*at != task)
		free(*at);
	*at = task;
}

void stack_switch_in(uint64_t address, uint64_t instructions)
{
	struct task **at = task_at(address);

	executed_before += charge_rest(instructions);
	if (!*at)
		*at = task_new();
	task = *at;
	switched = true;
	switched_depth = task->depth;
}

struct entries stack_entries(void)
{
	return entries;
}

void stack_write(FILE *out)
{
	for (uint32_t i = 0; i < nodes.count; i++)
		fprintf(out, "node %" PRIu64 " %" PRIx64 "\n", nodes.pairs[i].first, nodes.pairs[i].second);
	for (uint32_t i = 0; i < cells.count; i++) {
		fprintf(out, "code %" PRIu64 " %" PRIx64 " %" PRIu64 " %" PRIu64, cells.pairs[i].first, cells.pairs[i].second,
			counts[i].instructions, counts[i].repeated);
		if (counts[i].target)
			fprintf(out, " %" PRIx64, counts[i].target);
		fprintf(out, "\n");
	}
	map_clear(&nodes);
	map_clear(&cells);
	clears++;
	entries = (struct entries){ 0, 0 };
}
