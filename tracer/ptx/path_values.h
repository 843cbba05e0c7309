// Values of registers along a path, as expressions: equal numbers are equal values, as far as what the path did to
// registers tells. What memory holds counts as unchanged between two weak loads of one address, but for variables that
// the function writes by name.
//
// Thread-safety: one object, one thread. The Function must outlive it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "deadheat/ptx.h"

namespace deadheat::ptx {

class PathValues {
 public:
  using Value = std::uint32_t;
  using Registers = std::vector<Value>; // of those followed, in the order of `followed`

  // Follows the registers in `followed`; no others may change.
  PathValues(const Function& function, const std::vector<RegisterId>& followed);

  Registers initial(); // as they are where the path begins
  // Behind an instruction that is executed, whatever its guard says. `lap`: what is not determined by operands (clocks,
  // atomics, strong reads) has another value in each. `choice`: which of its sources selp takes, 0 or 1.
  void execute(std::uint32_t statement, unsigned lap, unsigned choice, Registers& registers);
  // What is read at `statement` itself, in place of executing it: a value of its own.
  void read(std::uint32_t statement, Registers& registers);

  Value address(std::uint32_t statement, const Registers& registers); // that the instruction accesses
  bool follows(RegisterId r) const { return place_[r] != not_followed; }
  bool depends_on_read(Value v) const { return known_[v].depends_on_read; }
  bool is_known(Value v) const { return known_[v].depth <= deepest; } // else two of them are not to be compared
  // Registers that do not hold what they hold in `other` get a value that is not known.
  void widen(Registers& registers, const Registers& other);

 private:
  static constexpr std::uint32_t not_followed = ~std::uint32_t(0);
  static constexpr unsigned deepest = 24; // of expressions: loops beside the path pile them up
  struct Known {
    bool depends_on_read = false;
    unsigned depth = 0;
    Value base = 0; // a constant sum: base + offset; else itself
    std::int64_t offset = 0;
  };
  enum Kind : std::uint64_t {
    of_register,
    constant,
    floating,
    text,
    sum,
    operation,
    part,
    group,
    negation,
    fresh,
    of_read,
    unknown
  };

  Value number(std::vector<std::uint64_t> key, const std::vector<Value>& operands);
  Value plus(Value v, std::int64_t offset);
  Value constant_of(std::uint64_t bits) { return number({constant, bits}, {}); }
  Value operand(const Operand& operand, const Registers& registers, std::uint32_t statement, unsigned lap);
  std::uint64_t text_number(std::string_view text);
  bool is_undetermined(const Instruction& i) const; // its results depend on more than its operands
  Value result(const Instruction& i, std::uint32_t statement, unsigned lap, unsigned choice,
               const Registers& registers);
  bool is_constant(Value v, std::uint64_t& bits) const;

  const Function& function_;
  std::vector<std::uint32_t> place_; // in Registers, by register
  std::vector<RegisterId> followed_;
  std::set<std::string_view> written_; // variables
  std::map<std::vector<std::uint64_t>, Value> numbers_;
  std::vector<Known> known_;
  std::map<Value, std::uint64_t> constants_;
  std::map<std::string, std::uint64_t, std::less<>> texts_;
  std::map<std::uint32_t, std::uint64_t> opcodes_; // texts of opcodes, by statement
};

} // namespace deadheat::ptx
