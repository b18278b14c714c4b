// SPDX-License-Identifier: GPL-2.0-only
/*
 * Source: Linux 5.8, the last with 32-bit PV guests: arch/x86/include/asm/pgtable-3level.h, native_set_pte() and
 * native_ptep_get_and_clear(); arch/x86/xen/mmu_pv.c, __xen_set_pte(), which makes one hypercall of the two traps.
 */
#include "mechanism.h"

#include "freestanding/string.h"

#define barrier() __asm__ volatile("" : : : "memory")

/*
 * Xen decodes the instruction, and a longer one costs more: these are encoded as in native_set_pte(), which has the
 * entry's address in a register, not as a compiler would in a loop over a table.
 */
static inline void store_lower(volatile union entry *entry, uint32_t value)
{
	__asm__ volatile("movl %1, (%0)" : : "r"(entry), "r"(value) : "memory");
}

static inline void store_upper(volatile union entry *entry, uint32_t value)
{
	__asm__ volatile("movl %1, 4(%0)" : : "r"(entry), "r"(value) : "memory");
}

static inline uint32_t exchange_lower(volatile union entry *entry, uint32_t value)
{
	__asm__ volatile("xchgl %0, (%1)" : "+r"(value) : "r"(entry) : "memory");
	return value;
}

static void nothing(struct work *w)
{
	for (unsigned int i = 0; i < w->table.count; i++)
		barrier();
}

static void empty_hypercall(struct work *w)
{
	for (unsigned int i = 0; i < w->table.count; i++)
		xen_version(XENVER_VERSION, NULL);
}

static void store_upper_half(struct work *w)
{
	for (unsigned int i = 0; i < w->table.count; i++)
		store_upper(&w->table.entries[i], (uint32_t)(w->wanted[i] >> 32));
}

static void store_lower_half(struct work *w)
{
	for (unsigned int i = 0; i < w->table.count; i++)
		store_lower(&w->table.entries[i], (uint32_t)w->wanted[i]);
}

/* The half with P comes last, so that the entry is never present by half. */
static void emulate_2x32(struct work *w)
{
	for (unsigned int i = 0; i < w->table.count; i++) {
		store_upper(&w->table.entries[i], (uint32_t)(w->wanted[i] >> 32));
		store_lower(&w->table.entries[i], (uint32_t)w->wanted[i]);
	}
}

static void hypercall(struct work *w)
{
	for (unsigned int i = 0; i < w->table.count; i++) {
		struct mmu_update request = {
			.ptr = (w->table.machine + i * sizeof(uint64_t)) | MMU_NORMAL_PT_UPDATE,
			.val = w->wanted[i],
		};

		if (xen_mmu_update(&request, 1, DOMID_SELF))
			w->refused++;
	}
}

static uint64_t read_entry(const struct table *table, unsigned int i)
{
	uint32_t low = table->entries[i].low;

	return (uint64_t)table->entries[i].high << 32 | low;
}

static void clear_read(struct work *w, unsigned int first, unsigned int count)
{
	for (unsigned int i = first; i < first + count; i++)
		w->returned[i] = read_entry(&w->table, i);
}

static void clear_empty_hypercall(struct work *w, unsigned int first, unsigned int count)
{
	for (unsigned int i = first; i < first + count; i++) {
		w->returned[i] = read_entry(&w->table, i);
		xen_version(XENVER_VERSION, NULL);
	}
}

static void clear_xchg_lower_half(struct work *w, unsigned int first, unsigned int count)
{
	for (unsigned int i = first; i < first + count; i++) {
		uint32_t low = exchange_lower(&w->table.entries[i], 0);

		w->returned[i] = (uint64_t)w->table.entries[i].high << 32 | low;
	}
}

/* The exchange clears P, so the upper half can wait. */
static void clear_xchg_and_store(struct work *w, unsigned int first, unsigned int count)
{
	for (unsigned int i = first; i < first + count; i++) {
		uint32_t low = exchange_lower(&w->table.entries[i], 0);

		w->returned[i] = (uint64_t)w->table.entries[i].high << 32 | low;
		store_upper(&w->table.entries[i], 0);
	}
}

static void clear_cmpxchg8b(struct work *w, unsigned int first, unsigned int count)
{
	for (unsigned int i = first; i < first + count; i++) {
		volatile union entry *entry = &w->table.entries[i];
		uint64_t old = read_entry(&w->table, i);
		uint8_t done;

		do
			__asm__ volatile("lock cmpxchg8b (%2); sete %1"
					 : "+A"(old), "=q"(done)
					 : "r"(entry), "b"(0), "c"(0) : "memory");
		while (!done);
		w->returned[i] = old;
	}
}

/* As clear_preserve_ad() of guests/xen-probe/mechanism.c. */
static void clear_preserve_ad(struct work *w, unsigned int first, unsigned int count)
{
	for (unsigned int i = first; i < first + count; i++) {
		w->returned[i] = read_entry(&w->table, i);
		w->requests[i].ptr = (w->table.machine + i * sizeof(uint64_t)) | MMU_PT_UPDATE_PRESERVE_AD;
		w->requests[i].val = 0;
	}
	if (xen_mmu_update(&w->requests[first], count, DOMID_SELF))
		w->refused++;
	for (unsigned int i = first; i < first + count; i++)
		w->returned[i] |= w->table.entries[i].low & (PTE_ACCESSED | PTE_DIRTY);
}

static const struct setting settings[] = {
	{ "baseline", "nothing", 0, 0, nothing },
	{ "baseline", "empty-hypercall", 0, 0, empty_hypercall },
	{ "baseline", "store-upper-half", 0, HIGH_HALF, store_upper_half },
	{ "baseline", "store-lower-half", HIGH_HALF, LOW_HALF, store_lower_half },
	{ "set", "emulate-2x32", 0, BOTH_HALVES, emulate_2x32 },
	{ "set", "hypercall", 0, BOTH_HALVES, hypercall },
};

static const struct clearing clearings[] = {
	{ "read", BOTH_HALVES, clear_read },
	{ "empty-hypercall", BOTH_HALVES, clear_empty_hypercall },
	{ "xchg-lower-half", HIGH_HALF, clear_xchg_lower_half },
	{ "xchg-and-store", 0, clear_xchg_and_store },
	{ "cmpxchg8b", 0, clear_cmpxchg8b },
	{ "preserve-ad", 0, clear_preserve_ad },
};

const struct setting *setting_find(const char *operation, const char *name)
{
	for (unsigned int i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (equal(settings[i].operation, operation) && equal(settings[i].name, name))
			return &settings[i];
	return NULL;
}

const struct clearing *clearing_find(const char *name)
{
	for (unsigned int i = 0; i < sizeof(clearings) / sizeof(clearings[0]); i++)
		if (equal(clearings[i].name, name))
			return &clearings[i];
	return NULL;
}
