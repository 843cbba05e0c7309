// The commands of a witness, one function each.
#include <algorithm>
#include <cstring>
#include <utility>

#include "replay/device/memory.h"
#include "replay/hardware/own_kernels.h"
#include "replay/hardware/player.h"
#include "replay/hardware/waiting.h"
#include "tracer/ptx/turnstile.h"

namespace deadheat::hardware {

namespace {

constexpr const char* heap_name = "device malloc heap";
constexpr std::uint64_t segment = device::Memory::segment_bytes;

using Direction = trace::Copy::Direction;

} // namespace

Expected<CUstream> Player::stream(std::uint32_t id) {
  if (id <= 1) return CU_STREAM_LEGACY;
  auto found = streams_.find(id);
  if (found != streams_.end()) return found->second;
  trace::StreamCreate record;
  if (auto known = stream_records_.find(id); known != stream_records_.end()) record = known->second;
  if (record.kind == trace::StreamCreate::Kind::legacy) return CU_STREAM_LEGACY;
  if (record.kind == trace::StreamCreate::Kind::per_thread) return CU_STREAM_PER_THREAD;
  const bool free = record.kind == trace::StreamCreate::Kind::non_blocking;
  CUstream made = nullptr;
  if (Expected<void> ok = check(
          driver_.cuStreamCreateWithPriority(&made, free ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT, record.priority),
          "cuStreamCreateWithPriority");
      !ok) {
    return ok.error();
  }
  streams_[id] = made;
  return made;
}

Expected<CUstream> Player::node_stream(std::size_t number) {
  while (node_streams_.size() <= number) {
    CUstream made = nullptr;
    if (Expected<void> ok =
            check(driver_.cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, 0), "cuStreamCreateWithPriority");
        !ok) {
      return ok.error();
    }
    node_streams_.push_back(made);
  }
  return node_streams_[number];
}

// Remembers where the operation ends in its stream.
Expected<void> Player::mark(std::uint32_t operation, CUstream stream) {
  CUevent event = nullptr;
  if (Expected<void> ok = check(driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"); !ok)
    return ok;
  ended_[operation] = event;
  stream_of_[operation] = stream;
  return check(driver_.cuEventRecord(event, stream), "cuEventRecord");
}

Expected<void> Player::apply(const trace::Record& record) {
  if (auto* allocation = std::get_if<trace::Allocate>(&record)) return allocate(*allocation);
  if (auto* operation = std::get_if<trace::Operation>(&record)) return submit(*operation);
  if (auto* changes = std::get_if<trace::Effects>(&record)) {
    effects_[changes->operation] = *changes;
    return {};
  }
  if (auto* waited = std::get_if<trace::HostWait>(&record)) return wait(*waited);
  if (auto* written = std::get_if<trace::HostWrite>(&record)) return host_write(*written);
  if (auto* waits = std::get_if<trace::StreamWait>(&record)) {
    auto event = ended_.find(waits->record_operation);
    if (event == ended_.end()) return {}; // never recorded: no wait
    Expected<CUstream> in = stream(waits->stream);
    if (!in) return in.error();
    return check(driver_.cuStreamWaitEvent(*in, event->second, 0), "cuStreamWaitEvent");
  }
  if (auto* graph = std::get_if<trace::GraphLaunch>(&record)) {
    Expected<CUstream> in = stream(graph->stream);
    if (!in) return in.error();
    CUevent event = nullptr;
    if (Expected<void> ok = check(driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"); !ok)
      return ok;
    started_[graph->id] = event;
    graph_stream_[graph->id] = graph->stream;
    return check(driver_.cuEventRecord(event, *in), "cuEventRecord");
  }
  if (auto* end = std::get_if<trace::GraphEnd>(&record)) {
    Expected<CUstream> in = stream(graph_stream_[end->id]);
    if (!in) return in.error();
    for (std::uint32_t node : graph_nodes_[end->id]) {
      if (Expected<void> ok = check(driver_.cuStreamWaitEvent(*in, ended_[node], 0), "cuStreamWaitEvent"); !ok)
        return ok;
    }
  }
  return {}; // modules, symbols and streams are there already; frees change nothing here
}

// ---- memory

Expected<void> Player::allocate(const trace::Allocate& record) {
  allocations_[record.allocation] = record;
  if (record.allocation == freed_ && record.kind == trace::Allocate::Kind::device) {
    if (Expected<void> ok = take_freed(record, own_); !ok) return ok;
  }
  if (AddressMap::is_symbol(record) || record.name == heap_name || record.kind == trace::Allocate::Kind::pool)
    return {};
  if (map_.in_host_memory(record.address)) {
    auto* at = reinterpret_cast<std::uint8_t*>(map_.here(record.address));
    for (std::uint64_t done = 0; done < record.bytes;) {
      const std::uint64_t offset = (record.address + done) % segment,
                          n = std::min(record.bytes - done, segment - offset);
      std::memcpy(at + done, pattern_ + offset, n);
      done += n;
    }
    host_memory_->add(map_.here(record.address), record.bytes);
    return {};
  }
  return fill(record.address, record.bytes, own_);
}

Expected<void> Player::fill(std::uint64_t recorded, std::uint64_t bytes, CUstream stream) {
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t offset = (recorded + done) % segment, n = std::min(bytes - done, segment - offset);
    if (Expected<void> ok =
            check(driver_.cuMemcpyAsync(map_.here(recorded + done), CUdeviceptr(pattern_ + offset), n, stream),
                  "fresh memory");
        !ok) {
      return ok;
    }
    done += n;
  }
  return stream == own_ ? check(driver_.cuStreamSynchronize(stream), "fresh memory") : Expected<void>();
}

Expected<void> Player::host_write(const trace::HostWrite& record) {
  Expected<std::vector<std::uint8_t>> data = capsule_.bytes(record.data);
  if (!data) return data.error();
  const std::uint64_t at = map_.here(record.address);
  if (!at || !map_.in_host_memory(record.address) ||
      !map_.here(record.address + std::max<std::uint64_t>(data->size(), 1) - 1))
    return Error{"the witness writes host memory that it never allocated"};
  map_.to_here(data->data(), data->size());
  std::memcpy(reinterpret_cast<void*>(at), data->data(), data->size());
  host_memory_->forget(at, data->size());
  return {};
}

// ---- memory that is freed in a stream

Expected<void> Player::pool(const trace::PoolOperation& pool, std::uint32_t operation, CUstream stream) {
  auto found = allocations_.find(pool.allocation);
  if (found == allocations_.end()) return {};
  if (!pool.free) {
    if (pool.allocation == freed_) {
      if (Expected<void> ok = take_freed(found->second, stream); !ok) return ok;
    }
    return fill(found->second.address, found->second.bytes, stream);
  }
  if (pool.allocation != freed_) return {}; // its place stays: what takes it next was submitted by the program
  if (Expected<void> ok = give_freed(stream); !ok) return ok;
  const AccessName& until = order_ == Order::first_then_second ? plan_.first : plan_.second;
  if (order_ == Order::unknown || until.operation != operation) return {};
  // The other side shall find it freed: pages without users go back when the pool is trimmed (CUDA Driver API, stream
  // ordered memory allocator).
  if (Expected<void> ok = check(driver_.cuStreamSynchronize(stream), "cuStreamSynchronize"); !ok) return ok;
  return check(driver_.cuMemPoolTrimTo(pool_, 0), "cuMemPoolTrimTo");
}

Expected<void> Player::take_freed(const trace::Allocate& record, CUstream stream) {
  if (Expected<void> ok = check(driver_.cuMemAllocAsync(&freed_at_, record.bytes, stream), "cuMemAllocAsync"); !ok)
    return ok;
  map_.place_freed(record.address, record.bytes, freed_at_);
  return stream == own_ ? check(driver_.cuStreamSynchronize(stream), "cuMemAllocAsync") : Expected<void>();
}

Expected<void> Player::give_freed(CUstream stream) {
  if (!freed_at_) return {};
  return check(driver_.cuMemFreeAsync(std::exchange(freed_at_, 0), stream), "cuMemFreeAsync");
}

void Player::look_at_host_memory() {
  for (const auto& [at, size] : delivered_into_) host_memory_->forget(at, size);
  host_memory_->compare([&](std::uint64_t at, const std::uint8_t* data, std::uint64_t size) {
    search::Output output{0, map_.recorded(at), {data, data + size}};
    map_.to_recorded(output.bytes.data(), output.bytes.size());
    outputs_.push_back(std::move(output));
  });
}

Expected<void> Player::wait(const trace::HostWait& wait) {
  Expected<void> done;
  switch (wait.kind) {
    case trace::HostWait::Kind::device: done = check(driver_.cuCtxSynchronize(), "cuCtxSynchronize"); break;
    case trace::HostWait::Kind::stream: {
      Expected<CUstream> in = stream(wait.id);
      if (!in) return in.error();
      done = check(driver_.cuStreamSynchronize(*in), "cuStreamSynchronize");
      break;
    }
    case trace::HostWait::Kind::event:
    case trace::HostWait::Kind::operation: {
      auto event = ended_.find(wait.kind == trace::HostWait::Kind::event ? wait.record_operation : wait.id);
      if (event != ended_.end()) done = check(driver_.cuEventSynchronize(event->second), "cuEventSynchronize");
      break;
    }
  }
  if (done) look_at_host_memory();
  return done;
}

// ---- gates

Expected<void> Player::gate_before(std::uint32_t operation, CUstream stream) {
  if (plan_.means != Means::gates || order_ == Order::unknown) return {};
  const bool first_waits = order_ == Order::second_then_first;
  const std::uint32_t held = (first_waits ? plan_.first : plan_.second).operation;
  const std::uint32_t until = (first_waits ? plan_.second : plan_.first).operation;
  if (operation != held) return {};
  if (submitted_.count(until)) {
    return check(driver_.cuStreamWaitEvent(stream, ended_[until], 0), "cuStreamWaitEvent");
  }
  struct {
    std::uint64_t word;
    std::uint32_t patience, sleep;
  } arguments{control_ + sizeof(ptx::TurnstileControl), gate_looks, gate_sleep};
  std::size_t size = sizeof arguments;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  return check(driver_.cuLaunchKernelEx(&config, gate_, nullptr, extra), "the gate");
}

Expected<void> Player::gate_behind(std::uint32_t operation, CUstream stream) {
  if (plan_.means != Means::gates || order_ == Order::unknown) return {};
  const bool first_waits = order_ == Order::second_then_first;
  const std::uint32_t held = (first_waits ? plan_.first : plan_.second).operation;
  const std::uint32_t until = (first_waits ? plan_.second : plan_.first).operation;
  if (operation != until || !submitted_.count(held)) return {};
  return check(driver_.cuMemsetD32Async(control_ + sizeof(ptx::TurnstileControl), 1, 1, stream), "the gate");
}

// ---- operations

Expected<void> Player::submit(const trace::Operation& operation) {
  CUstream in = nullptr;
  if (operation.graph_launch) {
    std::vector<std::uint32_t>& nodes = graph_nodes_[operation.graph_launch];
    Expected<CUstream> own = node_stream(nodes.size());
    if (!own) return own.error();
    in = *own;
    nodes.push_back(operation.id);
    std::vector<CUevent> before{started_[operation.graph_launch]};
    for (std::uint32_t id : operation.node_dependencies) {
      if (auto event = ended_.find(id); event != ended_.end()) before.push_back(event->second);
    }
    for (CUevent event : before) {
      if (Expected<void> ok = check(driver_.cuStreamWaitEvent(in, event, 0), "cuStreamWaitEvent"); !ok) return ok;
    }
  } else {
    Expected<CUstream> own = stream(operation.stream);
    if (!own) return own.error();
    in = *own;
  }
  if (Expected<void> ok = gate_before(operation.id, in); !ok) return ok;
  Expected<void> done;
  if (auto* launched = std::get_if<trace::Launch>(&operation.what)) {
    auto known = effects_.find(operation.id);
    done = known == effects_.end() ? launch(operation, *launched, in) : effects(known->second, in);
  } else if (auto* copied = std::get_if<trace::Copy>(&operation.what)) {
    done = copy(operation, *copied, in);
  } else if (auto* setting = std::get_if<trace::Set>(&operation.what)) {
    done = set(*setting, in);
  } else if (auto* pool = std::get_if<trace::PoolOperation>(&operation.what)) {
    done = this->pool(*pool, operation.id, in);
  } else if (auto known = effects_.find(operation.id); known != effects_.end()) {
    done = effects(known->second, in);
    for (const auto& change : known->second.changes)
      delivered_into_.emplace_back(map_.here(change.address), change.data.size);
  }
  if (!done) return done;
  if (Expected<void> ok = mark(operation.id, in); !ok) return ok;
  if (Expected<void> ok = gate_behind(operation.id, in); !ok) return ok;
  submitted_.insert(operation.id);
  return {};
}

// Shared memory of every multiprocessor, before a kernel with turnstiles: one block fills one.
Expected<void> Player::wipe_before(const trace::Operation& operation, const trace::Launch& launch, CUstream stream) {
  const std::vector<std::uint32_t> named = named_launches();
  // Nothing may come between a dependent launch and the one that it follows.
  if (!wipe_ || launch.programmatic || std::count(named.begin(), named.end(), operation.launch) == 0) return {};
  std::uint32_t bytes = std::uint32_t(shared_memory_);
  std::size_t size = sizeof bytes;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &bytes, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  CUlaunchConfig config{};
  config.gridDimX = unsigned(processors_);
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 1024;
  config.sharedMemBytes = unsigned(shared_memory_);
  config.hStream = stream;
  return check(driver_.cuLaunchKernelEx(&config, wipe_, nullptr, extra), wipe_name);
}

Expected<void> Player::launch(const trace::Operation& operation, const trace::Launch& launch, CUstream stream) {
  Expected<CUfunction> kernel = function(operation, launch);
  if (!kernel) return kernel.error();
  Expected<std::vector<std::uint8_t>> arguments = capsule_.bytes(launch.arguments);
  if (!arguments) return arguments.error();
  map_.to_here(arguments->data(), arguments->size());
  std::size_t size = arguments->size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments->data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  if (Expected<void> ok = wipe_before(operation, launch, stream); !ok) return ok;
  CUlaunchAttribute attributes[3] = {};
  CUlaunchConfig config{};
  config.gridDimX = launch.grid.x;
  config.gridDimY = launch.grid.y;
  config.gridDimZ = launch.grid.z;
  config.blockDimX = launch.block.x;
  config.blockDimY = launch.block.y;
  config.blockDimZ = launch.block.z;
  config.sharedMemBytes = launch.dynamic_shared;
  config.hStream = stream;
  config.attrs = attributes;
  if (launch.cooperative) {
    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[config.numAttrs++].value.cooperative = 1;
  }
  if (launch.cluster.count() > 1) {
    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[config.numAttrs].value.clusterDim.x = launch.cluster.x;
    attributes[config.numAttrs].value.clusterDim.y = launch.cluster.y;
    attributes[config.numAttrs++].value.clusterDim.z = launch.cluster.z;
  }
  if (launch.programmatic) {
    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[config.numAttrs++].value.programmaticStreamSerializationAllowed = 1;
  }
  return check(driver_.cuLaunchKernelEx(&config, *kernel, nullptr, size ? extra : nullptr), launch.kernel);
}

Expected<void> Player::copy(const trace::Operation& operation, const trace::Copy& copy, CUstream stream) {
  const trace::MemoryRange &source = copy.source, &destination = copy.destination;
  const std::uint64_t total = source.bytes();
  if (total == 0 || total != destination.bytes()) return {};
  const bool from_host = copy.direction == Direction::h2d || copy.direction == Direction::h2h;
  const bool into_host = copy.direction == Direction::d2h || copy.direction == Direction::h2h;
  auto move = [&](std::uint64_t to, std::uint64_t from, std::uint64_t n) {
    return check(driver_.cuMemcpyAsync(to, from, n, stream), copy.api);
  };
  // Through page-locked memory wherever the program's own host memory is not here: one row behind the other.
  std::uint8_t* between = nullptr;
  const bool placed_source = map_.here(copy.source.address) != 0, placed = map_.here(copy.destination.address) != 0;
  const bool has_data = from_host && (copy.data.size || copy.pageable_source || !placed_source);
  if (has_data || into_host || source.rows() != destination.rows()) {
    Expected<std::uint8_t*> staged = stage(total);
    if (!staged) return staged.error();
    between = *staged;
  }
  if (has_data) {
    Expected<std::vector<std::uint8_t>> data = capsule_.bytes(copy.data);
    if (!data) return data.error();
    data->resize(total);
    map_.to_here(data->data(), data->size());
    std::memcpy(between, data->data(), total);
  }
  if (!between) {
    for (std::uint64_t r = 0; r < source.rows(); ++r) {
      Expected<void> ok = move(map_.here(destination.row(r)), map_.here(source.row(r)), copy.source.width);
      if (!ok) return ok;
    }
    return {};
  }
  for (std::uint64_t r = 0; !has_data && r < source.rows(); ++r) {
    const std::uint64_t from = map_.here(source.row(r));
    if (!from) return Error{"a copy from memory that the witness never allocated", copy.api};
    Expected<void> ok = move(std::uint64_t(between) + r * copy.source.width, from, copy.source.width);
    if (!ok) return ok;
  }
  for (std::uint64_t r = 0; placed && r < destination.rows(); ++r) {
    const std::uint64_t to = map_.here(destination.row(r));
    Expected<void> ok = move(to, std::uint64_t(between) + r * copy.destination.width, copy.destination.width);
    if (!ok) return ok;
    if (into_host) delivered_into_.emplace_back(to, copy.destination.width);
  }
  if (copy.direction == Direction::d2h) deliveries_.push_back({operation.id, copy.source.address, between, total});
  return {};
}

Expected<void> Player::effects(const trace::Effects& effects, CUstream stream) {
  for (const trace::Effects::Change& change : effects.changes) {
    Expected<std::vector<std::uint8_t>> data = capsule_.bytes(change.data);
    if (!data) return data.error();
    const std::uint64_t at = map_.here(change.address);
    if (!at) return Error{"what changed is memory that the witness never allocated"};
    Expected<std::uint8_t*> staged = stage(data->size());
    if (!staged) return staged.error();
    // Addresses lie at multiples of 8 of memory, not of the change.
    const std::size_t first = std::min<std::size_t>((8 - change.address % 8) % 8, data->size());
    map_.to_here(data->data() + first, data->size() - first);
    std::memcpy(*staged, data->data(), data->size());
    if (Expected<void> ok = check(driver_.cuMemcpyAsync(at, std::uint64_t(*staged), data->size(), stream), "effects");
        !ok) {
      return ok;
    }
  }
  return {};
}

Expected<void> Player::set(const trace::Set& set, CUstream stream) {
  const trace::MemoryRange& range = set.destination;
  for (std::uint64_t r = 0; r < range.rows() && set.destination.width; ++r) {
    const std::uint64_t at = map_.here(range.row(r));
    if (!at) return Error{"a set of memory that the witness never allocated", set.api};
    CUresult result;
    switch (set.element_bytes) {
      case 4: result = driver_.cuMemsetD32Async(at, set.value, set.destination.width / 4, stream); break;
      case 2: result = driver_.cuMemsetD16Async(at, std::uint16_t(set.value), set.destination.width / 2, stream); break;
      default: result = driver_.cuMemsetD8Async(at, std::uint8_t(set.value), set.destination.width, stream); break;
    }
    if (Expected<void> ok = check(result, set.api); !ok) return ok;
  }
  return {};
}

} // namespace deadheat::hardware
