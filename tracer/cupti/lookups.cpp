// How callers get hooks (hooks.h): by the preloaded library's dlsym, by wrappers of cuGetProcAddress, and, who is
// linked with the driver, by functions of the driver's names.
//
// It is in every process of a job, and before every constructor: here no memory is asked for, no lock is taken and no
// state of another file is needed but constants and atomics. What is looked up is looked up by the next dlsym, so that
// it finds what it would find, and leaves for dlerror what it would leave; a result is replaced only where it lies in
// the driver's own library, so that whoever else stands between program and driver stays there.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <iterator>

#include <cuda.h>

#include "tracer/cupti/hooks.h"

// Elsewhere nobody is given a hook, and CUPTI tells of all calls.
#if defined(__x86_64__) && defined(__linux__)

namespace deadheat::cupti {
namespace {

using Lookup = void* (*)(void* library, const char* name);
using GetFirst = CUresult (*)(const char*, void**, int, cuuint64_t); // cuGetProcAddress
using GetSecond = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*); // _v2
constexpr int second_since = 12000; // version of CUDA

constinit std::atomic<Lookup> next{nullptr};
constinit std::atomic<GetFirst> get_first{nullptr};
constinit std::atomic<GetSecond> get_second{nullptr};
constinit std::atomic<std::uintptr_t> the_driver{0}; // where the library lies that all these functions are of

void* nothing(void*, const char*) { return nullptr; }

// libc's, or that of a library which was preloaded, too, and comes between.
Lookup next_dlsym() noexcept {
  if (const Lookup known = next.load(std::memory_order_acquire)) [[likely]]
    return known;
  void* found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (!found) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  Lookup to = found ? reinterpret_cast<Lookup>(found) : nothing;
  if (void* between = to(RTLD_NEXT, "dlsym")) to = reinterpret_cast<Lookup>(between);
  next.store(to, std::memory_order_release);
  return to;
}

// ---- whose an address is

struct Whose {
  const void* result = nullptr; // what was found
  const void* caller = nullptr; // who looks
  std::uintptr_t driver = 0; // of which the result is; 0: it is none's
  bool ours = false; // the result is one of this library's
  bool any_driver = false; // there is one in the process
  bool caller_excepted = false;
  bool known_driver_there = false; // the one of which functions were handed out before
};

int look_at_object(dl_phdr_info* info, std::size_t, void* to) {
  Whose& whose = *static_cast<Whose*>(to);
  const char* const slash = info->dlpi_name ? std::strrchr(info->dlpi_name, '/') : nullptr;
  const char* const name = slash ? slash + 1 : info->dlpi_name ? info->dlpi_name : "";
  const auto holds = [&](const void* what) {
    const auto at = reinterpret_cast<std::uintptr_t>(what) - info->dlpi_addr;
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
      const auto& part = info->dlpi_phdr[i];
      if (part.p_type == PT_LOAD && at - part.p_vaddr < part.p_memsz) return true;
    }
    return false;
  };
  const bool driver = std::strncmp(name, "libcuda.so", 10) == 0;
  const bool ours = holds(reinterpret_cast<const void*>(&look_at_object));
  whose.any_driver |= driver;
  if (driver && holds(whose.result)) whose.driver = info->dlpi_addr;
  if (ours && holds(whose.result)) whose.ours = true;
  if (driver && info->dlpi_addr == the_driver.load(std::memory_order_relaxed)) whose.known_driver_there = true;
  // What these call is their own affair, of which CUPTI tells nobody; and we want no hooks ourselves.
  if ((ours || is_part_of_cuda(info->dlpi_name)) && holds(whose.caller)) whose.caller_excepted = true;
  return 0;
}

Whose whose_is(const void* result, const void* caller) noexcept {
  Whose whose{result, caller};
  dl_iterate_phdr(look_at_object, &whose);
  return whose;
}
// The result is a function of the driver, and the caller is to have a hook in its place. Two drivers in one process
// are not told apart by hooks: the second one's functions stay as they are.
bool replaces(const Whose& whose) noexcept {
  if (!whose.driver || whose.caller_excepted) return false;
  std::uintptr_t known = the_driver.load(std::memory_order_relaxed);
  if (known == whose.driver) return true;
  if (known && whose.known_driver_there) return false;
  return the_driver.compare_exchange_strong(known, whose.driver) || known == whose.driver;
}

// ---- cuGetProcAddress

CUresult first_wrapper(const char* name, void** result, int version, cuuint64_t flags);
CUresult second_wrapper(const char* name, void** result, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult* status);

void* get_first_wrapped(void* real) noexcept {
  get_first.store(reinterpret_cast<GetFirst>(real));
  return reinterpret_cast<void*>(&first_wrapper);
}
void* get_second_wrapped(void* real) noexcept {
  get_second.store(reinterpret_cast<GetSecond>(real));
  return reinterpret_cast<void*>(&second_wrapper);
}
void* hook_of(Hook& hook, void* real) noexcept {
  hook.real.store(real);
  return entry_of(hook);
}

// What the caller is given in place of the driver's `real`.
void* in_place_of(void* real, const char* name, int version, cuuint64_t flags, const void* caller) noexcept {
  if (std::strncmp(name, "cu", 2) != 0) return real;
  const bool known = version <= CUDA_VERSION; // else it may have parameters that are to come
  if (std::strcmp(name, "cuGetProcAddress") == 0) {
    if (!known || !replaces(whose_is(real, caller))) return real;
    return version >= second_since ? get_second_wrapped(real) : get_first_wrapped(real);
  }
  const bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  for (Hook& hook : hooks) {
    if (std::strcmp(name, hook.asked) != 0) continue;
    // What needs no stream comes in one form.
    const bool same = hook.per_thread == per_thread || (hook.in_no_stream && !hook.per_thread);
    if (!same || version < hook.since) continue;
    const Whose whose = whose_is(real, caller);
    if (known && replaces(whose)) return hook_of(hook, real);
    if (!whose.caller_excepted) comes_without(hook);
    return real;
  }
  return real;
}

CUresult first_wrapper(const char* name, void** result, int version, cuuint64_t flags) {
  const CUresult status = get_first.load()(name, result, version, flags);
  if (status == CUDA_SUCCESS && name && result && *result) {
    *result = in_place_of(*result, name, version, flags, __builtin_return_address(0));
  }
  return status;
}
CUresult second_wrapper(const char* name, void** result, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult* found) {
  const CUresult status = get_second.load()(name, result, version, flags, found);
  if (status == CUDA_SUCCESS && name && result && *result) {
    *result = in_place_of(*result, name, version, flags, __builtin_return_address(0));
  }
  return status;
}

// ---- dlsym

bool is_candidate(const char* name) noexcept {
  if (std::strncmp(name, "cuGetProcAddress", 16) == 0) return !name[16] || std::strcmp(name + 16, "_v2") == 0;
  for (const Hook& hook : hooks) {
    if (std::strcmp(name, hook.name) == 0) return true;
  }
  return false;
}

// Who asks makes no difference where the caller names a library. Our own functions are nobody's: who finds them gets
// what would be found without this library.
void* look_up(void* library, const char* name) {
  void* found = next_dlsym()(library, name);
  if (!found) return nullptr;
  Whose whose = whose_is(found, nullptr);
  if (whose.ours) {
    found = next_dlsym()(RTLD_NEXT, name);
    if (!found) return nullptr;
    whose = whose_is(found, nullptr);
  }
  if (!replaces(whose)) return found;
  if (std::strcmp(name, "cuGetProcAddress") == 0) return get_first_wrapped(found);
  if (std::strcmp(name, "cuGetProcAddress_v2") == 0) return get_second_wrapped(found);
  for (Hook& hook : hooks) {
    if (std::strcmp(name, hook.name) == 0) return hook_of(hook, found);
  }
  return found;
}

// ---- who is linked with the driver

CUresult no_driver() { return CUDA_ERROR_NOT_INITIALIZED; } // whatever it is called with

} // namespace
} // namespace deadheat::cupti

extern "C" {
// Where our functions of the driver's names go on; null: nobody has called them yet.
#define HOOKED(name, asked, since) __attribute__((visibility("hidden"))) constinit void* deadheat_to_##name = nullptr;
#define HOOKED_IN_STREAM(name, suffix, asked, since) HOOKED(name, asked, since) HOOKED(name##suffix, asked, since)
#include "tracer/cupti/hooked_calls.def"
#undef HOOKED
#undef HOOKED_IN_STREAM
}

namespace deadheat::cupti {
namespace {

constexpr void** exported[hook_count] = {
#define HOOKED(name, asked, since) &deadheat_to_##name,
#define HOOKED_IN_STREAM(name, suffix, asked, since) HOOKED(name, asked, since) HOOKED(name##suffix, asked, since)
#include "tracer/cupti/hooked_calls.def"
#undef HOOKED
#undef HOOKED_IN_STREAM
};

} // namespace
} // namespace deadheat::cupti

// Where the library's dlsym goes on, with its own arguments and its own caller.
extern "C" __attribute__((visibility("hidden"), used)) void* deadheat_dlsym_goes_on(void* library, const char* name,
                                                                                    const void* caller) noexcept {
  using namespace deadheat::cupti;
  const Lookup next_one = next_dlsym();
  void* const plain = reinterpret_cast<void*>(next_one);
  if (!name || name[0] != 'c' || name[1] != 'u' || !is_candidate(name)) [[likely]]
    return plain;
  const Whose whose = whose_is(nullptr, caller);
  if (whose.caller_excepted) return plain;
  if (library == RTLD_NEXT) {
    for (Hook& hook : hooks) {
      if (std::strcmp(name, hook.name) == 0) comes_without(hook);
    }
    return plain;
  }
  // What is looked up here depends on the caller: it gets our function, unless there is none of the driver's.
  if (library == RTLD_DEFAULT && whose.any_driver) return plain;
  return reinterpret_cast<void*>(&look_up);
}

// Where a function of ours with a driver's name goes on: by the hook, or as what a library between us and the driver
// has of that name. The driver stays in the process from then on.
extern "C" __attribute__((visibility("hidden"), used)) void* deadheat_export_goes_on(void** slot) noexcept {
  using namespace deadheat::cupti;
  std::size_t at = 0;
  while (exported[at] != slot) ++at;
  Hook& hook = hooks[at];
  void* found = next_dlsym()(RTLD_NEXT, hook.name);
  if (!found) {
    if (void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) found = next_dlsym()(library, hook.name);
  }
  if (!found) return reinterpret_cast<void*>(&no_driver);
  const Whose whose = whose_is(found, nullptr);
  void* const to = hooks_asked_for() && replaces(whose) ? hook_of(hook, found) : found;
  __atomic_store_n(slot, to, __ATOMIC_RELEASE);
  return to;
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
	movq 16(%rsp), %rdx
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

deadheat_export:
	.cfi_startproc
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	pushq %rdx
	.cfi_adjust_cfa_offset 8
	pushq %rcx
	.cfi_adjust_cfa_offset 8
	pushq %r8
	.cfi_adjust_cfa_offset 8
	pushq %r9
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	movq %rax, %rdi
	call deadheat_export_goes_on
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %r9
	.cfi_adjust_cfa_offset -8
	popq %r8
	.cfi_adjust_cfa_offset -8
	popq %rcx
	.cfi_adjust_cfa_offset -8
	popq %rdx
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	jmpq *%rax
	.cfi_endproc
)");

// Functions of the driver's names: none of them takes more than integers and pointers in registers.
#define HOOKED(name, asked, since)                                       \
  asm(".p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name \
      ":\n.cfi_startproc\nendbr64\nmovq deadheat_to_" #name              \
      "(%rip), %rax\ntestq %rax, %rax\nje 1f\njmpq *%rax\n"              \
      "1: leaq deadheat_to_" #name "(%rip), %rax\njmp deadheat_export\n.cfi_endproc\n.size " #name ", .-" #name "\n");
#define HOOKED_IN_STREAM(name, suffix, asked, since) HOOKED(name, asked, since) HOOKED(name##suffix, asked, since)
#include "tracer/cupti/hooked_calls.def"
#undef HOOKED
#undef HOOKED_IN_STREAM

#endif
