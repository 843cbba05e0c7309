// The driver's calls that are watched (driver_calls.def), and what is done where one comes by: the same whether CUPTI
// tells of it (injection.cpp) or the program called a hook (hooks.h).
//
// Thread-safety: the table is filled before anything is watched, and constant afterwards.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tracer/cupti/activity.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/injection.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

using Handler = void (*)(Call&, void*);
enum class WayIn : std::uint8_t { ignored, for_accesses, looked_at }; // driver_calls.def
struct alignas(32) Watched { // in one line of memory
  Handler handler = nullptr;
  WayIn way_in = WayIn::ignored;
  bool per_thread = false;
  bool for_accesses = false; // else it is not watched
  bool comes_by = false; // on the way in something is done
  std::uint8_t hook = 0; // its number (hooks.h); 0: it has none
  std::chrono::seconds until_idle{}; // the driver is kept until kernels have ended; how long they are waited for
  const char* left_out = nullptr; // what the trace lacks where it is called
};
static_assert(sizeof(Watched) == 32);
inline constexpr std::size_t most_calls = 2048;
extern constinit Watched watched[most_calls]; // by CUPTI's number of the call

void fill_watched(const Session& session);
bool wanted(const Watched& call, const Session& session); // CUPTI is to tell of it
void left_out(Call& call, const char* what) noexcept;
void not_recorded(Session& session) noexcept;

// Either way through a call. It and all that a launch of an opaque kernel comes through lies together (gnu::hot):
// little of it is in the caches when it is called.
[[gnu::always_inline]] inline void come_by(const Watched& which, Call& call, void* params) {
  Session& session = call.session;
  if (!call.exit && which.until_idle.count() && session.options().accesses) {
    Own own;
    session.recorder().let_kernels_end(call.context, which.until_idle);
  }
  if (!which.handler) {
    if (call.exit && which.left_out) left_out(call, which.left_out);
    return;
  }
  try {
    Own own;
    if (Window* window = session.window(); window && !call.exit) window->pass(call.context);
    which.handler(call, params);
  } catch (...) { // out of memory, most likely: what this call did is not in the trace
    not_recorded(session);
  }
}

} // namespace deadheat::cupti
