/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The processor's part of guest.c: ring 3 in long mode, where the first 8 GiB are mapped to themselves by pages of 2 MiB.
 * It is that of crates/live/src/conformance/guest.rs, so that the lab asks what a host is asked. A and D are set
 * beforehand, so that nothing but the access writes to memory.
 */
#define PML4 0x1000ul
#define PDPT 0x2000ul
#define DIRECTORIES 0x3000ul
#define GIBS 8
#define CODE_GPA (4ul << 20)
/* POST codes, which no machine answers on. */
#define DONE_PORT 0x80

/* P, RW, US, A, D; and PS: Intel's manual, volume 3, table 5-18. */
#define TABLE 0x67ul
#define LARGE (TABLE | 1ul << 7)

/* PE, MP, ET, NE, WP, PG. */
#define CR0_LONG_MODE 0x80010033
/* PAE, OSFXSR, OSXMMEXCPT. */
#define CR4_LONG_MODE 0x620
/* LME, LMA. */
#define EFER_LONG_MODE 0x500
/* Bit 1 is always set; IOPL 3 lets ring 3 use ports. */
#define RFLAGS_RING_3 0x3002

#define MOST_CPUID_ENTRIES 256

__asm__(".pushsection .rodata\n"
	".global access_begin, access_read, access_write, access_end\n"
	"access_begin:\n"
	"access_read:\n"
	"   movq (%rdi), %rax\n"
	"   outb %al, %dx\n"
	"access_write:\n"
	"   movq %rax, (%rdi)\n"
	"   outb %al, %dx\n"
	"access_end:\n"
	".popsection\n");

static void write_tables(char *own)
{
	uint64_t *pml4 = (void *)(own + PML4), *pdpt = (void *)(own + PDPT), *directories = (void *)(own + DIRECTORIES);

	pml4[0] = PDPT | TABLE;
	for (uint64_t gib = 0; gib < GIBS; gib++)
		pdpt[gib] = (DIRECTORIES + gib * 4096) | TABLE;
	for (uint64_t page = 0; page < GIBS * 512; page++)
		directories[page] = page << 21 | LARGE;
}

/* Without them KVM takes guest physical addresses to have 36 bits. */
static void set_cpuid(const struct vcpu *vcpu)
{
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entries[MOST_CPUID_ENTRIES];
	} cpuid = { .head.nent = MOST_CPUID_ENTRIES };

	kvm_call(kvm, KVM_GET_SUPPORTED_CPUID, &cpuid, "KVM_GET_SUPPORTED_CPUID");
	kvm_call(vcpu->fd, KVM_SET_CPUID2, &cpuid, "KVM_SET_CPUID2");
}

/* Flat segments of ring 3; the task state segment has nothing in it. */
static void set_up_vcpu(const struct vcpu *vcpu)
{
	const struct kvm_segment code = {
		.limit = 0xffffffff, .selector = 1 << 3 | 3, .type = 11, .present = 1, .dpl = 3, .s = 1, .l = 1, .g = 1,
	};
	const struct kvm_segment data = {
		.limit = 0xffffffff, .selector = 2 << 3 | 3, .type = 3, .present = 1, .dpl = 3, .db = 1, .s = 1, .g = 1,
	};
	struct kvm_sregs sregs;

	set_cpuid(vcpu);
	kvm_call(vcpu->fd, KVM_GET_SREGS, &sregs, "KVM_GET_SREGS");
	sregs.cr0 = CR0_LONG_MODE;
	sregs.cr3 = PML4;
	sregs.cr4 = CR4_LONG_MODE;
	sregs.efer = EFER_LONG_MODE;
	sregs.cs = code;
	sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = data;
	sregs.tr = (struct kvm_segment){ .limit = 0x67, .selector = 3 << 3, .type = 11, .present = 1 };
	kvm_call(vcpu->fd, KVM_SET_SREGS, &sregs, "KVM_SET_SREGS");
}

static void begin_access(const struct vcpu *vcpu, uint64_t program, uint64_t gpa, uint64_t word)
{
	struct kvm_regs regs = {
		.rip = program, .rflags = RFLAGS_RING_3, .rdi = gpa, .rax = word, .rdx = DONE_PORT,
	};

	kvm_call(vcpu->fd, KVM_SET_REGS, &regs, "KVM_SET_REGS");
}

/* KVM_RUN that fails leaves the reason of the exit before it in place until Linux 6.8. */
static void forget_exit(struct kvm_run *run)
{
	run->exit_reason = KVM_EXIT_UNKNOWN;
}

static bool is_done(const struct kvm_run *run)
{
	return run->exit_reason == KVM_EXIT_IO && run->io.port == DONE_PORT;
}

static uint64_t accessed_word(const struct vcpu *vcpu)
{
	struct kvm_regs regs;

	kvm_call(vcpu->fd, KVM_GET_REGS, &regs, "KVM_GET_REGS");
	return regs.rax;
}
