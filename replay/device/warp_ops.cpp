// Rendezvous of lanes: bar.warp.sync, shfl, vote, match, redux, activemask, elect, and what matrix instructions do
// (PTX ISA 9.7.9, 9.7.13, 9.7.14).
#include <algorithm>

#include "replay/device/holds.h"
#include "replay/device/machine.h"
#include "replay/device/watch.h"
#include "replay/engine/shadow.h"
#include "replay/engine/tensor.h"
#include "replay/engine/tensor_shadows.h"
#include "replay/engine/tensor_undefined.h"

namespace deadheat::device {

using engine::reduces;
using engine::ThreadContext;
using engine::WarpOp;

namespace {

// shfl.sync (PTX ISA 9.7.9.6): which lane's value `lane` gets, and whether that lane is in its segment.
struct Source {
  std::int32_t lane;
  bool inside;
};
Source shuffle_source(WarpOp op, std::int32_t lane, std::uint32_t operand, std::uint32_t control) {
  const std::int32_t b = std::int32_t(operand & 31), clamp = std::int32_t(control & 31);
  const std::int32_t segment = std::int32_t(control >> 8 & 31);
  const std::int32_t low = lane & segment, high = low | (clamp & ~segment);
  std::int32_t from = lane;
  bool inside = false;
  switch (op) {
    case WarpOp::shfl_up:
      from = lane - b;
      inside = from >= high;
      break;
    case WarpOp::shfl_down:
      from = lane + b;
      inside = from <= high;
      break;
    case WarpOp::shfl_bfly:
      from = lane ^ b;
      inside = from <= high;
      break;
    default:
      from = low | (b & ~segment);
      inside = from <= high;
      break;
  }
  if (!inside) from = lane;
  return {from & 31, inside};
}

std::uint32_t reduce(WarpOp op, std::uint32_t a, std::uint32_t b) {
  switch (op) {
    case WarpOp::redux_add: return a + b;
    case WarpOp::redux_min_s: return std::uint32_t(std::min(std::int32_t(a), std::int32_t(b)));
    case WarpOp::redux_max_s: return std::uint32_t(std::max(std::int32_t(a), std::int32_t(b)));
    case WarpOp::redux_min_u: return std::min(a, b);
    case WarpOp::redux_max_u: return std::max(a, b);
    case WarpOp::redux_and: return a & b;
    case WarpOp::redux_or: return a | b;
    default: return a ^ b;
  }
}

// redux.f32 (PTX ISA 9.7.13.9): -0 below +0; NaNs count with .NaN only, and are what is left when there is nothing
// else.
std::uint32_t reduce_floats(WarpOp op, std::uint32_t a, std::uint32_t b, std::uint32_t how) {
  constexpr std::uint32_t nan = 0x7fffffff;
  if (how & 1) a &= nan, b &= nan;
  const bool a_nan = (a & nan) > 0x7f800000, b_nan = (b & nan) > 0x7f800000;
  if (a_nan || b_nan) return how & 2 || (a_nan && b_nan) ? nan : a_nan ? b : a;
  // As integers in the numbers' order.
  auto place = [](std::uint32_t v) { return v >> 31 ? ~v : v | 0x80000000u; };
  return (place(a) < place(b)) == (op == WarpOp::redux_min_f) ? a : b;
}

template <typename F>
void each(std::uint32_t lanes, F&& f) {
  for (; lanes; lanes &= lanes - 1) f(std::uint32_t(__builtin_ctz(lanes)));
}

// Shadows go the way of the values that they belong to (Mode::precision); before any lane goes on.
void shuffle_shadows(WarpOp op, ThreadContext* lanes, std::uint32_t members) {
  std::array<engine::RegisterShadow, warp_lanes> taken;
  each(members, [&](std::uint32_t l) {
    const Source s =
        shuffle_source(op, std::int32_t(l), std::uint32_t(lanes[l].arg[3]), std::uint32_t(lanes[l].arg[4]));
    const ThreadContext& from = lanes[members >> s.lane & 1 ? std::uint32_t(s.lane) : l];
    if (const auto* shadow = reinterpret_cast<const engine::RegisterShadow*>(from.arg[6])) taken[l] = *shadow;
  });
  each(members, [&](std::uint32_t l) {
    if (auto* to = reinterpret_cast<engine::RegisterShadow*>(lanes[l].arg[7])) *to = taken[l];
  });
}

// What undefined bits of the members' operands leave open of their answers (engine/undefined.h). A vote that lanes with
// defined predicates settle is defined, and so are bits that they settle of a reduction by and or or.
void pass_lanes_undefined(WarpOp op, ThreadContext* lanes, std::uint32_t members) {
  std::uint64_t any = 0;
  std::uint32_t unknown = 0, yes = 0, no = 0; // votes
  std::uint32_t zeros = 0, ones = 0; // bits that a lane has, defined
  const ThreadContext* origin = nullptr;
  each(members, [&](std::uint32_t l) {
    const ThreadContext& t = lanes[l];
    const std::uint64_t open = t.arg[5];
    any |= open;
    if (open && !origin) origin = &t;
    (open & 1 ? unknown : t.arg[2] & 1 ? yes : no) |= 1u << l;
    zeros |= ~std::uint32_t(t.arg[2]) & ~std::uint32_t(open);
    ones |= std::uint32_t(t.arg[2]) & ~std::uint32_t(open);
  });
  each(members, [&](std::uint32_t l) { lanes[l].result[2] = lanes[l].result[3] = 0; });
  if (!any) return;
  auto answer_of = [&](std::uint32_t l) -> std::uint64_t {
    switch (op) {
      case WarpOp::vote_all: return unknown && !no;
      case WarpOp::vote_any: return unknown && !yes;
      case WarpOp::vote_uni: return unknown && !(yes && no);
      case WarpOp::vote_ballot: return unknown;
      case WarpOp::match_any: {
        std::uint32_t open = 0;
        each(members & ~(1u << l), [&](std::uint32_t o) {
          const std::uint64_t either = lanes[l].arg[5] | lanes[o].arg[5];
          if (either && !((lanes[l].arg[2] ^ lanes[o].arg[2]) & ~either)) open |= 1u << o;
        });
        return open;
      }
      case WarpOp::match_all: {
        bool differ = false;
        const ThreadContext& first = lanes[__builtin_ctz(members)];
        each(members, [&](std::uint32_t o) { differ |= ((first.arg[2] ^ lanes[o].arg[2]) & ~any) != 0; });
        return differ ? 0 : members;
      }
      case WarpOp::redux_and: return any & ~std::uint64_t(zeros);
      case WarpOp::redux_or: return any & ~std::uint64_t(ones);
      case WarpOp::redux_xor: return any;
      default: return 0xffffffffu;
    }
  };
  each(members, [&](std::uint32_t l) {
    ThreadContext& t = lanes[l];
    t.result[2] = answer_of(l);
    t.result[3] = op == WarpOp::match_all && t.result[2];
    if (t.arg[5] || !t.result[2]) return; // a lane's own load comes first
    t.take_undefined(*origin);
  });
}

// What is wrong when lanes that have exited are named: as a rule nothing, since all wait for those that have not ("all
// non-exited threads corresponding to membermask", PTX ISA 9.7.9.6, 9.7.13.3 and others).
const char* wrong_without(WarpOp op, const ThreadContext* lanes, std::uint32_t members, std::uint32_t gone) {
  if (!gone) return nullptr;
  if (op == WarpOp::tensor || op == WarpOp::warpgroup) // undefined "if any thread in the warp has exited" (9.7.14.5)
    return "a lane of the warp that executes a matrix operation has exited";
  if (op < WarpOp::shfl_up || op > WarpOp::shfl_idx) return nullptr;
  bool reads = false;
  each(members, [&](std::uint32_t l) {
    const Source s =
        shuffle_source(op, std::int32_t(l), std::uint32_t(lanes[l].arg[3]), std::uint32_t(lanes[l].arg[4]));
    reads |= s.inside && gone >> s.lane & 1;
  });
  return reads ? "a shuffle reads a lane that has exited" : nullptr;
}

// Computes the answers of `members`, which all stand at `op`.
void answer(WarpOp op, ThreadContext* lanes, std::uint32_t members) {
  const std::uint32_t first = std::uint32_t(__builtin_ctz(members));
  switch (op) {
    case WarpOp::barrier: break;
    case WarpOp::shfl_up:
    case WarpOp::shfl_down:
    case WarpOp::shfl_bfly:
    case WarpOp::shfl_idx:
      each(members, [&](std::uint32_t l) {
        const Source s =
            shuffle_source(op, std::int32_t(l), std::uint32_t(lanes[l].arg[3]), std::uint32_t(lanes[l].arg[4]));
        // A lane that does not take part has no defined value to give: the reader keeps its own.
        const ThreadContext& from = lanes[members >> s.lane & 1 ? std::uint32_t(s.lane) : l];
        lanes[l].result[0] = from.arg[2];
        lanes[l].result[1] = s.inside;
        lanes[l].result[2] = from.arg[5];
        if (from.arg[5]) {
          lanes[l].take_undefined(from);
        }
      });
      break;
    case WarpOp::vote_all:
    case WarpOp::vote_any:
    case WarpOp::vote_uni:
    case WarpOp::vote_ballot: {
      std::uint32_t ballot = 0;
      each(members, [&](std::uint32_t l) { ballot |= std::uint32_t(lanes[l].arg[2] & 1) << l; });
      const std::uint32_t result = op == WarpOp::vote_all   ? ballot == members
                                   : op == WarpOp::vote_any ? ballot != 0
                                   : op == WarpOp::vote_uni ? ballot == members || ballot == 0
                                                            : ballot;
      each(members, [&](std::uint32_t l) { lanes[l].result[0] = result; });
      break;
    }
    case WarpOp::match_any:
      each(members, [&](std::uint32_t l) {
        std::uint32_t same = 0;
        each(members, [&](std::uint32_t o) { same |= std::uint32_t(lanes[o].arg[2] == lanes[l].arg[2]) << o; });
        lanes[l].result[0] = same;
        lanes[l].result[1] = 1;
      });
      break;
    case WarpOp::match_all: {
      bool all = true;
      each(members, [&](std::uint32_t l) { all &= lanes[l].arg[2] == lanes[first].arg[2]; });
      each(members, [&](std::uint32_t l) {
        lanes[l].result[0] = all ? members : 0;
        lanes[l].result[1] = all;
      });
      break;
    }
    case WarpOp::tensor:
      engine::run_tensor(
          lanes[first].arg[2], [&](unsigned l) { return members >> l & 1 ? lanes[l].arg : nullptr; },
          [&](unsigned l) { return members >> l & 1 ? lanes[l].result : nullptr; });
      break;
    case WarpOp::activemask: each(members, [&](std::uint32_t l) { lanes[l].result[0] = members; }); break;
    case WarpOp::elect:
      each(members, [&](std::uint32_t l) {
        lanes[l].result[0] = first;
        lanes[l].result[1] = l == first;
      });
      break;
    default: {
      const bool floats = op == WarpOp::redux_min_f || op == WarpOp::redux_max_f;
      std::uint32_t value = std::uint32_t(lanes[first].arg[2]);
      if (floats) value = reduce_floats(op, value, value, std::uint32_t(lanes[first].arg[3]));
      each(members & ~(1u << first), [&](std::uint32_t l) {
        const std::uint32_t other = std::uint32_t(lanes[l].arg[2]);
        value = floats ? reduce_floats(op, value, other, std::uint32_t(lanes[l].arg[3])) : reduce(op, value, other);
      });
      each(members, [&](std::uint32_t l) { lanes[l].result[0] = value; });
      break;
    }
  }
}

} // namespace

// Lets lanes go on whose rendezvous is complete: all live lanes of the member mask stand at the same operation with
// the same mask. Returns whether any could.
bool Machine::resolve(Block& block, std::uint32_t warp) {
  WarpState& state = block.warps[warp];
  ThreadContext* lanes = block.threads + warp * warp_lanes;
  bool any = false;
  for (std::uint32_t left = state.at_warp; left;) {
    const std::uint32_t first = std::uint32_t(__builtin_ctz(left));
    const WarpOp op = WarpOp(lanes[first].arg[0]);
    const std::uint32_t mask = std::uint32_t(lanes[first].arg[1]);
    std::uint32_t members = 0;
    if (op == WarpOp::activemask) {
      // The scheduler's choice: those that stand at the same instruction when nobody in the warp can come any more.
      each(left, [&](std::uint32_t l) {
        if (WarpOp(lanes[l].arg[0]) == op && lanes[l].pending_site == lanes[first].pending_site) members |= 1u << l;
      });
      left &= ~members;
      if (state.ready | state.visible) continue;
    } else {
      each(left, [&](std::uint32_t l) {
        if (WarpOp(lanes[l].arg[0]) == op && std::uint32_t(lanes[l].arg[1]) == mask) members |= 1u << l;
      });
      left &= ~members;
      if (mask & state.live & ~members) continue; // someone is still to come
      const std::uint32_t outside = members & ~mask;
      if (outside) {
        sync_error(block, lanes[__builtin_ctz(outside)],
                   "a lane executes a warp operation whose member mask does not name it");
        if (members &= mask) {
          each(outside, [&](std::uint32_t l) { rendezvous(block, warp, 1u << l); });
        } else {
          members = outside;
        }
      }
      const std::uint32_t exist = block.threads_count - warp * warp_lanes;
      const std::uint32_t named = exist >= warp_lanes ? mask : mask & ((1u << exist) - 1);
      if (const char* const wrong = wrong_without(op, lanes, members, named & ~state.live))
        sync_error(block, lanes[first], wrong);
    }
    rendezvous(block, warp, members);
    any = true;
  }
  return any;
}

void Machine::rendezvous(Block& block, std::uint32_t warp, std::uint32_t members) {
  ThreadContext* lanes = block.threads + warp * warp_lanes;
  const WarpOp op = WarpOp(lanes[__builtin_ctz(members)].arg[0]);
  const engine::Mode& mode = block.launch->request.mode;
  if (mode.precision && op >= WarpOp::shfl_up && op <= WarpOp::shfl_idx) shuffle_shadows(op, lanes, members);
  if (op == WarpOp::warpgroup)
    multiply(block, warp, members);
  else
    answer(op, lanes, members);
  if (op == WarpOp::tensor && (mode.precision || mode.written)) {
    std::array<ThreadContext*, warp_lanes> there{};
    each(members, [&](std::uint32_t l) { there[l] = &lanes[l]; });
    const std::uint64_t code = lanes[__builtin_ctz(members)].arg[2];
    if (mode.precision) engine::run_tensor_shadows(code, there);
    if (mode.written) engine::run_tensor_undefined(code, there);
  }
  if (mode.written && ((op >= WarpOp::vote_all && op <= WarpOp::match_all) || reduces(op)))
    pass_lanes_undefined(op, lanes, members);
  const bool tells = op != WarpOp::warpgroup; // no lane anything of another
  if (recording(block) && tells) say_rendezvous(block, warp, members, op == WarpOp::barrier);
  if (watch_ && tells) watch_->met(block, warp, members, op != WarpOp::activemask);
  if (watch_ && op == WarpOp::barrier) watch_->warp_barrier(block, warp, members);
  if (block.named && op == WarpOp::barrier) {
    std::array<std::uint32_t, max_warps> lanes{};
    lanes[warp] = members;
    holds_->met(block, lanes);
  }
  block.warps[warp].at_warp &= ~members;
  make_ready(block, warp, members);
  ++progress_;
}

std::uint64_t Machine::force_rendezvous(Launch& launch) {
  std::uint64_t forced = 0;
  for (auto& block : launch.resident)
    for (std::uint32_t w = 0; w < block->warps_count; ++w) {
      WarpState& state = block->warps[w];
      ThreadContext* lanes = block->threads + w * warp_lanes;
      while (state.at_warp) {
        const ThreadContext& first = lanes[__builtin_ctz(state.at_warp)];
        std::uint32_t members = 0;
        each(state.at_warp, [&](std::uint32_t l) {
          if (lanes[l].arg[0] == first.arg[0] && lanes[l].pending_site == first.pending_site) members |= 1u << l;
        });
        sync_error(*block, first, "lanes that a warp operation's member mask names never arrive at it");
        rendezvous(*block, w, members);
        ++forced;
      }
    }
  return forced;
}

} // namespace deadheat::device
