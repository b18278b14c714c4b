/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <inttypes.h>
#include <stdbool.h>

#include "map.h"
#include "stack.h"

#define ROOT 0u
/* A deeper stack begins anew. */
#define DEPTH 256u

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
};

static struct frame frames[DEPTH];
static unsigned int depth;
static uint32_t node;
static struct block *current;
/* It was entered in its middle, by the mark. */
static bool begun_inside;
static uint64_t charged;
static struct entries entries;

/* By the caller's node and the site; numbered from 0 on, nodes from 1 on. */
static struct map nodes;
/* By node and address. */
static struct map cells;
static struct count *counts;
static uint32_t counts_size;
/* Blocks know cells of before the last clearing. */
static uint32_t clears = 1;

struct block *block_new(uint32_t count)
{
	struct block *block = grown(NULL, 1, sizeof(*block) + count * sizeof(block->addresses[0]));

	*block = (struct block){ .count = count };
	return block;
}

static uint32_t find_cell(uint64_t address)
{
	uint32_t before = cells.count, cell = map_number(&cells, node, address);

	if (cell >= counts_size) {
		counts_size = counts_size ? 2 * counts_size : 1024;
		counts = grown(counts, counts_size, sizeof(*counts));
	}
	if (cell == before)
		counts[cell] = (struct count){ 0, 0 };
	return cell;
}

static struct count *count_of(struct block *block)
{
	if (block->node != node || block->clears != clears) {
		block->node = node;
		block->clears = clears;
		block->cell = find_cell(block->addresses[0]);
	}
	return &counts[block->cell];
}

static void push(bool is_call, uint64_t site, struct frame frame)
{
	if (depth == DEPTH) {
		depth = 0;
		node = ROOT;
	}
	frame.is_call = is_call;
	frame.below = node;
	frames[depth++] = frame;
	node = map_number(&nodes, node, site) + 1;
}

/* Goes back to what called the frame `to`. */
static void pop(unsigned int to)
{
	depth = to;
	node = frames[to].below;
}

static bool returns_to(const struct frame *frame, uint64_t address)
{
	return (address >= frame->first && address <= frame->last) || address == frame->target;
}

/* A return to elsewhere is a jump with its target on the stack, as a retpoline's, or goes on with another task. */
static void return_from_call(uint64_t address)
{
	unsigned int i = depth;

	while (i && frames[i - 1].is_call)
		if (returns_to(&frames[--i], address)) {
			pop(i);
			return;
		}
}

/*
 * A hypervisor that does not go back to where it was entered from goes on to a handler of its guest's: that takes its place
 * on the stack, until execution goes back there.
 */
static void return_from_trap(uint64_t address)
{
	unsigned int trap;

	for (unsigned int i = depth; i--;)
		if (!frames[i].is_call && returns_to(&frames[i], address)) {
			pop(i);
			return;
		}
	for (trap = depth; trap && frames[trap - 1].is_call; trap--)
		;
	if (trap && trap < depth) {
		node = frames[trap].below;
		depth = trap;
	}
}

/* How many of the current block's instructions have been executed. */
static uint32_t charge(uint64_t instructions)
{
	struct count *count = count_of(current);
	uint64_t executed = instructions - charged;

	charged = instructions;
	count->instructions += executed;
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

void stack_begin(struct block *block, uint64_t instructions)
{
	depth = 0;
	node = ROOT;
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

struct entries stack_entries(void)
{
	return entries;
}

void stack_write(FILE *out)
{
	for (uint32_t i = 0; i < nodes.count; i++)
		fprintf(out, "node %" PRIu64 " %" PRIx64 "\n", nodes.pairs[i].first, nodes.pairs[i].second);
	for (uint32_t i = 0; i < cells.count; i++)
		fprintf(out, "code %" PRIu64 " %" PRIx64 " %" PRIu64 " %" PRIu64 "\n", cells.pairs[i].first,
			cells.pairs[i].second, counts[i].instructions, counts[i].repeated);
	map_clear(&nodes);
	map_clear(&cells);
	clears++;
	entries = (struct entries){ 0, 0 };
}
