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
  return {field(0), field(16), field(32), swizzles[bits >> 62], std::uint32_t(bits >> 49 & 7)};
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
  // The type of b is the last that is named: .satfinite and .and.popc come behind it.
  const TypeBits* type = std::end(types);
  for (std::string_view left = rest; !left.empty();) {
    const std::string_view name = left.substr(0, left.find('.'));
    left.remove_prefix(std::min(left.size(), name.size() + 1));
    const auto* named =
        std::find_if(std::begin(types), std::end(types), [&](const TypeBits& t) { return t.name == name; });
    if (named != std::end(types)) type = named;
  }
  if (type == std::end(types) || !n || n > 256 || n % 8 || !k || k > 1024) return shape;
  shape.n = n;
  shape.b_row_bytes = k * type->bits / 8;
  shape.a_row_bytes = shape.b_row_bytes / (opcode.find(".sp.") != std::string_view::npos ? 2 : 1);
  shape.element_bytes = std::max(1u, type->bits / 8);
  return shape;
}

std::uint32_t unit_address(const MatrixDescriptor& m, bool transposed, std::uint32_t outer, std::uint32_t inner) {
  const std::uint32_t width = 1u << m.swizzle_bits; // units beside each other in an atom
  std::uint32_t linear = 0;
  if (!transposed) // atoms of 8 rows; units of one row beside each other, then by `leading`
    linear = outer / 8 * m.stride + outer % 8 * width * unit + inner % width * unit + inner / width * m.leading;
  else if (m.swizzle_bits) // units hold rows; atoms of 8 steps of K
    linear = outer % width * unit + outer / width * m.leading + inner % 8 * width * unit + inner / 8 * m.stride;
  else
    linear = outer * m.stride + inner % 8 * unit + inner / 8 * m.leading;
  const std::uint32_t at = (m.start + linear) & shared_mask;
  return at ^ (((at >> 7) - m.base_offset) & (width - 1)) << 4;
}

std::vector<MatrixStretch> stretches_of(const MatrixDescriptor& m, std::uint32_t from, std::uint32_t to,
                                        std::uint32_t row_bytes, bool transposed, std::uint32_t element_bytes) {
  std::vector<MatrixStretch> found;
  const std::uint32_t per_unit = transposed ? unit / element_bytes : 1; // rows
  const std::uint32_t steps = transposed ? row_bytes / element_bytes : row_bytes / unit;
  for (std::uint32_t outer = from / per_unit; outer < (to + per_unit - 1) / per_unit; ++outer)
    for (std::uint32_t inner = 0; inner < steps; ++inner)
      found.push_back({unit_address(m, transposed, outer, inner), unit});
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

std::vector<MatrixStretch> warp_reads(const MatrixShape& shape, const std::uint64_t* a, bool a_transposed,
                                      std::uint64_t b, bool b_transposed, unsigned quarter) {
  std::vector<MatrixStretch> reads;
  if (a)
    reads = stretches_of(matrix_descriptor(*a), 16 * quarter, 16 * quarter + 16, shape.a_row_bytes, a_transposed,
                         shape.element_bytes);
  if (quarter) return reads;
  const auto all = stretches_of(matrix_descriptor(b), 0, shape.n, shape.b_row_bytes, b_transposed, shape.element_bytes);
  reads.insert(reads.end(), all.begin(), all.end());
  return reads;
}

} // namespace deadheat::ptx
