// One line an opcode: what lowers it, and which of its forms are refused. Families live in lower_*.cpp.
//
// Thread-safety: constant tables.
#pragma once

#include <string>

#include "deadheat/ptx.h"

namespace deadheat::engine {

class Builder;
using Lowering = void (*)(Builder&, const ptx::Instruction&);

Lowering lowering_of(ptx::Opcode opcode);  // null: not supported
// Whether an instruction can run, without building it: empty, or the reason.
std::string refusal_of(const ptx::Instruction& instruction);

// ---- lower_integer.cpp, lower_bits.cpp
void lower_add(Builder&, const ptx::Instruction&);
void lower_sub(Builder&, const ptx::Instruction&);
void lower_mul(Builder&, const ptx::Instruction&);
void lower_mad(Builder&, const ptx::Instruction&);
void lower_addc(Builder&, const ptx::Instruction&);
void lower_madc(Builder&, const ptx::Instruction&);
void lower_mul24(Builder&, const ptx::Instruction&);
void lower_div(Builder&, const ptx::Instruction&);
void lower_rem(Builder&, const ptx::Instruction&);
void lower_abs(Builder&, const ptx::Instruction&);
void lower_neg(Builder&, const ptx::Instruction&);
void lower_minmax(Builder&, const ptx::Instruction&);
void lower_sad(Builder&, const ptx::Instruction&);
void lower_dp(Builder&, const ptx::Instruction&);
void lower_logic(Builder&, const ptx::Instruction&);
void lower_not(Builder&, const ptx::Instruction&);
void lower_shift(Builder&, const ptx::Instruction&);
void lower_shf(Builder&, const ptx::Instruction&);
void lower_lop3(Builder&, const ptx::Instruction&);
void lower_count(Builder&, const ptx::Instruction&);
void lower_bfind(Builder&, const ptx::Instruction&);
void lower_bfe(Builder&, const ptx::Instruction&);
void lower_bfi(Builder&, const ptx::Instruction&);
void lower_bmsk(Builder&, const ptx::Instruction&);
void lower_szext(Builder&, const ptx::Instruction&);
void lower_clmad(Builder&, const ptx::Instruction&);
void lower_fns(Builder&, const ptx::Instruction&);
void lower_prmt(Builder&, const ptx::Instruction&);
// ---- lower_video.cpp
void lower_simd_video(Builder&, const ptx::Instruction&);
// ---- lower_scalar_video.cpp
void lower_scalar_video(Builder&, const ptx::Instruction&);
// ---- lower_compare.cpp
void lower_set(Builder&, const ptx::Instruction&);
void lower_setp(Builder&, const ptx::Instruction&);
void lower_selp(Builder&, const ptx::Instruction&);
void lower_slct(Builder&, const ptx::Instruction&);
void lower_testp(Builder&, const ptx::Instruction&);
void lower_copysign(Builder&, const ptx::Instruction&);
// ---- lower_float.cpp, lower_half.cpp: called by the above for floating-point types
void lower_float(Builder&, const ptx::Instruction&);
void lower_half(Builder&, const ptx::Instruction&);
void lower_unary_float(Builder&, const ptx::Instruction&);  // rcp sqrt rsqrt ex2 lg2 sin cos tanh
void lower_fma(Builder&, const ptx::Instruction&);
// ---- lower_convert.cpp
void lower_cvt(Builder&, const ptx::Instruction&);
// ---- lower_move.cpp
void lower_mov(Builder&, const ptx::Instruction&);
void lower_cvta(Builder&, const ptx::Instruction&);
void lower_isspacep(Builder&, const ptx::Instruction&);
void lower_nothing(Builder&, const ptx::Instruction&);
void lower_createpolicy(Builder&, const ptx::Instruction&);
// ---- lower_memory.cpp, lower_atomic.cpp
void lower_ld(Builder&, const ptx::Instruction&);
void lower_st(Builder&, const ptx::Instruction&);
void lower_discard(Builder&, const ptx::Instruction&);
void lower_atom(Builder&, const ptx::Instruction&);
void lower_fence(Builder&, const ptx::Instruction&);
void lower_cp(Builder&, const ptx::Instruction&);
// ---- lower_control.cpp
void lower_bra(Builder&, const ptx::Instruction&);
void lower_brx(Builder&, const ptx::Instruction&);
void lower_call(Builder&, const ptx::Instruction&);
void lower_ret(Builder&, const ptx::Instruction&);
void lower_exit(Builder&, const ptx::Instruction&);
void lower_trap(Builder&, const ptx::Instruction&);
void lower_nanosleep(Builder&, const ptx::Instruction&);
void lower_alloca(Builder&, const ptx::Instruction&);
// ---- lower_warp.cpp
void lower_bar(Builder&, const ptx::Instruction&);
void lower_shfl(Builder&, const ptx::Instruction&);
void lower_vote(Builder&, const ptx::Instruction&);
void lower_match(Builder&, const ptx::Instruction&);
void lower_redux(Builder&, const ptx::Instruction&);
void lower_activemask(Builder&, const ptx::Instruction&);
void lower_elect(Builder&, const ptx::Instruction&);
// ---- lower_tensor.cpp, lower_warpgroup.cpp
void lower_warpgroup(Builder&, const ptx::Instruction&);  // wgmma
void lower_tensor(Builder&, const ptx::Instruction&);  // mma wmma ldmatrix stmatrix movmatrix

// ---- lower_texture.cpp
void lower_tex(Builder&, const ptx::Instruction&);            // tex tld4
void lower_surface(Builder&, const ptx::Instruction&);        // suld sust
void lower_texture_query(Builder&, const ptx::Instruction&);  // txq suq

// ---- lower_async.cpp
void lower_mbarrier(Builder&, const ptx::Instruction&);
void lower_bulk(Builder&, const ptx::Instruction&);           // cp.async.bulk…, called by lower_cp
void lower_box(Builder&, const ptx::Instruction&, std::uint64_t reduction); // …tensor…, called by lower_bulk
void lower_tensormap(Builder&, const ptx::Instruction&);
void lower_async_store(Builder&, const ptx::Instruction&);    // st.async, red.async, called by lower_st, lower_atom
void lower_bulk_store(Builder&, const ptx::Instruction&);     // st.bulk
void lower_async_arrive(Builder&, const ptx::Instruction&);   // cp.async.mbarrier.arrive, called by lower_cp
void lower_cluster_barrier(Builder&, const ptx::Instruction&); // called by lower_bar
void lower_mapa(Builder&, const ptx::Instruction&);
void lower_getctarank(Builder&, const ptx::Instruction&);
void lower_griddepcontrol(Builder&, const ptx::Instruction&);

// ---- type properties that several families need
inline bool is_float(ptx::Type t) { return t == ptx::Type::f32 || t == ptx::Type::f64; }
inline bool is_half(ptx::Type t) {
  return t == ptx::Type::f16 || t == ptx::Type::f16x2 || t == ptx::Type::bf16 || t == ptx::Type::bf16x2;
}
inline bool is_signed(ptx::Type t) {
  return t == ptx::Type::s8 || t == ptx::Type::s16 || t == ptx::Type::s32 || t == ptx::Type::s64 ||
         t == ptx::Type::s16x2;
}

}  // namespace deadheat::engine
