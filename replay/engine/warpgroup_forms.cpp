// From PTX to WarpgroupOp: shapes, types and immediates of wgmma.mma_async (PTX ISA 9.7.15.2, 9.7.15.5.2, 9.7.15.6.4).
#include <charconv>
#include <optional>

#include "replay/engine/lower_tensor.h"
#include "replay/engine/warpgroup.h"

namespace deadheat::engine {

using ptx::Instruction;
using ptx::Modifier;
using ptx::Operand;
using T = TensorType;

namespace {

// One line a family: types of a and b (which may differ), and of d; k of the dense product; whether signs may change,
// and whether matrices may be stored transposed.
struct Family {
  TensorType a[2];
  TensorType d[2];
  std::uint16_t k;
  bool scales, transposes;
};
constexpr Family families[] = {
    {{T::f16, T::f16}, {T::f16, T::f32}, 16, true, true},   {{T::bf16, T::bf16}, {T::f32, T::f32}, 16, true, true},
    {{T::tf32, T::tf32}, {T::f32, T::f32}, 8, true, false}, {{T::e4m3, T::e5m2}, {T::f16, T::f32}, 32, true, false},
    {{T::s8, T::u8}, {T::s32, T::s32}, 32, false, false},   {{T::b1, T::b1}, {T::s32, T::s32}, 256, false, false},
};

bool one_of(const TensorType (&types)[2], TensorType t) { return types[0] == t || types[1] == t; }

const Family* family_of(const WarpgroupOp& op) {
  for (const Family& f : families)
    if (one_of(f.a, op.a) && one_of(f.a, op.b) && one_of(f.d, op.d)) return &f;
  return nullptr;
}

// m64nNkK
bool read_shape(const Instruction& i, WarpgroupOp& op) {
  for (std::string_view text : i.modifier_texts) {
    if (!text.starts_with("m64n")) continue;
    const char* end = text.data() + text.size();
    const auto n = std::from_chars(text.data() + 4, end, op.n);
    if (n.ec != std::errc() || n.ptr == end || *n.ptr != 'k') return false;
    const auto k = std::from_chars(n.ptr + 1, end, op.k);
    return k.ec == std::errc() && k.ptr == end && op.n % 8 == 0 && op.n >= 8 && op.n <= 256;
  }
  return false;
}

bool is_known(const Operand& o) { return o.kind == Operand::Kind::integer; }

// What follows scale-d: signs of a and b, then whether a (where it is in memory) and b are transposed.
bool read_immediates(const Instruction& i, std::size_t at, const Family& f, WarpgroupOp& op) {
  const auto& o = i.operands;
  std::size_t left = o.size() - at;
  const std::size_t transposes = f.transposes ? (op.a_registers ? 1 : 2) : 0;
  if (left != 0 && left != 2 && left != 2 + transposes) return false;
  if (left && !f.scales) return false;
  for (std::size_t n = at; n < o.size(); ++n)
    if (!is_known(o[n])) return false;
  if (left) {
    op.a_negated = std::int64_t(o[at].bits) < 0;
    op.b_negated = std::int64_t(o[at + 1].bits) < 0;
  }
  if (left > 2) {
    op.b_transposed = o.back().bits != 0;
    op.a_transposed = !op.a_registers && o[at + 2].bits != 0;
  }
  return true;
}

} // namespace

std::string describe_warpgroup(const Instruction& i, WarpgroupOp& op) {
  constexpr const char* unsupported = "shape or type not supported by the embedded device";
  op = {};
  const auto& o = i.operands;
  if (!read_shape(i, op) || i.types.size() != 3) return unsupported;
  const auto d = tensor_type(i.types[0]), a = tensor_type(i.types[1]), b = tensor_type(i.types[2]);
  if (!d || !a || !b) return unsupported;
  op.d = *d;
  op.a = *a;
  op.b = *b;
  op.sparse = i.has(Modifier::sp);
  op.satfinite = i.has(Modifier::satfinite);
  const Family* family = family_of(op);
  if (!family || op.k != family->k * (op.sparse ? 2 : 1) || (op.sparse && op.a == T::b1)) return unsupported;
  if (op.a == T::b1 && !i.has(Modifier::and_)) return unsupported;
  std::size_t scale_d = 3;
  if (op.sparse) { // d, a, b, metadata, selector
    if (o.size() < 6 || !is_known(o[4]) || o[4].bits > 3) return "operands";
    op.selector = std::uint8_t(o[4].bits);
    scale_d = 5;
  }
  if (o.size() <= scale_d || o[0].kind != Operand::Kind::vector) return "operands";
  op.a_registers = o[1].kind == Operand::Kind::vector;
  if (o[0].elements.size() != op.sum_words() || (op.a_registers && o[1].elements.size() != 4)) return "operands";
  return read_immediates(i, scale_d + 1, *family, op) ? "" : "operands";
}

} // namespace deadheat::engine
