// What registers say, on one way from a vector read, of the elements that it returned: which of them a value depends
// on, and which are known to be what was waited for, equal to a value from elsewhere, where it is zero or where it is
// not.
//
// Thread-safety: one object, one thread. The set of registers must outlive it.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "deadheat/ptx.h"
#include "tracer/ptx/flow.h"

namespace deadheat::ptx {

class FlagTests {
 public:
  using Elements = std::uint32_t; // bit e: element e
  static constexpr Elements impossible = ~Elements(0); // what is said of a value that cannot be
  struct Says {
    Elements from = 0; // it depends on these
    Elements zero = 0, other = 0; // if it is zero (a predicate: false), or anything else, these are what was waited for
    Elements zero_somewhere = 0; // `zero`, of some lanes only, which others of the warp may rely on
    Elements element = 0; // it is the value of this one; 0: of none
    auto operator<=>(const Says&) const = default;
  };
  using Registers = std::map<RegisterId, Says>; // others have nothing to do with the read

  // `by_lane`: registers that depend on which lane it is. `unsteady`: those that no element counts as compared with,
  // since they change while threads wait.
  FlagTests(const RegisterSet& by_lane, const std::set<RegisterId>& unsteady)
      : by_lane_(by_lane), unsteady_(unsteady) {}
  static RegisterSet by_lane(const Function& function);

  static Registers read(const Instruction& load); // behind it
  void execute(const Instruction& i, Registers& registers);
  // What elements were found equal to so far: registers,
  std::set<RegisterId> compared() const;
  // and elements that were compared with several values: any of these may have been waited for.
  Elements ambiguous() const;

 private:
  static Says negation(const Says& of) { return {of.from, of.other, of.zero, 0, 0}; }
  static Says of(const Operand& operand, const Registers& registers);
  Says result(const Instruction& i, const Registers& registers);
  Says compare(const Instruction& i, const Registers& registers);
  Says both(const Operand& a, const Says& one, const Operand& b, const Says& other) const;
  bool lanes_differ_in(const Operand& operand, const Says& says) const {
    return operand.kind == Operand::Kind::reg && !says.from && by_lane_.contains(operand.reg) &&
           !unsteady_.count(operand.reg);
  }
  // Is the operand what a thread may wait for the element to become?
  bool awaited(Elements element, const Operand& operand, const Registers& registers);

  const RegisterSet& by_lane_;
  const std::set<RegisterId> unsteady_;
  using Value = std::pair<bool, std::uint64_t>; // a register, or a number
  std::map<Elements, std::set<Value>> awaited_; // by element
};

} // namespace deadheat::ptx
