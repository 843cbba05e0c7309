// Multiplications and additions without a rounding modifier, which ptxas may fuse (PTX ISA 9.7.3.1, 9.7.3.3, 9.7.4),
// and how a clone of their function computes the same to the bit: by saying of each whether it is fused, so that
// whatever stands between them changes nothing.
//
// ptxas 13.0 fuses within a basic block, not across fences, and a product only where every use of it is such a sum,
// itself or by way of copies; where both sides of a sum are products that nothing else uses, the first; none that is
// added to itself (tests of ours ask ptxas). What this does not tell, and products that threads wait for each other
// behind, stay as they are, and nothing that branches must come between.
//
// Of registers that are defined more than once, uses elsewhere are taken to be of other values.
//
// Thread-safety: immutable after construction.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "deadheat/ptx.h"
#include "tracer/ptx/flow.h"

namespace deadheat::ptx {

class OpenProducts {
 public:
  OpenProducts(const Function& function, const Flow& flow);

  // Whether code that begins before statement `at` would come between a product and a sum that stay as they are.
  bool parted(std::uint32_t at) const { return at > 0 && reach_[at - 1] >= at; }

  // Instructions that take the place of a multiplication or an addition: they begin with a line's end. Null: it stays.
  const std::string* replacement(std::uint32_t statement) const {
    const auto found = replacements_.find(statement);
    return found == replacements_.end() ? nullptr : &found->second;
  }

 private:
  struct Use { // of a product by a sum
    std::uint32_t product = 0, sum = 0; // statements
    std::size_t operand = 0; // of the sum
    bool negated = false; // on the way
  };
  // The sums that use what `statement` puts into the register; false: something else does, too.
  bool find_sums(RegisterId value, std::uint32_t statement, std::uint32_t end, bool negated, unsigned depth,
                 std::vector<Use>& sums) const;
  bool is_defined_between(const Operand& operand, std::uint32_t first, std::uint32_t last) const;
  bool may_fuse(const Use& use) const;
  std::string fused(const Use& use) const;

  const Function& function_;
  std::vector<std::vector<std::uint32_t>> uses_, definitions_; // statements, by register
  std::vector<std::uint32_t> reach_; // by statement: the last sum that uses a product from there or before
  std::map<std::uint32_t, std::string> replacements_; // by statement
};

} // namespace deadheat::ptx
