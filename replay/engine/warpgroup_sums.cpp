#include "replay/engine/warpgroup_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "replay/engine/tensor_numbers.h"

namespace deadheat::engine {

namespace {

constexpr unsigned max_columns = 256;
constexpr int no_exponent = -4096; // of zeros
constexpr unsigned at_once = 8; // products that add up in 32 bits

std::uint64_t element(const std::uint8_t* row, unsigned bits, unsigned n) {
  std::uint32_t value = 0;
  std::memcpy(&value, row + std::size_t(n) * bits / 8, bits / 8);
  return value;
}

// One operand's numbers: of b an array of columns for each k, of a one of k for each row.
struct Factors {
  int fraction = 0;
  std::vector<std::int32_t> significand, exponent;
  std::vector<bool> special; // by row or column: holds an infinity or a NaN
  std::vector<Number> numbers; // by row or column, then k
};

Factors factors_of(TensorType type, bool negated, const std::uint8_t* stored, unsigned lines, unsigned k, bool by_k) {
  Factors f;
  f.fraction = layout_of(type).fraction;
  f.significand.resize(std::size_t(lines) * k);
  f.exponent.resize(std::size_t(lines) * k);
  f.special.assign(lines, false);
  f.numbers.resize(std::size_t(lines) * k);
  const unsigned bits = tensor_bits(type);
  for (unsigned line = 0; line < lines; ++line)
    for (unsigned n = 0; n < k; ++n) {
      Number x = take_apart(type, element(stored + std::size_t(line) * k * bits / 8, bits, n));
      if (negated) x.significand = -x.significand, x.negative = !x.negative;
      const std::size_t at = by_k ? std::size_t(n) * lines + line : std::size_t(line) * k + n;
      f.significand[at] = x.significand;
      f.exponent[at] = x.significand ? x.exponent : no_exponent;
      if (x.nan || x.infinite) f.special[line] = true;
      f.numbers[std::size_t(line) * k + n] = x;
    }
  return f;
}

// A magnitude shifted, to the right by 31 at most.
std::int64_t shifted(std::int32_t significand, int shift) {
  const std::int64_t magnitude = significand < 0 ? -std::int64_t(significand) : significand;
  const std::int64_t moved = shift >= 0 ? magnitude << shift : shift > -63 ? magnitude >> -shift : 0;
  return significand < 0 ? -moved : moved;
}

// The sums of one row: exponents of what is added first, then the additions.
class RowSums {
 public:
  RowSums(const Factors& b, unsigned columns, int kept) : b_(b), columns_(columns), kept_(kept) {}

  void begin(const Number* before) {
    for (unsigned j = 0; j < columns_; ++j) largest_[j] = before[j].significand ? before[j].exponent : 2 * no_exponent;
  }
  void look(int exponent, unsigned k) {
    const std::int32_t* of_b = &b_.exponent[std::size_t(k) * columns_];
    std::int32_t* __restrict largest = largest_;
    const unsigned columns = columns_;
    for (unsigned j = 0; j < columns; ++j) largest[j] = std::max(largest[j], exponent + of_b[j]);
  }
  void add_before(const Number* before, int fraction) {
    for (unsigned j = 0; j < columns_; ++j)
      total_[j] = before[j].significand
                      ? shifted(before[j].significand, before[j].exponent - fraction - largest_[j] + kept_)
                      : 0;
  }
  void begin_part() { std::fill_n(part_, columns_, 0); }
  void add(std::int32_t significand, int exponent, unsigned k, int left) {
    const std::int32_t *s = &b_.significand[std::size_t(k) * columns_], *e = &b_.exponent[std::size_t(k) * columns_];
    const std::int32_t* largest = largest_;
    std::int32_t* __restrict part = part_;
    const unsigned columns = columns_;
    for (unsigned j = 0; j < columns; ++j) {
      const std::int32_t product = significand * s[j], sign = product >> 31;
      const std::int32_t right = std::min(largest[j] - exponent - e[j], 31);
      const std::uint32_t magnitude = std::uint32_t((product ^ sign) - sign) << left >> (right & 31);
      part[j] += (std::int32_t(magnitude) ^ sign) - sign;
    }
  }
  void end_part() {
    for (unsigned j = 0; j < columns_; ++j) total_[j] += part_[j];
  }
  BlockSum sum(unsigned j) const {
    BlockSum s;
    s.kept = kept_;
    s.largest = largest_[j];
    s.mantissa = largest_[j] <= no_exponent ? 0 : total_[j];
    return s;
  }

 private:
  const Factors& b_;
  unsigned columns_;
  int kept_;
  alignas(32) std::int32_t largest_[max_columns], part_[max_columns];
  alignas(32) std::int64_t total_[max_columns];
};

// What the type of a makes of sums.
struct Rules {
  int kept = 25;
  std::uint32_t result_mask = ~0u; // of float: what is cut off last
};
Rules rules_of(TensorType a) {
  if (a == TensorType::e4m3 || a == TensorType::e5m2) return {13, ~0x3ffu};
  return {};
}

std::uint32_t packed(const BlockSum& sum, bool half, const Rules& rules) {
  const std::uint32_t bits = half ? pack(sum, 10, 5, true) : pack(sum, 23, 8, false);
  const bool number = half || (bits & 0x7f800000) != 0x7f800000;
  return !half && number ? bits & rules.result_mask : bits;
}

void multiply_floats(const WarpgroupOp& op, const std::uint8_t* a_bytes, const std::uint8_t* b_bytes,
                     const std::vector<std::uint16_t>& met, bool adds, std::uint32_t* sums) {
  const unsigned stored = op.stored();
  const Factors a = factors_of(op.a, op.a_negated, a_bytes, warp_rows, stored, false),
                b = factors_of(op.b, op.b_negated, b_bytes, op.n, op.k, true);
  const bool half = op.d == TensorType::f16;
  const TensorType d = half ? TensorType::f16 : TensorType::f32;
  const int d_fraction = layout_of(d).fraction;
  const Rules rules = rules_of(op.a);
  const int left = rules.kept - a.fraction - b.fraction;
  RowSums row_sums(b, op.n, rules.kept);
  std::vector<Number> before(op.n), b_met(stored);
  for (unsigned row = 0; row < warp_rows; ++row, sums += op.n) {
    const std::uint16_t* places = met.empty() ? nullptr : &met[std::size_t(row) * stored];
    auto place = [&](unsigned s) { return places ? places[s] : s; };
    const std::int32_t *significand = &a.significand[std::size_t(row) * stored],
                       *exponent = &a.exponent[std::size_t(row) * stored];
    for (unsigned j = 0; j < op.n; ++j) before[j] = adds ? take_apart(d, sums[j]) : Number{};
    row_sums.begin(before.data());
    for (unsigned s = 0; s < stored; ++s)
      if (significand[s]) row_sums.look(exponent[s], place(s));
    row_sums.add_before(before.data(), d_fraction);
    for (unsigned s = 0; s < stored; ++s) {
      if (s % at_once == 0) row_sums.begin_part();
      if (significand[s]) row_sums.add(significand[s], exponent[s], place(s), left);
      if (s % at_once == at_once - 1) row_sums.end_part();
    }
    for (unsigned j = 0; j < op.n; ++j) {
      if (!a.special[row] && !b.special[j] && !before[j].nan && !before[j].infinite) {
        sums[j] = packed(row_sums.sum(j), half, rules);
        continue;
      }
      for (unsigned s = 0; s < stored; ++s) b_met[s] = b.numbers[std::size_t(j) * op.k + place(s)];
      sums[j] = packed(add_block(&a.numbers[std::size_t(row) * stored], b_met.data(), stored, a.fraction + b.fraction,
                                 before[j], d_fraction, rules.kept),
                       half, rules);
    }
  }
}

void multiply_integers(const WarpgroupOp& op, const std::uint8_t* a, const std::uint8_t* b,
                       const std::vector<std::uint16_t>& met, bool adds, std::uint32_t* sums) {
  const unsigned stored = op.stored(), n = op.n;
  auto value = [](TensorType type, std::uint8_t byte) {
    return type == TensorType::s8 ? std::int32_t(std::int8_t(byte)) : std::int32_t(byte);
  };
  std::vector<std::int32_t> by_k(std::size_t(op.k) * n);
  for (unsigned j = 0; j < n; ++j)
    for (unsigned k = 0; k < op.k; ++k) by_k[std::size_t(k) * n + j] = value(op.b, b[std::size_t(j) * op.k + k]);
  std::int32_t products[max_columns];
  for (unsigned row = 0; row < warp_rows; ++row, sums += n) {
    std::fill_n(products, n, 0);
    for (unsigned s = 0; s < stored; ++s) {
      const std::int32_t x = value(op.a, a[std::size_t(row) * stored + s]);
      const std::int32_t* y = &by_k[std::size_t(met.empty() ? s : met[std::size_t(row) * stored + s]) * n];
      for (unsigned j = 0; j < n; ++j) products[j] += x * y[j];
    }
    for (unsigned j = 0; j < n; ++j) {
      std::int64_t sum = std::int64_t(adds ? std::int32_t(sums[j]) : 0) + products[j];
      if (op.satfinite) sum = std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX);
      sums[j] = std::uint32_t(sum);
    }
  }
}

void multiply_bits(const WarpgroupOp& op, const std::uint8_t* a, const std::uint8_t* b, bool adds,
                   std::uint32_t* sums) {
  const unsigned bytes = op.k / 8;
  for (unsigned row = 0; row < warp_rows; ++row)
    for (unsigned j = 0; j < op.n; ++j, ++sums) {
      std::uint32_t count = 0;
      for (unsigned at = 0; at < bytes; at += 8) {
        std::uint64_t x, y;
        std::memcpy(&x, a + std::size_t(row) * bytes + at, 8);
        std::memcpy(&y, b + std::size_t(j) * bytes + at, 8);
        count += std::uint32_t(std::popcount(x & y));
      }
      *sums = (adds ? *sums : 0) + count;
    }
}

} // namespace

void multiply_warpgroup(const WarpgroupOp& op, const std::uint8_t* a, const std::uint8_t* b,
                        const std::vector<std::uint16_t>& met, bool adds, std::uint32_t* sums) {
  switch (op.a) {
    case TensorType::s8:
    case TensorType::u8: return multiply_integers(op, a, b, met, adds, sums);
    case TensorType::b1: return multiply_bits(op, a, b, adds, sums);
    default: return multiply_floats(op, a, b, met, adds, sums);
  }
}

} // namespace deadheat::engine
