/* SPDX-License-Identifier: GPL-2.0-only */
/* The processor's part of machine.c: flat 32-bit mode without paging, left by ports. */
#define CODE_GPA 0x1000ul
/* Where its programs begin in the code. */
#define FIRST_PROGRAM 0

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
	/* PROGRAM_COUNT */
	"1: incl 4(%esi)\n"
	"   addl $4096, %esi\n"
	"   decl %ecx\n"
	"   jnz 1b\n"
	"   out %al, $0x10\n"
	".balign 64\n"
	/* PROGRAM_READ_CHUNKS */
	"1: addl (%esi, %edi), %ebx\n"
	"   addl $4096, %esi\n"
	"   movl %esi, %eax\n"
	"   andl %edx, %eax\n"
	"   addl %eax, %esi\n"
	"   decl %ecx\n"
	"   jnz 1b\n"
	"   out %al, $0x10\n"
	".balign 64\n"
	/* PROGRAM_TOUCH_CHUNKS */
	"1: movl %ecx, 4(%esi, %edi)\n"
	"   addl (%esi, %edi), %ebx\n"
	"   addl $4096, %esi\n"
	"   movl %esi, %eax\n"
	"   andl %edx, %eax\n"
	"   addl %eax, %esi\n"
	"   decl %ecx\n"
	"   jnz 1b\n"
	"   out %al, $0x10\n"
	".balign 64\n"
	/* PROGRAM_VISIT */
	"1: movl (%esi), %edx\n"
	"   movl %edx, %eax\n"
	"   andl $-2, %eax\n"
	"   testb $1, %dl\n"
	"   jz 2f\n"
	"   movl %ecx, 4(%eax)\n"
	"2: addl (%eax), %ebx\n"
	"   addl $4, %esi\n"
	"   decl %ecx\n"
	"   jnz 1b\n"
	"   out %al, $0x10\n"
	".balign 64\n"
	/* PROGRAM_HASH */
	"1: imull $31, %ebx, %ebx\n"
	"   addl (%esi), %ebx\n"
	"   addl $4, %esi\n"
	"   decl %ecx\n"
	"   jnz 1b\n"
	"   out %al, $0x10\n"
	".balign 64\n"
	"programs_end:\n"
	".code64\n"
	".popsection\n");

static void set_segments(int vcpu)
{
	struct kvm_segment segment = { .limit = 0xffffffff, .present = 1, .db = 1, .s = 1, .g = 1 };
	struct kvm_sregs sregs;

	kvm_call(vcpu, KVM_GET_SREGS, &sregs, "KVM_GET_SREGS");
	sregs.cr0 = CR0_PROTECTED;
	segment.type = TYPE_CODE;
	segment.selector = 8;
	sregs.cs = segment;
	segment.type = TYPE_DATA;
	segment.selector = 16;
	sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = segment;
	kvm_call(vcpu, KVM_SET_SREGS, &sregs, "KVM_SET_SREGS");
}

static void set_up_vcpu(const struct machine *machine)
{
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
	kvm_call(machine->vm, KVM_IOEVENTFD, &port, "KVM_IOEVENTFD");
}

static void set_registers(const struct machine *machine, uint64_t at, uint32_t gpa, uint32_t count)
{
	struct kvm_regs regs = { .rip = at, .rsi = gpa, .rcx = count, .rflags = RFLAGS_FIXED };

	kvm_call(machine->vcpu, KVM_SET_REGS, &regs, "KVM_SET_REGS");
}

/* Bytes of a chunk, and from the area's start to the first. */
static void set_chunks(const struct machine *machine, uint32_t chunk, uint32_t offset)
{
	struct kvm_regs regs;

	kvm_call(machine->vcpu, KVM_GET_REGS, &regs, "KVM_GET_REGS");
	regs.rdx = chunk;
	regs.rdi = offset;
	kvm_call(machine->vcpu, KVM_SET_REGS, &regs, "KVM_SET_REGS");
}

static enum stop why_stopped(const struct kvm_run *run)
{
	if (run->exit_reason != KVM_EXIT_IO)
		return STOP_OTHER;
	return run->io.port == PORT_END ? STOP_END : STOP_PORT;
}

static uint64_t touched_gpa(const struct machine *machine)
{
	struct kvm_regs regs;

	kvm_call(machine->vcpu, KVM_GET_REGS, &regs, "KVM_GET_REGS");
	return regs.rsi;
}

static uint64_t visited_gpa(const struct machine *machine)
{
	struct kvm_regs regs;

	kvm_call(machine->vcpu, KVM_GET_REGS, &regs, "KVM_GET_REGS");
	return regs.rax;
}

static uint32_t added(const struct machine *machine)
{
	struct kvm_regs regs;

	kvm_call(machine->vcpu, KVM_GET_REGS, &regs, "KVM_GET_REGS");
	return regs.rbx;
}
