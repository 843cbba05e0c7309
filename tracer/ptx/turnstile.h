// PTX in, PTX out: kernels gain clones in which two named accesses pass turnstiles, so that they come in the order
// that is asked for when the clone is launched.
//
// A turnstile stands around one instruction, for one thread of one block, at its nth execution. The side that is to
// wait looks at a word in device memory, with relaxed loads and nanosleep, until the other side has passed or its
// patience is used up. The side that is to be first takes a ticket behind its access, when a fence has made sure that
// the access was performed. The waiting side uses no fence: by the memory model nothing orders what either did before.
// Lanes of the waiting thread's warp wait with it. In front of the sites every warp can be made to sleep for a while
// that a hash chooses, instead.
//
// Which order, how long: in TurnstileControl, which the host writes before the launch. The module's variable
// `turnstile_variable` holds its address.
//
// Invariants: site numbers are the original module's (sites.h). What the clone adds begins with %dt_, $dt_ or the
// clone's prefix. The originals' text is kept byte for byte.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/ptx.h"
#include "tracer/ptx/sites.h"

namespace deadheat::ptx {

inline constexpr const char* turnstile_variable = "__deadheat_turnstile";

// In device memory, little-endian. Tickets count from 1; 0: not yet.
struct TurnstileControl {
  std::uint32_t held = 0;     // the side that waits for the other, + 1; 0: neither
  std::uint32_t patience = 0; // looks before the waiting side goes on all the same
  std::uint32_t sleep = 0;    // ns between two looks, about
  std::uint32_t delay = 0;    // ns that a warp sleeps in front of either site, at most; 0: not at all
  std::uint32_t seed = 0;     // of the delays
  std::uint32_t tickets = 0;  // taken so far
  std::uint32_t reserved[2] = {};
  struct Side {
    std::uint32_t seen = 0;    // executions of the site by the thread
    std::uint32_t went = 0;    // ticket taken right before the access
    std::uint32_t passed = 0;  // ticket taken after the access was performed
    std::uint32_t gave_up = 0; // 1: its patience was used up
  } side[2];
};
static_assert(sizeof(TurnstileControl) == 64);

// One side, in the kernel that `prefix` + its name is a clone of.
struct Turnstile {
  std::uint32_t side = 0; // 0 or 1
  std::uint32_t site = 0, block = 0, thread = 0;
  std::uint32_t nth = 0;  // earlier executions of the site by the thread
};

struct TurnstileClone {
  std::string kernel;  // mangled
  std::string prefix;  // of the clones of this kernel and of what it calls
  std::vector<Turnstile> turnstiles;
};

// The module's text with the clones, or why there cannot be any.
Expected<std::string> add_turnstiles(const Module& module, const SiteTable& sites,
                                     const std::vector<TurnstileClone>& clones);

}  // namespace deadheat::ptx
