// The session's numbers: devices, streams, events, memory and operations.
#include <algorithm>

#include "tracer/cupti/activity.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/session.h"

namespace deadheat::cupti {

// ---- devices

std::uint32_t Session::device_of(CUcontext context) {
  CUdevice device = 0;
  const Driver& d = driver();
  const bool told = context && d.cuCtxGetDevice_v2 && d.cuCtxGetDevice_v2(&device, context) == CUDA_SUCCESS;
  return told || d.cuCtxGetDevice(&device) == CUDA_SUCCESS ? noted(device) : 0;
}

std::uint32_t Session::noted(CUdevice device) {
  {
    std::lock_guard hold(lock);
    if (devices_[device]) return std::uint32_t(device);
    devices_[device] = true;
  }
  trace::Device record;
  record.id = std::uint32_t(device);
  char name[256] = {};
  if (driver().cuDeviceGetName(name, sizeof name - 1, device) == CUDA_SUCCESS) record.name = name;
  auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    driver().cuDeviceGetAttribute(&value, which, device);
    return std::uint32_t(value);
  };
  record.compute_major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  record.compute_minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  record.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  std::size_t bytes = 0;
  driver().cuDeviceTotalMem_v2(&bytes, device);
  record.memory_bytes = bytes;
  journal_.push(record);
  return record.id;
}

// ---- streams

std::uint32_t Session::stream(CUcontext context, CUstream handle, bool per_thread_default) {
  using Kind = trace::StreamCreate::Kind;
  const bool per_thread = handle == CU_STREAM_PER_THREAD || (!handle && per_thread_default);
  if (per_thread || !handle || handle == CU_STREAM_LEGACY) {
    if (!per_thread && last_default_ && context == last_context_) return last_default_;
    const std::uint32_t device = device_of(context), thread = per_thread ? host_thread() : 0;
    if (!per_thread && device == 0) {
      last_context_ = context;
      return last_default_ = 1;
    }
    auto [at, fresh] = default_streams_.try_emplace({device, thread}, 0);
    if (fresh) {
      at->second = next_stream_++;
      stream_made({at->second, per_thread ? Kind::per_thread : Kind::legacy, 0, device, thread});
    }
    return at->second;
  }
  if (handle == last_handle_ && last_stream_) return last_stream_;
  if (auto found = streams_.find(handle); found != streams_.end()) {
    last_handle_ = handle;
    return last_stream_ = found->second;
  }
  // Made before recording began, or by a call that is not watched.
  unsigned flags = 0;
  int priority = 0;
  driver().cuStreamGetFlags(handle, &flags);
  driver().cuStreamGetPriority(handle, &priority);
  CUdevice device = 0; // waits and copies may be asked of streams of other devices than the current one
  const bool told = driver().cuStreamGetDevice && driver().cuStreamGetDevice(handle, &device) == CUDA_SUCCESS;
  return created(told ? noted(device) : device_of(context), handle,
                 flags & CU_STREAM_NON_BLOCKING ? Kind::non_blocking : Kind::blocking, priority);
}

std::uint32_t Session::another_stream(CUcontext context, CUstream handle, bool per_thread_default, bool shared) {
  const std::uint32_t changes = stream_changes_.load(std::memory_order_acquire);
  std::lock_guard hold(lock);
  const std::uint32_t id = stream(context, handle, per_thread_default);
  if (shared) {
    here.stream_key = stream_key(context, handle);
    here.stream = id;
    here.stream_changes = changes;
  }
  return id;
}

std::uint32_t Session::created(std::uint32_t device, CUstream handle, trace::StreamCreate::Kind kind, int priority,
                               const std::string& library) {
  const std::uint32_t id = next_stream_++;
  streams_[handle] = id;
  last_stream_ = 0; // the handle may come again
  stream_changes_.fetch_add(1, std::memory_order_release);
  stream_made({id, kind, priority, device, host_thread()});
  if (!library.empty()) journal_.push(trace::StreamMaker{id, library});
  return id;
}

void Session::destroyed(CUstream handle) {
  auto found = streams_.find(handle);
  if (found == streams_.end()) return;
  journal_.push(trace::StreamDestroy{found->second, host_thread()});
  streams_.erase(found);
  last_stream_ = 0;
  stream_changes_.fetch_add(1, std::memory_order_release);
}

void Session::context_gone(const std::vector<CUstream>& its) {
  for (CUstream stream : its) destroyed(stream);
  last_default_ = 0;
  stream_changes_.fetch_add(1, std::memory_order_release);
}

std::vector<CUstream> Session::known_streams() {
  std::lock_guard hold(lock);
  std::vector<CUstream> handles;
  for (const auto& [handle, id] : streams_) handles.push_back(handle);
  return handles;
}

std::uint32_t Session::own_stream(std::uint32_t device) {
  const std::uint32_t id = next_stream_++;
  stream_made({id, trace::StreamCreate::Kind::non_blocking, 0, device, host_thread()});
  return id;
}

std::uint32_t Session::host_stream(std::uint32_t device) {
  std::uint32_t& stream = host_streams_[device];
  if (!stream) stream = own_stream(device);
  return stream;
}

void Session::stream_made(const trace::StreamCreate& stream) {
  journal_.push(stream);
  if (host_writes_) host_writes_->stream_made(stream);
}

std::uint32_t Session::event(CUevent handle) {
  auto [at, fresh] = events_.try_emplace(handle, 0);
  if (fresh) at->second = next_event_++;
  return at->second;
}

void Session::forget(CUevent handle) {
  auto found = events_.find(handle);
  if (found == events_.end()) return;
  event_records_.erase(found->second);
  shared_events_.forget(found->second);
  events_.erase(found);
}

std::uint32_t Session::recorded(std::uint32_t event) const {
  auto found = event_records_.find(event);
  return found == event_records_.end() ? 0 : found->second.operation;
}

std::uint32_t Session::recorded_on(std::uint32_t event) const {
  auto found = event_records_.find(event);
  return found == event_records_.end() ? 0 : found->second.stream;
}

bool Session::known(CUstream handle) const { return !handle || handle == CU_STREAM_LEGACY || streams_.count(handle); }

bool Session::handle_of(std::uint32_t stream, CUstream& handle) const {
  for (const auto& [of, id] : streams_) {
    if (id == stream) return handle = of, true;
  }
  const bool legacy = stream == 1 || std::any_of(default_streams_.begin(), default_streams_.end(), [&](const auto& of) {
                        return of.second == stream && of.first.second == 0;
                      });
  if (legacy) handle = CU_STREAM_LEGACY;
  return legacy;
}

// ---- memory

void Session::allocated(trace::Allocate::Kind kind, std::uint64_t address, std::uint64_t bytes,
                        std::uint64_t host_address, std::uint32_t operation, std::string name) {
  if (!address || !bytes) return;
  trace::Allocate record;
  record.allocation = next_allocation();
  record.kind = kind;
  record.address = address;
  record.bytes = bytes;
  record.host_address = host_address;
  record.operation = operation;
  record.host_thread = host_thread();
  record.name = std::move(name);
  for (auto at = going_.begin(); at != going_.end();) {
    const trace::Allocate& old = at->second.memory;
    const bool again = old.address < address + bytes && address < old.address + old.bytes;
    if (again) is_freed(at->second);
    at = again ? going_.erase(at) : std::next(at);
  }
  live_[address] = record;
  if (address < least_address_) least_address_ = address;
  if (address + bytes > most_address_) most_address_ = address + bytes;
  journal_.push(record);
  if (host_writes_) host_writes_->allocated(record);
}

const trace::Allocate* Session::allocation_at(std::uint64_t address) const {
  auto above = live_.upper_bound(address);
  if (above == live_.begin()) return nullptr;
  const trace::Allocate& at = std::prev(above)->second;
  return address - at.address < at.bytes ? &at : nullptr;
}

const trace::Allocate* Session::next_allocation(std::uint64_t address) const {
  auto at = live_.lower_bound(address);
  return at == live_.end() ? nullptr : &at->second;
}

void Session::freed(std::uint64_t address, std::uint32_t operation) {
  auto found = live_.find(address);
  if (found == live_.end()) return;
  forget_values(found->second);
  journal_.push(trace::Free{found->second.allocation, operation, host_thread()});
  live_.erase(found);
}

// What streams wrote there tells nobody anything who waits for a value in other memory at that address.
void Session::forget_values(const trace::Allocate& memory) {
  values.forget(memory.address, memory.bytes, [this](std::uint64_t address) { forget(event_at(address)); });
}

// To free memory is to wait for the device, but where it is a pool's: for what is there on the way in.
void Session::being_freed(std::uint64_t address, std::uint32_t stream) {
  auto memory = live_.extract(address);
  if (memory.empty()) return;
  using Kind = trace::Allocate::Kind;
  const bool waits = !stream && memory.mapped().kind != Kind::pool;
  if (waits && host_writes_) host_writes_->before_wait(trace::HostWait::Kind::device, 0);
  if (waits) journal_.push(trace::HostWaitBegin{trace::HostWait::Kind::device, 0, host_thread()});
  if (host_writes_ && memory.mapped().kind == Kind::pinned) host_writes_->being_freed(memory.mapped());
  going_[address] = {std::move(memory.mapped()), stream, host_thread()};
}

void Session::being_freed_by_host(std::uint64_t address, std::uint32_t device) {
  being_freed(address, host_stream(device));
  if (auto going = going_.find(address); going != going_.end()) going->second.by_host = true;
}

void Session::end_of_free(std::uint64_t address, std::uint64_t bytes, bool done) {
  for (auto at = going_.lower_bound(address); at != going_.end() && at->first - address < bytes;) {
    if (at->second.host_thread != host_thread()) {
      ++at;
      continue;
    }
    if (done)
      is_freed(at->second);
    else
      live_[at->first] = std::move(at->second.memory);
    at = going_.erase(at);
  }
}

void Session::is_freed(const Going& going) {
  forget_values(going.memory);
  trace::Operation operation;
  if (going.stream) {
    operation.id = next_operation();
    operation.stream = going.stream;
    operation.what = trace::PoolOperation{true, going.memory.allocation};
  }
  using Memory = trace::Allocate::Kind;
  const bool waited = !going.stream && going.memory.kind != Memory::pool && going.host_thread == host_thread();
  if (waited && host_writes_) host_writes_->wait_ends(trace::HostWait::Kind::device, 0);
  journal_.push(trace::Free{going.memory.allocation, operation.id, going.host_thread});
  if (waited && host_writes_) host_writes_->waited(trace::HostWait::Kind::device, 0);
  if (!going.stream) return;
  const std::uint32_t id = operation.id;
  using Kind = trace::HostWait::Kind;
  if (going.by_host) journal_.push(trace::HostWaitBegin{Kind::operation, id, going.host_thread});
  submit(std::move(operation));
  if (going.by_host) host_waited(Kind::operation, id);
}

void Session::freed_symbols(const std::vector<std::uint32_t>& allocations) {
  std::erase_if(live_, [&](const auto& entry) {
    const bool freed = std::find(allocations.begin(), allocations.end(), entry.second.allocation) != allocations.end();
    if (freed) journal_.push(trace::Free{entry.second.allocation, 0, host_thread()});
    return freed;
  });
}

void Session::freed_in_stream(std::uint64_t address, std::uint32_t stream) {
  auto found = live_.find(address);
  if (found == live_.end()) return;
  trace::Operation operation;
  operation.id = next_operation();
  operation.stream = stream;
  operation.what = trace::PoolOperation{true, found->second.allocation};
  freed(address, operation.id);
  submit(std::move(operation));
}

// ---- operations

std::uint32_t Session::submit(trace::Operation operation, std::shared_ptr<Awaited> launch) {
  if (!operation.id) operation.id = next_operation();
  operation.host_thread = host_thread();
  const std::uint32_t id = operation.id;
  if (activity_ && !operation.graph_launch && std::holds_alternative<trace::Copy>(operation.what)) {
    activity_->submitted(id, Activity::Kind::copy);
  }
  const bool marker = std::holds_alternative<trace::Marker>(operation.what);
  journal_.push(std::move(operation));
  if (marker) return id;
  journal_.push(trace::OperationBegin{id});
  if (launch) journal_.push(Journal::Item(std::move(launch)));
  journal_.push(trace::OperationEnd{id});
  return id;
}

std::uint32_t Session::submit_function(trace::Operation operation) {
  if (!host_writes_) return submit(std::move(operation));
  if (!operation.id) operation.id = next_operation();
  operation.host_thread = host_thread();
  const std::uint32_t id = operation.id;
  journal_.push(Journal::FunctionOpens{id});
  journal_.push(std::move(operation));
  return id;
}

void Session::timed(const Journal::LaunchFacts& launch) {
  activity_->submitted(launch.operation, Activity::Kind::launch, launch.kernel->name);
}

void Session::timed(const Journal::MemorySet& set) { activity_->submitted(set.operation, Activity::Kind::set); }

std::vector<CUgraph> Session::bodies_of(CUgraphNode condition) {
  std::lock_guard hold(lock);
  const auto found = conditions_.find(condition);
  return found == conditions_.end() ? std::vector<CUgraph>() : found->second;
}

void Session::no_condition(CUgraphNode node) {
  std::lock_guard hold(lock);
  conditions_.erase(node);
}

void Session::has_body(CUgraphNode condition, CUgraph body) {
  std::lock_guard hold(lock);
  conditions_[condition].push_back(body);
}

GraphNode* Session::node_of(CUgraphExec executable, CUgraphNode handle) {
  const auto found = executables.find(executable);
  if (found == executables.end()) return nullptr;
  GraphNode* known = nullptr;
  each_node(found->second.nodes, [&](GraphNode& node) {
    if (node.handle == handle && !known) known = &node;
  });
  return known;
}

void Session::record_event(std::uint32_t event, std::uint32_t stream) {
  const std::uint32_t id = next_operation();
  event_records_[event] = {id, stream};
  shared_events_.recorded(event, stream, id);
  journal_.push(Journal::EventRecorded{id, event, stream, host_thread()});
  if (host_writes_) host_writes_->event_recorded(event, stream);
}

void Session::event_recorded(std::uint32_t event, std::uint32_t stream, std::uint32_t operation) {
  event_records_[event] = {operation, stream};
  shared_events_.recorded(event, stream, operation);
  journal_.push(trace::EventRecord{event, stream, operation, host_thread()});
  if (host_writes_) host_writes_->event_recorded(event, stream);
}

void Session::share(std::uint32_t event) {
  shared_events_.share(event);
  if (recorded(event)) shared_events_.recorded(event, recorded_on(event), recorded(event));
}

void Session::wait_event(std::uint32_t stream, std::uint32_t event) {
  wait_event(stream, event, recorded(event));
  if (!shared_events_.has(event)) return;
  for (const auto& [on, record] : shared_events_.records()) {
    if (on != stream && record.operation != recorded(event)) wait_event(stream, record.event, record.operation);
  }
}

void Session::wait_event(std::uint32_t stream, std::uint32_t event, std::uint32_t record) {
  journal_.push(trace::StreamWait{stream, event, record, 0, host_thread()});
  if (host_writes_) host_writes_->stream_waits(stream, event, record == recorded(event));
}

void Session::host_waited(trace::HostWait::Kind kind, std::uint32_t id, bool query) {
  trace::HostWait record;
  record.kind = kind;
  record.id = id;
  if (kind == trace::HostWait::Kind::event) record.record_operation = recorded(id);
  record.query = query;
  record.host_thread = host_thread();
  const bool told = host_writes_ && kind != trace::HostWait::Kind::operation;
  if (told) query ? host_writes_->before_wait(kind, id) : host_writes_->wait_ends(kind, id);
  journal_.push(record);
  if (told) host_writes_->waited(kind, id);
  if (kind != trace::HostWait::Kind::event || !shared_events_.has(id)) return;
  for (const auto& [on, shared] : shared_events_.records()) {
    record.id = shared.event;
    record.record_operation = shared.operation;
    journal_.push(record);
    if (told) host_writes_->waited(kind, shared.event);
  }
}

}  // namespace deadheat::cupti
