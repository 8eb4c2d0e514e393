/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What GRUB, or QEMU's -kernel, needs to start main() in 32-bit protected mode with interrupts off (Multiboot Specification 0.6.96).
 */
	.section .multiboot, "a"
	.balign 4
	.long 0x1badb002		/* magic */
	.long 0				/* flags: nothing is asked for */
	.long -0x1badb002		/* checksum: with the two above it is 0 */

	.section .bss
	.balign 16
	.skip 16384
stack:

	.text
	.globl _start
_start:
	mov $stack, %esp
	cld
	call main
1:	cli
	hlt
	jmp 1b
	.section .note.GNU-stack, "", @progbits
