// Kernel launches: which kernel, with what, and the instrumented clone in its place.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "tracer/cupti/handlers.h"
#include "tracer/cupti/hot.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/nvtx.h"
#include "tracer/cupti/python.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/thread.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

// What a launch call is, from the way in to the way out.
struct PendingLaunch {
  bool prepared = false;              // it was looked at on the way in
  bool submits = false;               // the launch is one (and no graph's node)
  Journal::Launched launch;
  std::shared_ptr<RecordedLaunch> recorded;
  std::uint32_t control = 0;
  device_log::Control parameter;
  std::vector<trace::Span> on_host;   // page-locked memory that it reaches, in a window
  std::vector<void*> parameters;      // what the driver is given
  std::vector<std::uint8_t> buffer;   // likewise, packed
  std::size_t buffer_bytes = 0;
  void* extra[5] = {};

  void clear() {
    launch.clear();
    prepared = submits = false;
    recorded = nullptr;
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

void copy_arguments(const Kernel& kernel, void** parameters, std::uint8_t* to) {
  if (kernel.gaps) std::memset(to, 0, kernel.arguments_bytes);
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Kernel::Parameter& p = kernel.parameters[i];
    if (parameters[i])
      std::memcpy(to + p.offset, parameters[i], p.bytes);
    else
      std::memset(to + p.offset, 0, p.bytes);
  }
}

// The argument block: as the kernel sees it.
void arguments_of(const Kernel& kernel, void** parameters, void** extra, std::vector<std::uint8_t>& block) {
  block.clear();
  if (parameters) {
    block.resize(kernel.arguments_bytes);
    copy_arguments(kernel, parameters, block.data());
  } else if (extra) {
    const void* bytes = nullptr;
    std::size_t size = 0;
    for (void** at = extra; *at != CU_LAUNCH_PARAM_END; at += 2) {
      if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
        bytes = at[1];
      else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE)
        size = *static_cast<std::size_t*>(at[1]);
      else
        break;
    }
    if (bytes) block.assign(static_cast<const std::uint8_t*>(bytes), static_cast<const std::uint8_t*>(bytes) + size);
  }
}

// What of the arguments may point into memory. Returns how many words that is.
std::size_t words_of(const Session& session, const Kernel& kernel, void** parameters, std::uint64_t* to) {
  std::uint64_t* const begin = to;
  const auto [least, most] = session.extent();
  for (const Kernel::Words& words : kernel.words) {
    const auto* at = static_cast<const std::uint8_t*>(parameters[words.parameter]);
    if (!at) continue;
    at += words.skip;
    for (unsigned i = 0; i < words.count; ++i, at += 8) {
      std::uint64_t word;
      std::memcpy(&word, at, 8);
      *to = Reach::marked(word, words.alone);
      to += word - least < most - least;
    }
  }
  return std::size_t(to - begin);
}

// Allocations that words of the arguments of a graph's node point into.
std::vector<std::uint64_t> footprint(Session& session, const std::vector<std::uint8_t>& arguments) {
  std::vector<std::uint64_t> reached;
  for (std::size_t at = 0; at + 8 <= arguments.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, arguments.data() + at, 8);
    const trace::Allocate* memory = session.allocation_at(word);
    if (memory && std::find(reached.begin(), reached.end(), memory->allocation) == reached.end()) {
      reached.push_back(memory->allocation);
    }
  }
  return reached;
}

template <typename Launch>
device_log::Shape shape_of(const Session& session, const Kernel& kernel, const Launch& launch, std::uint32_t number) {
  device_log::Shape shape;
  shape.tensor_maps = &session.tensor_maps;
  shape.launch = number;
  shape.module = kernel.code->module;
  shape.blocks = std::uint32_t(launch.grid.count());
  shape.threads = std::uint32_t(launch.block.count());
  shape.grid = launch.grid;
  shape.cluster = launch.cluster;
  shape.unseen_arrivals = kernel.instrumented->unseen_arrivals;
  shape.programmatic = launch.programmatic;
  shape.strong = kernel.instrumented->strong;
  shape.segments = &kernel.code->instrumentation.segments;
  shape.sites = &kernel.code->sites;
  return shape;
}

// The blocks of a cluster where the launch does not say: as the kernel was compiled (.reqnctapercluster).
Dim3 compiled_cluster(const Kernel& kernel) {
  return kernel.instrumented && kernel.instrumented->cluster ? *kernel.instrumented->cluster : Dim3{};
}

constexpr std::uint64_t portable_cluster =
    8;  // blocks, on any device (CUDA C++ Programming Guide, thread block clusters)

// What the program set on the original, on its clone.
void set_attribute(const Kernel& kernel, CUfunction_attribute attribute, int value) {
  if (!kernel.code->library) {
    driver().cuFuncSetAttribute(kernel.clone, attribute, value);
    return;
  }
  CUdevice device = 0;
  driver().cuCtxGetDevice(&device);
  driver().cuKernelSetAttribute(attribute, value, reinterpret_cast<CUkernel>(kernel.clone), device);
}

// How many of the launch's blocks can be on the device at the same time, if they are the clone's: what the program
// asked of the original (CUDA driver API, 6.30 Occupancy). Nothing where the driver does not say.
std::optional<std::uint64_t> resident_blocks(const Kernel& kernel, const Journal::LaunchFacts& launch) {
  const Driver& d = driver();
  int count = 0;
  if (launch.cluster.count() > 1) {
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {launch.cluster.x, launch.cluster.y, launch.cluster.z};
    CUlaunchConfig config{};
    config.gridDimX = launch.grid.x;
    config.gridDimY = launch.grid.y;
    config.gridDimZ = launch.grid.z;
    config.blockDimX = launch.block.x;
    config.blockDimY = launch.block.y;
    config.blockDimZ = launch.block.z;
    config.sharedMemBytes = launch.dynamic_shared;
    config.attrs = &cluster;
    config.numAttrs = 1;
    if (!d.cuOccupancyMaxActiveClusters ||
        d.cuOccupancyMaxActiveClusters(&count, kernel.clone, &config) != CUDA_SUCCESS) {
      return std::nullopt;
    }
    return std::uint64_t(std::max(count, 0)) * launch.cluster.count();
  }
  CUdevice device = 0;
  int multiprocessors = 0;
  if (!d.cuOccupancyMaxActiveBlocksPerMultiprocessor ||
      d.cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernel.clone, int(launch.block.count()),
                                                    launch.dynamic_shared) != CUDA_SUCCESS ||
      d.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      d.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  return std::uint64_t(std::max(count, 0)) * std::uint64_t(std::max(multiprocessors, 0));
}

// Whether the clone can take the launch; makes it ready for it.
bool fits(Session& session, const Kernel& kernel, const Journal::LaunchFacts& launch) {
  if (!kernel.clone) return false;
  if (launch.block.count() > kernel.most_threads) {
    say_once("kernel " + kernel.name + " is not recorded: instrumented, it needs too many registers for blocks of " +
             std::to_string(launch.block.count()) + " threads");
    session.incident("opaque", "a kernel needs too many registers when it is instrumented: " + kernel.name);
    return false;
  }
  if (launch.dynamic_shared > 0) {
    set_attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, int(launch.dynamic_shared));
  }
  if (launch.cluster.count() > portable_cluster) {
    set_attribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  }
  const bool clusters = launch.cluster.count() > 1;
  if (!launch.cooperative && !clusters) return true;
  const std::optional<std::uint64_t> resident = resident_blocks(kernel, launch);
  const std::uint64_t needed = launch.cooperative ? launch.grid.count() : launch.cluster.count();
  if (resident && *resident < needed) {
    say_once("kernel " + kernel.name + " is not recorded: instrumented, " + std::to_string(*resident) +
             " of its blocks fit on the device at the same time, not " + std::to_string(needed));
    session.incident("opaque", "too few blocks of a kernel fit on the device when it is instrumented: " + kernel.name);
    return false;
  }
  return true;
}

void prepare(Call& call, const Journal::LaunchFacts& facts, CUfunction& f, void**& parameters, void**& extra,
             CUstream stream) {
  Pending& pending = pending_launch();
  Journal::Launched* launch = &pending.launch;
  static_cast<Journal::LaunchFacts&>(*launch) = facts;
  Session& session = call.session;
  Kernel& kernel = known_kernel(call, f);
  const bool captured = call.captured(stream);
  if (launch->cluster.count() == 1) launch->cluster = compiled_cluster(kernel);
  const bool record = kernel.instrumented && session.recorder().wants(kernel.name) && fits(session, kernel, *launch) &&
                      session.recorder().control(call.context, kernel, pending.parameter, captured);
  launch->kernel = &kernel;
  launch->ranges = nvtx_ranges();
  if (record || !captured) arguments_of(kernel, parameters, extra, launch->arguments);
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
      std::lock_guard hold(session.lock);
      launch->launch = session.next_launch();
      pending.recorded = session.recorder().expect(pending.control, shape_of(session, kernel, *launch, launch->launch));
      launch->accesses = pending.recorded;
    }
    f = kernel.clone; // with its parameter, and expected: nothing behind this fails
    if (in_buffer)
      extra = pending.extra;
    else
      parameters = pending.parameters.data();
  }
  pending.prepared = true;
  pending.submits = !captured;
  if (Window* window = session.window(); window && record && !captured) {
    pending.on_host = window->before_launch(launch->arguments, call.own_handle(stream));
  }
  if (Window* window = session.window(); window && !record && !captured) {
    window->before_opaque(call.context, launch->arguments);
  }
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
    session.journal().push(pending.launch);
  } else {
    if (pending.recorded) session.recorder().cancel(pending.control, pending.recorded);
    if (!pending.on_host.empty()) session.window()->not_launched(pending.on_host, call.own_handle(stream));
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
  session.journal().push(launch);
}

// The way out of a launch of which nothing is recorded: on the way in, nothing was done.
[[gnu::hot]] void submit_plain(Call& call, Journal::LaunchFacts& facts, CUfunction f, void** parameters, void** extra,
                               CUstream stream) {
  if (!call.done() || call.captured(stream)) return;
  Session& session = call.session;
  const Kernel& kernel = known_kernel(call, f);
  facts.kernel = &kernel;
  facts.ranges = nvtx_ranges();
  if (kernel.instrumented && facts.cluster.count() == 1) [[unlikely]]
    facts.cluster = compiled_cluster(kernel);
  const bool known = parameters || (!extra && kernel.parameters.empty());
  if (!known || kernel.most_words > Journal::most_words || session.activity()) [[unlikely]] {
    return submit_whole(call, facts, parameters, extra, stream);
  }
  facts.stream = session.stream_again(call.context, stream, call.per_thread);
  session.number(facts);
  session.journal().push(facts, kernel.most_words,
                         [&](std::uint64_t* to) { return words_of(session, kernel, parameters, to); });
}

// Whether something must be done on the way in. The kernel has a clone, or a window looks at what it changes.
bool looks_at_way_in(Call& call, CUfunction f) {
  pending_launch().clear();
  return call.session.window() || known_kernel(call, f).instrumented;
}

template <typename P>
void launch(Call& call, P& p, bool cooperative) {
  void** extra = nullptr;
  if constexpr (requires { p.extra; }) extra = p.extra;
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

}  // namespace

[[gnu::hot]] void launch_kernel(Call& call, cuLaunchKernel_params& p) { launch(call, p, false); }
void launch_cooperative(Call& call, cuLaunchCooperativeKernel_params& p) { launch(call, p, true); }

[[gnu::hot]] void launch_kernel_ex(Call& call, cuLaunchKernelEx_params& p) {
  if (!p.config) return;
  const CUlaunchConfig& c = *p.config;
  if (call.exit && here.pending && here.pending->prepared) return finish(call, c.hStream);
  if (!call.exit && !looks_at_way_in(call, p.f)) return;
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
    }
  }
  if (call.exit) return submit_plain(call, facts, p.f, p.kernelParams, p.extra, c.hStream);
  prepare(call, facts, p.f, p.kernelParams, p.extra, c.hStream);
}

bool describe_kernel(Call& call, CUgraphNode node, GraphNode& to) {
  CUDA_KERNEL_NODE_PARAMS p{};
  if (driver().cuGraphKernelNodeGetParams_v2(node, &p) != CUDA_SUCCESS) return false;
  describe_kernel(call, node, p, to);
  return true;
}

void describe_kernel(Call& call, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& p, GraphNode& to) {
  Session& session = call.session;
  Kernel& kernel = session.modules().kernel(p.kern ? reinterpret_cast<CUfunction>(p.kern) : p.func, nullptr,
                                            p.ctx ? p.ctx : call.context);
  trace::Launch launch;
  launch.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
  launch.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
  launch.dynamic_shared = p.sharedMemBytes;
  launch.cluster = compiled_cluster(kernel);
  CUlaunchAttributeValue value{};
  if (driver().cuGraphKernelNodeGetAttribute &&
      driver().cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value) == CUDA_SUCCESS &&
      value.clusterDim.x && value.clusterDim.y && value.clusterDim.z) {
    launch.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
  }
  launch.module = kernel.code ? kernel.code->module : kernel.opaque_module;
  launch.kernel = kernel.name;
  launch.static_shared = kernel.static_shared;
  std::vector<std::uint8_t> arguments;
  arguments_of(kernel, p.kernelParams, p.extra, arguments);
  to.control = 0;
  if (kernel.is_clone && p.kernelParams) {
    device_log::Control parameter;
    std::memcpy(&parameter, p.kernelParams[kernel.instrumented->parameters], sizeof parameter);
    to.control = parameter.control;
    launch.instrumented = true;
  } else {
    std::lock_guard hold(session.lock);
    launch.footprint = footprint(session, arguments);
  }
  launch.arguments = session.writer().bytes(arguments);
  to.what = std::move(launch);
  to.kernel = &kernel;
}

namespace {

// A kernel node made by hand, or changed, gets the clone like any launch.
void give_clone(Call& call, const CUDA_KERNEL_NODE_PARAMS*& params) {
  static thread_local CUDA_KERNEL_NODE_PARAMS changed;
  if (!params || !params->kernelParams) return;
  Session& session = call.session;
  Pending& pending = pending_launch();
  pending.clear();
  const CUDA_KERNEL_NODE_PARAMS& n = *params;
  Kernel& kernel =
      session.modules().kernel(n.kern ? reinterpret_cast<CUfunction>(n.kern) : n.func, nullptr, call.context);
  Journal::LaunchFacts launch;
  launch.grid = {n.gridDimX, n.gridDimY, n.gridDimZ};
  launch.block = {n.blockDimX, n.blockDimY, n.blockDimZ};
  launch.cluster = compiled_cluster(kernel);
  launch.dynamic_shared = n.sharedMemBytes;
  if (!kernel.instrumented || kernel.is_clone || !session.recorder().wants(kernel.name) ||
      !fits(session, kernel, launch) || !session.recorder().control(call.context, kernel, pending.parameter, true)) {
    return;
  }
  pending.parameters.assign(n.kernelParams, n.kernelParams + kernel.instrumented->parameters);
  pending.parameters.push_back(&pending.parameter);
  changed = n;
  changed.kernelParams = pending.parameters.data();
  if (kernel.code->library) {
    changed.func = nullptr;
    changed.kern = reinterpret_cast<CUkernel>(kernel.clone);
  } else {
    changed.func = kernel.clone;
  }
  params = &changed;
}

} // namespace

void add_kernel_node(Call& call, cuGraphAddKernelNode_v2_params& p) {
  if (!call.exit) give_clone(call, p.nodeParams);
}

void update_kernel_node(Call& call, cuGraphExecKernelNodeSetParams_v2_params& p) {
  if (!call.exit) return give_clone(call, p.nodeParams);
  if (!call.done() || !p.nodeParams) return;
  GraphNode made;
  describe_kernel(call, p.hNode, *p.nodeParams, made);
  std::lock_guard hold(call.session.lock);
  if (GraphNode* node = call.session.node_of(p.hGraphExec, p.hNode)) {
    node->what = std::move(made.what);
    node->control = made.control;
    node->kernel = made.kernel;
  }
}

device_log::Shape graph_shape(const Session& session, const GraphNode& node, std::uint32_t number) {
  return shape_of(session, *node.kernel, std::get<trace::Launch>(node.what), number);
}

void profiler_start(Call& call, cuProfilerStart_params&) {
  if (call.done()) call.session.recorder().capture_range("cudaProfilerApi", true);
}
void profiler_stop(Call& call, cuProfilerStop_params&) {
  if (!call.exit) call.session.recorder().capture_range("cudaProfilerApi", false);
}

}  // namespace deadheat::cupti
