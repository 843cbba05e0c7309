// PTX to machine code: loads modules, compiles kernels lazily, one mode at a time.
//
// Modes are parameters of one IR builder, not different builders:
//   plain      no records, stops only at barriers, rendezvous, and strong operations in loops
//   record     every weak shared and global access is logged to the lane's log; the thread stops before every strong
//              access, atomic and fence, so that the machine can put them in order
//   control    the thread stops before a visible operation (shared or global access, fence) when the quantum is used
//              up or the site is marked
//   check      every address is checked before it is used
//   precision  every floating-point value carries a double
//
// Thread-safety: a Compiler may be used from one host thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/ptx.h"
#include "deadheat/site.h"
#include "replay/engine/abi.h"
#include "tracer/ptx/code_cache.h"

namespace deadheat::engine {

struct Mode {
  bool record = false, control = false, check = false;
  bool written = false; // follows bytes that nobody wrote (written.h, undefined.h); with check
  bool precision = false; // carries a double beside every floating-point value (shadow.h, precision.h)
  friend auto operator<=>(const Mode&, const Mode&) = default;
};

struct KernelParameter {
  std::string name;
  std::uint32_t offset = 0, bytes = 0;
};

// What a block has for the system (CUDA C++ Programming Guide, compute capability 8.0 and later: 1 KB a block).
inline constexpr std::uint32_t reserved_shared_bytes = 1024;

// What a launch needs to know about a kernel, without compiling it.
struct KernelInfo {
  std::string name;
  std::vector<KernelParameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t static_shared = 0;      // bytes of .shared variables, laid out from offset 0
  // The system's part, behind the static variables at the next multiple of 16, where the kernel asks where it is
  // (%reserved_smem_offset_*: multi-warp tiles of cooperative groups synchronize there); 0 where it does not.
  std::uint32_t reserved_shared = 0;
  std::uint32_t dynamic_shared_offset = 0; // where .extern .shared begins (aligned): its address

  // Of a block that is launched with `dynamic` bytes.
  std::uint32_t total_shared(std::uint32_t dynamic) const {
    return dynamic || reserved_shared ? dynamic_shared_offset + dynamic : static_shared;
  }
  std::uint32_t max_threads = 1024;     // .maxntid / .reqntid
  std::uint32_t local_bytes = 0;
  Dim3 cluster{0, 0, 0};        // .reqnctapercluster; 0 where not written
  bool reaches_cluster = false; // may meet other blocks or reach their memory: needs BlockContext::cluster_shared
  std::string refused;                  // why it cannot run, one line; empty when it can
};

struct RegionCode;
struct FootprintCode;

// A kernel's code in a mode. What was compiled quickly gets better once it has run for as long as that takes to
// compile: whoever runs it says for how long it did. `entry` is another from then on, and a thread that stopped in one
// goes on in the other: resume points and frames are the same.
struct KernelCode : FunctionDescriptor {
  double quick_for = 0; // seconds that quick code may run
  std::function<void()> improve; // null: there is no better
  // For so many seconds; may compile.
  void ran(double seconds) {
    quick_for -= seconds;
    if (quick_for < 0 && improve) std::exchange(improve, {})();
  }
};

class LoadedModule {
 public:
  virtual ~LoadedModule() = default;
  virtual const ptx::Module& ptx() const = 0;
  virtual const std::vector<Site>& sites() const = 0;
  virtual const KernelInfo* kernel(std::string_view name) const = 0;
  virtual std::vector<std::string> kernel_names() const = 0;
  // One line for each kernel that is refused: "kernel foo: tcgen05.mma is not supported by the embedded device".
  virtual const std::vector<std::string>& refusals() const = 0;
  // A kernel's code in a mode; compiles on first use. It lives as long as the module.
  virtual Expected<KernelCode*> compile(std::string_view kernel, Mode mode) = 0;
  // The kernel's code for whole blocks (regions.h), for launches that nobody watches, with addresses checked or not;
  // compiles on first use. Null: it has none, threads run one at a time.
  virtual const RegionCode* regions(std::string_view kernel, bool check = false) = 0;
  // What tells which memory a block of the kernel touches (footprint.h); compiles on first use. Null: nothing does.
  virtual const FootprintCode* footprint(std::string_view kernel) = 0;
  // Bytes of a module variable with relocations resolved; device addresses of symbols come from the resolver.
  virtual std::vector<std::uint8_t> initial_bytes(const ptx::Variable& variable) = 0;
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  // `address_of` gives the device address of a module-scope global or constant variable; called after load returned,
  // when code is compiled or initial bytes are asked for.
  virtual Expected<std::unique_ptr<LoadedModule>> load(ptx::Module module, std::string origin,
                                                       std::function<std::uint64_t(std::string_view)> address_of) = 0;
};

// How much to spend on compiling; the defaults suit everybody but tests.
struct CompilerOptions {
  // Kernels of more work than this (PTX instructions, with what watches their accesses) get quick code: it compiles
  // five to ten times faster and runs several times slower.
  std::size_t full_effort = 15000;
  // Others get quick code, too, until it has run for this many seconds for each unit of work: about what the better
  // code takes to compile. Most kernels of a program never do. 0: better code at once.
  double quick_for_work = 100e-6;
  // Functions with more registers to save than this, over all places where they may stop, keep them in their frame.
  std::uint64_t saves_in_frame = 12000;
  bool regions = true; // false: LoadedModule::regions gives none
  // Where compiled kernels are kept (tracer/ptx/code_cache.h); empty: nowhere.
  std::string cache = ptx::code_cache_directory();
  // Makes no machine code: compile() gives null, or why the kernel is refused.
  bool translate_only = false;
};
std::unique_ptr<Compiler> make_compiler(CompilerOptions options = {});

} // namespace deadheat::engine
