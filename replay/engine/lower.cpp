#include "replay/engine/lower.h"

#include "replay/engine/lower_tensor.h"
#include "replay/engine/lower_texture.h"
#include "replay/engine/warpgroup.h"
#include "tracer/ptx/sites.h"

#include <array>

namespace deadheat::engine {

using ptx::Instruction;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Type;

namespace {

struct Line {
  Opcode opcode;
  Lowering lowering;
};

// clang-format off
constexpr Line lines[] = {
    // integer arithmetic (floating-point types go on to lower_float and lower_half)
    {Opcode::add, lower_add}, {Opcode::sub, lower_sub}, {Opcode::addc, lower_addc}, {Opcode::subc, lower_addc},
    {Opcode::mul, lower_mul}, {Opcode::mad, lower_mad}, {Opcode::madc, lower_madc}, {Opcode::mul24, lower_mul24},
    {Opcode::mad24, lower_mul24}, {Opcode::div, lower_div}, {Opcode::rem, lower_rem}, {Opcode::abs, lower_abs},
    {Opcode::neg, lower_neg}, {Opcode::min, lower_minmax}, {Opcode::max, lower_minmax}, {Opcode::sad, lower_sad},
    {Opcode::dp2a, lower_dp}, {Opcode::dp4a, lower_dp}, {Opcode::clmad, lower_clmad},
    // bits
    {Opcode::and_, lower_logic}, {Opcode::or_, lower_logic}, {Opcode::xor_, lower_logic}, {Opcode::not_, lower_not},
    {Opcode::cnot, lower_not}, {Opcode::shl, lower_shift}, {Opcode::shr, lower_shift}, {Opcode::shf, lower_shf},
    {Opcode::lop3, lower_lop3}, {Opcode::popc, lower_count}, {Opcode::clz, lower_count}, {Opcode::brev, lower_count},
    {Opcode::bfind, lower_bfind}, {Opcode::bfe, lower_bfe}, {Opcode::bfi, lower_bfi}, {Opcode::bmsk, lower_bmsk},
    {Opcode::szext, lower_szext}, {Opcode::fns, lower_fns}, {Opcode::prmt, lower_prmt},
    // scalar video
    {Opcode::vadd, lower_scalar_video}, {Opcode::vsub, lower_scalar_video}, {Opcode::vabsdiff, lower_scalar_video},
    {Opcode::vmin, lower_scalar_video}, {Opcode::vmax, lower_scalar_video}, {Opcode::vshl, lower_scalar_video},
    {Opcode::vshr, lower_scalar_video}, {Opcode::vmad, lower_scalar_video}, {Opcode::vset, lower_scalar_video},
    // SIMD video
    {Opcode::vadd2, lower_simd_video}, {Opcode::vadd4, lower_simd_video}, {Opcode::vsub2, lower_simd_video},
    {Opcode::vsub4, lower_simd_video}, {Opcode::vavrg2, lower_simd_video}, {Opcode::vavrg4, lower_simd_video},
    {Opcode::vabsdiff2, lower_simd_video}, {Opcode::vabsdiff4, lower_simd_video}, {Opcode::vmin2, lower_simd_video},
    {Opcode::vmin4, lower_simd_video}, {Opcode::vmax2, lower_simd_video}, {Opcode::vmax4, lower_simd_video},
    {Opcode::vset2, lower_simd_video}, {Opcode::vset4, lower_simd_video},
    // floating point
    {Opcode::fma, lower_fma}, {Opcode::rcp, lower_unary_float}, {Opcode::sqrt, lower_unary_float},
    {Opcode::rsqrt, lower_unary_float}, {Opcode::ex2, lower_unary_float}, {Opcode::lg2, lower_unary_float},
    {Opcode::sin, lower_unary_float}, {Opcode::cos, lower_unary_float}, {Opcode::tanh, lower_unary_float},
    {Opcode::testp, lower_testp}, {Opcode::copysign, lower_copysign},
    // comparison, selection, conversion, movement
    {Opcode::set, lower_set}, {Opcode::setp, lower_setp}, {Opcode::selp, lower_selp}, {Opcode::slct, lower_slct},
    {Opcode::cvt, lower_cvt}, {Opcode::mov, lower_mov}, {Opcode::cvta, lower_cvta}, {Opcode::isspacep, lower_isspacep},
    // memory
    {Opcode::ld, lower_ld}, {Opcode::ldu, lower_ld}, {Opcode::st, lower_st}, {Opcode::atom, lower_atom},
    {Opcode::red, lower_atom}, {Opcode::membar, lower_fence}, {Opcode::fence, lower_fence}, {Opcode::cp, lower_cp},
    {Opcode::prefetch, lower_nothing}, {Opcode::prefetchu, lower_nothing}, {Opcode::discard, lower_discard},
    {Opcode::applypriority, lower_nothing},
    // control
    {Opcode::bra, lower_bra}, {Opcode::brx, lower_brx}, {Opcode::call, lower_call}, {Opcode::ret, lower_ret},
    {Opcode::exit, lower_exit}, {Opcode::trap, lower_trap}, {Opcode::brkpt, lower_trap},
    {Opcode::nanosleep, lower_nanosleep}, {Opcode::alloca, lower_alloca}, {Opcode::stacksave, lower_alloca},
    {Opcode::stackrestore, lower_alloca}, {Opcode::pmevent, lower_nothing}, {Opcode::setmaxnreg, lower_nothing},
    {Opcode::griddepcontrol, lower_griddepcontrol},
    {Opcode::createpolicy, lower_createpolicy},
    // threads together
    {Opcode::bar, lower_bar}, {Opcode::barrier, lower_bar}, {Opcode::shfl, lower_shfl}, {Opcode::vote, lower_vote},
    {Opcode::match, lower_match}, {Opcode::redux, lower_redux}, {Opcode::activemask, lower_activemask},
    {Opcode::elect, lower_elect},
    {Opcode::mbarrier, lower_mbarrier}, {Opcode::tensormap, lower_tensormap},
    // clusters
    {Opcode::mapa, lower_mapa}, {Opcode::getctarank, lower_getctarank},
    // matrices
    {Opcode::mma, lower_tensor}, {Opcode::wmma, lower_tensor}, {Opcode::ldmatrix, lower_tensor},
    {Opcode::stmatrix, lower_tensor}, {Opcode::movmatrix, lower_tensor}, {Opcode::wgmma, lower_warpgroup},
    // textures and surfaces
    {Opcode::tex, lower_tex}, {Opcode::tld4, lower_tex}, {Opcode::suld, lower_surface}, {Opcode::sust, lower_surface},
    {Opcode::txq, lower_texture_query}, {Opcode::suq, lower_texture_query}};
// clang-format on

constexpr std::size_t opcode_count = []() {
  std::size_t n = 1;
#define DEADHEAT_PTX_OPCODE(id, text) ++n;
#include "deadheat/ptx_opcodes.def"
#undef DEADHEAT_PTX_OPCODE
  return n;
}();

constexpr auto table = []() {
  std::array<Lowering, opcode_count> t{};
  for (const Line& line : lines) t[std::size_t(line.opcode)] = line.lowering;
  return t;
}();

} // namespace

Lowering lowering_of(Opcode opcode) { return table[std::size_t(opcode)]; }

std::string refusal_of(const Instruction& i) {
  for (Modifier m : i.modifiers) {
    if (m == Modifier::unknown) return "unknown modifier";
    if (m == Modifier::rs) return "stochastic rounding is not supported by the embedded device";
  }
  switch (i.opcode) {
    case Opcode::cp:
      if (i.has(Modifier::tile_gather4) || i.has(Modifier::tile_scatter4))
        return "rows of tensors that indices name are not supported by the embedded device";
      if (i.has(Modifier::im2col_w) || i.has(Modifier::im2col_w_128))
        return "im2col::w is not supported by the embedded device";
      if (i.has(Modifier::cta_group_1) || i.has(Modifier::cta_group_2))
        return "pairs of blocks are not supported by the embedded device";
      if (i.has(Modifier::cp_mask)) return "byte masks are not supported by the embedded device";
      if (i.has(Modifier::ignore_oob)) return "ignored bytes are not supported by the embedded device";
      break;
    case Opcode::st:
    case Opcode::red:
      if (i.has(Modifier::async) && !ptx::completes_on_mbarrier(i))
        return "asynchronous stores to global memory are not supported by the embedded device";
      break;
    case Opcode::mma:
    case Opcode::wmma:
    case Opcode::ldmatrix:
    case Opcode::stmatrix:
    case Opcode::movmatrix: {
      TensorOp op;
      return describe_tensor(i, op);
    }
    case Opcode::wgmma: {
      WarpgroupOp op;
      return i.has(Modifier::mma_async) ? describe_warpgroup(i, op) : "";
    }
    case Opcode::tex:
    case Opcode::tld4:
    case Opcode::suld:
    case Opcode::sust:
    case Opcode::txq:
    case Opcode::suq: return texture_refusal(i);
    default: break;
  }
  for (Type t : i.types)
    if (t == Type::ue8m0) return "type not supported by the embedded device";
  return {};
}

} // namespace deadheat::engine
