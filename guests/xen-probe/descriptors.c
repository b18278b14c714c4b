// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ways to load the three TLS descriptors at a context switch, between two threads whose descriptors are the same,
 * differ in one, or differ in all.
 *
 * Entries 12 to 14 of the CPU's own GDT are updated, and put back before interrupts are enabled again, so neither the
 * scheduler nor the kernel's record of what is loaded notices. 64-bit programs have their TLS in FS_BASE, which is not
 * touched.
 */
#include <linux/percpu.h>
#include <linux/string.h>

#include <asm/desc.h>
#include <asm/segment.h>
#include <asm/xen/page.h>

#include "probe.h"

#define TLS_ENTRIES GDT_ENTRY_TLS_ENTRIES

/* Present data segments of privilege 3, 4 GiB long, and their bases: Intel SDM 3A, 3.4.5. */
#define TLS_DESCRIPTOR(base) (0x00cff3000000ffffull | (u64)(base) << 16)

struct thread {
	u64 tls[TLS_ENTRIES];
};

/* By how many descriptors differ from those of the first. */
static const struct thread threads[TLS_ENTRIES + 1] = {
	{ { TLS_DESCRIPTOR(0x1000), TLS_DESCRIPTOR(0x2000), TLS_DESCRIPTOR(0x3000) } },
	{ { TLS_DESCRIPTOR(0x4000), TLS_DESCRIPTOR(0x2000), TLS_DESCRIPTOR(0x3000) } },
	{ { TLS_DESCRIPTOR(0x4000), TLS_DESCRIPTOR(0x5000), TLS_DESCRIPTOR(0x3000) } },
	{ { TLS_DESCRIPTOR(0x4000), TLS_DESCRIPTOR(0x5000), TLS_DESCRIPTOR(0x6000) } },
};

static struct desc_struct *tls_of(const struct repeat *r)
{
	return get_cpu_gdt_rw(r->cpu) + GDT_ENTRY_TLS_MIN;
}

static void request(struct multicall_entry *call, struct desc_struct *entry, u64 value)
{
	call->op = __HYPERVISOR_update_descriptor;
	call->args[0] = arbitrary_virt_to_machine(entry).maddr;
	call->args[1] = value;
}

/* Linux 3.0, arch/x86/xen/enlighten.c, xen_load_tls(): three calls in one multicall, whatever is loaded. */
static void load_always(struct repeat *r, const struct thread *next)
{
	struct multicall_entry calls[TLS_ENTRIES];
	struct desc_struct *tls = tls_of(r);
	unsigned int i;

	for (i = 0; i < TLS_ENTRIES; i++)
		request(&calls[i], &tls[i], next->tls[i]);
	if (HYPERVISOR_multicall(calls, TLS_ENTRIES))
		r->req->refused++;
}

/*
 * Linux 6.1, arch/x86/xen/enlighten_pv.c, load_TLS_descriptor(): compared with what was loaded last. A single call is
 * made without a multicall (arch/x86/xen/multicalls.c, xen_mc_flush()).
 */
static void load_if_changed(struct repeat *r, const struct thread *next)
{
	struct multicall_entry calls[TLS_ENTRIES];
	struct desc_struct *tls = tls_of(r);
	unsigned int i, count = 0;
	int err = 0;

	for (i = 0; i < TLS_ENTRIES; i++) {
		if (r->loaded[i] == next->tls[i])
			continue;
		r->loaded[i] = next->tls[i];
		request(&calls[count++], &tls[i], next->tls[i]);
	}
	if (count == 1)
		err = HYPERVISOR_update_descriptor(calls[0].args[0], calls[0].args[1]);
	else if (count)
		err = HYPERVISOR_multicall(calls, count);
	if (err)
		r->req->refused++;
}

static void expect(struct repeat *r, const struct thread *loaded)
{
	r->req->wrong += !!memcmp(tls_of(r), loaded->tls, sizeof(loaded->tls));
}

/* A loop for each mechanism and thread: an indirect call would be timed with what it calls. */
#define SWITCHES(name, load, differing)                                                    \
	void name(struct repeat *r, unsigned int count)                                    \
	{                                                                                  \
		const struct thread *const next[2] = { &threads[differing], &threads[0] }; \
		struct thread mine;                                                        \
		unsigned int i;                                                            \
											   \
		memcpy(mine.tls, tls_of(r), sizeof(mine.tls));                             \
		load_always(r, &threads[0]);                                               \
		memcpy(r->loaded, threads[0].tls, sizeof(r->loaded));                      \
		/* Once each, checked. */                                                  \
		for (i = 0; i < 2; i++) {                                                  \
			load(r, next[i]);                                                  \
			expect(r, next[i]);                                                \
		}                                                                          \
		stretch_begin(r);                                                          \
		for (i = 0; i < count; i++)                                                \
			load(r, next[i & 1]);                                              \
		stretch_end(r);                                                            \
		expect(r, next[(count - 1) & 1]);                                          \
		load_always(r, &mine);                                                     \
		expect(r, &mine);                                                          \
	}

SWITCHES(tls_same_always, load_always, 0)
SWITCHES(tls_same_if_changed, load_if_changed, 0)
SWITCHES(tls_one_always, load_always, 1)
SWITCHES(tls_one_if_changed, load_if_changed, 1)
SWITCHES(tls_all_always, load_always, 3)
SWITCHES(tls_all_if_changed, load_if_changed, 3)
