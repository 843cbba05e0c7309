#include "replay/engine/warpgroup.h"

#include <algorithm>
#include <cstring>

#include "replay/engine/packed_fields.h"
#include "replay/engine/tensor_metadata.h"
#include "replay/engine/warpgroup_sums.h"
#include "tracer/ptx/matrix_descriptor.h"

namespace deadheat::engine {

namespace {

constexpr unsigned unit_bytes = 16;

template <typename Op, typename F>
void each_field(Op& op, F&& f) {
  f(op.n, 9);
  f(op.k, 9);
  f(op.a, 4);
  f(op.b, 4);
  f(op.d, 4);
  f(op.a_registers, 1);
  f(op.sparse, 1);
  f(op.selector, 2);
  f(op.a_transposed, 1);
  f(op.b_transposed, 1);
  f(op.a_negated, 1);
  f(op.b_negated, 1);
  f(op.satfinite, 1);
}

// How units and rows of an operand belong together.
struct Units {
  unsigned per_outer = 0; // units that follow each other along K
  unsigned rows = 0, row_bytes = 0, element_bytes = 0;
  bool transposed = false;
};
Units units_in(const WarpgroupOp& op, char matrix) {
  Units u;
  u.transposed = matrix == 'a' ? op.a_transposed : op.b_transposed;
  u.rows = matrix == 'a' ? warp_rows : op.n;
  u.row_bytes = matrix == 'a' ? op.a_row_bytes() : op.b_row_bytes();
  u.element_bytes = std::max(1u, tensor_bits(op.b) / 8);
  u.per_outer = u.transposed ? u.row_bytes / u.element_bytes : u.row_bytes / unit_bytes;
  return u;
}

// Where word `w` of a lane's sums begins, and how far its elements are apart: pairs of columns, of 8 rows and of the
// next 8.
struct SumPlace {
  unsigned row, column;
};
SumPlace sum_place(const WarpgroupOp& op, unsigned lane, unsigned w) {
  const unsigned pair = op.d == TensorType::f16 ? w : w / 2;
  return {lane / 4 + pair % 2 * 8, pair / 2 * 8 + lane % 4 * 2 + (op.d == TensorType::f16 ? 0 : w % 2)};
}

// Between the lanes' words and rows of sums.
std::vector<std::uint32_t> gather_sums(const WarpgroupOp& op, const WarpgroupPart& part) {
  std::vector<std::uint32_t> sums(warp_rows * op.n, 0);
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned w = 0; part.lanes[lane] && w < op.sum_words(); ++w) {
      const SumPlace at = sum_place(op, lane, w);
      const std::uint32_t word = part.lanes[lane]->sums[w];
      std::uint32_t* to = &sums[at.row * op.n + at.column];
      if (op.d == TensorType::f16)
        to[0] = word & 0xffff, to[1] = word >> 16;
      else
        *to = word;
    }
  return sums;
}

void scatter_sums(const WarpgroupOp& op, const std::vector<std::uint32_t>& sums, const WarpgroupPart& part) {
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned w = 0; part.lanes[lane] && w < op.sum_words(); ++w) {
      const SumPlace at = sum_place(op, lane, w);
      const std::uint32_t* from = &sums[at.row * op.n + at.column];
      part.lanes[lane]->sums[w] = op.d == TensorType::f16 ? from[0] | from[1] << 16 : *from;
    }
}

// Where the elements of a lane's registers of a lie: as those of mma with 16 rows.
TensorOp rows_in_registers(const WarpgroupOp& op) {
  TensorOp rows;
  rows.m = 16;
  rows.n = 8;
  rows.k = op.k;
  rows.a = rows.b = op.a;
  rows.sparse = op.sparse;
  return rows;
}

} // namespace

std::uint64_t WarpgroupOp::code() const {
  return pack_fields([this](auto&& f) { each_field(*this, f); });
}

WarpgroupOp WarpgroupOp::from(std::uint64_t code) {
  WarpgroupOp op;
  unpack_fields(code, [&](auto&& f) { each_field(op, f); });
  return op;
}

std::vector<std::uint32_t> units_of(const WarpgroupOp& op, char matrix, std::uint64_t descriptor, unsigned warp) {
  const Units u = units_in(op, matrix);
  const ptx::MatrixDescriptor m = ptx::matrix_descriptor(descriptor);
  const unsigned per_unit = u.transposed ? unit_bytes / u.element_bytes : 1; // rows
  const unsigned first = matrix == 'a' ? warp_rows * warp / per_unit : 0;
  std::vector<std::uint32_t> units;
  units.reserve(std::size_t(u.rows) * u.row_bytes / unit_bytes);
  for (unsigned outer = 0; outer < u.rows / per_unit; ++outer)
    for (unsigned inner = 0; inner < u.per_outer; ++inner)
      units.push_back(ptx::unit_address(m, u.transposed, first + outer, inner));
  return units;
}

void clear_operands(const WarpgroupOp& op, WarpgroupOperands& operands) {
  operands.a.assign(std::size_t(warp_rows) * op.a_row_bytes(), 0);
  operands.b.assign(std::size_t(op.n) * op.b_row_bytes(), 0);
  operands.a_open = {};
  operands.b_open.assign(op.n, false);
  operands.open = 0;
}

void place_unit(const WarpgroupOp& op, char matrix, std::size_t unit, const std::uint8_t* bytes, std::uint16_t open,
                WarpgroupOperands& to) {
  const Units u = units_in(op, matrix);
  std::uint8_t* rows = matrix == 'a' ? to.a.data() : to.b.data();
  auto set_open = [&](std::size_t row) {
    if (matrix == 'a')
      to.a_open[row] = true;
    else
      to.b_open[row] = true;
  };
  const std::size_t outer = unit / u.per_outer, inner = unit % u.per_outer;
  if (!u.transposed) {
    std::memcpy(rows + outer * u.row_bytes + inner * unit_bytes, bytes, unit_bytes);
    if (open) set_open(outer);
    return;
  }
  const unsigned per_unit = unit_bytes / u.element_bytes;
  for (unsigned e = 0; e < per_unit; ++e) {
    const std::size_t row = outer * per_unit + e;
    std::memcpy(rows + row * u.row_bytes + inner * u.element_bytes, bytes + e * u.element_bytes, u.element_bytes);
    if (open >> e * u.element_bytes & ((1u << u.element_bytes) - 1)) set_open(row);
  }
}

void gather_rows(const WarpgroupOp& op, const WarpgroupPart& part, WarpgroupOperands& operands) {
  if (!op.a_registers) return;
  const std::vector<std::uint32_t> places = fragment_places(rows_in_registers(op), 'a');
  const unsigned bits = tensor_bits(op.a), each = unsigned(places.size()) / tensor_lanes;
  for (unsigned lane = 0; lane < tensor_lanes; ++lane) {
    if (!part.lanes[lane]) continue;
    const WarpgroupLane& from = *part.lanes[lane];
    for (unsigned e = 0; e < each; ++e) {
      const std::size_t to = std::size_t(places[lane * each + e]) * bits;
      if (bits == 1) {
        operands.a[to / 8] |= std::uint8_t((from.a[e / 32] >> e % 32 & 1) << to % 8);
        if (from.open_a[e / 32] >> e % 32 & 1) operands.a_open[to / 8 / op.a_row_bytes()] = true;
        continue;
      }
      const std::uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
      const std::uint32_t value = from.a[e * bits / 32] >> e * bits % 32 & mask;
      std::memcpy(&operands.a[to / 8], &value, bits / 8);
      if (from.open_a[e * bits / 32] >> e * bits % 32 & mask) operands.a_open[to / 8 / op.a_row_bytes()] = true;
    }
  }
}

void run_warpgroup(const WarpgroupOp& op, const WarpgroupOperands& operands, const WarpgroupPart& part) {
  std::vector<std::uint16_t> met;
  if (op.sparse) {
    const Metadata metadata(op.a, op.k, op.selector, part.metadata);
    for (unsigned row = 0; row < warp_rows; ++row)
      for (unsigned n = 0; n < op.stored(); ++n) met.push_back(std::uint16_t(metadata.column(row, n)));
  }
  std::vector<std::uint32_t> sums = gather_sums(op, part);
  multiply_warpgroup(op, operands.a.data(), operands.b.data(), met, part.adds, sums.data());
  scatter_sums(op, sums, part);
}

void run_warpgroup_undefined(const WarpgroupOp& op, const WarpgroupOperands& operands, const WarpgroupPart& part) {
  const bool half = op.d == TensorType::f16;
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned w = 0; part.lanes[lane] && w < op.sum_words(); ++w) {
      const SumPlace at = sum_place(op, lane, w);
      const std::uint32_t before = part.adds ? part.lanes[lane]->open_sums[w] : 0;
      std::uint32_t open = 0;
      for (unsigned e = 0; e < (half ? 2u : 1u); ++e) {
        const std::uint32_t mask = half ? 0xffffu << 16 * e : ~0u;
        if (before & mask || operands.a_open[at.row] || operands.b_open[at.column + e]) open |= mask;
      }
      part.lanes[lane]->open_sums[w] = open;
    }
}

} // namespace deadheat::engine
