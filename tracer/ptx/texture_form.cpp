// tex, tld4, suld and sust as they are written, in unified mode (PTX ISA, "Texture Instructions", "Surface
// Instructions"): [object, {layer, coordinates}].
#include <algorithm>

#include "tracer/ptx/operands.h"
#include "tracer/ptx/texture.h"

namespace deadheat::ptx {

namespace {

struct Shape {
  Modifier modifier;
  Geometry geometry;
  std::uint8_t coordinates; // without the layer
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

TextureTrouble take_object(const Instruction& i, std::size_t at, TextureInstruction& found) {
  if (i.operands.size() < 2 || i.operands[at].kind != Operand::Kind::address || i.operands[at].elements.empty())
    return TextureTrouble::operands;
  const Operand& o = i.operands[at];
  if (o.elements[0].kind == Operand::Kind::symbol) return TextureTrouble::references;
  if (o.elements.size() > 2) return TextureTrouble::samplers;
  if (o.elements.size() < 2 || o.offset) return TextureTrouble::operands;
  found.object = &o.elements[0];
  found.place = &o.elements[1];
  return TextureTrouble::none;
}

std::uint8_t gathered(const Instruction& i) {
  return i.has(Modifier::a) ? 3 : i.has(Modifier::b) ? 2 : i.has(Modifier::g) ? 1 : 0;
}

TextureTrouble take_fetch(const Instruction& i, TextureInstruction& found) {
  if (i.operands[0].kind != Operand::Kind::vector) return TextureTrouble::residency;
  if (i.types.size() != 2) return TextureTrouble::types;
  TextureForm& form = found.form;
  form.op = i.opcode == Opcode::tld4 ? TextureOp::gather : TextureOp::fetch;
  if (form.op == TextureOp::gather && form.geometry != Geometry::_2d && form.geometry != Geometry::a2d)
    return TextureTrouble::cube_gathers;
  form.level = i.has(Modifier::level)  ? LevelOperand::level
               : i.has(Modifier::grad) ? LevelOperand::gradient
                                       : LevelOperand::none;
  std::size_t next = 2;
  const std::size_t levels = std::size_t(form.level);
  if (i.operands.size() < next + levels) return TextureTrouble::operands;
  if (form.level == LevelOperand::level) found.level = &i.operands[next++];
  for (std::size_t n = 0; form.level == LevelOperand::gradient && n < 2; ++n) found.gradient[n] = &i.operands[next++];
  for (std::size_t n = next; n < i.operands.size(); ++n)
    if (i.operands[n].kind != Operand::Kind::vector) return TextureTrouble::depths;
  if (next < i.operands.size()) found.offset = &i.operands[next];
  form.integer_coordinates = i.types[1] == Type::s32;
  form.half_results = i.types[0] == Type::f16 || i.types[0] == Type::f16x2;
  if (form.op == TextureOp::gather) form.component = gathered(i);
  found.value = &i.operands[0];
  return TextureTrouble::none;
}

TextureTrouble take_surface(const Instruction& i, TextureInstruction& found) {
  const bool loads = i.opcode == Opcode::suld;
  found.elements = i.has(Modifier::v4) ? 4 : i.has(Modifier::v2) ? 2 : 1;
  found.element_bytes = std::uint8_t(std::max(bits(i.type()) / 8, 1u));
  if (found.elements * found.element_bytes > 16) return TextureTrouble::vectors;
  TextureForm& form = found.form;
  form.op = loads ? TextureOp::load : i.has(Modifier::p) ? TextureOp::store_formatted : TextureOp::store;
  form.out_of_range = i.has(Modifier::clamp)  ? OutOfRange::clamp
                      : i.has(Modifier::zero) ? OutOfRange::zero
                                              : OutOfRange::trap;
  form.access_bytes = std::uint8_t(found.elements * found.element_bytes);
  found.value = &i.operands[loads ? 0 : 1];
  const bool fits = found.value->kind != Operand::Kind::vector || found.value->elements.size() >= found.elements;
  return fits ? TextureTrouble::none : TextureTrouble::vectors;
}

} // namespace

TextureTrouble texture_instruction(const Instruction& i, TextureInstruction& found) {
  const Shape* shape = shape_of(i);
  if (!shape) return TextureTrouble::samples;
  found = {};
  found.form.geometry = shape->geometry;
  found.coordinates = shape->coordinates;
  found.layered = shape->layered;
  const TextureTrouble trouble = take_object(i, i.opcode == Opcode::sust ? 0 : 1, found);
  if (trouble != TextureTrouble::none) return trouble;
  return i.opcode == Opcode::suld || i.opcode == Opcode::sust ? take_surface(i, found) : take_fetch(i, found);
}

} // namespace deadheat::ptx
