#include "replay/engine/cold_calls.h"

namespace deadheat::engine {

extern "C" {

__attribute__((used, visibility("hidden"))) void deadheat_cold_log_full_body(ThreadContext* thread) {
  thread->block->launch->exec->services->log_full(thread);
}

__attribute__((used, visibility("hidden"))) void deadheat_cold_check_body(ThreadContext* thread, std::uint32_t site,
                                                                          std::uint64_t address, std::uint32_t bytes,
                                                                          std::uint32_t* legal) {
  *legal = thread->block->launch->exec->services->check(thread, site, address, bytes & 0x7fffffff, bytes >> 31);
}

__attribute__((used, visibility("hidden"))) void deadheat_cold_undefined_body(ThreadContext* thread, std::uint32_t site,
                                                                              std::uint32_t use, std::uint64_t address,
                                                                              std::uint32_t bytes) {
  thread->block->launch->exec->services->undefined(thread, site, use, address, bytes);
}

} // extern "C"

} // namespace deadheat::engine

// The entries: save what the System V convention lets a callee change, call, restore. At entry the stack pointer is 8
// below a multiple of 16; eight pushes and 520 bytes make it a multiple of 16.
#define DEADHEAT_COLD_ENTRY(name)                                                                                      \
  asm(".text\n.globl " #name "\n.hidden " #name "\n.type " #name ", @function\n" #name                                 \
      ":\n"                                                                                                            \
      "  pushq %rax\n  pushq %rcx\n  pushq %rdx\n  pushq %rsi\n  pushq %rdi\n  pushq %r8\n  pushq %r9\n  pushq %r10\n" \
      "  subq $520, %rsp\n"                                                                                            \
      "  vmovups %ymm0, (%rsp)\n  vmovups %ymm1, 32(%rsp)\n  vmovups %ymm2, 64(%rsp)\n  vmovups %ymm3, 96(%rsp)\n"     \
      "  vmovups %ymm4, 128(%rsp)\n  vmovups %ymm5, 160(%rsp)\n  vmovups %ymm6, 192(%rsp)\n  vmovups %ymm7, "          \
      "224(%rsp)\n"                                                                                                    \
      "  vmovups %ymm8, 256(%rsp)\n  vmovups %ymm9, 288(%rsp)\n  vmovups %ymm10, 320(%rsp)\n  vmovups %ymm11, "        \
      "352(%rsp)\n"                                                                                                    \
      "  vmovups %ymm12, 384(%rsp)\n  vmovups %ymm13, 416(%rsp)\n  vmovups %ymm14, 448(%rsp)\n  vmovups %ymm15, "      \
      "480(%rsp)\n"                                                                                                    \
      "  vzeroupper\n  call " #name                                                                                    \
      "_body\n"                                                                                                        \
      "  vmovups (%rsp), %ymm0\n  vmovups 32(%rsp), %ymm1\n  vmovups 64(%rsp), %ymm2\n  vmovups 96(%rsp), %ymm3\n"     \
      "  vmovups 128(%rsp), %ymm4\n  vmovups 160(%rsp), %ymm5\n  vmovups 192(%rsp), %ymm6\n  vmovups 224(%rsp), "      \
      "%ymm7\n"                                                                                                        \
      "  vmovups 256(%rsp), %ymm8\n  vmovups 288(%rsp), %ymm9\n  vmovups 320(%rsp), %ymm10\n  vmovups 352(%rsp), "     \
      "%ymm11\n"                                                                                                       \
      "  vmovups 384(%rsp), %ymm12\n  vmovups 416(%rsp), %ymm13\n  vmovups 448(%rsp), %ymm14\n  vmovups 480(%rsp), "   \
      "%ymm15\n"                                                                                                       \
      "  addq $520, %rsp\n"                                                                                            \
      "  popq %r10\n  popq %r9\n  popq %r8\n  popq %rdi\n  popq %rsi\n  popq %rdx\n  popq %rcx\n  popq %rax\n  ret\n"  \
      ".size " #name ", .-" #name "\n")

DEADHEAT_COLD_ENTRY(deadheat_cold_log_full);
DEADHEAT_COLD_ENTRY(deadheat_cold_check);
DEADHEAT_COLD_ENTRY(deadheat_cold_undefined);
