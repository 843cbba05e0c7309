// How a thread stops at a rendezvous of lanes.
//
// Thread-safety: see builder.h.
#pragma once

#include "replay/engine/builder.h"

namespace deadheat::engine {

// Stops with Step::warp; arg[2] and what follows must be set. The answers lie in result[] when it goes on.
void rendezvous(Builder& b, WarpOp op, llvm::Value* mask);

}  // namespace deadheat::engine
