// From PTX to TensorOp: which shapes and types there are (PTX ISA 9.7.14.4.2, 9.7.14.5, table 35).
#include <algorithm>
#include <iterator>
#include <optional>

#include "replay/engine/lower_tensor.h"
#include "replay/engine/numeric.h"

namespace deadheat::engine {

using ptx::Instruction;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Type;

namespace {

struct Shape {
  Modifier modifier;
  std::uint8_t m, n;
  std::uint16_t k;
};
constexpr Shape shapes[] = {
    {Modifier::m8n8k4, 8, 8, 4},       {Modifier::m8n8k16, 8, 8, 16},     {Modifier::m8n8k32, 8, 8, 32},
    {Modifier::m8n8k128, 8, 8, 128},   {Modifier::m16n8k4, 16, 8, 4},     {Modifier::m16n8k8, 16, 8, 8},
    {Modifier::m16n8k16, 16, 8, 16},   {Modifier::m16n8k32, 16, 8, 32},   {Modifier::m16n8k64, 16, 8, 64},
    {Modifier::m16n8k128, 16, 8, 128}, {Modifier::m16n8k256, 16, 8, 256}, {Modifier::m16n16k16, 16, 16, 16},
    {Modifier::m8n32k16, 8, 32, 16},   {Modifier::m32n8k16, 32, 8, 16},   {Modifier::m16n16k8, 16, 16, 8},
};

using T = TensorType;

// One line a family: types of a and b, of c and d, and the shapes. b's type may differ from a's within a family.
struct Family {
  TensorType a[2];
  TensorType sums[2];
  Modifier shapes[4];
};
constexpr Modifier none = Modifier::unknown;
constexpr Family sparse_families[] = {
    {{T::f16, T::f16}, {T::f16, T::f32}, {Modifier::m16n8k16, Modifier::m16n8k32, none, none}},
    {{T::bf16, T::bf16}, {T::f32, T::f32}, {Modifier::m16n8k16, Modifier::m16n8k32, none, none}},
    {{T::tf32, T::tf32}, {T::f32, T::f32}, {Modifier::m16n8k8, Modifier::m16n8k16, none, none}},
    {{T::e4m3, T::e5m2}, {T::f32, T::f32}, {Modifier::m16n8k64, none, none, none}},
    {{T::s8, T::u8}, {T::s32, T::s32}, {Modifier::m16n8k32, Modifier::m16n8k64, none, none}},
    {{T::s4, T::u4}, {T::s32, T::s32}, {Modifier::m16n8k64, Modifier::m16n8k128, none, none}},
};
constexpr Family mma_families[] = {
    {{T::f16, T::f16}, {T::f16, T::f32}, {Modifier::m8n8k4, Modifier::m16n8k8, Modifier::m16n8k16, none}},
    {{T::bf16, T::bf16}, {T::f32, T::f32}, {Modifier::m16n8k8, Modifier::m16n8k16, none, none}},
    {{T::tf32, T::tf32}, {T::f32, T::f32}, {Modifier::m16n8k4, Modifier::m16n8k8, none, none}},
    {{T::e4m3, T::e5m2}, {T::f16, T::f32}, {Modifier::m16n8k16, Modifier::m16n8k32, none, none}},
    {{T::f64, T::f64}, {T::f64, T::f64}, {Modifier::m8n8k4, Modifier::m16n8k4, Modifier::m16n8k8, Modifier::m16n8k16}},
    {{T::s8, T::u8}, {T::s32, T::s32}, {Modifier::m8n8k16, Modifier::m16n8k16, Modifier::m16n8k32, none}},
    {{T::s4, T::u4}, {T::s32, T::s32}, {Modifier::m8n8k32, Modifier::m16n8k32, Modifier::m16n8k64, none}},
    {{T::b1, T::b1}, {T::s32, T::s32}, {Modifier::m8n8k128, Modifier::m16n8k128, Modifier::m16n8k256, none}},
};
constexpr Family wmma_families[] = {
    {{T::f16, T::f16}, {T::f16, T::f32}, {Modifier::m16n16k16, Modifier::m8n32k16, Modifier::m32n8k16, none}},
    {{T::bf16, T::bf16}, {T::f32, T::f32}, {Modifier::m16n16k16, Modifier::m8n32k16, Modifier::m32n8k16, none}},
    {{T::tf32, T::tf32}, {T::f32, T::f32}, {Modifier::m16n16k8, none, none, none}},
    {{T::f64, T::f64}, {T::f64, T::f64}, {Modifier::m8n8k4, none, none, none}},
    {{T::s8, T::u8}, {T::s32, T::s32}, {Modifier::m16n16k16, Modifier::m8n32k16, Modifier::m32n8k16, none}},
    {{T::s4, T::u4}, {T::s32, T::s32}, {Modifier::m8n8k32, none, none, none}},
    {{T::b1, T::b1}, {T::s32, T::s32}, {Modifier::m8n8k128, none, none, none}},
};

template <typename List, typename V>
bool one_of(const List& list, const V& v) {
  return std::find(std::begin(list), std::end(list), v) != std::end(list);
}

bool known(const Family& f, Modifier shape, T a, T b) {
  return one_of(f.shapes, shape) && one_of(f.a, a) && one_of(f.a, b);
}

std::string describe_rows(const Instruction& i, TensorOp& op) {
  op.kind = i.opcode == Opcode::ldmatrix   ? TensorKind::ldmatrix
            : i.opcode == Opcode::stmatrix ? TensorKind::stmatrix
                                           : TensorKind::movmatrix;
  op.trans = i.has(Modifier::trans);
  op.count = i.has(Modifier::x4) ? 4 : i.has(Modifier::x2) ? 2 : 1;
  if (i.operands.size() < 2) return "operands";
  const bool load = op.kind == TensorKind::ldmatrix, store = op.kind == TensorKind::stmatrix;
  const Type type = i.types.size() == 1 ? i.type() : Type::none;
  if (i.has(Modifier::m8n8) && type == Type::b16) return "";
  const bool unpacks = load && i.has(Modifier::b8x16);
  op.rows = unpacks && i.has(Modifier::b6x16_p32)   ? RowFormat::b6
            : unpacks && i.has(Modifier::b4x16_p64) ? RowFormat::b4
            : type == Type::b8                      ? RowFormat::b8
                                                    : RowFormat::b16;
  const bool bytes = op.rows != RowFormat::b16;
  if (load && bytes && i.has(Modifier::m16n16) && op.trans && op.count < 4) {
    op.count = std::uint8_t(op.count * 2); // two words a matrix
    return "";
  }
  if (load && unpacks && bytes && i.has(Modifier::m8n16) && !op.trans) return "";
  if (store && op.rows == RowFormat::b8 && i.has(Modifier::m16n8) && op.trans) return "";
  return "form";
}

}  // namespace

std::optional<TensorType> tensor_type(Type t) {
  switch (t) {
    case Type::f16: return TensorType::f16;
    case Type::bf16: return TensorType::bf16;
    case Type::tf32: return TensorType::tf32;
    case Type::f32: return TensorType::f32;
    case Type::f64: return TensorType::f64;
    case Type::e4m3: return TensorType::e4m3;
    case Type::e5m2: return TensorType::e5m2;
    case Type::s8: return TensorType::s8;
    case Type::u8: return TensorType::u8;
    case Type::s4: return TensorType::s4;
    case Type::u4: return TensorType::u4;
    case Type::b1: return TensorType::b1;
    case Type::s32: return TensorType::s32;
    default: return std::nullopt;
  }
}

bool is_matrix_access(const Instruction& i) {
  return i.opcode == Opcode::ldmatrix || i.opcode == Opcode::stmatrix ||
         (i.opcode == Opcode::wmma && !i.has(Modifier::mma)) ||
         (i.opcode == Opcode::wgmma && i.has(Modifier::mma_async));
}

std::string describe_tensor(const Instruction& i, TensorOp& op) {
  constexpr const char* unsupported = "shape or type not supported by the embedded device";
  op = {};
  if (i.opcode != Opcode::mma && i.opcode != Opcode::wmma) return describe_rows(i, op);
  const Shape* shape = nullptr;
  for (const Shape& s : shapes)
    if (i.has(s.modifier)) shape = &s;
  if (!shape) return unsupported;
  op.m = shape->m;
  op.n = shape->n;
  op.k = shape->k;
  for (Modifier m : i.modifiers) {
    std::string_view text = ptx::name(m);
    if (text.starts_with("kind") || text.starts_with("block_scale"))
      return "scaled and mixed products are not supported by the embedded device";
  }
  std::vector<T> types;
  for (Type t : i.types) {
    auto known_type = tensor_type(t);
    if (!known_type) return unsupported;
    types.push_back(*known_type);
  }
  bool wmma = i.opcode == Opcode::wmma, access = is_matrix_access(i);
  op.sparse = i.has(Modifier::sp) || i.has(Modifier::sp_ordered_metadata);
  const Family* begin = wmma        ? std::begin(wmma_families)
                        : op.sparse ? std::begin(sparse_families)
                                    : std::begin(mma_families);
  const Family* end = wmma ? std::end(wmma_families) : op.sparse ? std::end(sparse_families) : std::end(mma_families);
  // Layouts in the order written: of a and b, or of the one matrix in memory.
  std::vector<bool> columns;
  for (std::string_view text : i.modifier_texts)
    if (text == "row" || text == "col") columns.push_back(text == "col");
  if (access) {
    op.kind = i.has(Modifier::store) ? TensorKind::store_d
              : i.has(Modifier::a)   ? TensorKind::load_a
              : i.has(Modifier::b)   ? TensorKind::load_b
                                     : TensorKind::load_c;
    if (types.size() != 1 || columns.size() != 1 || i.operands.size() < 2) return "types, layout or operands";
    op.a = op.b = op.c = op.d = types[0];
    op.col = columns[0];
    bool sums = op.kind == TensorKind::load_c || op.kind == TensorKind::store_d;
    return std::any_of(begin, end,
                       [&](const Family& f) {
                         return one_of(f.shapes, shape->modifier) && one_of(sums ? f.sums : f.a, types[0]);
                       })
               ? ""
               : unsupported;
  }
  op.kind = wmma ? TensorKind::wmma : TensorKind::mma;
  if (types.size() == 2) types = {types[0], T::f16, T::f16, types[1]};  // wmma of f16 names d and c only
  if (types.size() != 4 || columns.size() != 2 || i.operands.size() < 4) return "types, layouts or operands";
  if (op.sparse) { // d, a, b, c, metadata, selector
    if (i.operands.size() < 6 || i.operands[5].kind != ptx::Operand::Kind::integer || i.operands[5].bits > 3)
      return "operands";
    op.selector = std::uint8_t(i.operands[5].bits);
  }
  op.d = types[0];
  op.a = types[1];
  op.b = types[2];
  op.c = types[3];
  op.a_col = columns[0];
  op.b_col = columns[1];
  op.satfinite = i.has(Modifier::satfinite);
  op.bit_and = i.has(Modifier::and_);
  op.rounding = std::uint8_t(i.has(Modifier::rz)   ? numeric::Rounding::zero
                             : i.has(Modifier::rm) ? numeric::Rounding::down
                             : i.has(Modifier::rp) ? numeric::Rounding::up
                                                   : numeric::Rounding::nearest);
  bool volta = op.m == 8 && op.a == T::f16;
  if (!wmma && !volta && (op.a_col || !op.b_col)) return "layout";
  if (!wmma && !volta && op.c != op.d) return unsupported;
  for (const Family* f = begin; f != end; ++f)
    if (known(*f, shape->modifier, op.a, op.b) && one_of(f->sums, op.c) && one_of(f->sums, op.d)) return "";
  return unsupported;
}

}  // namespace deadheat::engine
