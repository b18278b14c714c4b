// SPDX-License-Identifier: GPL-2.0-only
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../lib/linux/fail.h"
#include "../../lib/linux/page.h"
#include "../abi/kvm_abi.h"
#include "../abi/kvm_call.h"

#define CODE_SLOT 0
#define AREA_SLOT 1
#define LIST_SLOT 2
#define CODE_SIZE PAGE
#define OLD_FLAGS (ABI_MEM_READONLY | KVM_MEM_LOG_DIRTY_PAGES)
/* Each program begins at a multiple of this. */
#define PROGRAM_SIZE 64

extern const char programs[], programs_end[];

#ifdef __aarch64__
#include "arm64.h"
#else
#include "x86_64.h"
#endif

/* Offset of a statistic in what a descriptor of KVM_GET_STATS_FD reads; 0 where it has none of the name. */
static uint64_t find_statistic(int stats, const char *name)
{
	struct kvm_stats_header header;
	uint64_t offset = 0;

	if (pread(stats, &header, sizeof(header), 0) != sizeof(header))
		fail("read KVM's statistics");
	for (uint32_t i = 0; i < header.num_desc; i++) {
		size_t size = sizeof(struct kvm_stats_desc) + header.name_size;
		struct kvm_stats_desc *desc = calloc(1, size + 1);

		if (pread(stats, desc, size, header.desc_offset + i * size) != (ssize_t)size)
			fail("read KVM's statistics");
		if (!strcmp(desc->name, name))
			offset = header.data_offset + desc->offset;
		free(desc);
	}
	return offset;
}

static void open_vcpu(struct machine *machine)
{
	int size = kvm_call(machine->kvm, KVM_GET_VCPU_MMAP_SIZE, NULL, "KVM_GET_VCPU_MMAP_SIZE");

	machine->vcpu = kvm_call(machine->vm, KVM_CREATE_VCPU, NULL, "KVM_CREATE_VCPU");
	machine->run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, machine->vcpu, 0);
	if (machine->run == MAP_FAILED)
		fail("map a vCPU");
	machine->stats = kvm_call(machine->vcpu, KVM_GET_STATS_FD, NULL, "KVM_GET_STATS_FD");
	machine->exits_offset = find_statistic(machine->stats, "exits");
	set_up_vcpu(machine);
}

static void enable_ring(const struct machine *machine, unsigned int capability, uint64_t bytes)
{
	struct kvm_enable_cap enable = { .cap = capability, .args = { bytes } };

	if (bytes)
		kvm_call(machine->vm, KVM_ENABLE_CAP, &enable, "enable the ring of dirty pages");
}

struct machine machine_open(void)
{
	return machine_open_with_ring(0, 0);
}

struct machine machine_open_with_ring(unsigned int capability, uint64_t bytes)
{
	struct machine machine = { .kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC) };
	struct kvm_userspace_memory_region region = {
		.slot = CODE_SLOT, .guest_phys_addr = CODE_GPA, .memory_size = CODE_SIZE,
	};

	if (machine.kvm < 0)
		fail("open /dev/kvm");
	machine.vm = kvm_call(machine.kvm, KVM_CREATE_VM, NULL, "KVM_CREATE_VM");
	machine.code = mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (machine.code == MAP_FAILED)
		fail("map a machine's code");
	memcpy(machine.code, programs, programs_end - programs);
	region.userspace_addr = (uintptr_t)machine.code;
	kvm_call(machine.vm, KVM_SET_USER_MEMORY_REGION, &region, "KVM_SET_USER_MEMORY_REGION");
	enable_ring(&machine, capability, bytes);
	open_vcpu(&machine);
	answer_port(&machine);
	return machine;
}

void machine_close(struct machine *machine)
{
	munmap(machine->run, ioctl(machine->kvm, KVM_GET_VCPU_MMAP_SIZE, NULL));
	close(machine->stats);
	close(machine->vcpu);
	close(machine->vm);
	close(machine->answered);
	close(machine->kvm);
	munmap(machine->code, CODE_SIZE);
}

bool machine_can_exit_on_missing(const struct machine *machine)
{
	return ioctl(machine->vm, KVM_CHECK_EXTENSION, ABI_CAP_EXIT_ON_MISSING) == 1;
}

bool machine_can_exit_on_marked(const struct machine *machine)
{
	return ioctl(machine->vm, KVM_CHECK_EXTENSION, ABI_CAP_USERFAULT) == 1;
}

int machine_attach_marked(struct machine *machine, void *area, uint64_t pages, uint32_t flags, const uint64_t *marks)
{
	struct abi_region region = {
		.slot = AREA_SLOT, .flags = flags, .guest_phys_addr = AREA_GPA, .memory_size = pages * PAGE,
		.userspace_addr = (uintptr_t)area, .userfault_bitmap = (uintptr_t)marks,
	};
	/* Old kernels have only the first version, which takes none of the new flags. */
	unsigned long request = flags & ~OLD_FLAGS ? ABI_SET_USER_MEMORY_REGION2 : KVM_SET_USER_MEMORY_REGION;

	return ioctl(machine->vm, request, &region) < 0 ? errno : 0;
}

int machine_attach(struct machine *machine, void *area, uint64_t pages, uint32_t flags)
{
	return machine_attach_marked(machine, area, pages, flags, NULL);
}

void machine_attach_list(struct machine *machine, const void *list, uint64_t pages)
{
	struct kvm_userspace_memory_region region = {
		.slot = LIST_SLOT, .guest_phys_addr = LIST_GPA, .memory_size = pages * PAGE, .userspace_addr = (uintptr_t)list,
	};

	kvm_call(machine->vm, KVM_SET_USER_MEMORY_REGION, &region, "KVM_SET_USER_MEMORY_REGION");
}

int machine_make_guest_memfd(const struct machine *machine, uint64_t pages)
{
	struct abi_create_memfd create = { .size = pages * PAGE, .flags = ABI_GMEM_MMAP | ABI_GMEM_INIT_SHARED };

	return ioctl(machine->vm, ABI_CREATE_GUEST_MEMFD, &create);
}

int machine_attach_guest_memfd(struct machine *machine, void *area, uint64_t pages, int guest_memfd, uint32_t flags)
{
	struct abi_region region = {
		.slot = AREA_SLOT, .flags = flags | ABI_MEM_GUEST_MEMFD, .guest_phys_addr = AREA_GPA,
		.memory_size = pages * PAGE, .userspace_addr = (uintptr_t)area, .guest_memfd = guest_memfd,
	};

	return ioctl(machine->vm, ABI_SET_USER_MEMORY_REGION2, &region) < 0 ? errno : 0;
}

void machine_dirty_log(struct machine *machine, uint64_t *log)
{
	struct kvm_dirty_log request = { .slot = AREA_SLOT, .dirty_bitmap = log };

	kvm_call(machine->vm, KVM_GET_DIRTY_LOG, &request, "KVM_GET_DIRTY_LOG");
}

void machine_load(struct machine *machine, enum program program, uint32_t gpa, uint32_t count)
{
	set_registers(machine, CODE_GPA + FIRST_PROGRAM + program * PROGRAM_SIZE, gpa, count);
}

void machine_load_chunks(struct machine *machine, enum program program, uint32_t count, uint32_t chunk, uint32_t first)
{
	machine_load(machine, program, AREA_GPA, count);
	set_chunks(machine, chunk * PAGE, first * chunk * PAGE);
}

enum stop machine_run(struct machine *machine)
{
	int ret = ioctl(machine->vcpu, KVM_RUN, NULL);

	machine->entries++;
	if (ret < 0 && errno == EINTR)
		return STOP_INTERRUPTED;
	if (ret < 0 && errno == EFAULT)
		return machine->run->exit_reason == ABI_EXIT_MEMORY_FAULT ? STOP_MISSING : STOP_FAULT;
	return ret < 0 ? STOP_OTHER : why_stopped(machine->run);
}

bool machine_can_prefault(const struct machine *machine)
{
	return ioctl(machine->vm, KVM_CHECK_EXTENSION, ABI_CAP_PRE_FAULT_MEMORY) == 1;
}

void machine_prefault(struct machine *machine, uint64_t page, uint64_t pages)
{
	struct abi_pre_fault range = { .gpa = AREA_GPA + page * PAGE, .size = pages * PAGE };

	/* A signal ends it early, and it says what is left. */
	while (range.size > 0)
		if (ioctl(machine->vcpu, ABI_PRE_FAULT_MEMORY, &range) < 0 && errno != EINTR && errno != EAGAIN)
			fail("KVM_PRE_FAULT_MEMORY");
}

uint64_t machine_touching(const struct machine *machine)
{
	return (touched_gpa(machine) - AREA_GPA) / PAGE;
}

uint64_t machine_visiting(const struct machine *machine)
{
	return (visited_gpa(machine) - AREA_GPA) / PAGE;
}

uint32_t machine_sum(const struct machine *machine)
{
	return added(machine);
}

uint64_t machine_exits(const struct machine *machine)
{
	uint64_t exits = 0;

	if (pread(machine->stats, &exits, sizeof(exits), machine->exits_offset) != sizeof(exits))
		fail("read a vCPU's exits");
	return exits;
}

/* The sizes of x86's leaves, in pages. */
static const struct leaf {
	const char *name;
	uint64_t pages;
} leaves[] = { { "pages_4k", 1 }, { "pages_2m", 512 }, { "pages_1g", 512 * 512 } };

/* Entries of a leaf; false where KVM does not count them. */
static bool count_leaves(int stats, const struct leaf *leaf, uint64_t *count)
{
	uint64_t offset = find_statistic(stats, leaf->name);

	return offset && pread(stats, count, sizeof(*count), offset) == sizeof(*count);
}

bool machine_mapped(const struct machine *machine, uint64_t *pages)
{
	int stats = kvm_call(machine->vm, KVM_GET_STATS_FD, NULL, "KVM_GET_STATS_FD of a VM");
	bool is_counted = true;

	*pages = 0;
	for (unsigned int i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
		uint64_t count = 0;

		is_counted &= count_leaves(stats, &leaves[i], &count);
		*pages += count * leaves[i].pages;
	}
	close(stats);
	return is_counted;
}

uint64_t machine_mapped_huge(const struct machine *machine)
{
	int stats = kvm_call(machine->vm, KVM_GET_STATS_FD, NULL, "KVM_GET_STATS_FD of a VM");
	uint64_t count = 0;

	if (!count_leaves(stats, &leaves[1], &count))
		fail("read KVM's statistic pages_2m");
	close(stats);
	return count;
}
