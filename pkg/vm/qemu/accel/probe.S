# The probe guest: enters 64-bit long mode with paging, says so, runs a timed
# loop there, says so, and ends QEMU through isa-debug-exit. Loaded by QEMU's
# multiboot loader (Multiboot Specification 0.6.96, section 3.1) at 1 MiB.
#
# Rebuild probe.bin:
#   as --32 -o probe.o probe.S && ld -m elf_i386 -Ttext 0x100000 -e start -o probe.elf probe.o
#   objcopy -O binary -j .text probe.elf probe.bin
# probe_test.go does the same and compares.

	.set	BASE,       0x100000
	.set	MAGIC,      0x1BADB002
	.set	FLAGS,      0x00010000	# bit 16: the addresses below are valid
	.set	PML4,       0x200000	# page tables, above the image
	.set	PDPT,       0x201000
	.set	PD,         0x202000
	.set	STACK,      0x210000
	.set	DEBUGCON,   0xe9
	.set	DEBUGEXIT,  0x501
	.set	ITERATIONS, 200000000

	.text
	.code32
header:
	.long	MAGIC
	.long	FLAGS
	.long	-(MAGIC + FLAGS)
	.long	BASE			# header_addr
	.long	BASE			# load_addr
	.long	0			# load_end_addr: the whole file
	.long	0			# bss_end_addr: none
	.long	start			# entry_addr

	.globl	start
start:
	cli
	cld
	movl	$STACK, %esp
	# Clear three page table pages.
	movl	$PML4, %edi
	xorl	%eax, %eax
	movl	$(3 * 4096 / 4), %ecx
	rep stosl
	# Map the first GiB one to one with 2 MiB pages.
	movl	$(PDPT + 3), PML4	# present, writable
	movl	$(PD + 3), PDPT
	movl	$PD, %edi
	movl	$0x83, %eax		# present, writable, 2 MiB
	movl	$512, %ecx
1:	movl	%eax, (%edi)
	addl	$0x200000, %eax
	addl	$8, %edi
	decl	%ecx
	jnz	1b
	# PAE, long mode enable, paging: Intel SDM volume 3, section 10.8.5.
	movl	%cr4, %eax
	orl	$0x20, %eax
	movl	%eax, %cr4
	movl	$PML4, %eax
	movl	%eax, %cr3
	movl	$0xC0000080, %ecx	# IA32_EFER
	rdmsr
	orl	$0x100, %eax
	wrmsr
	movl	%cr0, %eax
	orl	$0x80000001, %eax
	movl	%eax, %cr0
	lgdt	gdtr
	ljmp	$0x08, $long

	.code64
long:
	movw	$0x10, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	# A value that no 32-bit register holds proves the mode.
	movabsq	$0x123456789abcdef0, %rbx
	movq	%rbx, %rdx
	shrq	$32, %rdx
	cmpl	$0x12345678, %edx
	jne	wrong
	movb	$'S', %al		# start
	outb	%al, $DEBUGCON
	movq	$ITERATIONS, %rcx
2:	decq	%rcx
	jnz	2b
	movb	$'E', %al		# end
	outb	%al, $DEBUGCON
	movb	$0x10, %al		# QEMU's exit status: 2*0x10+1 = 33
	jmp	leave
wrong:	movb	$'!', %al
	outb	%al, $DEBUGCON
	movb	$0x11, %al
leave:	movw	$DEBUGEXIT, %dx
	outb	%al, %dx
3:	hlt
	jmp	3b

	.balign	8
gdt:	.quad	0
	.quad	0x00af9a000000ffff	# 64-bit code
	.quad	0x00cf92000000ffff	# data
gdtr:	.word	gdtr - gdt - 1
	.long	gdt
