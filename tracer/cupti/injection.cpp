#include "tracer/cupti/injection.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <cupti_driver_cbid.h>

#include "deadheat/api_name.h"
#include "tracer/cupti/activity.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/layers.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/nvcc.h"
#include "tracer/cupti/process.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/thread.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

using Handler = void (*)(Call&, void*);
enum class WayIn : std::uint8_t { ignored, for_accesses, looked_at };  // driver_calls.def
struct alignas(32) Watched {  // in one line of memory
  Handler handler = nullptr;
  WayIn way_in = WayIn::ignored;
  bool per_thread = false;
  bool for_accesses = false;  // else it is not watched
  bool comes_by = false;      // on the way in something is done
  bool queues = false;        // it puts work in a queue, while accesses are recorded
  std::chrono::seconds until_idle{};  // the driver is kept until kernels have ended; how long they are waited for
  const char* left_out = nullptr;     // what the trace lacks where it is called
};
static_assert(sizeof(Watched) == 32);
constexpr std::size_t most_calls = 2048;
Watched watched[most_calls];  // by CUPTI's number of the call

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

void fill_watched(const Session& session) {
#define CALL(name, handler, way_in) \
  watch(CUPTI_DRIVER_TRACE_CBID_##name, adapt<name##_params, handler>, WayIn::way_in, false);
#define STREAM_CALL(name, suffix, handler, way_in) \
  CALL(name, handler, way_in)                      \
  watch(CUPTI_DRIVER_TRACE_CBID_##name##suffix, adapt<name##_params, handler>, WayIn::way_in, true);
#define QUEUED_CALL(name, suffix, handler, way_in) \
  STREAM_CALL(name, suffix, handler, way_in)       \
  watched[CUPTI_DRIVER_TRACE_CBID_##name].queues = watched[CUPTI_DRIVER_TRACE_CBID_##name##suffix].queues = true;
#define FOR_ACCESSES(name) watched[CUPTI_DRIVER_TRACE_CBID_##name].for_accesses = true;
#define UNTIL_IDLE(name, most) watched[CUPTI_DRIVER_TRACE_CBID_##name].until_idle = most;
#define LEFT_OUT(name, what) watched[CUPTI_DRIVER_TRACE_CBID_##name].left_out = what;
#include "tracer/cupti/driver_calls.def"
#undef CALL
#undef STREAM_CALL
#undef QUEUED_CALL
#undef UNTIL_IDLE
#undef FOR_ACCESSES
#undef LEFT_OUT
  const bool accesses = session.options().accesses, window = session.options().window && accesses;
  for (Watched& call : watched) {
    const bool looks = call.way_in == WayIn::looked_at || (call.way_in == WayIn::for_accesses && accesses) || window;
    call.comes_by = (call.handler && looks) || (call.until_idle.count() && accesses);
    call.queues &= accesses;
  }
}

// The runtime's calls: reports name operations by them.
[[gnu::noinline]] void on_runtime_call(const CUpti_CallbackData& data) {
  const bool exit = data.callbackSite == CUPTI_API_EXIT;
  if (!exit && !here.runtime_call) {
    here.runtime_call = data.functionName;
    Activity::runtime_call(data.correlationId);
  } else if (exit && here.runtime_call == data.functionName) {
    here.runtime_call = nullptr;
    Activity::runtime_call(0);
  }
}

[[gnu::cold]] void left_out(Session& session, const CUpti_CallbackData& data, const char* what) noexcept {
  try {
    if (*static_cast<CUresult*>(data.functionReturnValue) != CUDA_SUCCESS) return;
    const std::string line = std::string(data.functionName) + " was called; not recorded: " + what;
    if (Window* window = session.window()) window->spoil(line);
    if (HostWrites* writes = session.host_writes()) writes->stop();
    session.incident("lost", line);
  } catch (...) {
  }
}

// This and all that a launch of an opaque kernel comes through lies together (gnu::hot): little of it is in the caches
// when it is called.
[[gnu::hot]] void CUPTIAPI on_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* bytes) {
  const auto* data = static_cast<const CUpti_CallbackData*>(bytes);
  const bool exit = data->callbackSite == CUPTI_API_EXIT;
  const bool of_driver = domain == CUPTI_CB_DOMAIN_DRIVER_API && id < most_calls;
  if (of_driver && !exit && !watched[id].comes_by) return;
  if (here.own_calls || !layer_on(Layer::handlers)) return;
  if (!of_driver) {
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) on_runtime_call(*data);
    return;
  }
  const Watched& call_watched = watched[id];
  Session* session = Session::get();
  if (!session) return;
  if (!exit && call_watched.until_idle.count() && session->options().accesses) {
    Own own;
    session->recorder().let_kernels_end(data->context, call_watched.until_idle);
  }
  if (!call_watched.handler) {
    if (exit && call_watched.left_out) left_out(*session, *data, call_watched.left_out);
    return;
  }
  try {
    Own own;
    if (Window* window = session->window(); window && !exit) window->pass(data->context);
    Call call{*session,
              data->context,
              data->symbolName,
              here.runtime_call ? here.runtime_call : data->functionName,
              call_watched.per_thread,
              exit,
              exit && data->functionReturnValue ? *static_cast<CUresult*>(data->functionReturnValue) : CUDA_SUCCESS,
              data->correlationData,
              exit ? static_cast<CUresult*>(data->functionReturnValue) : nullptr};
    if (session->activity()) [[unlikely]]
      Activity::driver_call(data->correlationId);
    call_watched.handler(call, const_cast<void*>(data->functionParams));
    if (exit && call_watched.queues) session->recorder().queued(data->context);
    if (exit && session->journal().is_full()) [[unlikely]]
      session->recorder().let_write();
  } catch (...) {
    session->call_not_recorded();
  }
}

CUpti_SubscriberHandle the_subscriber = nullptr;
bool with_timestamps = false;

// Of the runtime's calls only those whose names reports tell: each callback costs time.
bool named_in_reports(const char* runtime_call) {
  for (const char* part : {"Memcpy", "Memset", "HostFunc", "AddCallback"}) {
    if (std::strstr(runtime_call, part)) return true;
  }
  return with_timestamps && std::strstr(runtime_call, "Launch");
}

void enable(CUpti_CallbackDomain domain, bool on) {
  const Cupti& api = cupti();
  for (unsigned id = 1; id < most_calls; ++id) {
    bool wanted = false;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
      const Watched& call = watched[id];
      wanted = Session::get()->options().accesses ? call.handler || call.until_idle.count()
                                                  : call.handler && !call.for_accesses;
      wanted |= call.left_out != nullptr;
    } else {
      const char* name = nullptr;
      wanted = api.cuptiGetCallbackName(domain, id, &name) == CUPTI_SUCCESS && name && named_in_reports(name);
    }
    if (wanted) api.cuptiEnableCallback(on, the_subscriber, domain, CUpti_CallbackId(id));
  }
}

void at_exit(int status, void*) {
  if (Session* session = Session::get()) session->exits(status);
}

void last_words() noexcept { // of a process that aborts
  if (Session* session = Session::get()) session->leave(128 + SIGABRT);
}

}  // namespace

// Names of entry points are cleaned once each: the key is the string's address.
struct ApiNames {
  std::unordered_map<const char*, std::string> clean;
};

const std::string& Call::api() const {
  auto [at, fresh] = own(here.names).clean.try_emplace(function);
  if (fresh) at->second = plain_api_name(function ? function : "");
  return at->second;
}

bool subscribe(bool timestamps, std::string& why) {
  const Cupti& api = cupti();
  const CUptiResult result = api.cuptiSubscribe(&the_subscriber, on_call, nullptr);
  if (result != CUPTI_SUCCESS) {
    const char* text = nullptr;
    if (api.cuptiGetResultString) api.cuptiGetResultString(result, &text);
    why = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
              ? "another tool in this process uses CUPTI (torch.profiler, nsys, ncu or compute-sanitizer)"
              : std::string("CUPTI cannot be used: ") + (text ? text : "unknown error");
    return false;
  }
  fill_watched(*Session::get());
  with_timestamps = timestamps;
  enable(CUPTI_CB_DOMAIN_DRIVER_API, true);
  enable(CUPTI_CB_DOMAIN_RUNTIME_API, true);
  if (const char* text = std::getenv("DEADHEAT_LAYERS")) change_layers(unsigned(std::atoi(text)));
  return true;
}

constinit Hot hot;

void change_layers(unsigned uppermost, bool detach) {
  Session* session = Session::get();
  if (!session || !the_subscriber) return;
  Own own;
  if (layer_on(Layer::all) && uppermost < unsigned(Layer::all)) session->journal().pump(session->writer());
  const unsigned before = std::min(hot.layers.exchange(uppermost), unsigned(Layer::all));
  if (before == uppermost) return;
  session->journal().has_gaps();
  if (HostWrites* writes = session->host_writes()) writes->gap();
  auto change = [&](Layer layer) {
    const bool was = before >= unsigned(layer), is = uppermost >= unsigned(layer);
    return is - was;
  };
  if (change(Layer::subscriber) > 0) cupti().cuptiSubscribe(&the_subscriber, on_call, nullptr);
  if (const int on = change(Layer::driver_callbacks)) enable(CUPTI_CB_DOMAIN_DRIVER_API, on > 0);
  if (const int on = change(Layer::runtime_callbacks)) enable(CUPTI_CB_DOMAIN_RUNTIME_API, on > 0);
  if (change(Layer::subscriber) < 0 && cupti().cuptiUnsubscribe) cupti().cuptiUnsubscribe(the_subscriber);
  if (detach && cupti().cuptiFinalize) cupti().cuptiFinalize();
  session->incident("lost", "parts of the run were not recorded, to see what recording costs (DEADHEAT_LAYERS)");
}

}  // namespace deadheat::cupti

// ---- what others call

// Of the C library; found when this one is loaded, since who aborts may be a handler of a signal.
static void (*const libc_abort)() = reinterpret_cast<void (*)()>(dlsym(RTLD_NEXT, "abort"));
static void (*const libc_assert_fail)(const char*, const char*, unsigned, const char*) =
    reinterpret_cast<void (*)(const char*, const char*, unsigned, const char*)>(dlsym(RTLD_NEXT, "__assert_fail"));

extern "C" {

// The driver calls this in cuInit, in processes that use the GPU and in no others (CUDA_INJECTION64_PATH).
__attribute__((visibility("default"))) int InitializeInjection(void) {
  static std::atomic<bool> begun{false};
  if (begun.exchange(true)) return 1;
  try {
    deadheat::cupti::Own own;
    if (deadheat::cupti::Session::start()) on_exit(deadheat::cupti::at_exit, nullptr);
  } catch (...) {
  }
  return 1;
}

__attribute__((visibility("default"))) void deadheat_layers(unsigned uppermost) {
  try {
    deadheat::cupti::change_layers(uppermost);
  } catch (...) {
  }
}

__attribute__((visibility("default"))) void deadheat_detach(void) {
  try {
    deadheat::cupti::change_layers(0, true);
  } catch (...) {
  }
}

// os._exit and the like leave without running exit handlers, and handlers of signals may call them (POSIX,
// async-signal-safe). Taken over only where the library was preloaded.
__attribute__((visibility("default"), noreturn)) void _exit(int status) {
  if (deadheat::cupti::Session* session = deadheat::cupti::Session::get()) session->leave(status);
  for (;;) syscall(SYS_exit_group, status);
}
__attribute__((visibility("default"), noreturn)) void _Exit(int status) { _exit(status); }

// Uncaught exceptions and failed checks end so, and wrong results of kernels end in these: what is recorded until then
// is written first. The C library's own abort then does what it does.
__attribute__((visibility("default"), noreturn)) void abort() noexcept {
  deadheat::cupti::last_words();
  if (libc_abort) libc_abort();
  for (;;) { // so early that it is not known
    signal(SIGABRT, SIG_DFL);
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGABRT);
  }
}
// assert() of the C library calls its own abort.
__attribute__((visibility("default"), noreturn)) void __assert_fail(const char* assertion, const char* file,
                                                                    unsigned line, const char* function) noexcept {
  deadheat::cupti::last_words();
  if (libc_assert_fail) libc_assert_fail(assertion, file, line, function);
  abort();
}

}  // extern "C"

// LD_PRELOAD names this file, by whatever name it has: files there are separated by colons or spaces (ld.so(8)), and
// what leads to them may hold tokens that are replaced.
static bool preloaded(const char* file) {
  const char* list = std::getenv("LD_PRELOAD");
  const auto last_part = [](std::string_view path) { return path.substr(path.rfind('/') + 1); };
  for (std::string_view rest = list ? list : ""; !rest.empty();) {
    const std::size_t end = std::min(rest.find_first_of(": "), rest.size());
    if (end && last_part(rest.substr(0, end)) == last_part(file)) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

// nvcc reads its environment once it runs. What it is told a compiler cache that runs it does not know: it must neither
// keep what comes of that for other times, nor bring what it kept.
static void instruct_nvcc(int count, char** arguments) {
  constexpr const char* variable = "NVCC_APPEND_FLAGS";
  const auto is = [](const char* path, std::string_view name) { return std::string_view(basename(path)) == name; };
  if (count < 2) return;
  if (is(arguments[0], "nvcc") || is(arguments[1], "nvcc")) setenv("CCACHE_DISABLE", "1", 1);
  if (!is(arguments[0], "nvcc")) return;
  try {
    const char* appended = std::getenv(variable);
    const std::string add = deadheat::cupti::flags_to_add(deadheat::cupti::expanded_arguments(
        {arguments + 1, arguments + count}, std::getenv("NVCC_PREPEND_FLAGS"), appended));
    if (!add.empty()) setenv(variable, ((appended ? std::string(appended) + ' ' : "") + add).c_str(), 1);
  } catch (...) {
  }
}

// Preloaded, the library is in every process of the job, compilers and shells among them: it does nothing there but
// say where the driver finds it and where to record to, and to nvcc what to put into what it makes. The driver loads it
// again by that name, and gets this same copy.
__attribute__((constructor)) static void name_itself(int count, char** arguments) {
  Dl_info here{};
  if (!dladdr(reinterpret_cast<const void*>(&InitializeInjection), &here) || !here.dli_fname) return;
  if (!preloaded(here.dli_fname)) return;
  setenv("CUDA_INJECTION64_PATH", here.dli_fname, 0);
  setenv("NVTX_INJECTION64_PATH", here.dli_fname, 0);
  try {
    deadheat::cupti::choose_output();
  } catch (...) {
  }
  instruct_nvcc(count, arguments);
}
