// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Xen's hypercall that clears a run of entries, called as no kernel would: on a page table of frames that the kernel does
 * not know, of which all entries map the other frame. What has to be rejected is, and leaves every entry as it was; what
 * has not clears what it should and nothing else, returns it, and leaves no reference behind.
 *
 * Structures and numbers are those of Xen's public/xen.h with fixes/xen-clear-range.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "../../lib/linux/fail.h"
#include "../../steps/domain.h"
#include "../../steps/privcmd.h"
#include "../checks.h"

#define HYPERVISOR_MMUEXT_OP 26
#define MMUEXT_PIN_L1_TABLE 0
#define MMUEXT_UNPIN_TABLE 4
#define MMUEXT_CLEAR_L1_RANGE 21

#define DOMID_SELF 0x7ff0
#define DOMID_NONE 0x7000

#define ENTRIES 512
/* Present, writable, user; A and D. */
#define MAPPING 0x7ull
#define ACCESSED (1ull << 5)
#define DIRTY (1ull << 6)

/* 2^39 bytes and more: the lab's machines have less memory. */
#define ABSENT_FRAME 0x8000000ull
#define UNMAPPED 8ull
#define XENS_OWN 0xffff808000000000ull

enum { TABLE, DATA, FRAMES };

static uint64_t frames[FRAMES];

struct range {
	uint64_t ptr;
	uint32_t nr;
	uint32_t pad;
	uint64_t old;
};

struct mmuext_op {
	uint32_t cmd;
	uint64_t arg1;
	uint64_t arg2;
};

/* Three pages, the third inaccessible. */
static uint64_t *lists;
static struct range range;

static long mmuext(uint32_t cmd, uint64_t arg1, uint64_t arg2, uint64_t domain)
{
	static struct mmuext_op op;

	op = (struct mmuext_op){ .cmd = cmd, .arg1 = arg1, .arg2 = arg2 };
	privcmd_lock(&op, sizeof(op));
	return privcmd_call(HYPERVISOR_MMUEXT_OP, (uint64_t[PRIVCMD_ARGUMENTS]){ (uint64_t)&op, 1, 0, domain });
}

static long clear(struct range wanted)
{
	range = wanted;
	return mmuext(MMUEXT_CLEAR_L1_RANGE, 0, (uint64_t)&range, DOMID_SELF);
}

static uint64_t entry(unsigned int i)
{
	return frames[DATA] * PAGE | MAPPING | (i & 1 ? ACCESSED : 0) | (i & 2 ? DIRTY : 0);
}

static void pin(uint32_t cmd, uint64_t frame)
{
	long error = mmuext(cmd, frame, 0, DOMID_SELF);

	if (error)
		fail_with("pin or unpin a page table", -error);
}

static void make_table(void)
{
	uint64_t *table = privcmd_map(DOMID_SELF, &frames[TABLE], 1, PROT_READ | PROT_WRITE);

	for (unsigned int i = 0; i < ENTRIES; i++)
		table[i] = entry(i);
	munmap(table, PAGE);
	pin(MMUEXT_PIN_L1_TABLE, frames[TABLE]);
}

/* Entries that are not as they were made, or of those from `first` to `end` not empty. But for what Xen adds to a mapping. */
static unsigned int count_wrong(unsigned int first, unsigned int end)
{
	volatile uint64_t *table = privcmd_map(DOMID_SELF, &frames[TABLE], 1, PROT_READ);
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < ENTRIES; i++)
		if (i >= first && i < end)
			wrong += table[i] != 0;
		else
			wrong += (table[i] & entry(i)) != entry(i);
	munmap((void *)table, PAGE);
	return wrong;
}

/* Calls that have to be rejected, with an error each. */
static unsigned int count_taken(void)
{
	const uint64_t table = frames[TABLE] * PAGE, list = (uint64_t)lists;
	const struct {
		struct range range;
		long error;
	} calls[] = {
		{ { table, ENTRIES + 1, 0, list }, -EINVAL },
		{ { table + 8, ENTRIES, 0, list }, -EINVAL },
		{ { table + 8 * (ENTRIES - 1), 2, 0, list }, -EINVAL },
		{ { table, UINT32_MAX, 0, list }, -EINVAL },
		{ { table + 4, 1, 0, list }, -EINVAL },
		{ { table, 1, 1, list }, -EINVAL },
		{ { frames[DATA] * PAGE, 1, 0, list }, -EINVAL },
		{ { ABSENT_FRAME * PAGE, 1, 0, list }, -EINVAL },
		{ { table, 1, 0, UNMAPPED }, -EFAULT },
		{ { table, ENTRIES, 0, list + 2 * PAGE - 8 * (ENTRIES - 1) }, -EFAULT },
		{ { table, 1, 0, XENS_OWN }, -EFAULT },
	};
	unsigned int taken = 0;

	for (size_t i = 0; i < COUNT_OF(calls); i++)
		taken += clear(calls[i].range) != calls[i].error;
	range = (struct range){ .ptr = table, .nr = 1, .old = list };
	taken += mmuext(MMUEXT_CLEAR_L1_RANGE, 0, UNMAPPED, DOMID_SELF) != -EFAULT;
	taken += mmuext(MMUEXT_CLEAR_L1_RANGE, 0, (uint64_t)&range, DOMID_NONE) != -ESRCH;
	taken += clear((struct range){ table, 0, 0, list }) != 0;
	return taken + count_wrong(0, 0);
}

/* Clears from `first` to `end` what is full from `first` on; before it all is empty. */
static unsigned int count_wrongly_cleared(unsigned int first, unsigned int end)
{
	unsigned int wrong;

	memset(lists, 0xff, 2 * PAGE);
	wrong = clear((struct range){ frames[TABLE] * PAGE + 8 * first, end - first, 0, (uint64_t)(lists + first) }) != 0;
	for (unsigned int i = first; i < end; i++)
		wrong += (lists[i] & entry(i)) != entry(i) || (lists[i] ^ entry(i)) & (ACCESSED | DIRTY);
	for (unsigned int i = 0; i < first; i++)
		wrong += lists[i] != UINT64_MAX;
	for (unsigned int i = end; i < 2 * ENTRIES; i++)
		wrong += lists[i] != UINT64_MAX;
	return wrong + count_wrong(0, end);
}

/* Xen makes a page table of the frame that was mapped only if no entry maps it writable any more. */
static unsigned int count_left(void)
{
	unsigned int left = mmuext(MMUEXT_PIN_L1_TABLE, frames[DATA], 0, DOMID_SELF) != 0;

	if (!left)
		pin(MMUEXT_UNPIN_TABLE, frames[DATA]);
	return left;
}

struct finding check_clear_range(uint32_t pages)
{
	struct finding finding = { 0 };

	privcmd_open();
	domain_own_frames(frames, FRAMES);
	lists = map_or_fail(-1, 3 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS);
	if (mprotect((char *)lists + 2 * PAGE, PAGE, PROT_NONE) < 0)
		fail("protect a page");
	privcmd_lock(lists, 2 * PAGE);
	privcmd_lock(&range, sizeof(range));
	while (needs_round(&finding, pages)) {
		make_table();
		finding.failed += count_taken();
		finding.failed += count_wrongly_cleared(0, 5);
		finding.failed += count_wrongly_cleared(5, 5 + 33);
		finding.failed += count_wrongly_cleared(5 + 33, ENTRIES);
		pin(MMUEXT_UNPIN_TABLE, frames[TABLE]);
		finding.failed += count_left();
		finding.tried += ENTRIES;
	}
	munmap(lists, 3 * PAGE);
	domain_return_frames(frames, FRAMES);
	return finding;
}
