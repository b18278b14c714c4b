/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where Xen starts the guest, and the notes by which it knows it for a 32-bit PAE kernel: Xen's
 * xen/include/public/elfnote.h and xen/arch/x86/pv/dom0_build.c, 4.17. %esi holds the start info.
 */
#define VIRT_BASE 0xc0000000
#define FEATURE_DOM0 (1 << 11)

	.text
	.globl _start
_start:
	cld
	movl	$stack_top, %esp
	pushl	%esi
	call	pv32_main
1:	jmp	1b

	/* Xen fills it in: 32 bytes for each hypercall. */
	.section .hypercall, "ax", @progbits
	.globl	hypercall_page
	.balign	4096
hypercall_page:
	.skip	4096

	.bss
	.balign	4096
	.skip	16384
stack_top:

	.macro	note type, desc:vararg
	.pushsection .note.Xen, "a", @note
	.balign	4
	.long	4, 9f - 8f, \type
	.asciz	"Xen"
8:	\desc
9:	.balign	4
	.popsection
	.endm

	note	6, .asciz "pagetoll"		/* GUEST_OS */
	note	8, .asciz "generic"		/* LOADER */
	note	5, .asciz "xen-3.0"		/* XEN_VERSION */
	note	3, .long VIRT_BASE
	note	4, .long VIRT_BASE		/* PADDR_OFFSET */
	note	1, .long _start			/* ENTRY */
	note	2, .long hypercall_page
	note	9, .asciz "yes"			/* PAE_MODE */
	note	17, .long FEATURE_DOM0		/* SUPPORTED_FEATURES */

	.section .note.GNU-stack, "", @progbits
