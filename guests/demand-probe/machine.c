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

#include "../lib/linux/fail.h"
#include "../lib/linux/page.h"
#include "kvm_abi.h"

#define CODE_SLOT 0
#define AREA_SLOT 1
#define CODE_GPA 0x1000ul
#define CODE_SIZE PAGE
/* Each program begins at a multiple of this. */
#define PROGRAM_SIZE 64
/* CR0.PE and CR0.ET; RFLAGS bit 1 is always set. */
#define CR0_PROTECTED 0x11
#define RFLAGS_FIXED 2
/* Types of segments: Intel's manual, volume 3, table 3-1. */
#define TYPE_CODE 11
#define TYPE_DATA 3

#define PORT_END 0x10
#define PORT_OUT 0x11
#define PORT_ANSWERED 0x12

__asm__(".pushsection .rodata\n"
	".code32\n"
	".balign 64\n"
	"programs:\n"
	/* PROGRAM_TOUCH */
	"1: movl %ecx, 4(%esi)\n"
	"   addl (%esi), %ebx\n"
	"   addl $4096, %esi\n"
	"   decl %ecx\n"
	"   jnz 1b\n"
	"   out %al, $0x10\n"
	".balign 64\n"
	/* PROGRAM_READ */
	"   movl (%esi), %ebx\n"
	"   out %al, $0x10\n"
	".balign 64\n"
	/* PROGRAM_JUMP */
	"   jmp *%esi\n"
	".balign 64\n"
	/* PROGRAM_OUTS */
	"   movl $0x11, %edx\n"
	"   outsb\n"
	"   out %al, $0x10\n"
	".balign 64\n"
	/* PROGRAM_OUT_ANSWERED */
	"1: out %al, $0x12\n"
	"   decl %ecx\n"
	"   jnz 1b\n"
	"   out %al, $0x10\n"
	".balign 64\n"
	/* PROGRAM_OUT */
	"1: out %al, $0x11\n"
	"   decl %ecx\n"
	"   jnz 1b\n"
	"   out %al, $0x10\n"
	".balign 64\n"
	"programs_end:\n"
	".code64\n"
	".popsection\n");

extern const char programs[], programs_end[];

static int call(int fd, unsigned long request, void *argument, const char *what)
{
	int ret = ioctl(fd, request, argument);

	if (ret < 0)
		fail(what);
	return ret;
}

static uint64_t find_exits(int stats)
{
	struct kvm_stats_header header;
	uint64_t offset = 0;

	if (pread(stats, &header, sizeof(header), 0) != sizeof(header))
		fail("read a vCPU's statistics");
	for (uint32_t i = 0; i < header.num_desc; i++) {
		size_t size = sizeof(struct kvm_stats_desc) + header.name_size;
		struct kvm_stats_desc *desc = calloc(1, size + 1);

		if (pread(stats, desc, size, header.desc_offset + i * size) != (ssize_t)size)
			fail("read a vCPU's statistics");
		if (!strcmp(desc->name, "exits"))
			offset = header.data_offset + desc->offset;
		free(desc);
	}
	return offset;
}

static void set_segments(int vcpu)
{
	struct kvm_segment segment = { .limit = 0xffffffff, .present = 1, .db = 1, .s = 1, .g = 1 };
	struct kvm_sregs sregs;

	call(vcpu, KVM_GET_SREGS, &sregs, "KVM_GET_SREGS");
	sregs.cr0 = CR0_PROTECTED;
	segment.type = TYPE_CODE;
	segment.selector = 8;
	sregs.cs = segment;
	segment.type = TYPE_DATA;
	segment.selector = 16;
	sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = segment;
	call(vcpu, KVM_SET_SREGS, &sregs, "KVM_SET_SREGS");
}

static void open_vcpu(struct machine *machine)
{
	int size = call(machine->kvm, KVM_GET_VCPU_MMAP_SIZE, NULL, "KVM_GET_VCPU_MMAP_SIZE");

	machine->vcpu = call(machine->vm, KVM_CREATE_VCPU, NULL, "KVM_CREATE_VCPU");
	machine->run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, machine->vcpu, 0);
	if (machine->run == MAP_FAILED)
		fail("map a vCPU");
	machine->stats = call(machine->vcpu, KVM_GET_STATS_FD, NULL, "KVM_GET_STATS_FD");
	machine->exits_offset = find_exits(machine->stats);
	set_segments(machine->vcpu);
}

/*
 * The cheapest exit that KVM answers: the processor says where a port's instruction ends. That of CPUID is decoded by the
 * emulator where the processor does not, as QEMU's.
 */
static void answer_port(struct machine *machine)
{
	struct kvm_ioeventfd port = { .addr = PORT_ANSWERED, .len = 1, .flags = KVM_IOEVENTFD_FLAG_PIO };

	machine->answered = port.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (port.fd < 0)
		fail("eventfd");
	call(machine->vm, KVM_IOEVENTFD, &port, "KVM_IOEVENTFD");
}

struct machine machine_open(void)
{
	struct machine machine = { .kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC) };
	struct kvm_userspace_memory_region region = {
		.slot = CODE_SLOT, .guest_phys_addr = CODE_GPA, .memory_size = CODE_SIZE,
	};

	if (machine.kvm < 0)
		fail("open /dev/kvm");
	machine.vm = call(machine.kvm, KVM_CREATE_VM, NULL, "KVM_CREATE_VM");
	machine.code = mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (machine.code == MAP_FAILED)
		fail("map a machine's code");
	memcpy(machine.code, programs, programs_end - programs);
	region.userspace_addr = (uintptr_t)machine.code;
	call(machine.vm, KVM_SET_USER_MEMORY_REGION, &region, "KVM_SET_USER_MEMORY_REGION");
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

int machine_attach(struct machine *machine, void *area, uint64_t pages, uint32_t flags)
{
	struct abi_region region = {
		.slot = AREA_SLOT, .flags = flags, .guest_phys_addr = AREA_GPA, .memory_size = pages * PAGE,
		.userspace_addr = (uintptr_t)area,
	};
	/* Old kernels have only the first version, which takes none of the new flags. */
	unsigned long request = flags & ~ABI_MEM_READONLY ? ABI_SET_USER_MEMORY_REGION2 : KVM_SET_USER_MEMORY_REGION;

	return ioctl(machine->vm, request, &region) < 0 ? errno : 0;
}

void machine_load(struct machine *machine, enum program program, uint32_t gpa, uint32_t count)
{
	struct kvm_regs regs = {
		.rip = CODE_GPA + program * PROGRAM_SIZE, .rsi = gpa, .rcx = count, .rflags = RFLAGS_FIXED,
	};

	call(machine->vcpu, KVM_SET_REGS, &regs, "KVM_SET_REGS");
}

enum stop machine_run(struct machine *machine)
{
	int ret = ioctl(machine->vcpu, KVM_RUN, NULL);

	machine->entries++;
	if (ret < 0 && errno == EINTR)
		return STOP_INTERRUPTED;
	if (ret < 0)
		return errno == EFAULT && machine->run->exit_reason == ABI_EXIT_MEMORY_FAULT ? STOP_MISSING : STOP_OTHER;
	if (machine->run->exit_reason != KVM_EXIT_IO)
		return STOP_OTHER;
	return machine->run->io.port == PORT_END ? STOP_END : STOP_PORT;
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
	struct kvm_regs regs;

	call(machine->vcpu, KVM_GET_REGS, &regs, "KVM_GET_REGS");
	return (regs.rsi - AREA_GPA) / PAGE;
}

uint32_t machine_sum(const struct machine *machine)
{
	struct kvm_regs regs;

	call(machine->vcpu, KVM_GET_REGS, &regs, "KVM_GET_REGS");
	return regs.rbx;
}

uint64_t machine_exits(const struct machine *machine)
{
	uint64_t exits = 0;

	if (pread(machine->stats, &exits, sizeof(exits), machine->exits_offset) != sizeof(exits))
		fail("read a vCPU's exits");
	return exits;
}
