// Where values may go within one function. Flow of control is not looked at: whatever some use of a register might see
// counts, and so does whatever some load might read of what was stored.
//
// Thread-safety: const members may be called at once. The Function must outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "deadheat/ptx.h"
#include "tracer/ptx/flow.h"

namespace deadheat::ptx {

class ValueFlow {
 public:
  enum class Through {
    registers, // of the thread, and what lanes and threads exchange without memory: shfl, vote, match, redux, bar.red
    thread, // its local memory as well
    memory // shared and global memory as well, whoever reads it
  };
  struct Reach {
    RegisterSet registers; // those that may depend on the values, theirs included
    bool elsewhere = false; // they may go where this does not follow: to functions, the host, by unknown instructions
  };

  explicit ValueFlow(const Function& function);

  Reach from(const std::vector<RegisterId>& values, Through through) const;

 private:
  const Function& function_;
  std::vector<std::vector<std::uint32_t>> readers_; // statements, by register
  std::vector<std::uint32_t> loads_; // statements that read memory
  std::vector<std::uint32_t> carries_; // statements that read the carry flag
  bool has_local_ = false;
  bool copies_ = false; // from memory to memory
};

} // namespace deadheat::ptx
