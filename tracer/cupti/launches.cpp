// Kernel launches: which kernel, with what, and the instrumented clone in its place.
#include <array>
#include <cstring>

#include "tracer/cupti/clones.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/hot.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/nvtx.h"
#include "tracer/cupti/python.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/thread.h"
#include "tracer/cupti/window.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::cupti {

// What a launch call is, from the way in to the way out.
struct PendingLaunch {
  bool prepared = false;              // it was looked at on the way in
  bool submits = false;               // the launch is one (and no graph's node)
  bool opaque_node = false;           // it becomes a graph's node, as it is
  Journal::Launched launch;
  std::shared_ptr<RecordedLaunch> recorded;
  std::uint32_t control = 0;
  device_log::Control parameter;
  std::vector<trace::Span> on_host;   // page-locked memory that it reaches, in a window
  std::vector<void*> parameters;      // what the driver is given
  std::vector<std::uint8_t> buffer;   // likewise, packed
  std::size_t buffer_bytes = 0;
  void* extra[5] = {};
  struct Own {                        // what the program gave, where the driver is given the clone
    CUfunction f = nullptr;
    void **parameters = nullptr, **extra = nullptr;
  } own;

  void clear() {
    launch.clear();
    prepared = submits = opaque_node = false;
    recorded = nullptr;
    own = {};
    on_host.clear();
  }
};

void reset(PendingLaunch& pending) { pending.clear(); }

struct KnownKernels {  // by a hash of their handles
  struct Known {
    CUfunction handle = nullptr;
    CUcontext context = nullptr;
    Kernel* kernel = nullptr;
    std::uint64_t generation = 0;
  };
  std::array<Known, 512> known;
};

namespace {

using Pending = PendingLaunch;

Pending& pending_launch() { return own(here.pending); }

[[gnu::noinline]] Kernel& looked_up_kernel(Call& call, CUfunction f, KnownKernels::Known& place,
                                           std::uint64_t generation) {
  // Code that is needed for the first time is loaded by the driver (CUDA Programming Guide, "Lazy Loading").
  if (!call.exit && !call.session.modules().is_loaded(f, call.symbol, call.context)) {
    call.session.recorder().let_kernels_end(call.context, Unfinished::while_loading);
  }
  Kernel& kernel = call.session.modules().kernel(f, call.symbol, call.context);
  place = {f, call.context, &kernel, generation};
  return kernel;
}

// Most launches are of few kernels: found without a lock.
inline Kernel& known_kernel(Call& call, CUfunction f) {
  KnownKernels::Known& place =
      own(here.kernels).known[(reinterpret_cast<std::uintptr_t>(f) * 0x9e3779b97f4a7c15u) >> 55];
  const std::uint64_t generation = hot.known_kernels.load(std::memory_order_acquire);
  if (place.handle == f && place.context == call.context && place.generation == generation) [[likely]] {
    return *place.kernel;
  }
  return looked_up_kernel(call, f, place, generation);
}

// What of the arguments of a launch of so many blocks may point into memory. Returns how many words that is. `on_host`:
// becomes true where one may point into memory that host and device reach.
std::size_t words_of(const Session& session, const Kernel& kernel, std::uint32_t blocks, void** parameters,
                     std::uint64_t* to, const HostWrites* writes, bool& on_host) {
  std::uint64_t* const begin = to;
  const auto [least, most] = session.extent();
  for (const Kernel::Words& words : kernel.words) {
    const auto* at = static_cast<const std::uint8_t*>(parameters[words.parameter]);
    if (!at) continue;
    const std::optional<std::uint32_t> tensors = words.lists ? kernel.lists->used(at, blocks) : std::nullopt;
    at += words.skip;
    for (unsigned i = 0; i < words.count; ++i, at += 8) {
      if (tensors && !kernel.lists->is_address(8 * i, *tensors)) continue;
      std::uint64_t word;
      std::memcpy(&word, at, 8);
      *to = Reach::marked(word, words.alone);
      const bool in_memory = word - least < most - least;
      to += in_memory;
      on_host |= in_memory && writes && writes->maybe_reaches_host(word);
    }
  }
  return std::size_t(to - begin);
}

// The launch may tell the host something, or wait for it.
void reaches_host(Call& call, const std::vector<std::uint8_t>& arguments, std::uint32_t stream) {
  HostWrites* writes = call.session.host_writes();
  if (!writes) return;
  std::vector<std::uint64_t> words(arguments.size() / 8);
  if (!words.empty()) std::memcpy(words.data(), arguments.data(), 8 * words.size());
  std::erase_if(words, [&](std::uint64_t word) { return !writes->maybe_reaches_host(word); });
  if (!words.empty() || writes->any_kernel_may()) writes->launched(words, stream);
}

void prepare(Call& call, const Journal::LaunchFacts& facts, CUfunction& f, void**& parameters, void**& extra,
             CUstream stream) {
  Pending& pending = pending_launch();
  Journal::Launched* launch = &pending.launch;
  static_cast<Journal::LaunchFacts&>(*launch) = facts;
  Session& session = call.session;
  Kernel& kernel = known_kernel(call, f);
  const bool captured = call.captured(stream);
  // Without its parameters the call is about to fail.
  const bool whole = parameters || extra || (kernel.instrumented && kernel.instrumented->parameters == 0);
  bool record = kernel.instrumented && whole && session.recorder().wants(kernel.name);
  if (launch->cluster.count() == 1) launch->cluster = record ? own_cluster(kernel, f) : compiled_cluster(kernel);
  record = record && fits(session, kernel, *launch) &&
           session.recorder().control(call.context, kernel, pending.parameter, captured);
  launch->kernel = &kernel;
  launch->ranges = nvtx_ranges();
  arguments_of(kernel, parameters, extra, launch->arguments);
  if (record) {
    launch->python = python_line();
    pending.control = pending.parameter.control;
    const bool in_buffer = !parameters && extra;
    if (in_buffer) {
      pending.buffer = launch->arguments;
      pending.buffer.resize(kernel.instrumented->parameter_offset + sizeof pending.parameter);
      std::memcpy(pending.buffer.data() + kernel.instrumented->parameter_offset, &pending.parameter,
                  sizeof pending.parameter);
      pending.buffer_bytes = pending.buffer.size();
      pending.extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
      pending.extra[1] = pending.buffer.data();
      pending.extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
      pending.extra[3] = &pending.buffer_bytes;
      pending.extra[4] = CU_LAUNCH_PARAM_END;
    } else {
      pending.parameters.clear();
      if (parameters) pending.parameters.assign(parameters, parameters + kernel.instrumented->parameters);
      pending.parameters.push_back(&pending.parameter);
    }
    if (!captured) {
      session.recorder().before_launch(call.context, call.own_handle(stream));
      std::lock_guard hold(session.lock);
      launch->launch = session.next_launch();
      pending.recorded =
          session.recorder().expect(pending.control, shape_of(session, call.context, kernel, *launch, launch->launch));
      launch->accesses = pending.recorded;
    }
    pending.own = {f, parameters, extra};
    f = kernel.clone; // with its parameter, and expected: nothing behind this fails
    if (in_buffer)
      extra = pending.extra;
    else
      parameters = pending.parameters.data();
  }
  pending.prepared = true;
  pending.submits = !captured;
  pending.opaque_node = captured && !record;
  if (Window* window = session.window(); window && record && !captured) {
    pending.on_host = window->before_launch(launch->arguments, call.own_handle(stream));
  }
  if (Window* window = session.window(); window && !record && !captured) {
    window->before_opaque(call.context, launch->arguments);
  }
}

// An opaque kernel that became a graph's node: `launch` has its arguments.
[[gnu::noinline]] void captured(Call& call, Journal::Launched& launch, CUstream stream) {
  if (const CUgraphNode node = call.captured_node(stream)) {
    call.session.journal().push(
        Journal::CapturedKernel{node, launch.kernel, launch.grid.x, std::move(launch.arguments)});
  }
}

// Nothing that was expected of the launch will come.
void expect_nothing(Session& session, Pending& pending) {
  if (pending.recorded) session.recorder().cancel(pending.control, pending.recorded);
  pending.recorded = nullptr;
  pending.launch.accesses = nullptr;
}

// The driver did not launch the clone, for whose frames there may be no memory: then the program's own kernel is
// launched, by `again`, and what comes of that is what the program gets.
template <typename P, typename Again>
[[gnu::noinline]] void launch_own(Call& call, P& p, CUstream stream, Again&& again) {
  Session& session = call.session;
  Pending& pending = pending_launch();
  const CUresult why = call.result;
  p.f = pending.own.f;
  p.kernelParams = pending.own.parameters;
  if constexpr (requires { p.extra; }) p.extra = pending.own.extra;
  call.return_instead(again());
  if (call.result == CUDA_ERROR_OUT_OF_MEMORY) {
    expect_nothing(session, pending);
    call.retry_with_room(again);
  }
  if (!call.done()) return;
  const Kernel& kernel = *pending.launch.kernel;
  kernel.forgone = true;
  const std::string line = "kernel " + ptx::brief_name(kernel.name) +
                           " is not recorded: the driver did not launch it instrumented (error " +
                           std::to_string(int(why)) + ")";
  say_once(line);
  session.incident("opaque", line);
  expect_nothing(session, pending);
  pending.opaque_node = !pending.submits;
  Window* window = session.window();
  if (!window) return;
  if (window->open())
    window->spoil("what a launch of it changed is not known, which the driver did not make instrumented");
  if (!pending.on_host.empty()) window->not_launched(pending.on_host, call.own_handle(stream));
  pending.on_host.clear();
}

void finish(Call& call, CUstream stream) {
  Session& session = call.session;
  Pending& pending = pending_launch();
  if (Window* window = session.window()) {
    std::vector<trace::Effects::Change> effects;
    const bool known = window->after_opaque(stream, call.done(), effects);
    if (known && pending.submits) {
      pending.launch.by_effect = true;
      pending.launch.effects = std::move(effects);
    }
  }
  if (pending.submits && call.done()) {
    std::lock_guard hold(session.lock);
    pending.launch.stream = call.stream(stream);
    session.number(pending.launch);
    if (!pending.on_host.empty()) {
      session.window()->after_launch(pending.on_host, pending.launch.stream, pending.launch.operation,
                                     call.own_handle(stream));
    }
    reaches_host(call, pending.launch.arguments, pending.launch.stream);
    session.journal().push(pending.launch);
  } else {
    if (pending.recorded) session.recorder().cancel(pending.control, pending.recorded);
    if (!pending.on_host.empty()) session.window()->not_launched(pending.on_host, call.own_handle(stream));
    if (call.done() && pending.opaque_node) captured(call, pending.launch, stream);
  }
  pending.clear();
}

// A launch of which nothing is recorded, whose parameters are not known or of which timestamps are asked for.
[[gnu::noinline]] void submit_whole(Call& call, const Journal::LaunchFacts& facts, void** parameters, void** extra,
                                    CUstream stream) {
  Session& session = call.session;
  std::lock_guard hold(session.lock);
  Journal::Launched& launch = pending_launch().launch;
  launch.clear();
  static_cast<Journal::LaunchFacts&>(launch) = facts;
  launch.stream = call.stream(stream);
  session.number(launch);
  arguments_of(*facts.kernel, parameters, extra, launch.arguments);
  reaches_host(call, launch.arguments, launch.stream);
  session.journal().push(launch);
}

// The way out of a launch of which nothing is recorded: on the way in, nothing was done.
[[gnu::hot]] void submit_plain(Call& call, Journal::LaunchFacts& facts, CUfunction f, void** parameters, void** extra,
                               CUstream stream) {
  if (!call.done()) return;
  Session& session = call.session;
  const Kernel& kernel = known_kernel(call, f);
  facts.kernel = &kernel;
  if (call.captured(stream)) [[unlikely]] {
    Journal::Launched& launch = pending_launch().launch;
    static_cast<Journal::LaunchFacts&>(launch) = facts;
    arguments_of(kernel, parameters, extra, launch.arguments);
    captured(call, launch, stream);
    return launch.clear();
  }
  facts.ranges = nvtx_ranges();
  if (kernel.instrumented && facts.cluster.count() == 1) [[unlikely]]
    facts.cluster = compiled_cluster(kernel);
  const bool known = parameters || (!extra && kernel.parameters.empty());
  if (!known || kernel.most_words > Journal::most_words || session.activity()) [[unlikely]] {
    return submit_whole(call, facts, parameters, extra, stream);
  }
  facts.stream = session.stream_again(call.context, stream, call.per_thread);
  session.number(facts);
  HostWrites* const writes = session.host_writes();
  bool on_host = writes && writes->any_kernel_may();
  session.journal().push(facts, kernel.most_words, [&](std::uint64_t* to) {
    return words_of(session, kernel, facts.grid.x, parameters, to, writes, on_host);
  });
  if (on_host) [[unlikely]] {
    std::vector<std::uint8_t> arguments;
    arguments_of(kernel, parameters, nullptr, arguments);
    reaches_host(call, arguments, facts.stream);
  }
}

// Whether something must be done on the way in. The kernel has a clone, or a window looks at what it changes.
bool looks_at_way_in(Call& call, CUfunction f) {
  pending_launch().clear();
  return call.session.window() || known_kernel(call, f).instrumented;
}

// The way out of a launch that the driver did not make. `again`: makes the same call.
template <typename P, typename Again>
[[gnu::noinline]] void refused(Call& call, P& p, CUstream stream, Again&& again) {
  if (here.pending && here.pending->prepared && here.pending->own.f)
    launch_own(call, p, stream, again);
  else
    call.retry_with_room(again);
}

template <typename P, typename Again>
void launch(Call& call, P& p, bool cooperative, Again&& again) {
  void** extra = nullptr;
  if constexpr (requires { p.extra; }) extra = p.extra;
  if (call.exit && call.result != CUDA_SUCCESS) [[unlikely]]
    refused(call, p, p.hStream, again);
  if (call.exit && here.pending && here.pending->prepared) return finish(call, p.hStream);
  if (!call.exit && !looks_at_way_in(call, p.f)) return;
  Journal::LaunchFacts facts;
  facts.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
  facts.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
  facts.dynamic_shared = p.sharedMemBytes;
  facts.cooperative = cooperative;
  if (call.exit) return submit_plain(call, facts, p.f, p.kernelParams, extra, p.hStream);
  prepare(call, facts, p.f, p.kernelParams, extra, p.hStream);
  if constexpr (requires { p.extra; }) p.extra = extra;
}

} // namespace

[[gnu::hot]] void launch_kernel(Call& call, cuLaunchKernel_params& p) {
  launch(call, p, false, [&] {
    return driver().cuLaunchKernel(p.f, p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ,
                                   p.sharedMemBytes, call.own_handle(p.hStream), p.kernelParams, p.extra);
  });
}
void launch_cooperative(Call& call, cuLaunchCooperativeKernel_params& p) {
  launch(call, p, true, [&] {
    return driver().cuLaunchCooperativeKernel(p.f, p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY,
                                              p.blockDimZ, p.sharedMemBytes, call.own_handle(p.hStream),
                                              p.kernelParams);
  });
}

namespace {

// Events that a launch records itself (CUDA driver API, CUlaunchAttributeID), around `submit`, on the way out. When all
// blocks have begun, what comes before it in its stream is complete. When all have triggered is not known: the event
// counts as recorded behind the launch.
template <typename Submit>
[[gnu::noinline]] void with_events(Call& call, const CUlaunchConfig& config, Submit&& submit) {
  const bool made = call.done() && !call.captured(config.hStream);
  const auto record = [&](CUlaunchAttributeID which) {
    for (unsigned i = 0; made && i < config.numAttrs; ++i) {
      const CUlaunchAttribute& a = config.attrs[i];
      if (a.id != which) continue;
      std::lock_guard hold(call.session.lock);
      const bool completion = which == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
      const CUevent event = completion ? a.value.launchCompletionEvent.event : a.value.programmaticEvent.event;
      call.session.record_event(call.session.event(event), call.stream(config.hStream));
      if (!completion) {
        call.session.incident("lost",
                              "an event is recorded when a launch's blocks trigger it: "
                              "what waits for it counts as waiting for the launch");
      }
    }
  };
  record(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT);
  submit();
  record(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT);
}

bool records_event(const CUlaunchAttribute& attribute) {
  return attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ||
         attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
}

} // namespace

[[gnu::hot]] void launch_kernel_ex(Call& call, cuLaunchKernelEx_params& p) {
  if (!p.config) return;
  const CUlaunchConfig& c = *p.config;
  if (call.exit && call.result != CUDA_SUCCESS) [[unlikely]] {
    refused(call, p, c.hStream, [&] {
      CUlaunchConfig config = c;
      config.hStream = call.own_handle(c.hStream);
      return driver().cuLaunchKernelEx(&config, p.f, p.kernelParams, p.extra);
    });
  }
  if (call.exit && here.pending && here.pending->prepared) {
    return with_events(call, c, [&] { finish(call, c.hStream); });
  }
  if (!call.exit && !looks_at_way_in(call, p.f)) return;
  bool events = false;
  Dim3 preferred; // of clusters
  Journal::LaunchFacts facts;
  facts.grid = {c.gridDimX, c.gridDimY, c.gridDimZ};
  facts.block = {c.blockDimX, c.blockDimY, c.blockDimZ};
  facts.dynamic_shared = c.sharedMemBytes;
  for (unsigned i = 0; c.attrs && i < c.numAttrs; ++i) {
    const CUlaunchAttribute& a = c.attrs[i];
    if (a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      facts.cluster = {a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z};
    } else if (a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
      facts.cooperative = a.value.cooperative != 0;
    } else if (a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      facts.programmatic = a.value.programmaticStreamSerializationAllowed != 0;
    } else if (a.id == CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION) {
      preferred = {a.value.preferredClusterDim.x, a.value.preferredClusterDim.y, a.value.preferredClusterDim.z};
    } else if (records_event(a)) {
      events = true;
    }
  }
  facts.clusters_vary = preferred.count() > facts.cluster.count();
  if (call.exit && events) [[unlikely]] {
    return with_events(call, c, [&] { submit_plain(call, facts, p.f, p.kernelParams, p.extra, c.hStream); });
  }
  if (call.exit) return submit_plain(call, facts, p.f, p.kernelParams, p.extra, c.hStream);
  prepare(call, facts, p.f, p.kernelParams, p.extra, c.hStream);
}

void profiler_start(Call& call, cuProfilerStart_params&) {
  if (call.done()) call.session.recorder().capture_range("cudaProfilerApi", true);
}
void profiler_stop(Call& call, cuProfilerStop_params&) {
  if (!call.exit) call.session.recorder().capture_range("cudaProfilerApi", false);
}

} // namespace deadheat::cupti
