#include "tracer/cupti/hooks.h"

#include <link.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include <cupti_driver_cbid.h>

#include "tracer/cupti/layers.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/watched.h"

namespace deadheat::cupti {

namespace {

using Clock = std::chrono::steady_clock;

// For how long, and for how many calls by its hook, CUPTI tells of a call before it is switched off.
struct Trial {
  Clock::duration least_time;
  std::uint64_t least_calls;
};
constexpr Trial first{std::chrono::seconds(1), 300};
constexpr Trial more_objects{std::chrono::seconds(1), 100}; // were loaded
constexpr Trial sample{std::chrono::milliseconds(50), 20};
constexpr auto between_samples = std::chrono::minutes(1);

struct Watching { // of one hook, by the thread that looks
  Trial trial = first;
  Clock::time_point since{}; // it began, or CUPTI's callback was switched off
  std::uint64_t came = 0; // then
  bool off = false;
};
Watching watching[hook_count];

// Whether objects were loaded since this was asked last, other than the driver's and CUPTI's.
bool more_were_loaded() {
  struct Objects {
    unsigned long long loaded = 0; // ever
    std::uint64_t sum = 0; // of where those lie that count
  };
  static Objects before;
  Objects now;
  const auto look = [](dl_phdr_info* info, std::size_t, void* to) {
    Objects& found = *static_cast<Objects*>(to);
    found.loaded = info->dlpi_adds;
    if (found.loaded == before.loaded) return 1; // the first one tells
    if (!is_part_of_cuda(info->dlpi_name)) found.sum += info->dlpi_addr * 0x9e3779b97f4a7c15u + 1;
    return 0;
  };
  dl_iterate_phdr(look, &now);
  if (now.loaded == before.loaded) return false;
  const bool more = now.sum != before.sum;
  before = now;
  return more;
}

// ---- a call by its hook

Call call_of(Session& session, const Hook& hook, std::uint64_t& correlation) {
  CUcontext context = nullptr;
  driver().cuCtxGetCurrent(&context);
  const char* const function = here.runtime_call ? here.runtime_call : hook.name;
  return {session, context, nullptr, function, hook.per_thread, false, CUDA_SUCCESS, &correlation};
}

[[gnu::hot, gnu::noinline]] void way_in(Session& session, Hook& hook, std::uint64_t& correlation, void* params) {
  here.hook = hook.number;
  hook.came.fetch_add(1, std::memory_order_relaxed);
  const Watched& which = watched[hook.id];
  if (!which.comes_by) [[likely]]
    return;
  Call call = call_of(session, hook, correlation);
  come_by(which, call, params);
}

[[gnu::hot, gnu::noinline]] void way_out(Session& session, const Hook& hook, std::uint64_t& correlation, void* params,
                                         CUresult result) {
  Call call = call_of(session, hook, correlation);
  call.exit = true;
  call.result = result;
  come_by(watched[hook.id], call, params);
}

// The function with the structure's members as its arguments.
template <typename... Arguments, typename Params>
CUresult call_with(CUresult (*function)(Arguments...), Params& p) {
  constexpr std::size_t count = sizeof...(Arguments);
  static_assert((count >= 1 && count <= 4) || count == 11);
  if constexpr (count == 1) {
    auto& [a] = p;
    return function(a);
  } else if constexpr (count == 2) {
    auto& [a, b] = p;
    return function(a, b);
  } else if constexpr (count == 3) {
    auto& [a, b, c] = p;
    return function(a, b, c);
  } else if constexpr (count == 4) {
    auto& [a, b, c, d] = p;
    return function(a, b, c, d);
  } else {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = p;
    return function(a, b, c, d, e, f, g, h, i, j, k);
  }
}

template <std::size_t index, typename Function, typename Params>
struct Entry;
template <std::size_t index, typename... Arguments, typename Params>
struct Entry<index, CUresult (*)(Arguments...), Params> {
  [[gnu::hot]] static CUresult call(Arguments... arguments) {
    Hook& hook = hooks[index];
    const auto real = reinterpret_cast<CUresult (*)(Arguments...)>(hook.real.load(std::memory_order_relaxed));
    Session* const session = hot.hooks.load(std::memory_order_relaxed) ? Session::get() : nullptr;
    if (!session || here.own_calls || here.hook == hook.number || !layer_on(Layer::handlers)) [[unlikely]]
      return real(arguments...);
    const std::uint8_t around = here.hook; // not 0 where the driver calls another of its functions by its name
    std::uint64_t correlation = 0;
    Params params{arguments...};
    way_in(*session, hook, correlation, &params);
    const CUresult result = call_with(real, params);
    way_out(*session, hook, correlation, &params, result);
    here.hook = around;
    return result;
  }
};

enum Index : std::size_t {
#define HOOKED(name, asked, since) index_of_##name,
#define HOOKED_IN_STREAM(name, suffix, asked, since) index_of_##name, index_of_##name##suffix,
#include "tracer/cupti/hooked_calls.def"
#undef HOOKED
#undef HOOKED_IN_STREAM
};

} // namespace

#define ONE(name, asked, since, per_thread, in_no_stream)                                                        \
  Hook{#name,                                                                                                    \
       #asked,                                                                                                   \
       per_thread && since < 7000 ? std::uint16_t(7000) : std::uint16_t(since), /* which brought such streams */ \
       CUPTI_DRIVER_TRACE_CBID_##name,                                                                           \
       index_of_##name + 1,                                                                                      \
       per_thread,                                                                                               \
       in_no_stream},
#define HOOKED(name, asked, since) ONE(name, asked, since, false, true)
#define HOOKED_IN_STREAM(name, suffix, asked, since) \
  ONE(name, asked, since, false, false) ONE(name##suffix, asked, since, true, false)
constinit Hook hooks[hook_count] = {
#include "tracer/cupti/hooked_calls.def"
};
#undef HOOKED
#undef HOOKED_IN_STREAM
#undef ONE

void* entry_of(const Hook& hook) {
  switch (hook.number - 1u) {
#define ONE(name, like) \
  case index_of_##name: return reinterpret_cast<void*>(&Entry<index_of_##name, decltype(&::like), like##_params>::call);
#define HOOKED(name, asked, since) ONE(name, name)
#define HOOKED_IN_STREAM(name, suffix, asked, since) ONE(name, name) ONE(name##suffix, name)
#include "tracer/cupti/hooked_calls.def"
#undef HOOKED
#undef HOOKED_IN_STREAM
#undef ONE
    default: return nullptr;
  }
}

// ---- whether CUPTI tells of it, too

bool is_part_of_cuda(const char* path) {
  const char* const slash = path ? std::strrchr(path, '/') : nullptr;
  const std::string_view name = slash ? slash + 1 : path ? path : "";
  for (const std::string_view one : {"libcuda.so", "libcupti", "libnvperf", "libcudadebugger", "libnvidia-"}) {
    if (name.starts_with(one)) return true;
  }
  return false;
}

bool hooks_asked_for() {
  static const char* const text = std::getenv("DEADHEAT_HOOKS");
  return !text || std::strcmp(text, "0") != 0;
}

void use_hooks(const Session& session) {
  const Driver& d = driver();
  if (!hooks_asked_for() || session.options().timestamps) return;
  if (!d.cuCtxGetCurrent || !d.cuFuncGetName || !d.cuKernelGetName) return; // which CUPTI's callbacks would tell
  for (const Hook& hook : hooks) {
    watched[hook.id].hook = hook.number;
    watching[hook.number - 1].since = Clock::now();
  }
  hot.hooks.store(true, std::memory_order_release);
}

bool told_by_cupti(unsigned id) {
  const std::uint8_t number = watched[id].hook;
  return !number || !watching[number - 1].off;
}

[[gnu::hot]] void stray(Session& session, unsigned number, bool exit) noexcept {
  Hook& hook = hooks[number - 1];
  if (!exit) hook.strays.fetch_add(1, std::memory_order_relaxed);
  if (hook.telling.load(std::memory_order_relaxed) == Telling::kept) [[likely]]
    return;
  const Telling before = hook.telling.exchange(Telling::kept);
  if (before == Telling::kept || (before == Telling::on && !hook.was_off)) return;
  try {
    session.incident("lost", std::string("calls of ") + hook.name +
                                 " came by a way that was not looked at all the time; some may be missing");
  } catch (...) {
  }
}

void comes_without(Hook& hook) noexcept {
  if (hook.telling.load(std::memory_order_relaxed) == Telling::kept ||
      hook.telling.exchange(Telling::kept) != Telling::off)
    return;
  const Own own;
  const std::lock_guard hold(callbacks);
  if (!layer_on(Layer::driver_callbacks)) return; // it comes back with the others
  watching[hook.number - 1].off = false;
  enable_call(hook.id, true);
}

// Telling::on becomes Telling::off before CUPTI's callback is switched off: a stray that begins meanwhile is seen to
// come too late, as is one of which CUPTI tells the end only.
void look_at_hooks(Clock::time_point now) {
  if (!hot.hooks.load(std::memory_order_relaxed)) return;
  const std::unique_lock hold(callbacks, std::try_to_lock);
  if (!hold || !layer_on(Layer::driver_callbacks)) return;
  const bool more = more_were_loaded();
  for (Hook& hook : hooks) {
    Watching& w = watching[hook.number - 1];
    const std::uint64_t came = hook.came.load(std::memory_order_relaxed);
    const auto begin = [&](Trial trial) {
      w.trial = trial;
      w.since = now;
      w.came = came;
    };
    if (hook.telling == Telling::kept) {
      if (std::exchange(w.off, false)) enable_call(hook.id, true);
    } else if (w.off) {
      if (!more && now - w.since < between_samples) continue;
      Telling off = Telling::off;
      hook.telling.compare_exchange_strong(off, Telling::on);
      enable_call(hook.id, true);
      w.off = false;
      begin(more ? more_objects : sample);
    } else if (more) {
      begin(hook.was_off ? more_objects : first);
    } else if (now - w.since >= w.trial.least_time && came - w.came >= w.trial.least_calls) {
      Telling on = Telling::on;
      if (!hook.telling.compare_exchange_strong(on, Telling::off)) continue;
      hook.was_off = true;
      enable_call(hook.id, false);
      w.off = true;
      w.since = now;
    }
  }
}

void tell_of_hooks() {
  const char* const text = std::getenv("DEADHEAT_HOOKS");
  if (!text || std::strcmp(text, "tell") != 0) return;
  for (const Hook& hook : hooks) {
    const bool given = hook.real, off = watching[hook.number - 1].off;
    if (!given && !hook.strays) continue;
    say(std::string(hook.name) + ": " + (given ? "" : "nobody asked for its hook, ") + std::to_string(hook.came) +
        " calls by its hook, " + std::to_string(hook.strays) + " by CUPTI alone; CUPTI's callback " +
        (off            ? "is switched off"
         : hook.was_off ? "is on, and was off"
                        : "was never off"));
  }
}

} // namespace deadheat::cupti
