// Whether ptxas has fused the same multiplications and additions in a kernel and in its instrumented clone: where one
// has an `fma` that the other has not, the last bit of a result may differ (PTX ISA 9.7.3.6, 9.7.4.1: without a
// rounding modifier `mul` and `add` may be contracted).
//
// Told by machine code alone, without a disassembler: an instruction for compute capability 7.0 and up has 16 bytes,
// whose lowest 9 bits are its operation, the next 3 the kinds of its operands. They are the same from sm_75 to sm_121,
// as ptxas 13.0 writes them (NVIDIA does not document them; a test of ours asks ptxas for each). From sm_90 on half
// precision has one operation for all three, whose operands tell: a product adds the register of zeros, a sum
// multiplies by one. Another form of it (0x035), which is older, is an integer's addition from sm_100 on.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/ptx/elf.h"

namespace deadheat::ptx {

struct Products {
  std::uint32_t fused = 0, apart = 0; // instructions, of a function
  auto operator<=>(const Products&) const = default;
};
struct ProductsByPrecision {
  Products single, twofold, doubled, half; // f32, f32x2, f64; f16, f16x2, bf16, bf16x2
};

// For which architecture a cubin is: 90; 0: not known.
unsigned architecture_of(std::string_view cubin);
// Of a function's machine code.
ProductsByPrecision products(std::string_view code, unsigned architecture);

// ptxas unrolls the loops of the two differently, which makes more or fewer of either kind. What it fused in one and
// not in the other makes more of one kind and fewer of the other.
bool contracted_differently(const ProductsByPrecision& a, const ProductsByPrecision& b);

// Those functions of a cubin that have a clone in it (clone_prefix) with other contractions. Empty for bytes that are
// no cubin.
std::vector<std::string> contracted_differently(std::string_view cubin);

} // namespace deadheat::ptx
