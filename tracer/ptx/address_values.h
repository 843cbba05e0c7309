// Which registers of a straight run of instructions hold the same value plus a constant: nvcc's unrolled loops compute
// one address and reach the others by constants, so that recording one lane array tells all of them.
//
// Thread-safety: one object, one thread.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "deadheat/ptx.h"
#include "tracer/ptx/operands.h"

namespace deadheat::ptx {

class AddressValues {
 public:
  struct Value {
    std::uint64_t root = 0;   // values with one root differ by their offsets
    std::int64_t offset = 0;
  };
  explicit AddressValues(const Function& function) : function_(function) {}

  Value of(RegisterId reg);
  void executed(const Instruction& instruction);  // its results are new values
  void clear() { values_.clear(); }               // elsewhere: nothing is known

 private:
  const Function& function_;
  std::unordered_map<RegisterId, Value> values_;
  std::uint64_t next_ = 1;
  RegisterUse use_;
};

} // namespace deadheat::ptx
