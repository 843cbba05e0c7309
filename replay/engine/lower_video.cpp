// SIMD video instructions (PTX ISA 9.7.17.2) without selectors, masks or merging: what nvcc's intrinsics make.
#include "replay/engine/builder.h"
#include "replay/engine/lower.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Type;

void lower_simd_video(Builder& b, const ptx::Instruction& i) {
  auto& ir = b.ir;
  const auto& o = i.operands;
  // vset gives truth values: it names the operands' types only.
  bool set = i.opcode == Opcode::vset2 || i.opcode == Opcode::vset4;
  if (o.size() < 4 || i.types.size() < (set ? 2u : 3u)) return b.refuse("operands");
  for (std::size_t n = 0; n < 3; ++n)
    if (o[n].text.find('.') != std::string_view::npos) return b.refuse("selectors");
  unsigned lanes = 2;
  switch (i.opcode) {
    case Opcode::vadd4:
    case Opcode::vsub4:
    case Opcode::vavrg4:
    case Opcode::vabsdiff4:
    case Opcode::vmin4:
    case Opcode::vmax4:
    case Opcode::vset4: lanes = 4; break;
    default: break;
  }
  unsigned width = 32 / lanes;
  auto of_signed = [](Type t) { return t == Type::s32; };
  std::size_t first = set ? 0 : 1;
  bool sd = of_signed(i.types[0]), sa = of_signed(i.types[first]), sb = of_signed(i.types[first + 1]);
  Value *x = b.read(o[1], 32), *y = b.read(o[2], 32), *c = b.read(o[3], 32);
  Value* packed = b.constant(32, 0);
  Value* sum = c;
  for (unsigned n = 0; n < lanes; ++n) {
    auto lane = [&](Value* v, bool s) {
      Value* t = ir.CreateTrunc(ir.CreateLShr(v, n * width), b.i(width));
      return s ? ir.CreateSExt(t, b.i(32)) : ir.CreateZExt(t, b.i(32));
    };
    Value *p = lane(x, sa), *q = lane(y, sb), *r;
    switch (i.opcode) {
      case Opcode::vadd2:
      case Opcode::vadd4: r = ir.CreateAdd(p, q); break;
      case Opcode::vsub2:
      case Opcode::vsub4: r = ir.CreateSub(p, q); break;
      case Opcode::vabsdiff2:
      case Opcode::vabsdiff4:
        r = ir.CreateBinaryIntrinsic(llvm::Intrinsic::abs, ir.CreateSub(p, q), b.constant(1, 0));
        break;
      case Opcode::vmin2:
      case Opcode::vmin4: r = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, p, q); break;
      case Opcode::vmax2:
      case Opcode::vmax4: r = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, p, q); break;
      case Opcode::vavrg2:
      case Opcode::vavrg4: {
        // Rounds half away from zero for a negative sum down: (a + b + ((a + b) >= 0)) >> 1.
        Value* t = ir.CreateAdd(p, q);
        Value* up = ir.CreateZExt(ir.CreateICmpSGE(t, b.constant(32, 0)), b.i(32));
        r = ir.CreateAShr(ir.CreateAdd(t, up), 1);
        break;
      }
      case Opcode::vset2:
      case Opcode::vset4: {
        Value* is = i.has(Modifier::eq)   ? ir.CreateICmpEQ(p, q)
                    : i.has(Modifier::ne) ? ir.CreateICmpNE(p, q)
                    : i.has(Modifier::lt) ? ir.CreateICmpSLT(p, q)
                    : i.has(Modifier::le) ? ir.CreateICmpSLE(p, q)
                    : i.has(Modifier::gt) ? ir.CreateICmpSGT(p, q)
                                          : ir.CreateICmpSGE(p, q);
        r = ir.CreateZExt(is, b.i(32));
        break;
      }
      default: return b.refuse("not supported");
    }
    if (i.has(Modifier::add)) {
      sum = ir.CreateAdd(sum, r);
      continue;
    }
    if (i.has(Modifier::sat)) {
      std::int64_t low = sd ? -(std::int64_t(1) << (width - 1)) : 0;
      std::int64_t high = sd ? (std::int64_t(1) << (width - 1)) - 1 : (std::int64_t(1) << width) - 1;
      r = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, r, b.constant(32, std::uint64_t(low)));
      r = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, r, b.constant(32, std::uint64_t(high)));
    }
    Value* cut = ir.CreateAnd(r, b.constant(32, (std::uint64_t(1) << width) - 1));
    packed = ir.CreateOr(packed, ir.CreateShl(cut, n * width));
  }
  b.write(o[0], i.has(Modifier::add) ? sum : packed);
}

}  // namespace deadheat::engine
