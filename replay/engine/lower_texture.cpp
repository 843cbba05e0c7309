// tex, tld4, txq, suld, sust, suq (PTX ISA, "Texture Instructions", "Surface Instructions"), in unified mode.
#include "replay/engine/lower_texture.h"

#include <array>
#include <cstring>
#include <optional>

#include "replay/engine/lower.h"
#include "replay/engine/texture.h"
#include "replay/engine/undefined.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Instruction;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

namespace {

struct Shape {
  Modifier modifier;
  Geometry geometry;
  unsigned coordinates; // without the layer
  bool layered;
};
constexpr Shape shapes[] = {{Modifier::_1d, Geometry::_1d, 1, false},   {Modifier::_2d, Geometry::_2d, 2, false},
                            {Modifier::_3d, Geometry::_3d, 3, false},   {Modifier::a1d, Geometry::a1d, 1, true},
                            {Modifier::a2d, Geometry::a2d, 2, true},    {Modifier::cube, Geometry::cube, 3, false},
                            {Modifier::acube, Geometry::acube, 3, true}};

const Shape* shape_of(const Instruction& i) {
  for (const Shape& s : shapes)
    if (i.has(s.modifier)) return &s;
  return nullptr;
}

bool of_surface(Opcode o) { return o == Opcode::suld || o == Opcode::sust; }

// The operand that names the object: [object, {coordinates}].
std::size_t object_operand(const Instruction& i) { return i.opcode == Opcode::sust ? 0 : 1; }

// ---- forms that are refused

std::string refusal_of_operands(const Instruction& i) {
  const std::size_t at = object_operand(i);
  if (i.operands.size() < 2 || i.operands[at].kind != Operand::Kind::address || i.operands[at].elements.empty())
    return "operands";
  const Operand& o = i.operands[at];
  if (o.elements[0].kind == Operand::Kind::symbol)
    return "texture and surface references are not supported by the embedded device: objects are";
  if (o.elements.size() > 2) return "separate samplers are not supported by the embedded device";
  if (o.elements.size() < 2 || o.offset) return "operands";
  return {};
}

std::string refusal_of_fetch(const Instruction& i) {
  if (i.operands[0].kind != Operand::Kind::vector)
    return "answers whether texels are resident are not supported by the embedded device";
  if (i.types.size() != 2) return "types";
  if (i.opcode == Opcode::tld4 && !i.has(Modifier::_2d) && !i.has(Modifier::a2d))
    return "gathers from cube maps are not supported by the embedded device";
  const std::size_t levels = i.has(Modifier::level) ? 1 : i.has(Modifier::grad) ? 2 : 0;
  if (i.operands.size() < 2 + levels) return "operands";
  for (std::size_t n = 2 + levels; n < i.operands.size(); ++n)
    if (i.operands[n].kind != Operand::Kind::vector)
      return "comparisons of depths are not supported by the embedded device";
  return {};
}

std::optional<TextureQuery> query_of(const Instruction& i) {
  struct Line {
    Modifier word;
    TextureQuery query;
  };
  static constexpr Line lines[] = {{Modifier::width, TextureQuery::width},
                                   {Modifier::height, TextureQuery::height},
                                   {Modifier::depth, TextureQuery::depth},
                                   {Modifier::channel_data_type, TextureQuery::channel_data_type},
                                   {Modifier::channel_order, TextureQuery::channel_order},
                                   {Modifier::normalized_coords, TextureQuery::normalized_coords},
                                   {Modifier::array_size, TextureQuery::array_size},
                                   {Modifier::num_mipmap_levels, TextureQuery::num_mipmap_levels},
                                   {Modifier::num_samples, TextureQuery::num_samples},
                                   {Modifier::filter_mode, TextureQuery::filter_mode},
                                   {Modifier::addr_mode_0, TextureQuery::addr_mode_0},
                                   {Modifier::addr_mode_1, TextureQuery::addr_mode_1},
                                   {Modifier::addr_mode_2, TextureQuery::addr_mode_2}};
  for (const Line& line : lines)
    if (i.has(line.word)) return line.query;
  return std::nullopt;
}

// ---- the access in the frame

class Lowered {
 public:
  Lowered(Builder& b, const Instruction& i) : b_(b), i_(i), slot_(b.texture_slot()) {}

  void put(std::size_t offset, Value* v) { b_.context_store(b_.frame(), slot_ + offset, v); }
  void put(std::size_t offset, std::uint32_t v) { put(offset, b_.constant(32, v)); }
  Value* get(std::size_t offset, unsigned bits) { return b_.context_load(b_.frame(), slot_ + offset, b_.i(bits)); }

  void object(const TextureForm& form) {
    const Operand& o = i_.operands[object_operand(i_)];
    std::uint64_t code = 0;
    std::memcpy(&code, &form, sizeof code);
    put(offsetof(TextureAccess, object), b_.read(o.elements[0], 64));
    put(offsetof(TextureAccess, form), b_.constant(64, code));
    put(offsetof(TextureAccess, site), b_.site->id);
    put(offsetof(TextureAccess, texel_site), b_.tables.texels.at(b_.statement));
    put(offsetof(TextureAccess, phase), 0u);
  }

  // A vector of 32-bit words, or one alone.
  void words(std::size_t offset, const Operand& from, std::size_t first, std::size_t count) {
    for (std::size_t n = 0; n < count; ++n) {
      const bool vector = from.kind == Operand::Kind::vector;
      const bool given = vector ? first + n < from.elements.size() : n == 0;
      put(offset + 4 * n,
          given ? b_.read(vector ? from.elements[first + n] : from, 32) : static_cast<Value*>(b_.constant(32, 0)));
    }
  }

  void coordinates(const Shape& shape) {
    const Operand& at = i_.operands[object_operand(i_)].elements[1];
    if (shape.layered)
      words(offsetof(TextureAccess, layer), at, 0, 1);
    else
      put(offsetof(TextureAccess, layer), 0u);
    words(offsetof(TextureAccess, coordinate), at, shape.layered ? 1 : 0, shape.coordinates);
    for (std::size_t n = shape.coordinates; n < 3; ++n) put(offsetof(TextureAccess, coordinate) + 4 * n, 0u);
  }

  void run() {
    std::uint32_t mode = 0;
    if (b_.mode.record) mode |= texture_record;
    if (b_.mode.control) mode |= texture_control;
    if (b_.mode.written && b_.undefined) mode |= texture_written;
    llvm::BasicBlock *going = b_.new_block("texture"), *done = b_.new_block("texture_done");
    b_.ir.CreateBr(going);
    b_.ir.SetInsertPoint(going);
    Value* step = b_.call_helper(reinterpret_cast<const void*>(&deadheat_texture_step), b_.i(32),
                                 {b_.thread(), b_.pointer_at(b_.frame(), slot_), b_.constant(32, mode)}, false);
    const auto is = [&](TextureStep what) { return b_.ir.CreateICmpEQ(step, b_.constant(32, std::uint64_t(what))); };
    llvm::BasicBlock *ahead = b_.new_block("texture_stops"), *fault = b_.new_block("texture_fault");
    b_.ir.CreateCondBr(is(TextureStep::done), done, ahead);
    b_.ir.SetInsertPoint(ahead);
    if (b_.mode.control) {
      llvm::BasicBlock* stop = b_.new_block("texture_stop");
      b_.ir.CreateCondBr(is(TextureStep::fault), fault, stop);
      b_.ir.SetInsertPoint(stop);
      b_.stop_with(b_.constant(32, std::uint64_t(Step::visible)), going);
    } else {
      b_.ir.CreateBr(fault);
    }
    b_.ir.SetInsertPoint(fault);
    b_.finish(std::int32_t(Step::fault));
    b_.ir.SetInsertPoint(done);
  }

  void result(const Operand& to, std::size_t at, unsigned bits) {
    b_.write(to, get(offsetof(TextureAccess, value) + at, bits));
    if (b_.undefined) b_.undefined->set(to, get(offsetof(TextureAccess, undefined) + at, bits));
  }

  // Two halves in one register.
  void result_pair(const Operand& to, std::size_t at) {
    const auto both = [&](std::size_t offset) {
      Value* high = b_.ir.CreateShl(get(offset + at + 4, 32), 16);
      return b_.ir.CreateOr(b_.ir.CreateAnd(get(offset + at, 32), b_.constant(32, 0xffff)), high);
    };
    b_.write(to, both(offsetof(TextureAccess, value)));
    if (b_.undefined) b_.undefined->set(to, both(offsetof(TextureAccess, undefined)));
  }

 private:
  Builder& b_;
  const Instruction& i_;
  const std::uint32_t slot_;
};

unsigned element_count(const Instruction& i) { return i.has(Modifier::v4) ? 4 : i.has(Modifier::v2) ? 2 : 1; }

OutOfRange out_of_range(const Instruction& i) {
  return i.has(Modifier::clamp) ? OutOfRange::clamp : i.has(Modifier::zero) ? OutOfRange::zero : OutOfRange::trap;
}

const Operand& element(const Operand& o, unsigned n) { return o.kind == Operand::Kind::vector ? o.elements[n] : o; }

std::uint8_t gathered(const Instruction& i) {
  return i.has(Modifier::a) ? 3 : i.has(Modifier::b) ? 2 : i.has(Modifier::g) ? 1 : 0;
}

} // namespace

bool is_texture_access(const Instruction& i) {
  return i.opcode == Opcode::tex || i.opcode == Opcode::tld4 || of_surface(i.opcode);
}

std::string texture_refusal(const Instruction& i) {
  if (i.opcode == Opcode::txq || i.opcode == Opcode::suq) {
    if (i.operands.size() < 2 || i.operands[1].kind != Operand::Kind::address) return "operands";
    if (!query_of(i)) return "query not supported by the embedded device";
    return i.operands[1].elements[0].kind == Operand::Kind::symbol
               ? "texture and surface references are not supported by the embedded device: objects are"
               : "";
  }
  if (!shape_of(i)) return "textures of several samples are not supported by the embedded device";
  if (const std::string why = refusal_of_operands(i); !why.empty()) return why;
  return of_surface(i.opcode) ? std::string() : refusal_of_fetch(i);
}

void lower_tex(Builder& b, const Instruction& i) {
  const Shape& shape = *shape_of(i);
  TextureForm form;
  form.op = i.opcode == Opcode::tld4 ? TextureOp::gather : TextureOp::fetch;
  form.geometry = shape.geometry;
  form.integer_coordinates = i.types[1] == Type::s32;
  form.half_results = is_half(i.types[0]);
  if (form.op == TextureOp::gather) form.component = gathered(i);
  form.level = i.has(Modifier::level)  ? LevelOperand::level
               : i.has(Modifier::grad) ? LevelOperand::gradient
                                       : LevelOperand::none;
  Lowered l(b, i);
  l.object(form);
  l.coordinates(shape);
  std::size_t next = 2;
  if (form.level == LevelOperand::level) l.words(offsetof(TextureAccess, level), i.operands[next++], 0, 1);
  if (form.level == LevelOperand::gradient)
    for (unsigned n = 0; n < 2; ++n) l.words(offsetof(TextureAccess, gradient) + 12 * n, i.operands[next++], 0, 3);
  Operand nowhere;
  nowhere.kind = Operand::Kind::vector;
  l.words(offsetof(TextureAccess, offset), next < i.operands.size() ? i.operands[next] : nowhere, 0, 3);
  l.run();
  const Operand& to = i.operands[0];
  const bool pairs = i.types[0] == Type::f16x2;
  const unsigned bits = form.half_results ? 16 : 32;
  for (unsigned n = 0; n < to.elements.size() && n < 4; ++n) {
    if (pairs)
      l.result_pair(to.elements[n], 8 * n);
    else
      l.result(to.elements[n], 4 * n, bits);
  }
}

void lower_surface(Builder& b, const Instruction& i) {
  const bool loads = i.opcode == Opcode::suld, formatted = i.has(Modifier::p);
  const unsigned elements = element_count(i), bytes = std::max(ptx::bits(i.type()) / 8, 1u);
  if (elements * bytes > 16) return b.refuse("vector operand");
  TextureForm form;
  form.op = loads ? TextureOp::load : formatted ? TextureOp::store_formatted : TextureOp::store;
  form.geometry = shape_of(i)->geometry;
  form.out_of_range = out_of_range(i);
  form.access_bytes = std::uint8_t(elements * bytes);
  const Operand& value = i.operands[loads ? 0 : 1];
  if (value.kind == Operand::Kind::vector && value.elements.size() < elements) return b.refuse("vector operand");
  Lowered l(b, i);
  l.object(form);
  l.coordinates(*shape_of(i));
  if (!loads) {
    for (std::size_t n = 0; n < 4; ++n) l.put(offsetof(TextureAccess, value) + 4 * n, 0u);
    for (unsigned n = 0; n < elements; ++n)
      l.put(offsetof(TextureAccess, value) + bytes * n, b.read(element(value, n), 8 * bytes));
  }
  l.run();
  if (loads)
    for (unsigned n = 0; n < elements; ++n) l.result(element(value, n), bytes * n, 8 * bytes);
}

// txq.tquery.b32 d, [a] and, of levels, {, lod}; suq.query.b32 d, [a]
void lower_texture_query(Builder& b, const Instruction& i) {
  if (b.in_regions()) return b.refuse("queries inside a region");
  Value* level = i.operands.size() > 2 ? b.read(i.operands[2], 32) : static_cast<Value*>(b.constant(32, 0));
  Value* answer = b.call_helper(
      reinterpret_cast<const void*>(&deadheat_texture_query), b.i(32),
      {b.thread(), b.read(i.operands[1].elements[0], 64), b.constant(32, std::uint64_t(*query_of(i))), level}, false);
  b.write(i.operands[0], answer);
}

} // namespace deadheat::engine
