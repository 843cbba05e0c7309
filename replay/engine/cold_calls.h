// Calls out of compiled code on paths that are hardly ever taken: a full log, an address that the fast check did not
// accept. They keep every register (LLVM's preserve_all convention), so that the code around them, which may hold
// hundreds of values in registers, pays nothing for them: neither in speed nor in register allocation.
//
// Thread-safety: as the services they call.
#pragma once

#include <cstdint>

#include "replay/engine/abi.h"

namespace deadheat::engine {

extern "C" {
// Services::log_full.
void deadheat_cold_log_full(ThreadContext* thread);
// Services::check; `bytes` has bit 31 set for writes; the answer goes to *legal.
void deadheat_cold_check(ThreadContext* thread, std::uint32_t site, std::uint64_t address, std::uint32_t bytes,
                         std::uint32_t* legal);
// Services::undefined.
void deadheat_cold_undefined(ThreadContext* thread, std::uint32_t site, std::uint32_t use, std::uint64_t address,
                             std::uint32_t bytes);
}

}  // namespace deadheat::engine
