// The words in which litmus programs are written (order_outcomes.h): read(x), write(y, release, gpu), fence(sc).
//
// Thread-safety: pure functions.
#pragma once

#include "tests/unit/order_outcomes.h"

namespace deadheat::test::litmus {

inline constexpr Ordering weak = Ordering::weak, relaxed = Ordering::relaxed, acquire = Ordering::acquire,
                          release = Ordering::release, acq_rel = Ordering::acq_rel, sc = Ordering::sc;
inline constexpr Scope cta = Scope::cta, gpu = Scope::gpu, no = Scope::none;
enum : std::uint32_t { x, y, z };

inline Op read(std::uint32_t v, Ordering o = weak, Scope s = no) { return {Op::Kind::read, v, o, s}; }
inline Op write(std::uint32_t v, Ordering o = weak, Scope s = no) { return {Op::Kind::write, v, o, s}; }
inline Op exchange(std::uint32_t v, Ordering o = relaxed, Scope s = gpu) { return {Op::Kind::exchange, v, o, s}; }
inline Op fence(Ordering o = acq_rel, Scope s = gpu) { return {Op::Kind::fence, 0, o, s}; }
inline Op pair(Op op) { // of its variable and the next
  op.elements = 2;
  return op;
}
inline Op barrier() { return {Op::Kind::barrier, 0, weak, no}; }

} // namespace deadheat::test::litmus
