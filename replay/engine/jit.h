// Optimizes and compiles LLVM modules to machine code in this process: LLVM's x86-64-v3 code generator, whatever the
// host is, so that the same PTX gives the same instructions everywhere.
//
// Thread-safety: none.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "deadheat/expected.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace deadheat::engine {

// How much to spend on a module. Full: a short list of passes and the usual code generator, whose time grows faster
// than the module. Minimal: straight to instructions. Loops: full, and loops are vectorized.
enum class Effort { full, minimal, loops };

class Jit {
 public:
  virtual ~Jit() = default;
  static Expected<std::unique_ptr<Jit>> create();
  // Prepares an empty module for this target.
  virtual void set_target(llvm::Module& module) = 0;
  // Optimizes and compiles: an object file, which may be linked in any process that runs the same build (image.h).
  virtual Expected<std::string> compile(std::unique_ptr<llvm::LLVMContext> context,
                                        std::unique_ptr<llvm::Module> module, Effort effort) = 0;
  // Links an object file; addresses of `names` in order. The code lives as long as the Jit.
  virtual Expected<std::vector<void*>> link(std::string_view object, const std::vector<std::string>& names) = 0;
};

}  // namespace deadheat::engine
