/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A dom0 that is good for nothing: Xen takes it for a kernel and starts it, and then it misbehaves as BEHAVIOUR says:
 * it spins, halts, crashes, or writes garbage to the console for ever. Without Xen it only halts.
 *
 * Notes: Xen's public/elfnote.h. Start of a PV guest and hypercalls: public/arch-x86/xen-x86_64.h and public/xen.h.
 */
#define SPIN 1
#define HALT 2
#define CRASH 3
#define GARBAGE 4

#define BASE 0xffffffff80000000
#define CONSOLE_IO 18
#define CONSOLEIO_WRITE 0
#define SCHED_OP 29
#define SCHEDOP_BLOCK 1

	.macro note type, size, value:vararg
	.balign 4
	.long 4, \size, \type
	.asciz "Xen"
	\value
	.balign 4
	.endm

	.section .notes, "a", @note
	note 6, 6, .asciz "linux"        /* GUEST_OS */
	note 5, 8, .asciz "xen-3.0"      /* XEN_VERSION */
	note 8, 8, .asciz "generic"      /* LOADER */
	note 3, 8, .quad BASE            /* VIRT_BASE */
	note 4, 8, .quad 0               /* PADDR_OFFSET */
	note 1, 8, .quad start           /* ENTRY */
	note 18, 4, .long start_pvh - BASE /* PHYS32_ENTRY, for QEMU without Xen */

	.section .rodata, "a"
banner:	.asciz "Linux version 9.9.9-nobody (nobody@nowhere) (gcc) #1 SMP\n"
garbage:
	.ascii "@pagetoll 00000000 {\"kind\":\"done\"}\n"
garbage_end:

	.text
	.globl start
start:
#if BEHAVIOUR == SPIN
	jmp start
#elif BEHAVIOUR == HALT
	mov $SCHED_OP, %eax
	mov $SCHEDOP_BLOCK, %edi
	xor %esi, %esi
	syscall
	jmp start
#elif BEHAVIOUR == CRASH
	ud2
#elif BEHAVIOUR == GARBAGE
	mov $CONSOLE_IO, %eax
	mov $CONSOLEIO_WRITE, %edi
	mov $(garbage_end - garbage), %esi
	mov $garbage, %rdx
	syscall
	jmp start
#endif

	.code32
start_pvh:
	cli
	hlt
	jmp start_pvh
