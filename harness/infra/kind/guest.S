# A guest that does what a kernel does before it can print a line, and says after each stage that it got there.
#
# It is the content of a PC's firmware ROM: 64 KiB that end at 4 GiB, and again at 1 MiB. The reset vector jumps to
# `_start` at f000:0000. It writes one letter per stage to port 0xe9, and ends with a write to port 0xf4. It needs
# 4 MiB of memory, a local APIC, and nothing else of a PC.
#
#   R  real mode           P  protected mode       L  long mode, paging      H  runs in the upper half
#   M  model-specific registers    F  a page fault is handled and mended     U  user mode: interrupt, system call
#   T  the local APIC's timer wakes a halted processor                       S  200 million instructions are done
#
# Rules from: AMD64 Architecture Programmer's Manual, volume 2 (modes, paging, system calls, local APIC).

        .set    SAYS, 0xe9
        .set    ENDS, 0xf4
        .set    HIGH, 0xffffffff80000000        # where kernels live; it maps physical memory from 0 on
        .set    STACK, 0x7000
        .set    GDT, 0x8000                     # a copy in memory: the processor marks the task state as busy
        .set    TSS, 0x9000
        .set    TICKS, 0xa000
        .set    PML4, 0x10000
        .set    LOWER, 0x11000
        .set    DIRECTORY, 0x12000
        .set    UPPER, 0x13000
        .set    TABLE, 0x14000
        .set    IDT, 0x15000
        .set    DEVICES, 0x16000
        .set    APIC, 0xfee00000
        .set    HOLE, 0x400000                  # has no page until it is touched
        .set    FRAME, 0x100000

        .macro  says letter
        mov     $\letter, %al
        out     %al, $SAYS
        .endm

        .macro  gate vector, handler, flags
        movl    $((\handler - base + 0xf0000) & 0xffff) + (0x18 << 16), IDT + \vector * 16
        movl    $(((\handler - base + 0x800f0000) & 0xffff0000) + (\flags << 8)), IDT + \vector * 16 + 4
        movl    $0xffffffff, IDT + \vector * 16 + 8
        .endm

        .macro  wrmsr_to register, high, low
        mov     $\register, %ecx
        mov     $\high, %edx
        mov     $\low, %eax
        wrmsr
        .endm

        .text
base:
        .code16
        .globl  _start
_start: cli
        cld
        xor     %ax, %ax
        mov     %ax, %ds
        mov     %ax, %es
        mov     %ax, %ss
        mov     $STACK, %sp
        says    'R'
        lgdtl   %cs:(gdtr - base)
        mov     %cr0, %eax
        or      $1, %al
        mov     %eax, %cr0
        ljmpl   $0x08, $(protected - base + 0xf0000)

        .code32
protected:
        mov     $0x10, %ax
        mov     %ax, %ds
        mov     %ax, %es
        mov     %ax, %ss
        mov     $STACK, %esp
        says    'P'
        mov     $GDT, %edi                      # empty tables
        mov     $(0x18000 - GDT) / 4, %ecx
        xor     %eax, %eax
        rep stosl
        mov     $(gdt - base + 0xf0000), %esi
        mov     $GDT, %edi
        mov     $(gdt_end - gdt) / 4, %ecx
        rep movsl
        movl    $LOWER + 7, PML4
        movl    $UPPER + 7, PML4 + 511 * 8
        movl    $DIRECTORY + 7, LOWER
        movl    $DEVICES + 7, LOWER + 3 * 8
        movl    $DIRECTORY + 7, UPPER + 510 * 8
        movl    $0x000087, DIRECTORY            # two pages of 2 MiB
        movl    $0x200087, DIRECTORY + 8
        movl    $TABLE + 7, DIRECTORY + 16      # pages of 4 KiB, none yet
        movl    $APIC + 0x9b, DEVICES + 0x1f7 * 8
        gate    14, page_fault, 0x8e
        gate    0x40, tick, 0x8e
        gate    0x80, called, 0xee
        movl    $HIGH + STACK, TSS + 4
        movl    $0xffffffff, TSS + 8
        mov     %cr4, %eax
        or      $0x20, %eax                     # physical address extension
        mov     %eax, %cr4
        mov     $PML4, %eax
        mov     %eax, %cr3
        mov     $0xc0000080, %ecx
        rdmsr
        or      $0x901, %eax                    # long mode, system calls, no-execute
        wrmsr
        mov     %cr0, %eax
        or      $0x80010000, %eax               # paging, write protection
        mov     %eax, %cr0
        ljmp    $0x18, $(long - base + 0xf0000)

        .code64
long:   says    'L'
        mov     $HIGH + 0xf0000 + (upper - base), %rax
        jmp     *%rax

upper:  mov     $HIGH + STACK, %rsp
        lgdt    gdtr_high(%rip)
        lidt    idtr(%rip)
        xor     %eax, %eax
        mov     %ax, %ds
        mov     %ax, %es
        mov     $0x20, %ax
        mov     %ax, %ss
        mov     $0x40, %ax
        ltr     %ax
        mov     %cr4, %rax
        or      $0x680, %eax                    # global pages, SSE
        mov     %rax, %cr4
        mov     $HIGH + 0xf0000 + (reload - base), %rax
        push    $0x18
        push    %rax
        lretq
reload: says    'H'

        wrmsr_to 0xc0000101, 0, 0x1234          # the base of GS, and the one to swap it with
        wrmsr_to 0xc0000102, 0xffffffff, 0x80000000 + TICKS
        swapgs
        mov     $0xc0000101, %ecx
        rdmsr
        cmp     $0x80000000 + TICKS, %eax
        jne     wrong
        incl    %gs:0
        mov     $0x10, %ecx                     # time goes on
        rdtsc
        mov     %eax, %ebx
        pause
        rdtsc
        cmp     %eax, %ebx
        je      wrong
        xor     %eax, %eax
        cpuid
        says    'M'

        movabs  $0x1122334455667788, %rbx
        mov     %rbx, HOLE + 8
        cmp     %rbx, FRAME + 8
        jne     wrong
        says    'F'

        wrmsr_to 0xc0000081, 0x00280018, 0      # selectors of system calls
        wrmsr_to 0xc0000082, 0xffffffff, (0x800f0000 + system_call - base)
        wrmsr_to 0xc0000084, 0, 0x700           # flags that they clear
        mov     $0xf0000 + (user - base), %ecx
        mov     $0x02, %r11d
        sysretq
user:   mov     %cs, %ax
        and     $3, %al
        cmp     $3, %al
        jne     wrong
        mov     $0x6000, %esp
        int     $0x80
        cmp     $0x5a, %ebx
        jne     wrong
        syscall
called: mov     $0x5a, %ebx
        iretq
system_call:
        mov     $HIGH + STACK, %rsp
        says    'U'

        mov     $0xff, %al                      # no interrupts from elsewhere
        out     %al, $0x21
        out     %al, $0xa1
        mov     $APIC, %ebx
        movl    $0, %gs:0
        movl    $0x1ff, 0xf0(%rbx)
        movl    $0xb, 0x3e0(%rbx)
        movl    $0x20040, 0x320(%rbx)           # again and again
        movl    $1000000, 0x380(%rbx)
wait:   sti
        hlt
        cli
        cmpl    $10, %gs:0
        jb      wait
        movl    $0x10000, 0x320(%rbx)
        says    'T'

        mov     $50000000, %ecx
        mov     $FRAME, %ebx
1:      add     (%rbx), %rax
        mov     %rax, (%rbx)
        dec     %ecx
        jnz     1b
        says    'S'
        out     %al, $ENDS
wrong:  says    '!'
        out     %al, $ENDS
2:      hlt
        jmp     2b

page_fault:
        push    %rax
        mov     %cr2, %rax
        cmp     $HOLE + 8, %rax
        jne     wrong
        movl    $FRAME + 7, TABLE
        invlpg  HOLE
        pop     %rax
        add     $8, %rsp                        # the error code
        iretq

tick:   incl    %gs:0
        push    %rbx
        mov     $APIC, %ebx
        movl    $0, 0xb0(%rbx)
        pop     %rbx
        iretq

        .balign 8
gdt:    .quad   0
        .quad   0x00cf9b000000ffff              # 08 code, 32 bits
        .quad   0x00cf93000000ffff              # 10 data
        .quad   0x00af9b000000ffff              # 18 the kernel's code
        .quad   0x00cf93000000ffff              # 20 its stack
        .quad   0x00cffb000000ffff              # 28 user code, 32 bits
        .quad   0x00cff3000000ffff              # 30 user data
        .quad   0x00affb000000ffff              # 38 user code
        .quad   0x8000890090000067              # 40 task state, at the upper TSS
        .quad   0x00000000ffffffff
gdt_end:
gdtr:   .word   gdt_end - gdt - 1
        .long   gdt - base + 0xf0000
gdtr_high:
        .word   gdt_end - gdt - 1
        .quad   HIGH + GDT
idtr:   .word   0xfff
        .quad   HIGH + IDT
