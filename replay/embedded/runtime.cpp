#include "replay/embedded/runtime.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <optional>
#include <regex>
#include <thread>
#include <tuple>
#include <vector>

#include "replay/device/other_threads.h"
#include "replay/embedded/call_site.h"
#include "replay/embedded/driver/driver.h"
#include "replay/embedded/entry.h"
#include "replay/embedded/graph.h"
#include "replay/embedded/names.h"
#include "tracer/ptx/demangle.h"
#include "tracer/recorder/standard_error.h"

namespace deadheat::embedded {

namespace {

std::atomic<Runtime*> existing{nullptr};
std::atomic<bool> forked{false};
std::atomic<int> exit_status{0};

// The call that a trace's depth options make for each launch: --kernel, --launch-skip, --launch-count.
std::function<bool(const std::string&, std::uint32_t)> launch_filter(const TracerOptions& options) {
  std::shared_ptr<std::regex> pattern;
  if (!options.kernel.empty()) {
    try {
      pattern = std::make_shared<std::regex>(options.kernel);
    } catch (const std::regex_error&) {
      say("'" + options.kernel + "' is not a regular expression: the accesses of all kernels are recorded");
    }
  }
  std::uint64_t matched = 0;
  return [options, pattern, matched](const std::string& kernel, std::uint32_t) mutable {
    if (!options.accesses) return false;
    if (pattern && !std::regex_search(kernel, *pattern) && !std::regex_search(ptx::demangle(kernel), *pattern))
      return false;
    const std::uint64_t number = matched++;
    return number >= options.launch_skip &&
           (options.launch_count == 0 || number - options.launch_skip < options.launch_count);
  };
}

cudaError_t error_of(trace::MemoryError::Kind kind) {
  using Kind = trace::MemoryError::Kind;
  switch (kind) {
    case Kind::misaligned: return cudaErrorMisalignedAddress;
    case Kind::wrong_space: return cudaErrorInvalidAddressSpace;
    case Kind::stack_overflow: return cudaErrorHardwareStackError;
    case Kind::trap: return cudaErrorLaunchFailure;
    case Kind::assertion: return cudaErrorAssert;
    default: return cudaErrorIllegalAddress;
  }
}

// Lets queued work go on while the host makes no CUDA call: it may be waiting for a flag in memory that it shares with
// the device. Wall-clock time decides when, so such a run cannot be repeated exactly, and the trace says so. A host
// that was seen to poll gets its answers sooner from then on.
void watch(Runtime& runtime) {
  sigset_t set;
  sigfillset(&set);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&set, signal);
  pthread_sigmask(SIG_SETMASK, &set, nullptr);
  const auto patience = std::chrono::milliseconds(runtime.options.patience);
  constexpr unsigned sooner = 20; // where a host function is queued, its host is likely to wait for it
  constexpr auto at_once = std::chrono::milliseconds(100); // so soon a host calls that has seen what it polled for
  std::uint64_t seen = runtime.calls;
  auto since = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> shown; // when memory changed that it may poll
  bool polls = false;
  while (!runtime.ended) {
    const auto bearable = runtime.host_functions || polls ? patience / sooner : patience;
    const bool impatient = std::chrono::steady_clock::now() - since >= bearable;
    std::this_thread::sleep_for(impatient ? std::chrono::milliseconds(1) : std::chrono::milliseconds(50));
    if (runtime.calls != seen || runtime.function_threads.awaited()) { // a call that waits for a function is no silence
      seen = runtime.calls;
      since = std::chrono::steady_clock::now();
      polls |= shown && since - *shown < at_once;
      shown.reset();
    } else if (impatient && runtime.lock.try_lock()) {
      if (!runtime.ended && runtime.sticky == cudaSuccess && runtime.recording->pending()) {
        runtime.recording->note_unrepeatable();
        if (runtime.device->advance(100'000)) shown = std::chrono::steady_clock::now();
        runtime.fault_seen();
      }
      runtime.lock.unlock();
    }
  }
}

// Says when a thread's code has run for long without a stop: only weak accesses and arithmetic do not stop, so a loop
// that waits for one to change never ends, on a GPU either if its compiler keeps the value in a register.
void watch_code(Runtime& runtime) {
  sigset_t set;
  sigfillset(&set);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&set, signal);
  pthread_sigmask(SIG_SETMASK, &set, nullptr);
  const auto look = std::chrono::milliseconds(std::max<std::uint64_t>(runtime.options.patience / 2, 1));
  constexpr unsigned looks = 20;
  device::RunningCode last;
  for (unsigned same = 0; !runtime.ended;) {
    std::this_thread::sleep_for(look);
    const device::RunningCode now = runtime.device->running();
    same = now.thread && now.thread == last.thread && now.turns == last.turns ? same + 1 : 0;
    last = now;
    if (same != looks) continue;
    const std::string seconds = std::to_string((look * looks).count() / 1000);
    say("kernel " + ptx::brief_name(now.kernel) + ": a thread has run for " + seconds +
        " s and let no other go on: does it wait in a loop for a plain read to change? (volatile and atomic reads let "
        "others go on)");
  }
}

void end_of_process() {
  Runtime* runtime = existing;
  if (runtime && !forked) runtime->end();
}
// Runs when the loader takes the process down: after the program's destructors and exit handlers.
__attribute__((destructor)) void library_destructor() { end_of_process(); }

// A process that has not begun to use the device may fork, and the child has one of its own and its own log. The lock
// is held meanwhile, so that it, and what it guards, are good in the child, which has no other thread.
thread_local bool holds_for_fork = false;

void before_fork() {
  Runtime* runtime = existing;
  if (!runtime || runtime->lock.mine()) return; // a signal's handler forks within a call
  while (!runtime->begun && !(holds_for_fork = runtime->lock.try_lock()))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void after_fork() {
  if (!holds_for_fork) return;
  holds_for_fork = false;
  existing.load()->lock.unlock();
}

void in_child() {
  Runtime* runtime = existing;
  if (runtime && !holds_for_fork) forked = true;
  after_fork();
}

} // namespace

bool in_forked_child() { return forked; }

Runtime::Runtime() {
  legacy.id = 1;
  legacy.kind = trace::StreamCreate::Kind::legacy;
  const char* text = std::getenv("DEADHEAT_OPTIONS");
  Expected<TracerOptions> parsed = parse_options(text ? text : "");
  if (parsed) {
    options = *parsed;
  } else {
    say(parsed.error().message());
  }
  pthread_atfork(before_fork, after_fork, in_child);
}
Runtime::~Runtime() = default;

Runtime& runtime() {
  alignas(Runtime) static unsigned char storage[sizeof(Runtime)];
  static Runtime* instance = [] {
    Runtime* made = new (storage) Runtime;
    existing = made;
    return made;
  }();
  return *instance;
}

ThreadState& thread_state() {
  static thread_local ThreadState* state = nullptr;
  if (!state) state = new ThreadState;
  return *state;
}

void say(const std::string& line) { trace::say(line); }

void say_once(const std::string& line) {
  static std::set<std::string>* said = new std::set<std::string>;
  static std::mutex* guard = new std::mutex;
  std::lock_guard<std::mutex> hold(*guard);
  if (said->insert(line).second) say(line);
}

cudaError_t Runtime::need_device() {
  if (device || no_device != cudaSuccess) return no_device;
  if (options.device != "embedded") {
    say("the embedded runtime was asked for device '" + options.device + "': it has only 'embedded'");
    return no_device = cudaErrorNoDevice;
  }
  begun = true;
  Expected<std::unique_ptr<Recording>> opened = Recording::create(options);
  if (!opened) {
    say("cannot record: " + opened.error().message());
    opened = Recording::create(TracerOptions{}); // the program's job comes first
  }
  recording = std::move(*opened);
  device::DeviceOptions settings;
  if (const std::optional<Profile> profile = profile_of(options.capability)) {
    settings.profile = *profile;
  } else {
    say("no device of compute capability '" + options.capability + "': " + known_capabilities());
    return no_device = cudaErrorNoDevice;
  }
  settings.seed = options.seed;
  settings.record_accesses = options.accesses && !options.output.empty();
  if (settings.record_accesses) settings.record_launch = launch_filter(options);
  settings.unwritten = options.unwritten;
  settings.check = options.check || !options.output.empty();
  settings.sink = recording.get();
  settings.cores = unsigned(options.cores);
  settings.spread_after = options.spread_after;
  Expected<std::unique_ptr<device::Device>> made = device::Device::create(std::move(settings));
  if (!made) {
    say("no embedded device: " + made.error().message());
    return no_device = cudaErrorInitializationError;
  }
  device = std::move(*made);
  const Profile& profile = device->profile();
  recording->record(trace::Device{0, profile.name(), profile.compute_major, profile.compute_minor,
                                  profile.multiprocessors, profile.memory_bytes});
  on_exit([](int status, void*) { exit_status = status; }, nullptr);
  return cudaSuccess;
}

void Runtime::watch_host_memory() {
  if (host_can_watch || options.patience == 0) return;
  host_can_watch = true;
  try {
    std::thread watching([this] { watch(*this); });
    device::name_own_thread(watching, "watch");
    watching.detach();
  } catch (const std::system_error&) {
    // Hosts that poll memory without calling CUDA will wait in vain.
  }
}

void Runtime::watch_running_code() {
  if (code_is_watched || options.patience == 0) return;
  code_is_watched = true;
  try {
    std::thread watching([this] { watch_code(*this); });
    device::name_own_thread(watching, "code");
    watching.detach();
  } catch (const std::system_error&) {
    // Nobody says what hangs, then.
  }
}

void Runtime::fault_seen() {
  if (sticky != cudaSuccess || !device || !device->fault()) return;
  const trace::MemoryError& fault = *device->fault();
  sticky = error_of(fault.kind);
  say(describe_fault(fault, recording->launch(fault.launch), device->module(fault.module)));
}

// At the end: errors of launches that nobody asked for, and memory that nobody freed.
void Runtime::note_unfinished() {
  for (const std::string& name : refused_calls)
    recording->record(trace::Incident{
        "refused", 1, "not done: " + name + " was asked for what the embedded device does not support"});
  for (const std::string& line : unasked) {
    trace::MemoryError error;
    error.kind = trace::MemoryError::Kind::api_error;
    error.text = line;
    recording->record(error);
  }
  if (!options.leak_check || sticky != cudaSuccess) return;
  for (const trace::Allocate& a : device->live_allocations()) {
    if (a.kind == trace::Allocate::Kind::symbol || !a.name.empty()) continue;
    trace::MemoryError error;
    error.kind = trace::MemoryError::Kind::leak;
    error.address = a.address;
    error.bytes = a.bytes;
    error.nearest_allocation = a.allocation;
    auto at = allocation_sites.find(a.allocation);
    error.text = "never freed" + (at == allocation_sites.end() ? "" : ": " + at->second);
    recording->record(error);
  }
  note_kernel_leaks();
}

// Of what kernels took from their heap, an error for each call of malloc: of thousands of threads that forget to free,
// the first stands for all.
void Runtime::note_kernel_leaks() {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<device::HeapUse>> by_site;
  for (const device::HeapUse& use : device->heap_in_use()) by_site[{use.module, use.site}].push_back(use);
  for (const auto& [site, uses] : by_site) {
    const device::HeapUse& first = *std::min_element(uses.begin(), uses.end(), [](const auto& a, const auto& b) {
      return std::tie(a.launch, a.block, a.thread) < std::tie(b.launch, b.block, b.thread);
    });
    trace::MemoryError error;
    error.kind = trace::MemoryError::Kind::leak;
    error.launch = first.launch;
    error.block = first.block;
    error.thread = first.thread;
    error.module = first.module;
    error.site = first.site;
    error.address = first.address;
    std::uint64_t bytes = 0;
    for (const device::HeapUse& use : uses) bytes += use.bytes;
    error.bytes = first.bytes;
    error.access = AccessKind::write;
    error.text = "never freed: allocated by malloc in a kernel";
    if (uses.size() > 1)
      error.text += " (" + std::to_string(uses.size()) + " times, " + std::to_string(bytes) + " bytes in all)";
    recording->record(error);
  }
}

// A program that was refused something did not do all that it does: the trace says so at its end.
void Call::refused() { runtime.refused_calls.insert(api); }

// A failed launch is forgotten by the next call of the same thread that asks for the last error.
void Runtime::launch_failed(const std::string& kernel, cudaError_t status, ThreadState& thread) {
  if (options.output.empty() || !recording || !thread.unasked.empty()) return;
  const std::string site = call_site(kernel);
  thread.unasked = "the launch of " + ptx::brief_name(kernel) + (site.empty() ? "" : " at " + site) + " failed (" +
                   cudaGetErrorName(status) + "), and nothing asked for the error";
  unasked.push_back(thread.unasked);
}

bool Runtime::lock_at_end() {
  constexpr unsigned most = 500; // of 10 ms each, of all waits in vain together
  for (; !lock.try_lock(); ++waits_at_end) {
    if (lock.mine() || waits_at_end >= most) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  waits_at_end = 0;
  return true;
}

void Runtime::end() {
  if (ended) return;
  ThreadState& thread = thread_state();
  const bool handler = lock.mine(); // of a signal that came within a call of this thread
  const bool locked = lock_at_end();
  const bool whole = locked && !thread.in_callback; // exit() inside a callback: this thread stands inside the device
  if (ended.exchange(true)) return;
  try {
    if (!static_runtime.empty() && submitted == 0) say(static_runtime_line(static_runtime));
    if (device && whole && sticky == cudaSuccess) {
      if (device->drain() == device::Progress::hang) {
        say("the device hangs: " + device->stuck_description());
        device->report_hang();
      }
      fault_seen();
      note_unfinished();
    }
    if (recording) {
      Expected<void> finished;
      if (!locked && !handler) {
        finished = recording->break_off(exit_status);
      } else if (!handler || !recording->writes()) { // within a write the trace can only be left as by a kill
        finished = recording->finish(exit_status, whole);
      }
      if (!finished) say("the trace is incomplete: " + finished.error().message());
    }
  } catch (...) {
    say("the trace is incomplete: out of memory");
  }
  if (locked) lock.unlock();
}

static bool begin_locked(Need need, cudaError_t* status, Wait wait, const Undisturbed& before) {
  try {
    ThreadState& thread = thread_state();
    if (thread.in_callback) {
      *status = thread.last_error = cudaErrorNotPermitted;
      return false;
    }
    Runtime& state = runtime();
    if (state.lock.mine()) { // this is a signal's handler
      *status = cudaErrorNotPermitted;
      return false;
    }
    std::unique_lock<CallLock> hold(state.lock, std::defer_lock);
    if (wait == Wait::any) {
      hold.lock();
    } else if (state.lock_at_end()) {
      hold = std::unique_lock<CallLock>(state.lock, std::adopt_lock);
    } else {
      *status = cudaErrorNotReady;
      return false;
    }
    *status = state.ended ? cudaErrorCudartUnloading : cudaSuccess;
    if (*status != cudaSuccess) return false;
    ++state.calls;
    if (thread.number == 0) thread.number = ++state.host_threads;
    if (need != Need::nothing) {
      state.fault_seen();
      if (need == Need::device) *status = state.sticky;
      if (*status == cudaSuccess) *status = state.need_device();
      if (*status != cudaSuccess) {
        thread.last_error = *status;
        return false;
      }
    }
    if (thread.open_calls++ == 0) thread.before_call = before;
    hold.release();
    return true;
  } catch (...) {
    *status = exception_status();
    return false;
  }
}

static void restore(const Undisturbed& before) {
  pthread_setcancelstate(before.cancel_state, nullptr);
  errno = before.error_number;
}

// The thread is not cancelled within a call, which would unwind through the device.
bool begin_call(Need need, cudaError_t* status, Wait wait) {
  if (forked) {
    *status = cudaErrorInitializationError;
    return false;
  }
  Undisturbed before;
  before.error_number = errno;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before.cancel_state);
  if (begin_locked(need, status, wait, before)) return true;
  restore(before);
  return false;
}

void leave_call() {
  ThreadState& thread = thread_state();
  const bool outermost = --thread.open_calls == 0;
  runtime().lock.unlock();
  if (outermost) restore(thread.before_call);
}

cudaError_t end_call(cudaError_t status) {
  if (status != cudaSuccess) thread_state().last_error = status;
  leave_call();
  return status;
}

cudaError_t exception_status() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return cudaErrorMemoryAllocation;
  } catch (...) {
    return cudaErrorUnknown;
  }
}

cudaError_t last_error(bool reset) noexcept {
  cudaError_t status = cudaSuccess;
  if (!begin_call(Need::nothing, &status)) return status;
  ThreadState& thread = thread_state();
  if (!thread.unasked.empty()) {
    std::erase(runtime().unasked, thread.unasked);
    thread.unasked.clear();
  }
  status = thread.last_error;
  if (reset) thread.last_error = cudaSuccess;
  leave_call();
  return status;
}

// Called by unsupported.cpp, which cannot see CUDA's types: a cudaError_t.
int not_supported(const char* name) noexcept;
int not_supported(const char* name) noexcept {
  return enter(name, DefaultStream::legacy, Need::nothing, [](Call& call) {
    say_once(std::string(call.api) + " is not supported by the embedded device");
    return cudaErrorNotSupported;
  });
}

Stream* Call::stream(cudaStream_t handle) {
  Stream* found = find_stream(handle);
  // Its graph's operations are not all submitted yet, and the lock is lent: the call comes behind them.
  while (found && found->launching && found->launching != thread.number && runtime.sticky == cudaSuccess) {
    runtime.lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    runtime.lock.lock();
    found = find_stream(handle);
  }
  return found;
}

Stream* Call::find_stream(cudaStream_t handle) {
  if (handle == nullptr) handle = null_stream == DefaultStream::legacy ? cudaStreamLegacy : cudaStreamPerThread;
  if (handle == cudaStreamLegacy) return &runtime.legacy;
  if (handle == cudaStreamPerThread) {
    if (!thread.per_thread_stream) {
      thread.per_thread_stream = runtime.add_stream(trace::StreamCreate::Kind::per_thread, 0, 0, thread.number);
    }
    handle = thread.per_thread_stream;
  }
  auto found = runtime.streams.find(handle);
  return found == runtime.streams.end() ? nullptr : found->second.get();
}

cudaStream_t Runtime::add_stream(trace::StreamCreate::Kind kind, unsigned flags, int priority, std::uint32_t thread) {
  auto made = std::make_unique<Stream>();
  made->flags = flags;
  made->priority = priority;
  made->kind = kind;
  made->id = device->create_stream(kind, priority, thread);
  auto handle = reinterpret_cast<cudaStream_t>(made.get());
  streams.emplace(handle, std::move(made));
  return handle;
}

Event* Call::event(cudaEvent_t handle) {
  auto found = runtime.events.find(handle);
  return found == runtime.events.end() ? nullptr : found->second.get();
}

cudaError_t Call::result(device::Progress progress) {
  switch (progress) {
    case device::Progress::done: return cudaSuccess;
    case device::Progress::pending: return cudaErrorNotReady;
    case device::Progress::fault: runtime.fault_seen(); return runtime.sticky;
    case device::Progress::hang: break;
  }
  say("the device hangs: " + device().stuck_description());
  device().report_hang();
  return runtime.sticky = cudaErrorLaunchTimeout;
}

cudaError_t Call::wait(trace::HostWait::Kind kind, std::uint32_t id) {
  device().begin_wait({kind, id, thread.number});
  trace::HostWait request;
  request.kind = kind;
  request.id = id;
  request.host_thread = thread.number;
  const cudaError_t status = result(wait_while_others_may_help([&] { return device().wait(request); }));
  runtime.recording->flush(status != cudaSuccess);
  return status;
}

// Nothing can go on by itself, and the lock is lent to other host threads: to those that run a stream's host function,
// for as long as that takes; to one that may be about to write what a kernel waits for, in memory that it shares with
// the device, for as long as a host's silence is borne. Only then who waits in vain for others of its warp or block is
// made to go on.
device::Progress Call::wait_while_others_may_help(const std::function<device::Progress()>& drive) {
  bool lent = false, may_help = false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(runtime.options.patience);
  const auto drive_on = [&] {
    may_help = runtime.host_can_watch && std::chrono::steady_clock::now() < end;
    device().others_may_help(may_help);
    const device::Progress progress = drive();
    device().others_may_help(false);
    return progress;
  };
  device::Progress progress = drive_on();
  while (progress == device::Progress::pending || (progress == device::Progress::hang && may_help)) {
    // Of a function that runs on it has been noted.
    if (!lent && progress == device::Progress::hang) runtime.recording->note_unrepeatable();
    if (!lent && runtime.function_threads.awaited()) runtime.recording->note_beside_function();
    runtime.lock.unlock();
    runtime.function_threads.await_an_end();
    runtime.lock.lock();
    lent = true;
    progress = drive_on();
  }
  return progress;
}

cudaError_t Call::query(trace::HostWait::Kind kind, std::uint32_t id) {
  trace::HostWait request;
  request.kind = kind;
  request.id = id;
  request.query = true;
  request.host_thread = thread.number;
  const cudaError_t status = result(device().query(request));
  if (status != cudaErrorNotReady) runtime.recording->flush(status != cudaSuccess);
  return status;
}

cudaError_t Call::complete(std::uint32_t operation) {
  return result(wait_while_others_may_help([&] { return device().run_until(operation); }));
}

cudaError_t Call::complete_all() {
  return result(wait_while_others_may_help([&] { return device().drain(); }));
}

cudaError_t Call::wait_operation(std::uint32_t operation) {
  const cudaError_t status =
      result(wait_while_others_may_help([&] { return device().wait_operation(operation, thread.number); }));
  runtime.recording->flush(status != cudaSuccess);
  return status;
}

} // namespace deadheat::embedded
