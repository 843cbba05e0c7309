#include "tracer/cupti/injection.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include "tracer/cupti/activity.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/hooks.h"
#include "tracer/cupti/layers.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/process.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/thread.h"
#include "tracer/cupti/watched.h"

namespace deadheat::cupti {

namespace {

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

[[gnu::hot]] void CUPTIAPI on_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* bytes) {
  const auto* data = static_cast<const CUpti_CallbackData*>(bytes);
  const bool exit = data->callbackSite == CUPTI_API_EXIT;
  const bool of_driver = domain == CUPTI_CB_DOMAIN_DRIVER_API && id < most_calls;
  if (of_driver) {
    const Watched& which = watched[id];
    if (which.hook ? which.hook == here.hook : !exit && !which.comes_by) return;
  }
  if (here.own_calls || !layer_on(Layer::handlers)) return;
  if (!of_driver) {
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) on_runtime_call(*data);
    return;
  }
  const Watched& which = watched[id];
  Session* session = Session::get();
  if (!session) return;
  if (which.hook) {
    stray(*session, which.hook, exit);
    if (!exit && !which.comes_by) return;
  }
  Call call{*session,
            data->context,
            data->symbolName,
            here.runtime_call ? here.runtime_call : data->functionName,
            which.per_thread,
            exit,
            exit && data->functionReturnValue ? *static_cast<CUresult*>(data->functionReturnValue) : CUDA_SUCCESS,
            data->correlationData};
  if (session->activity()) [[unlikely]]
    Activity::driver_call(data->correlationId);
  come_by(which, call, const_cast<void*>(data->functionParams));
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
    bool tells = false;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
      tells = wanted(watched[id], *Session::get()) && told_by_cupti(id);
    } else {
      const char* name = nullptr;
      tells = api.cuptiGetCallbackName(domain, id, &name) == CUPTI_SUCCESS && name && named_in_reports(name);
    }
    if (tells) api.cuptiEnableCallback(on, the_subscriber, domain, CUpti_CallbackId(id));
  }
}

void at_exit(int status, void*) {
  if (Session* session = Session::get()) session->finish(status, true);
}

}  // namespace

// Names of entry points are cleaned once each: the key is the string's address.
struct ApiNames {
  std::unordered_map<const char*, std::string> clean;
};

const std::string& Call::api() const {
  auto [at, fresh] = own(here.names).clean.try_emplace(function);
  if (fresh) at->second = plain_name(function);
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
  use_hooks(*Session::get());
  with_timestamps = timestamps;
  enable(CUPTI_CB_DOMAIN_DRIVER_API, true);
  enable(CUPTI_CB_DOMAIN_RUNTIME_API, true);
  if (const char* text = std::getenv("DEADHEAT_LAYERS")) change_layers(unsigned(std::atoi(text)));
  return true;
}

constinit Hot hot;
std::mutex& callbacks = *new std::mutex;

void enable_call(unsigned id, bool on) {
  cupti().cuptiEnableCallback(on, the_subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUpti_CallbackId(id));
}

void change_layers(unsigned uppermost, bool detach) {
  Session* session = Session::get();
  if (!session || !the_subscriber) return;
  Own own;
  std::lock_guard hold(callbacks);
  if (layer_on(Layer::all) && uppermost < unsigned(Layer::all)) session->journal().pump(session->writer());
  const unsigned before = std::min(hot.layers.exchange(uppermost), unsigned(Layer::all));
  if (before == uppermost) return;
  session->journal().has_gaps();
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

// Preloaded, the library is in every process of the job, compilers and shells among them: it does nothing there but
// say where the driver finds it. The driver loads it again by that name, and gets this same copy.
__attribute__((constructor)) static void name_itself() {
  Dl_info here{};
  if (!dladdr(reinterpret_cast<const void*>(&InitializeInjection), &here) || !here.dli_fname) return;
  if (!preloaded(here.dli_fname)) return;
  setenv("CUDA_INJECTION64_PATH", here.dli_fname, 0);
  setenv("NVTX_INJECTION64_PATH", here.dli_fname, 0);
}
