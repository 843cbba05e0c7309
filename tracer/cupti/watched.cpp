#include "tracer/cupti/watched.h"

#include <cupti_driver_cbid.h>

namespace deadheat::cupti {

constinit Watched watched[most_calls];

namespace {

template <typename Params, void (*handle)(Call&, Params&)>
void adapt(Call& call, void* params) {
  static Params none{};
  handle(call, params ? *static_cast<Params*>(params) : none);
}

void watch(unsigned id, Handler handler, WayIn way_in, bool per_thread) {
  watched[id].handler = handler;
  watched[id].way_in = way_in;
  watched[id].per_thread = per_thread;
}

} // namespace

void fill_watched(const Session& session) {
#define CALL(name, handler, way_in) \
  watch(CUPTI_DRIVER_TRACE_CBID_##name, adapt<name##_params, handler>, WayIn::way_in, false);
#define STREAM_CALL(name, suffix, handler, way_in) \
  CALL(name, handler, way_in)                      \
  watch(CUPTI_DRIVER_TRACE_CBID_##name##suffix, adapt<name##_params, handler>, WayIn::way_in, true);
#define FOR_ACCESSES(name) watched[CUPTI_DRIVER_TRACE_CBID_##name].for_accesses = true;
#define UNTIL_IDLE(name, most) watched[CUPTI_DRIVER_TRACE_CBID_##name].until_idle = most;
#define LEFT_OUT(name, what) watched[CUPTI_DRIVER_TRACE_CBID_##name].left_out = what;
#include "tracer/cupti/driver_calls.def"
#undef CALL
#undef STREAM_CALL
#undef UNTIL_IDLE
#undef FOR_ACCESSES
#undef LEFT_OUT
  const bool accesses = session.options().accesses, window = session.options().window && accesses;
  for (Watched& call : watched) {
    const bool looks = call.way_in == WayIn::looked_at || (call.way_in == WayIn::for_accesses && accesses) || window;
    call.comes_by = (call.handler && looks) || (call.until_idle.count() && accesses);
  }
}

bool wanted(const Watched& call, const Session& session) {
  const bool followed =
      session.options().accesses ? call.handler || call.until_idle.count() : call.handler && !call.for_accesses;
  return followed || call.left_out;
}

[[gnu::cold]] void not_recorded(Session& session) noexcept {
  try {
    if (Window* window = session.window()) window->spoil("a call in it could not be recorded");
    session.incident("lost", "a call could not be recorded");
  } catch (...) {
  }
}

[[gnu::cold]] void left_out(Call& call, const char* what) noexcept {
  try {
    if (!call.done()) return;
    const std::string line = std::string(call.function) + " was called; not recorded: " + what;
    if (Window* window = call.session.window()) window->spoil(line);
    call.session.incident("lost", line);
  } catch (...) {
  }
}

} // namespace deadheat::cupti
