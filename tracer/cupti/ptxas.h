// PTX assembled by ptxas, as a process of its own: over whatever code it crashes, the job goes on.
//
// Which ptxas: the one that DEADHEAT_PTXAS names ("0": none); else the first that does the module's PTX version and
// architecture, and whose code the driver takes, of: $CUDA_HOME and $CUDA_PATH, /usr/local/cuda, PATH, and what lies
// beside the files that the process has mapped (toolkits, NVIDIA's packages for Python, Triton). Each is tried with a
// module of one empty kernel; the answer is remembered, and that of the driver for all modules. What it made is kept on
// disk from run to run (ptx/code_cache.h), under all that it was made of and by.
//
// Thread-safety: every member locks for itself; several modules may be assembled at the same time.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/ptx/code_cache.h"

namespace deadheat::cupti {

class Assembler {
 public:
  // `takes`: whether the driver loads that cubin, in the calling thread's context; no value: it cannot be asked now.
  // The environment is as it is now.
  using Takes = std::function<std::optional<bool>(const std::string& cubin)>;
  // `most`: after which ptxas is ended, unless DEADHEAT_PTXAS_SECONDS says another time.
  Assembler(Takes takes, std::chrono::milliseconds most, ptx::CodeCache kept);

  struct Module {
    std::string_view text;
    unsigned version = 0; // of PTX, 90 for 9.0
    std::string_view target; // "sm_90a", as the text has it
    int architecture = 0; // of the device, 90
    std::vector<std::string> options = {}; // "-maxrregcount=32"
    std::vector<std::string> functions = {}; // that the cubin must define
    bool in_parallel = false; // on all processors: the same code, sooner where there are several kernels
    std::function<void()> begins = {}; // called before ptxas is: nothing is kept
  };
  struct Result {
    enum class How {
      assembled,
      refused, // by ptxas, or what it wrote is not to be believed
      crashed, // ptxas ended by a signal, or did not end
      absent, // there is no ptxas that could, or it cannot be started
    };
    How how = How::absent;
    bool late = false; // crashed: it did not end in time
    std::string cubin;
    std::string why; // one line: refused and crashed
  };
  Result assemble(const Module& module);
  // The driver did not load a cubin after all: there is no ptxas from now on.
  void distrust() { distrusted_ = true; }

 private:
  std::string choose(const Module& module); // path; empty: none
  bool does(const std::string& path, const Module& module);
  Result made_by(const std::string& path, const Module& module);
  Result assembled_by(const std::string& path, const Module& module, bool in_parallel);
  std::string key_of(const std::string& path, const Module& module) const; // of what it makes; empty: none
  std::optional<bool> driver_takes(const std::string& path, const Module& module, const std::string& cubin);

  const Takes takes_;
  const ptx::CodeCache kept_;
  std::vector<std::string> environment_;
  std::vector<std::string> places_; // where it may be, of those that do not depend on what is mapped
  std::string named_; // DEADHEAT_PTXAS
  std::chrono::milliseconds most_;
  std::mutex lock_;
  std::map<std::string, bool> answers_; // by path and what is asked of it
  std::map<std::string, bool> taken_; // by path and architecture
  std::atomic<bool> distrusted_{false};
};

// Whether these bytes are a whole ELF file of machine code for CUDA devices that defines the functions.
bool is_cubin(std::string_view bytes, const std::vector<std::string>& functions);

} // namespace deadheat::cupti
