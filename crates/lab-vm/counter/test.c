/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tests of what the counter knows of instructions and stacks; built and run by a test of src/vm/counter.rs. */
#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "instruction.h"
#include "stack.h"

#define AT 0xffffffff81000000u

static struct instruction of(const char *code, size_t size)
{
	return instruction_of_x86_64((const uint8_t *)code, size, AT);
}

static struct instruction of_arm64(uint32_t word)
{
	return instruction_of_arm64((const uint8_t *)&word, sizeof(word), AT);
}

#define OF(code) of(code, sizeof(code) - 1)
#define S (1u << SERIALISING)
#define L (1u << LOCKED)

static void test_events(void)
{
	assert(OF("\x0f\x22\xd8").events == (S | 1u << CR3_WRITE)); /* mov %rax,%cr3 */
	assert(OF("\x41\x0f\x22\xe0").events == (S | 1u << CR4_WRITE)); /* mov %r8,%cr4 */
	assert(OF("\x44\x0f\x22\xc0").events == 0); /* mov %rax,%cr8 */
	assert(OF("\x0f\x01\x38").events == (S | 1u << INVLPG)); /* invlpg (%rax) */
	assert(OF("\x0f\x01\xf8").events == 0); /* swapgs */
	assert(OF("\x66\x0f\x38\x82\x08").events == (S | 1u << INVPCID)); /* invpcid (%rax),%rcx */
	assert(OF("\x0f\xa2").events == S); /* cpuid */
	assert(OF("\x0f\x30").events == S); /* wrmsr */
	assert(OF("\x48\xcf").events == S); /* iretq */
	assert(OF("\x0f\x20\xd8").events == 0); /* mov %cr3,%rax */
	assert(OF("\x90").events == 0);
}

static void test_locked(void)
{
	assert(OF("\xf0\x0f\xb1\x0a").events == L); /* lock cmpxchg %ecx,(%rdx) */
	assert(OF("\xf0\x48\x0f\xc7\x0f").events == L); /* lock cmpxchg16b (%rdi) */
	assert(OF("\x3e\x48\x0f\xba\x2f\x05").events == L); /* ds btsq $5,(%rdi) */
	assert(OF("\x3e\xff\x47\x34").events == L); /* ds incl 0x34(%rdi) */
	assert(OF("\xf0\x83\x07\xff").events == L); /* lock addl $-1,(%rdi) */
	assert(OF("\xf0\x01\x37").events == L); /* lock add %esi,(%rdi) */
	assert(OF("\x87\x07").events == L); /* xchg %eax,(%rdi) */
	assert(OF("\x87\xc7").events == 0); /* xchg %eax,%edi */
	assert(OF("\x3e\xff\x27").events == 0); /* notrack jmp *(%rdi) */
	assert(OF("\x3e\x8b\x07").events == 0); /* ds mov (%rdi),%eax */
	assert(OF("\x3e\x39\x37").events == 0); /* ds cmp %esi,(%rdi) */
	assert(OF("\x0f\xb1\x0a").events == 0); /* cmpxchg %ecx,(%rdx) */
	assert(OF("\xf0\x0f\xba\x27\x05").events == 0); /* bt */
	assert(OF("\xf0").events == 0);

	assert(of_arm64(0x88017c62).events == L); /* stxr w1, w2, [x3] */
	assert(of_arm64(0x885f7c62).events == 0); /* ldxr w2, [x3] */
	assert(of_arm64(0x88a17c62).events == L); /* cas w1, w2, [x3] */
	assert(of_arm64(0x48207c82).events == L); /* casp x0, x1, x2, x3, [x4] */
	assert(of_arm64(0xb8210062).events == L); /* ldadd w1, w2, [x3] */
	assert(of_arm64(0xb8218062).events == L); /* swp w1, w2, [x3] */
	assert(of_arm64(0xb8bfc062).events == 0); /* ldapr w2, [x3] */
	assert(of_arm64(0xb9400062).events == 0); /* ldr w2, [x3] */
	assert(of_arm64(0xb8216862).events == 0); /* str w2, [x3, x1] */
	assert(of_arm64(0x889ffc62).events == 0); /* stlr w2, [x3] */
}

static void test_task_switches(void)
{
	const char out[] = "\x48\x89\xa7\x18\x1b\x00\x00", in[] = "\x48\x8b\xa6\x18\x1b\x00\x00";

	assert(OF(out).task_switch == SWITCH_OUT); /* mov %rsp,0x1b18(%rdi) */
	assert(OF(in).task_switch == SWITCH_IN); /* mov 0x1b18(%rsi),%rsp */
	assert(instruction_of_x86_64((const uint8_t *)in, sizeof(in) - 1, 0x400000).task_switch == NO_SWITCH);
	assert(OF("\x48\x89\xe5").task_switch == NO_SWITCH); /* mov %rsp,%rbp */
	assert(of_arm64(0xf900011e).task_switch == SWITCH_OUT); /* str lr, [x8] */
	assert(of_arm64(0xf940011e).task_switch == SWITCH_IN); /* ldr lr, [x8] */
	assert(of_arm64(0xf9400fe8).task_switch == NO_SWITCH); /* ldr x8, [sp, #24] */
	assert(instruction_of_arm64((const uint8_t *)"\x1e\x01\x40\xf9", 4, 0x400000).task_switch == NO_SWITCH);
}

static void test_flow(void)
{
	struct instruction call = OF("\xe8\x00\x01\x00\x00"), back = OF("\xeb\xfe");

	assert(call.flow == CALL && call.target == AT + 5 + 0x100);
	assert(OF("\xe8\x07\x00\x00\x00").flow == ONWARD); /* a retpoline's */
	assert(OF("\xff\x10").flow == CALL && OF("\xff\xe0").flow == JUMP && OF("\xff\xc0").flow == ONWARD);
	assert(back.flow == ONWARD && back.target == AT);
	assert(OF("\x0f\x84\x10\x00\x00\x00").target == AT + 6 + 0x10);
	assert(OF("\xc3").flow == RET && OF("\xf3\xc3").flow == RET);
	assert(OF("\x0f\x05").flow == TRAP && OF("\xcd\x80").flow == TRAP);
	assert(OF("\x48\x0f\x07").flow == TRAP_RETURN && OF("\x48\xcf").flow == TRAP_RETURN);
}

static void test_marks_and_repeats(void)
{
	assert(OF("\x0f\x1f\x80\x00\x00\x54\x50").mark == MARK_BEGIN);
	assert(OF("\x0f\x1f\x80\x00\x00\x57\x50").mark == NO_MARK);
	assert(OF("\xf3\x48\xab").repeats && OF("\xf2\xae").repeats);
	assert(!OF("\x48\xab").repeats && !OF("\xf3\x90").repeats);
}

static void test_arm64(void)
{
	assert(of_arm64(0xd2aa0a9f).mark == MARK_BEGIN); /* movz xzr, #0x5054, lsl #16 */
	assert(of_arm64(0xd2aa0ac0).mark == NO_MARK); /* movz x0, #0x5056, lsl #16 */
	assert(of_arm64(0x94000040).flow == CALL && of_arm64(0x94000040).target == AT + 0x100); /* bl */
	assert(of_arm64(0x94000001).flow == ONWARD); /* bl .+4 */
	assert(of_arm64(0xd63f0020).flow == CALL && !of_arm64(0xd63f0020).target); /* blr x1 */
	assert(of_arm64(0xd61f0220).flow == JUMP && of_arm64(0xd65f03c0).flow == RET); /* br x17; ret */
	assert(of_arm64(0x17ffffff).flow == ONWARD && of_arm64(0x17ffffff).target == AT - 4); /* b .-4 */
	assert(of_arm64(0x54ffffe1).target == AT - 4); /* b.ne .-4 */
	assert(of_arm64(0xb4000041).target == AT + 8 && of_arm64(0x37f80041).target == AT + 8); /* cbz; tbnz w1, #31 */
	assert(of_arm64(0xd4000001).flow == TRAP && of_arm64(0xd4000002).flow == TRAP); /* svc #0; hvc #0 */
	assert(of_arm64(0xd4210000).flow == TRAP && of_arm64(0xd69f03e0).flow == TRAP_RETURN); /* brk; eret */
	assert(of_arm64(0xd69f03e0).events == S && of_arm64(0xd5033fdf).events == S); /* eret; isb */
	assert(of_arm64(0xd503201f).flow == ONWARD && !of_arm64(0xd503201f).events); /* nop */
}

/* `count` instructions of one byte each from `address` on, the last with this flow. */
static struct block *block(uint64_t address, uint32_t count, enum flow flow, uint64_t target)
{
	struct block *block = block_new(count);

	for (uint32_t i = 0; i < count; i++)
		block->addresses[i] = address + i;
	block->next = address + count;
	block->flow = flow;
	block->target = target;
	return block;
}

/* Runs these blocks, of which each executes all, but that at `faulting` so many. The first begins with the mark. */
static char *run(struct block **blocks, size_t count, size_t faulting, uint32_t executed)
{
	uint64_t instructions = 0;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	stack_begin(blocks[0], instructions);
	for (size_t i = 0; i < count; i++) {
		if (i)
			stack_enter(blocks[i], instructions);
		instructions += i == faulting ? executed : blocks[i]->count;
	}
	stack_end(instructions);
	stack_write(out);
	fclose(out);
	for (size_t i = 0; i < count; i++)
		free(blocks[i]);
	return text;
}

static void expect(struct block **blocks, size_t count, size_t faulting, uint32_t executed, const char *expected)
{
	char *text = run(blocks, count, faulting, executed);

	if (strcmp(text, expected)) {
		fprintf(stderr, "expected\n%sfound\n%s", expected, text);
		exit(1);
	}
	free(text);
}

#define EXPECT(blocks, faulting, executed, expected) \
	expect(blocks, sizeof(blocks) / sizeof(*blocks), faulting, executed, expected)
#define NONE SIZE_MAX

static void test_a_call_and_its_return(void)
{
	struct block *blocks[] = { block(0x10, 3, CALL, 0x80), block(0x80, 2, RET, 0), block(0x13, 4, ONWARD, 0) };

	EXPECT(blocks, NONE, 0, "node 0 12\ncode 0 10 3 0\ncode 1 80 2 0\ncode 0 13 4 0\n");
}

static void test_a_return_to_elsewhere_is_a_jump(void)
{
	struct block *blocks[] = { block(0x10, 3, CALL, 0x80), block(0x80, 2, RET, 0), block(0x40, 1, RET, 0),
				   block(0x13, 1, ONWARD, 0) };

	EXPECT(blocks, NONE, 0, "node 0 12\ncode 0 10 3 0\ncode 1 80 2 0\ncode 1 40 1 0\ncode 0 13 1 0\n");
}

/* In a hypervisor, and in a kernel. */
#define XEN 0xffff82d040000000u
#define KERNEL 0xffffffff82000000u

/* The faulting one is not retired; a hypervisor's handler hands it to the kernel's, on the same stack. */
static void test_a_fault_that_is_handed_on(void)
{
	struct block *blocks[] = { block(0xf, 1, ONWARD, 0),
				   block(0x10, 4, ONWARD, 0),		  block(XEN, 2, CALL, XEN + 0x200),
				   block(XEN + 0x200, 1, TRAP_RETURN, 0), block(KERNEL, 5, TRAP, 0),
				   block(XEN + 0x110, 1, TRAP_RETURN, 0), block(0x11, 3, ONWARD, 0) };

	EXPECT(blocks, 1, 2,
	       "node 0 11\nnode 1 ffff82d040000001\nnode 1 ffffffff82000004\n"
	       "code 0 f 1 0\ncode 0 10 1 0\ncode 1 ffff82d040000000 2 0\ncode 2 ffff82d040000200 1 0\n"
	       "code 1 ffffffff82000000 5 0\ncode 3 ffff82d040000110 1 0\ncode 0 11 3 0\n");
}

/* An interrupt between a return and what it returns to: the frame of the call is gone once the handler goes there. */
static void test_an_interrupted_return(void)
{
	struct block *blocks[] = { block(KERNEL, 3, CALL, KERNEL + 0x80), block(KERNEL + 0x80, 2, RET, 0),
				   block(KERNEL + 0x400, 1, TRAP_RETURN, 0), block(KERNEL + 3, 4, ONWARD, 0) };

	EXPECT(blocks, NONE, 0,
	       "node 0 ffffffff82000002\ncode 0 ffffffff82000000 3 0\ncode 1 ffffffff82000080 2 0\n"
	       "code 1 ffffffff82000400 1 0\ncode 0 ffffffff82000003 4 0\n");
}

/* One between an indirect jump and its target leaves the stack as it is. */
static void test_an_interrupted_jump(void)
{
	struct block *blocks[] = { block(KERNEL, 3, CALL, KERNEL + 0x80), block(KERNEL + 0x80, 2, JUMP, 0),
				   block(KERNEL + 0x400, 1, TRAP_RETURN, 0), block(KERNEL + 0x90, 4, ONWARD, 0) };

	EXPECT(blocks, NONE, 0,
	       "node 0 ffffffff82000002\ncode 0 ffffffff82000000 3 0\ncode 1 ffffffff82000080 2 0\n"
	       "code 1 ffffffff82000400 1 0\ncode 1 ffffffff82000090 4 0\n");
}

/* Its stack is empty, whatever the system call was that began it. */
static void test_a_new_program(void)
{
	struct block *blocks[] = { block(0x10, 1, TRAP, 0), block(KERNEL, 1, TRAP_RETURN, 0), block(0x500, 1, ONWARD, 0) };

	EXPECT(blocks, NONE, 0, "node 0 10\ncode 0 10 1 0\ncode 1 ffffffff82000000 1 0\ncode 0 500 1 0\n");
}

/* What the first executes of its block is no fault, however little it is. */
static void test_a_mark_in_the_middle_of_a_block(void)
{
	struct block *blocks[] = { block(0x10, 9, CALL, 0x80), block(0x80, 2, RET, 0), block(0x19, 4, ONWARD, 0) };

	EXPECT(blocks, 0, 1, "node 0 18\ncode 0 10 1 0\ncode 1 80 2 0\ncode 0 19 4 0\n");
}

static void test_a_jump_names_its_target(void)
{
	struct block *blocks[] = { block(0x10, 2, ONWARD, 0x80), block(0x80, 1, ONWARD, 0) };

	EXPECT(blocks, NONE, 0, "code 0 10 2 0 80\ncode 0 80 1 0\n");
}

static void test_iterations_are_counted_apart(void)
{
	struct block *blocks[] = { block(0x10, 2, ONWARD, 0), block(0x11, 1, ONWARD, 0), block(0x11, 1, ONWARD, 0),
				   block(0x12, 1, ONWARD, 0) };

	for (int i = 0; i < 3; i++)
		blocks[i]->repeats = true;
	EXPECT(blocks, NONE, 0, "code 0 10 2 1\ncode 0 11 2 1\ncode 0 12 1 0\n");
}

/* QEMU names one instruction too many where that is in two pages. */
static void test_a_block_that_ends_early_goes_on(void)
{
	struct block *blocks[] = { block(0xf, 1, ONWARD, 0), block(0x10, 3, ONWARD, 0), block(0x12, 1, ONWARD, 0) };

	EXPECT(blocks, 1, 2, "code 0 f 1 0\ncode 0 10 2 0\ncode 0 12 1 0\n");
}

#define ONE 0x1000u
#define OTHER 0x2000u

static struct {
	uint64_t instructions;
	struct block *blocks[16];
	size_t count;
} went;

/* Executes so many instructions of a block. */
static void go(struct block *block, uint32_t executed)
{
	if (went.count)
		stack_enter(block, went.instructions);
	else
		stack_begin(block, went.instructions);
	went.instructions += executed;
	went.blocks[went.count++] = block;
}

static void finish(const char *expected)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	stack_end(went.instructions);
	stack_write(out);
	fclose(out);
	if (strcmp(text, expected)) {
		fprintf(stderr, "expected\n%sfound\n%s", expected, text);
		exit(1);
	}
	free(text);
	while (went.count)
		free(went.blocks[--went.count]);
}

/* In the middle of the current block, of which as many instructions are still to be executed. */
static void switch_tasks(uint64_t out, uint64_t in, uint32_t rest)
{
	stack_switch_out(out);
	stack_switch_in(in, went.instructions);
	went.instructions += rest;
}

/* It calls the function at 0x80 from 0x12, which switches and returns to 0x13. */
static void test_each_task_has_its_stack(void)
{
	go(block(0x10, 3, CALL, 0x80), 3);
	go(block(0x80, 4, RET, 0), 2);
	/* New: its first return matches nothing. */
	switch_tasks(ONE, OTHER, 2);
	go(block(0x40, 5, CALL, 0x80), 5);
	go(block(0x80, 4, RET, 0), 2);
	switch_tasks(OTHER, ONE, 2);
	go(block(0x13, 7, CALL, 0x80), 7);
	go(block(0x80, 4, RET, 0), 2);
	switch_tasks(ONE, OTHER, 2);
	go(block(0x45, 1, ONWARD, 0), 1);
	finish("node 0 12\nnode 0 44\nnode 0 19\n"
	       "code 0 10 3 0\ncode 1 80 4 0\ncode 0 80 2 0\ncode 0 40 5 0\ncode 2 80 4 0\ncode 0 13 7 0\ncode 3 80 2 0\ncode 0 45 1 0\n");
}

/* A new task where one was that has ended begins with an empty stack. */
static void test_a_task_in_the_place_of_another_is_new(void)
{
	go(block(0x10, 3, CALL, 0x80), 3);
	go(block(0x80, 4, RET, 0), 2);
	switch_tasks(ONE, OTHER, 2);
	go(block(0x40, 5, CALL, 0x80), 5);
	go(block(0x80, 4, RET, 0), 2);
	switch_tasks(OTHER, ONE, 2);
	go(block(0x60, 6, ONWARD, 0), 6);
	finish("node 0 12\nnode 0 44\n"
	       "code 0 10 3 0\ncode 1 80 4 0\ncode 0 80 2 0\ncode 0 40 5 0\ncode 2 80 2 0\ncode 0 60 6 0\n");
}

int main(void)
{
	test_events();
	test_locked();
	test_flow();
	test_task_switches();
	test_marks_and_repeats();
	test_arm64();
	test_a_call_and_its_return();
	test_a_return_to_elsewhere_is_a_jump();
	test_a_fault_that_is_handed_on();
	test_an_interrupted_return();
	test_an_interrupted_jump();
	test_a_new_program();
	test_a_mark_in_the_middle_of_a_block();
	test_a_jump_names_its_target();
	test_iterations_are_counted_apart();
	test_a_block_that_ends_early_goes_on();
	test_each_task_has_its_stack();
	test_a_task_in_the_place_of_another_is_new();
	return 0;
}
