// The preloaded library's dlsym, by which callers find NVRTC and nvJitLink (compilers.h).
//
// It is in every process of a job, and before every constructor: here no memory is asked for, no lock is taken and no
// state of another file is needed but constants and atomics. What is looked up is looked up by the next dlsym, so that
// it finds what it would find, and leaves for dlerror what it would leave.
#include <dlfcn.h>

#include <atomic>

#include "tracer/compilers/compilers.h"

namespace deadheat::cupti {

namespace {

constinit std::atomic<Lookup> next{nullptr};

void* nothing(void*, const char*) { return nullptr; }

void* look_up(void* library, const char* name) {
  void* const found = plain_lookup()(library, name);
  if (!found) return nullptr;
  void* const result = wrapped(found, name, library, plain_lookup());
  dlerror(); // the caller's lookup went well
  return result;
}

} // namespace

// libc's, or that of a library which was preloaded, too, and comes between.
Lookup plain_lookup() noexcept {
  if (const Lookup known = next.load(std::memory_order_acquire)) [[likely]]
    return known;
  void* found = nullptr;
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    if (!found) found = dlvsym(RTLD_NEXT, "dlsym", version);
  }
  Lookup to = found ? reinterpret_cast<Lookup>(found) : nothing;
  if (void* between = to(RTLD_NEXT, "dlsym")) to = reinterpret_cast<Lookup>(between);
  next.store(to, std::memory_order_release);
  return to;
}

} // namespace deadheat::cupti

// Where nobody stands between, callers find machine code's PTX as far as they are linked with NVRTC.
#if defined(__x86_64__) && defined(__linux__)

// Where the library's dlsym goes on, with its own arguments and its own caller.
extern "C" __attribute__((visibility("hidden"), used)) void* deadheat_dlsym_goes_on(void* library,
                                                                                    const char* name) noexcept {
  using namespace deadheat::cupti;
  // What all see (RTLD_DEFAULT begins there for everyone) is found from here, too; and only that.
  const bool plain =
      library == RTLD_NEXT || !may_be_wrapped(name) || (library == RTLD_DEFAULT && !plain_lookup()(library, name));
  return reinterpret_cast<void*>(plain ? plain_lookup() : &look_up);
}

// RTLD_NEXT and RTLD_DEFAULT mean what they mean for the caller, whom libc knows by where it returns to: so this calls
// nobody, it goes on as what was chosen.
asm(R"(
	.text
	.p2align 4
	.globl dlsym
	.type dlsym, @function
dlsym:
	.cfi_startproc
	endbr64
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call deadheat_dlsym_goes_on
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	jmpq *%rax
	.cfi_endproc
	.size dlsym, .-dlsym
)");

#endif
