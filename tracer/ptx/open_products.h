// Which products ptxas may fuse with the sums that use them (PTX ISA 9.7.3.1, 9.7.3.3, 9.7.4: without a rounding
// modifier), so that nothing that branches may come between: it does so within a basic block, and only where every use
// of the product is such a sum, itself or by way of copies (ptxas 13.0, of every architecture).
//
// Of registers that are defined more than once, uses elsewhere are taken to be of other values.
//
// Thread-safety: immutable after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "deadheat/ptx.h"
#include "tracer/ptx/flow.h"

namespace deadheat::ptx {

class OpenProducts {
 public:
  OpenProducts(const Function& function, const Flow& flow);

  // Whether code that begins before statement `at` would come between a product and such a sum.
  bool parted(std::uint32_t at) const { return at > 0 && reach_[at - 1] >= at; }

 private:
  // The last of the sums that use what `statement` puts into the register; 0: something else does, or nothing.
  std::uint32_t last_sum(const Function& function, RegisterId product, std::uint32_t statement, std::uint32_t end,
                         unsigned depth) const;

  std::vector<std::vector<std::uint32_t>> uses_, definitions_; // statements, by register
  std::vector<std::uint32_t> reach_; // by statement: the last sum that uses a product from there or before
};

} // namespace deadheat::ptx
