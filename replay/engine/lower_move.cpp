// mov, cvta, isspacep, and instructions that do nothing here (PTX ISA 9.7.9).
#include "deadheat/address.h"
#include "replay/engine/builder.h"
#include "replay/engine/lower.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Operand;
using ptx::Type;

void lower_mov(Builder& b, const ptx::Instruction& i) {
  if (i.operands.size() < 2) return b.refuse("operands");
  const Operand& to = i.operands[0];
  const Operand& from = i.operands[1];
  unsigned bits = i.type() == Type::pred ? 1 : ptx::bits(i.type());
  if (b.is_raw(to) && b.register_bits(to) == bits) {
    Type type = bits == 64 ? Type::f64 : Type::f32;
    b.write_float(to, b.read_float(from, type));
    return;
  }
  if (to.kind == Operand::Kind::vector && from.kind == Operand::Kind::vector &&
      to.elements.size() == from.elements.size()) {
    std::vector<Value*> values;
    for (const Operand& o : from.elements) values.push_back(b.read(o, bits));
    for (std::size_t n = 0; n < values.size(); ++n) b.write(to.elements[n], values[n]);
    return;
  }
  b.write(to, b.read(from, bits));
}

// cvta.space: from the space's offsets to generic addresses; cvta.to.space: back. Global addresses are the same.
void lower_cvta(Builder& b, const ptx::Instruction& i) {
  if (i.operands.size() < 2) return b.refuse("operands");
  Space space = b.space_of(i);
  // A parameter of a function that is not a kernel lies in its frame.
  if (space == Space::param && !b.function.entry) space = Space::local;
  Value* v = b.read(i.operands[1], 64);
  std::uint64_t window = space == Space::shared  ? shared_window
                         : space == Space::local ? local_window
                         : space == Space::param ? param_window
                                                 : 0;
  if (window) {
    Value* low = b.ir.CreateAnd(v, b.constant(64, 0xffffffffu));
    v = i.has(Modifier::to) ? low : b.ir.CreateAdd(low, b.constant(64, window));
  }
  b.write(i.operands[0], v);
}

void lower_isspacep(Builder& b, const ptx::Instruction& i) {
  if (i.operands.size() < 2) return b.refuse("operands");
  Space space = b.space_of(i);
  Value* a = b.read(i.operands[1], 64);
  auto in = [&](std::uint64_t window) {
    return b.ir.CreateICmpULT(b.ir.CreateSub(a, b.constant(64, window)), b.constant(64, window_bytes));
  };
  Value* is;
  switch (space) {
    case Space::shared: {
      // .shared::cluster is the whole window, .shared::cta what lies in the block itself.
      const std::uint64_t size = i.has(Modifier::shared_cluster) ? window_bytes : cluster_offset_mask + 1;
      is = b.ir.CreateICmpULT(b.ir.CreateSub(a, b.constant(64, shared_window)), b.constant(64, size));
      break;
    }
    case Space::local: is = in(local_window); break;
    case Space::param: is = in(param_window); break;
    case Space::constant: is = b.ir.getFalse(); break;  // constants are not told from global memory
    default: is = b.ir.CreateICmpULT(a, b.constant(64, window_bit)); break;
  }
  b.write(i.operands[0], is);
}

void lower_nothing(Builder&, const ptx::Instruction&) {}

// A policy says where caches keep lines (PTX ISA 9.7.9.18): any value does, since what takes it looks at none.
void lower_createpolicy(Builder& b, const ptx::Instruction& i) { b.write(i.operands[0], b.constant(64, 0)); }

}  // namespace deadheat::engine
