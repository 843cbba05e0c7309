// Hooks: entry points of our own for the driver's calls that jobs make most often (hooked_calls.def). CUPTI's two
// callbacks cost a call more than all that is done in them; a hook costs next to nothing. Where the library was
// preloaded, callers that are linked with the driver or ask dlsym or cuGetProcAddress for such a call get its hook
// (lookups.cpp), which does what is done where CUPTI tells of a call (watched.h), around the driver's own function.
// While nothing is recorded hooks pass calls on and do nothing else; so they do where timestamps are asked for, whose
// activities name CUPTI's callbacks.
//
// No call is lost by it. CUPTI tells of hooked calls, too, and is not listened to in a thread that is in a hook. One
// that CUPTI tells of in no hook is a *stray*: its caller came by the driver's function in a way that is not ours (it
// is linked with the driver, RTLD_NEXT, dlmopen, …). It is recorded as ever, and CUPTI tells of that call until the
// process ends. Where calls have come by a hook often, for some time, and by no other way, CUPTI's callback is switched
// off. It comes back when objects are loaded into the process and for a moment every minute; if then a stray comes,
// others may have been missed, and the trace says so.
//
// DEADHEAT_HOOKS in the environment is for measuring and for trouble: 0, there are none; `tell`, the process says at
// its end how many calls came by each hook and how many strays there were.
//
// Thread-safety: everything from any thread; `look` from one at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace deadheat::cupti {

class Session;

// What CUPTI is told about a hooked call, and what came of it. `kept` is final.
enum class Telling : std::uint8_t { on, off, kept };

struct alignas(64) Hook { // in one line of memory
  const char* name = nullptr; // of the driver's function, as it is exported
  const char* asked = nullptr; // as cuGetProcAddress is asked for it
  std::uint16_t since = 0; // version of CUDA that brought its parameters, in cuGetProcAddress' way (11060: 11.6)
  std::uint16_t id = 0; // CUPTI's number of the call
  std::uint8_t number = 0; // from 1
  bool per_thread = false; // stream 0 is the per-thread default stream
  bool in_no_stream = false; // there is no second form
  std::atomic<Telling> telling{Telling::on};
  std::atomic<bool> was_off{false};
  std::atomic<void*> real{nullptr}; // the driver's function; null: nobody has the hook
  std::atomic<std::uint64_t> came{0}; // calls by the hook that were looked at
  std::atomic<std::uint64_t> strays{0}; // calls that CUPTI alone told of
};
static_assert(sizeof(Hook) == 64);

inline constexpr std::size_t hook_count =
#define HOOKED(name, asked, since) 1 +
#define HOOKED_IN_STREAM(name, suffix, asked, since) 2 +
#include "tracer/cupti/hooked_calls.def"
#undef HOOKED
#undef HOOKED_IN_STREAM
    0;
extern constinit Hook hooks[hook_count]; // by number - 1

void* entry_of(const Hook& hook); // what callers get
bool is_part_of_cuda(
    const char* path); // of a library: the driver or one of its tools, whose calls are their own affair
bool hooks_asked_for(); // not DEADHEAT_HOOKS=0; asked once
void use_hooks(
    const Session& session); // once the table of calls is filled, if they can be used; from then on they record
void comes_without(Hook& hook) noexcept; // somebody looks the function up who gets the driver's: strays will come
bool told_by_cupti(unsigned id); // CUPTI's callback of the call is to be enabled
void stray(Session& session, unsigned number, bool exit) noexcept; // CUPTI told of a call of hooks[number - 1]
// Now and then, by a thread of ours that is in no call: switches callbacks of CUPTI off, and on again. Nothing while
// somebody holds `callbacks` (injection.h).
void look_at_hooks(std::chrono::steady_clock::time_point now);
void tell_of_hooks(); // what `tell` asks for

} // namespace deadheat::cupti
