// The device code that the process loads: what PTX it has, and the instrumented form that is loaded in its place.
//
// On the way into a call that loads code, PTX that fits the device is looked for (fat binaries, PTX text),
// instrumented, assembled, and handed to the driver instead; on the way out the driver's handle is tied to it. When
// anything of that fails, the original is loaded and one line says why.
//
// Thread-safety: every member locks for itself. Module records are never destroyed.
#pragma once

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "deadheat/site.h"
#include "deadheat/trace.h"
#include "tracer/cupti/images.h"
#include "tracer/cupti/jit_options.h"
#include "tracer/cupti/ptxas.h"
#include "tracer/cupti/tensor_lists.h"
#include "tracer/ptx/instrument.h"

namespace deadheat::cupti {

class Session;

struct Code {  // of one load
  std::uint32_t module = 0;        // its number in the trace
  std::string origin;
  std::vector<Site> sites;
  ptx::Instrumentation instrumentation;
  std::string image;               // what was handed to the driver
  bool apart = false;              // assembled by a process of its own
  CUlibrary library = nullptr;     // one of them
  CUmodule handle = nullptr;
  std::vector<CUcontext> loaded_in; // contexts in which all its kernels are; under the lock of Modules

  const ptx::InstrumentedKernel* kernel(const std::string& name) const;
};

struct alignas(64) Kernel {  // what a launch's handle stands for
  // What each launch looks at lies together.
  const ptx::InstrumentedKernel* instrumented = nullptr;
  struct Words { // of a parameter, that may be addresses: its aligned eight bytes
    std::uint16_t parameter = 0, skip = 0, count = 0; // skip: bytes in front of the first
    bool alone = false; // the one is all of it
    bool lists = false; // it is Kernel::lists
  };
  std::vector<Words> words; // of all that have some
  std::size_t most_words = 0; // together
  struct Parameter {
    std::size_t offset = 0, bytes = 0;
  };
  std::vector<Parameter> parameters;
  std::optional<TensorLists> lists; // the first one is of these

  std::string name;                // mangled
  Code* code = nullptr;            // null: opaque
  CUfunction clone = nullptr;      // null: not (or no longer) to be used
  bool is_clone = false;           // the handle is a clone's: a graph's node that was given it
  enum class Handle : std::uint8_t { unknown, function, library_kernel } handle = Handle::unknown;
  mutable std::atomic<bool> forgone = false; // the driver did not take the clone, but the original
  mutable std::atomic<int> told_cluster[3] = {}; // what the clone was told to have (clones.h, own_cluster)
  bool gaps = false;                   // some bytes of its arguments are no parameter's
  std::uint32_t static_shared = 0;
  std::uint32_t most_threads = 1024;   // of a block of the clone
  std::size_t arguments_bytes = 0;     // of all parameters
  std::uint32_t opaque_module = 0; // its number in the trace when there is no code
};

// Those words of the argument block of a launch of so many blocks (along x) that may be addresses (Reach::marked); of
// one whose parameters are not known every word.
void words_of(const Kernel& kernel, std::uint32_t blocks, std::span<const std::uint8_t> arguments,
              std::vector<std::uint64_t>& words);

class Modules {
 public:
  explicit Modules(Session& session);

  // The way in: what to load in place of `image` (a fat binary's wrapper or container, PTX text, an ELF file), or null
  // to leave it. The result lives for ever; its image until it is unloaded, since the driver may read it when it likes
  // (CU_LIBRARY_BINARY_IS_PRESERVED).
  // `anywhere`: its kernels may be launched on any device that the process sees.
  Code* replacement(const void* image, const JitOptions& jit, bool anywhere);
  Code* replacement_of_file(const char* path, const JitOptions& jit, bool anywhere);
  // What the driver said of the program's kernels in it, which it may load one by one: success, or why one is not to be
  // had.
  CUresult loaded(CUlibrary library, Code* code);
  CUresult loaded(CUmodule module, Code* code);
  void not_loaded(Code& code, CUresult why); // the program's own was, in its place
  void unloaded(const void* handle); // or about to be
  void not_needed(const void* handle, bool any_more); // the call that unloads it has returned; any_more: it failed
  void context_gone(CUcontext context); // it was destroyed: its handles may come again
  // The memory of a module's variable, under the session's lock: bytes are not 0. It is freed with the module.
  const trace::Allocate& symbol(const void* owner, std::uint64_t address, std::uint64_t bytes, const std::string& name);
  // Where functions come from: looked up in a library (a CUkernel) or a module, or made of a CUkernel.
  void found(const void* function, const void* owner, bool library);
  void same(const void* function, const void* kernel);

  // What a launched handle (CUfunction or CUkernel) is. `symbol`: its name as CUPTI tells it; may be null.
  Kernel& kernel(CUfunction handle, const char* symbol, CUcontext context);
  // The driver has its code there: it was asked for before, or is of a module that was loaded early.
  bool is_loaded(CUfunction handle, const char* symbol, CUcontext context);

 private:
  bool can_replace(const void* what, bool anywhere);
  Code* made_of(Expected<DeviceCode> found, JitOptions jit, int architecture);
  std::unique_ptr<Code> prepare(std::string text, const std::string& origin, const JitOptions& jit, int architecture);
  // assemble.cpp. The kernels that are to be recorded and can be assembled in the time that is allowed. `wait`: what to
  // say where that takes a while; empty: it does not.
  std::set<std::string> worthwhile(const ptx::Module& module, const ptx::SiteTable& sites, const std::string& origin,
                                   std::string& wait);
  // Makes the code's image; says why not.
  std::string assemble(const ptx::Module& module, const ptx::SiteTable& sites, const ptx::InstrumentOptions& options,
                       const JitOptions& jit, int architecture, const std::string& wait, Code& code);
  void forgo_contracted(const ptx::Module& module, Code& code);
  // Notes it in the trace, and says it where something can be done about it.
  void left_opaque(const std::string& line, std::string_view origin = {});
  Assembler::Result assemble_apart(const ptx::Module& module, const ptx::Instrumentation& code, const JitOptions& jit,
                                   int architecture, const std::string& wait);
  std::optional<bool> driver_takes(const std::string& cubin);
  CUresult load_what_it_has(Code& code);
  CUresult load_kernels(Code& code);
  Kernel* known(CUfunction handle, CUcontext context) const; // under lock_; null: it was not asked for
  Code* code_of(CUfunction handle) const; // under lock_; null: none that is known
  void find_symbols(Code& code);
  std::uint32_t opaque(const void* owner);
  void forget(CUfunction handle); // under lock_: the kernels of that handle

  struct Owner {
    const void* owner = nullptr;
    bool library = false;
  };

  void owned(CUfunction function, Owner owner); // under lock_

  Session& session_;
  Assembler assembler_;
  std::mutex lock_;
  std::unordered_map<CUfunction, Owner> owners_;
  std::unordered_map<const void*, std::vector<CUfunction>> owned_; // the other way round: what was found in it
  std::vector<std::unique_ptr<Code>> codes_;
  std::unordered_map<const void*, Code*> by_handle_, unloading_;
  struct InContext {
    CUcontext context = nullptr;
    std::unique_ptr<Kernel> kernel;
  };
  std::unordered_map<CUfunction, std::vector<InContext>> kernels_;
  std::vector<CUfunction> unowned_; // of kernels_
  std::vector<std::unique_ptr<Kernel>> retired_; // of code that was unloaded: launches may still speak of them
  std::unordered_map<const void*, std::uint32_t> opaque_;
  std::unordered_map<const void*, std::vector<std::uint32_t>>
      symbols_; // allocations, by owner; under the session's lock
  std::uint32_t next_module_ = 1;
};

} // namespace deadheat::cupti
