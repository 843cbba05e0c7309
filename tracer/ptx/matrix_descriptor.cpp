#include "tracer/ptx/matrix_descriptor.h"

#include <algorithm>
#include <charconv>

namespace deadheat::ptx {

namespace {

constexpr std::uint32_t unit = 16; // bytes
constexpr std::uint32_t shared_mask = (1u << 18) - 1; // what a descriptor's 14 bits and 4 zeros reach

struct TypeBits {
  std::string_view name;
  std::uint32_t bits;
};
constexpr TypeBits types[] = {{"f16", 16}, {"bf16", 16}, {"tf32", 32}, {"e4m3", 8},
                              {"e5m2", 8}, {"s8", 8},    {"u8", 8},    {"b1", 1}};

std::uint32_t number_after(std::string_view word, std::size_t at) {
  std::uint32_t value = 0;
  if (at < word.size()) std::from_chars(word.data() + at, word.data() + word.size(), value);
  return value;
}

} // namespace

MatrixDescriptor matrix_descriptor(std::uint64_t bits) {
  auto field = [&](unsigned at) { return std::uint32_t(bits >> at & 0x3FFF) << 4; };
  constexpr unsigned swizzles[] = {0, 3, 2, 1};
  return {field(0), field(16), field(32), swizzles[bits >> 62]};
}

MatrixShape matrix_shape(std::string_view opcode) {
  MatrixShape shape;
  const std::size_t at = opcode.find(".m64n");
  if (at == std::string_view::npos) return shape;
  const std::string_view rest = opcode.substr(at + 1);
  const std::string_view word = rest.substr(0, rest.find('.'));
  const std::size_t k_at = word.find('k');
  if (k_at == std::string_view::npos) return shape;
  const std::uint32_t n = number_after(word, 4), k = number_after(word, k_at + 1);
  const std::string_view last = rest.substr(rest.rfind('.') + 1);
  const auto* type =
      std::find_if(std::begin(types), std::end(types), [&](const TypeBits& t) { return t.name == last; });
  if (type == std::end(types) || !n || n > 256 || n % 8 || !k || k > 1024) return shape;
  shape.n = n;
  shape.b_row_bytes = k * type->bits / 8;
  shape.a_row_bytes = shape.b_row_bytes / (opcode.find(".sp.") != std::string_view::npos ? 2 : 1);
  shape.element_bytes = std::max(1u, type->bits / 8);
  return shape;
}

std::vector<MatrixStretch> stretches_of(const MatrixDescriptor& m, std::uint32_t from, std::uint32_t to,
                                        std::uint32_t row_bytes, bool transposed, std::uint32_t element_bytes) {
  std::vector<MatrixStretch> found;
  auto add = [&](std::uint32_t linear) {
    const std::uint32_t at = (m.start + linear) & shared_mask;
    found.push_back({at ^ ((at >> 7 & ((1u << m.swizzle_bits) - 1)) << 4), unit});
  };
  const std::uint32_t width = 1u << m.swizzle_bits; // units beside each other in the swizzled layout
  if (!transposed) { // 8 rows of `width` units; then by `stride`
    for (std::uint32_t row = from; row < to; ++row) {
      for (std::uint32_t u = 0; u < row_bytes / unit; ++u) {
        add(row / 8 * m.stride + row % 8 * width * unit + (m.swizzle_bits ? u * unit : u * m.leading));
      }
    }
  } else { // units hold rows; 8 steps of K of `width` units
    const std::uint32_t per_unit = unit / element_bytes, steps = row_bytes / element_bytes;
    for (std::uint32_t u = from / per_unit; u < (to + per_unit - 1) / per_unit; ++u) {
      for (std::uint32_t k = 0; k < steps; ++k) {
        add(m.swizzle_bits ? u % width * unit + u / width * m.leading + k % 8 * width * unit + k / 8 * m.stride
                           : u * m.stride + k % 8 * unit + k / 8 * m.leading);
      }
    }
  }
  std::sort(found.begin(), found.end(),
            [](const MatrixStretch& a, const MatrixStretch& b) { return a.address < b.address; });
  std::vector<MatrixStretch> joined;
  for (const MatrixStretch& s : found) {
    if (!joined.empty() && s.address <= joined.back().address + joined.back().bytes) {
      joined.back().bytes = std::max(joined.back().bytes, s.address + s.bytes - joined.back().address);
    } else {
      joined.push_back(s);
    }
  }
  return joined;
}

} // namespace deadheat::ptx
