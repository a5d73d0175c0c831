// SPDX-License-Identifier: Apache-2.0
#include "base/careful_copy.h"

#include <ucontext.h>

#include <cstdint>
#include <type_traits>

// Written in assembly, because a fault must be able to end it at any instruction: it uses only
// registers that the caller saves, calls nothing and has nothing on the stack. So the handler can
// continue at its last two instructions from any other.
#if defined(__aarch64__)
__asm__(R"(
    .pushsection .text
    .balign 64
    .globl vb_careful_copy
    .hidden vb_careful_copy
    .type vb_careful_copy, %function
vb_careful_copy:                      // x0: to, x1: from, x2: octets
    .cfi_startproc
    tst     x0, #7
    ccmp    x2, #8, #0, eq
    b.ne    1f
    ldr     x3, [x1]                  // eight octets: the most frequent size
    stlr    x3, [x0]
    mov     w0, #1
    ret
1:  cbz     x2, 9f
    add     x4, x0, x2                // the tail begins at a multiple of eight: x5 octets of it
    mov     w6, #8
    ands    x5, x4, #7
    csel    x5, x6, x5, eq
    cmp     x5, x2
    csel    x5, x2, x5, hi
    subs    x2, x2, x5                // the octets before the tail
    b.eq    8f
    lsr     x6, x2, #18               // 256 KiB and more: prefetches ahead, as bulk_copy() does
    cbz     x6, 2f
    sub     x2, x2, #64
22: ldp     q0, q1, [x1]
    ldp     q2, q3, [x1, #32]
    add     x1, x1, #64
    prfm    pldl1keep, [x1, #512]
    stp     q0, q1, [x0]
    stp     q2, q3, [x0, #32]
    add     x0, x0, #64
    subs    x2, x2, #64
    b.hs    22b
    b       3f
2:  subs    x2, x2, #64
    b.lo    3f
    ldp     q0, q1, [x1]
    ldp     q2, q3, [x1, #32]
    add     x1, x1, #64
    stp     q0, q1, [x0]
    stp     q2, q3, [x0, #32]
    add     x0, x0, #64
    b       2b
3:  adds    x2, x2, #64
    b.eq    8f
    tbz     x2, #5, 4f
    ldp     q0, q1, [x1], #32
    stp     q0, q1, [x0], #32
4:  tbz     x2, #4, 5f
    ldr     q0, [x1], #16
    str     q0, [x0], #16
5:  tbz     x2, #3, 6f
    ldr     x3, [x1], #8
    str     x3, [x0], #8
6:  tbz     x2, #2, 7f
    ldr     w3, [x1], #4
    str     w3, [x0], #4
7:  tbz     x2, #1, 71f
    ldrh    w3, [x1], #2
    strh    w3, [x0], #2
71: tbz     x2, #0, 8f
    ldrb    w3, [x1], #1
    strb    w3, [x0], #1
8:  cmp     x5, #8                    // the tail, by one release store if possible
    b.ne    81f
    ldr     x3, [x1]
    stlr    x3, [x0]
    b       9f
81: cmp     x5, #4
    b.ne    82f
    tst     x0, #3
    b.ne    83f
    ldr     w3, [x1]
    stlr    w3, [x0]
    b       9f
82: cmp     x5, #2
    b.ne    83f
    tst     x0, #1
    b.ne    83f
    ldrh    w3, [x1]
    stlrh   w3, [x0]
    b       9f
83: sub     x5, x5, #1
    tbz     x5, #2, 84f
    ldr     w3, [x1], #4
    str     w3, [x0], #4
84: tbz     x5, #1, 85f
    ldrh    w3, [x1], #2
    strh    w3, [x0], #2
85: tbz     x5, #0, 86f
    ldrb    w3, [x1], #1
    strb    w3, [x0], #1
86: ldrb    w3, [x1]
    stlrb   w3, [x0]
9:  mov     w0, #1
    ret
    .globl vb_careful_copy_fault
    .hidden vb_careful_copy_fault
vb_careful_copy_fault:
    mov     w0, #0
    ret
    .cfi_endproc
    .globl vb_careful_copy_end
    .hidden vb_careful_copy_end
vb_careful_copy_end:
    .size vb_careful_copy, . - vb_careful_copy
    .popsection
)");
#elif defined(__x86_64__)
// Stores become visible in order, with two exceptions. Those of one `rep movsb` have no order among
// themselves, so the tail is stored after it. A store across the end of a cache line may become
// visible in two parts, so the tail never crosses one.
__asm__(R"(
    .pushsection .text
    .balign 64
    .globl vb_careful_copy
    .hidden vb_careful_copy
    .type vb_careful_copy, @function
vb_careful_copy:                      # rdi: to, rsi: from, rdx: octets
    .cfi_startproc
    cmpq    $8, %rdx
    jne     1f
    testb   $7, %dil
    jnz     1f
    movq    (%rsi), %rax              # what is asked for most
    movq    %rax, (%rdi)
    movl    $1, %eax
    ret
1:  testq   %rdx, %rdx
    jz      9f
    leaq    (%rdi,%rdx), %r8          # the tail begins at a multiple of eight: r8 octets of it
    movl    $8, %eax
    andq    $7, %r8
    cmovzq  %rax, %r8
    cmpq    %rdx, %r8
    cmovaq  %rdx, %r8
    movq    %rdx, %rcx                # what is before it
    subq    %r8, %rcx
    jz      8f
    cmpq    $256, %rcx
    jb      3f
    rep movsb
    jmp     8f
3:  cmpq    $8, %rcx
    jb      4f
    movq    (%rsi), %rax
    movq    %rax, (%rdi)
    addq    $8, %rsi
    addq    $8, %rdi
    subq    $8, %rcx
    jmp     3b
4:  testl   $4, %ecx
    jz      5f
    movl    (%rsi), %eax
    movl    %eax, (%rdi)
    addq    $4, %rsi
    addq    $4, %rdi
5:  testl   $2, %ecx
    jz      6f
    movw    (%rsi), %ax
    movw    %ax, (%rdi)
    addq    $2, %rsi
    addq    $2, %rdi
6:  testl   $1, %ecx
    jz      8f
    movb    (%rsi), %al
    movb    %al, (%rdi)
    addq    $1, %rsi
    addq    $1, %rdi
8:  testl   $8, %r8d
    jz      81f
    movq    (%rsi), %rax
    movq    %rax, (%rdi)
    jmp     9f
81: testl   $4, %r8d
    jz      82f
    movl    (%rsi), %eax
    movl    %eax, (%rdi)
    addq    $4, %rsi
    addq    $4, %rdi
82: testl   $2, %r8d
    jz      83f
    movw    (%rsi), %ax
    movw    %ax, (%rdi)
    addq    $2, %rsi
    addq    $2, %rdi
83: testl   $1, %r8d
    jz      9f
    movb    (%rsi), %al
    movb    %al, (%rdi)
9:  movl    $1, %eax
    ret
    .globl vb_careful_copy_fault
    .hidden vb_careful_copy_fault
vb_careful_copy_fault:
    xorl    %eax, %eax
    ret
    .cfi_endproc
    .globl vb_careful_copy_end
    .hidden vb_careful_copy_end
vb_careful_copy_end:
    .size vb_careful_copy, . - vb_careful_copy
    .popsection
)");
#else
#error "careful_copy() has to be written for this processor"
#endif

extern "C" {
extern const std::byte vb_careful_copy_fault;
extern const std::byte vb_careful_copy_end;
}

namespace verbatim {
namespace {

std::uintptr_t address_of(const std::byte& at) noexcept {
  return reinterpret_cast<std::uintptr_t>(&at);
}

/// The register that names the next instruction of an interrupted thread.
auto& next_instruction(ucontext_t& context) noexcept {
#if defined(__aarch64__)
  return context.uc_mcontext.pc;
#else
  return context.uc_mcontext.gregs[REG_RIP];
#endif
}

}  // namespace

bool resume_careful_copy(void* context) noexcept {
  auto& next = next_instruction(*static_cast<ucontext_t*>(context));
  const auto at = static_cast<std::uintptr_t>(next);
  const bool is_inside = at >= reinterpret_cast<std::uintptr_t>(&vb_careful_copy) &&
                         at < address_of(vb_careful_copy_end);
  if (is_inside)
    next = static_cast<std::remove_reference_t<decltype(next)>>(address_of(vb_careful_copy_fault));
  return is_inside;
}

}  // namespace verbatim
