// What operations are checked for when they are submitted, and what they do when they run.
#include <algorithm>
#include <cstring>

#include "deadheat/conditions.h"
#include "replay/device/device_impl.h"
#include "replay/engine/shadow.h"

namespace deadheat::device {

namespace {

std::uint8_t* host(std::uint64_t address) { return reinterpret_cast<std::uint8_t*>(to_host(address)); }

using Direction = trace::Copy::Direction;
bool from_host(const trace::Copy& c) { return c.direction == Direction::h2d || c.direction == Direction::h2h; }
bool into_host(const trace::Copy& c) { return c.direction == Direction::d2h || c.direction == Direction::h2h; }

std::vector<std::uint8_t> bytes_at(const trace::MemoryRange& range) {
  std::vector<std::uint8_t> bytes;
  for (std::uint64_t r = 0; r < range.rows(); ++r)
    bytes.insert(bytes.end(), host(range.row(r)), host(range.row(r)) + range.width);
  return bytes;
}

bool brings_host(const trace::Operation& operation) {
  const auto* copy = std::get_if<trace::Copy>(&operation.what);
  return copy && copy->direction == Direction::d2h;
}

constexpr std::uint64_t max_cluster_blocks = 16; // of sm_90, non-portable sizes included

// Kernels whose functions call others need stack beyond their own frame; how much is not in PTX.
constexpr std::uint32_t call_stack_bytes = 16384;
bool has_calls(const ptx::Module& module, const std::string& kernel) {
  const ptx::Function* f = module.function(kernel);
  return f && std::any_of(f->body.begin(), f->body.end(), [](const ptx::Statement& s) {
           return s.instruction() && s.instruction()->opcode == ptx::Opcode::call;
         });
}

} // namespace

// ---- submission

Expected<void> DeviceImpl::check_range(const trace::MemoryRange& range, bool host_side) const {
  if (host_side && !Memory::in_shared_arena(range.address)) return {};
  const std::uint64_t extent = range.extent();
  if (extent == 0) return {};
  const trace::Allocate* a = find_allocation(range.address);
  if (!a || extent > a->bytes - (range.address - a->address)) return Error{"not a range of one live allocation"};
  return {};
}

Expected<void> DeviceImpl::check_launch(const trace::Launch& launch) const {
  auto module = modules_.find(launch.module);
  if (module == modules_.end()) return Error{"no such module", launch.kernel};
  const engine::KernelInfo* info = module->second.code->module->kernel(launch.kernel);
  if (!info) return Error{"no such kernel", launch.kernel};
  if (!info->refused.empty()) return Error{info->refused, launch.kernel};
  const std::uint64_t threads = launch.block.count();
  if (threads == 0 || launch.grid.count() == 0) return Error{"an empty grid or block", launch.kernel};
  if (threads > std::min(info->max_threads, 1024u) || launch.block.z > 64)
    return Error{"too many threads in a block", launch.kernel};
  if (launch.grid.x > 0x7fffffffu || launch.grid.y > 65535 || launch.grid.z > 65535 ||
      launch.grid.count() > 0xffffffffu)
    return Error{"the grid is too large", launch.kernel};
  const Dim3& cluster = launch.cluster;
  if (cluster.count() > max_cluster_blocks || (cluster.x && launch.grid.x % cluster.x) ||
      (cluster.y && launch.grid.y % cluster.y) || (cluster.z && launch.grid.z % cluster.z))
    return Error{"a grid that is no whole number of clusters, or a cluster of more than 16 blocks", launch.kernel};
  const std::uint32_t shared = info->total_shared(launch.dynamic_shared);
  if (launch.dynamic_shared > options_.profile.shared_per_block_optin ||
      shared > options_.profile.shared_per_block_optin)
    return Error{"too much shared memory", launch.kernel};
  if (launch.cooperative && launch.grid.count() > machine_->residency(std::uint32_t(threads), shared))
    return Error{"too many blocks in a cooperative launch", launch.kernel};
  return {};
}

Expected<void> DeviceImpl::check(const trace::Operation& operation) const {
  if (fault_) return Error{"the device has faulted"};
  if (const auto* launch = std::get_if<trace::Launch>(&operation.what))
    return effects_.count(operation.id) ? Expected<void>() : check_launch(*launch);
  if (const auto* copy = std::get_if<trace::Copy>(&operation.what)) {
    if (copy->source.bytes() != copy->destination.bytes()) return Error{"source and destination differ in size"};
    if (Expected<void> ok = check_range(copy->source, from_host(*copy)); !ok) return ok;
    return check_range(copy->destination, into_host(*copy));
  }
  if (const auto* set = std::get_if<trace::Set>(&operation.what)) {
    const std::uint32_t n = set->element_bytes;
    if ((n != 1 && n != 2 && n != 4) || set->destination.width % n) return Error{"a set of elements that do not fit"};
    return check_range(set->destination, false);
  }
  return {};
}

Expected<std::uint32_t> DeviceImpl::submit(trace::Operation operation) {
  const bool waited_for = std::exchange(next_is_waited_for_, false);
  if (Expected<void> ok = check(operation); !ok) return ok.error();
  std::vector<std::uint8_t> data;
  bool has_data = false;
  if (auto* copy = std::get_if<trace::Copy>(&operation.what)) {
    // Pageable memory is read when the copy is submitted, and page-locked memory that is said to be.
    if (from_host(*copy) && (copy->pageable_source || !find_allocation(copy->source.address))) {
      copy->pageable_source = true;
      if (options_.live && Memory::in_shared_arena(copy->source.address)) mirrors_.to_device();
      const trace::MemoryRange& source = copy->source;
      data.resize(source.bytes());
      for (std::uint64_t r = 0; r < source.rows(); ++r)
        std::memcpy(data.data() + r * copy->source.width, host(source.row(r)), copy->source.width);
      copy->data = keep(data.data(), data.size());
      has_data = true;
    }
    look_before(*copy);
    copy->pageable_destination = into_host(*copy) && !find_allocation(copy->destination.address);
  } else if (auto* launch = std::get_if<trace::Launch>(&operation.what)) {
    data = launch->arguments.inlined;
    has_data = true;
    kernels_reach_host_ |= !shared_addresses(data).empty();
    device_writes_there_ |= kernels_reach_host_;
    launch->arguments = keep(data.data(), data.size());
    const engine::KernelInfo& info = *modules_.at(launch->module).code->module->kernel(launch->kernel);
    launch->static_shared = info.static_shared;
    if (!operation.launch) operation.launch = next_launch_;
    launch->instrumented = options_.sink && options_.record_accesses &&
                           (!options_.record_launch || options_.record_launch(launch->kernel, operation.launch));
  }
  if (auto* set = std::get_if<trace::Set>(&operation.what))
    device_writes_there_ |= Memory::in_shared_arena(set->destination.address);
  if (waited_for) {
    if (!operation.id) operation.id = next_operation_;
    begin_wait({trace::HostWait::Kind::operation, operation.id, operation.host_thread});
  }
  return submit_with(std::move(operation), std::move(data), has_data);
}

Expected<std::uint32_t> DeviceImpl::submit_with(trace::Operation operation, std::vector<std::uint8_t> data,
                                                bool has_data) {
  if (!operation.id) operation.id = next_operation_;
  next_operation_ = std::max(next_operation_, operation.id + 1);
  next_launch_ = std::max(next_launch_, operation.launch + 1);
  const std::uint32_t id = operation.id;
  Pending pending;
  const std::vector<std::uint32_t> after = order_.submitted(operation);
  for (std::uint32_t before : after)
    if (!is_done(before) && before != id) pending.after.push_back(before);
  if (options_.chooser) options_.chooser->submitted(id, after);
  if (options_.sink) deliveries_.submitted(id, after);
  if (std::holds_alternative<trace::Launch>(operation.what)) pending.shared = shared_addresses(data);
  const auto* copy_to = std::get_if<trace::Copy>(&operation.what);
  const auto* set = std::get_if<trace::Set>(&operation.what);
  const std::uint64_t written = copy_to ? copy_to->destination.address : set ? set->destination.address : 0;
  if (Memory::in_shared_arena(written)) pending.shared.push_back(written);
  pending.primary = order_.primary(id);
  if (std::holds_alternative<trace::HostCallback>(operation.what)) pending.callback = std::exchange(next_callback_, {});
  if (pending.callback.run) functions_queued_.insert(id);
  if (!options_.live && std::holds_alternative<trace::HostCallback>(operation.what)) functions_told_.emplace(id, false);
  uses_shared_memory(operation);
  say(operation);
  pending.operation = std::move(operation);
  if (auto* copy = std::get_if<trace::Copy>(&pending.operation.what)) copy->data = {};
  pending.data = std::move(data);
  pending.has_data = has_data;
  incomplete_.emplace(id, std::move(pending));
  return id;
}

// ---- execution

engine::Mode DeviceImpl::mode_of(const trace::Operation& operation) const {
  const auto& launch = std::get<trace::Launch>(operation.what);
  engine::Mode mode;
  mode.check = options_.check;
  mode.record = options_.sink && options_.record_accesses && launch.instrumented;
  mode.written = mode.record && mode.check && memory_->tracks_written();
  mode.precision = options_.shadows && !mode.record;
  if (control_ || watch_) {
    mode.control = true;
  } else if (!options_.live) {
    // A launch that was recorded ran with stops before strong operations: so must its replay, whoever listens.
    mode.control = launch.instrumented && !mode.record;
    if (holds_)
      for (const Hold& hold : options_.schedule.holds)
        mode.control |= hold.held.launch == operation.launch || hold.until.launch == operation.launch;
  }
  return mode;
}

// The driver gives each cooperative launch a workspace, in which cooperative groups keep the grid's barrier. It is not
// an allocation of the program; a slot is used again after workspace_slots launches.
std::uint64_t DeviceImpl::grid_workspace(std::uint32_t launch) {
  const std::uint64_t slot = workspaces_ + launch % workspace_slots * workspace_bytes;
  memory_->validate(slot, workspace_bytes);
  memory_->written(slot, workspace_bytes);
  std::memset(reinterpret_cast<void*>(slot), 0, workspace_bytes);
  const std::uint32_t size = workspace_bytes;
  std::memcpy(reinterpret_cast<void*>(slot), &size, sizeof size);
  return to_device(slot);
}

bool DeviceImpl::begin_launch(Pending& pending) {
  const auto& launch = std::get<trace::Launch>(pending.operation.what);
  const CachedModule& module = *modules_.at(launch.module).code;
  LaunchRequest request;
  request.mode = mode_of(pending.operation);
  if (!request.mode.written) memory_->forget_written();
  // Fast code that checks nothing would miss memory that is shared with the host (Builder::host_pointer).
  const auto shared = allocations_.lower_bound(pinned_arena);
  const bool shares = shared != allocations_.end() && Memory::in_shared_arena(shared->first);
  if (!request.mode.record && !request.mode.control && !request.mode.precision && (request.mode.check || !shares))
    request.regions = module.module->regions(launch.kernel, request.mode.check);
  Expected<engine::KernelCode*> code = nullptr;
  if (!request.regions) code = module.module->compile(launch.kernel, request.mode);
  if (!code) {
    trace::MemoryError error;
    error.kind = trace::MemoryError::Kind::trap;
    error.launch = pending.operation.launch;
    error.module = launch.module;
    error.text = code.error().message();
    say(error);
    fault_ = std::move(error);
    return false;
  }
  const engine::KernelInfo& info = *module.module->kernel(launch.kernel);
  request.launch = pending.operation.launch;
  request.operation = pending.operation.id;
  request.module = launch.module;
  request.kernel = launch.kernel;
  request.sites = module.sites;
  request.code = *code;
  request.grid = launch.grid;
  request.block = launch.block;
  const Dim3& cluster = launch.cluster; // of older traces it may be empty
  request.cluster = {std::max(cluster.x, 1u), std::max(cluster.y, 1u), std::max(cluster.z, 1u)};
  request.reaches_cluster = info.reaches_cluster;
  request.primary = pending.primary;
  request.primary_complete = is_done(pending.primary);
  request.dynamic_shared = launch.dynamic_shared;
  request.total_shared = info.total_shared(launch.dynamic_shared);
  request.params = std::move(pending.data);
  request.params.resize(std::max<std::size_t>(info.parameter_bytes, 16));
  request.cooperative = launch.cooperative;
  if (launch.cooperative) request.grid_workspace = grid_workspace(pending.operation.launch);
  request.call_stack = has_calls(module.module->ptx(), launch.kernel) ? call_stack_bytes : 0;
  if (request.mode.precision) request.call_stack *= 8; // the shadows of registers lie in frames
  const bool alone =
      !launch.cooperative && request.cluster.count() == 1 && (!request.primary || request.primary_complete);
  // Code that checks nothing could touch what the footprint does not know of.
  if (request.mode == engine::Mode{.check = true} && alone)
    request.footprint = [code = module.module.get(), name = launch.kernel] { return code->footprint(name); };
  pending.launch = machine_->begin(std::move(request));
  return true;
}

// Memory that an operation is about to touch may have been freed by a schedule.
bool DeviceImpl::touchable(std::uint64_t address, std::uint64_t bytes, AccessKind access) {
  if (bytes == 0 || legal(address, bytes)) return true;
  trace::MemoryError error;
  bool freed = false;
  error.nearest_allocation = nearest_allocation(address, &freed);
  error.kind = freed || memory_->in_device_arena(to_host(address)) ? trace::MemoryError::Kind::use_after_free
                                                                   : trace::MemoryError::Kind::out_of_bounds;
  error.address = address;
  error.bytes = bytes;
  error.access = access;
  error.text = "a copy or set";
  say(error);
  fault_ = std::move(error);
  return false;
}

void DeviceImpl::run_copy(Pending& pending) {
  const auto& copy = std::get<trace::Copy>(pending.operation.what);
  const trace::MemoryRange &source = copy.source, &destination = copy.destination;
  const std::uint64_t total = source.bytes();
  if (total == 0) return;
  auto placed = [&](const trace::MemoryRange& range) { // on the device, or in memory shared with the host
    return range.address & device_bit || Memory::in_shared_arena(range.address);
  };
  const bool reads_device = !pending.has_data && placed(copy.source), writes_device = placed(copy.destination);
  for (std::uint64_t r = 0; reads_device && r < source.rows(); ++r)
    if (!touchable(source.row(r), copy.source.width, AccessKind::read)) return;
  for (std::uint64_t r = 0; writes_device && r < destination.rows(); ++r)
    if (!touchable(destination.row(r), copy.destination.width, AccessKind::write)) return;
  std::vector<std::uint8_t>& data = pending.data;
  const bool simple = source.rows() == 1 && destination.rows() == 1;
  const bool to_host = into_host(copy);
  if (simple && !to_host && !pending.has_data && (reads_device || options_.live)) {
    std::memmove(host(copy.destination.address), host(copy.source.address), total);
    mark_copied(copy, reads_device);
  } else {
    if (!pending.has_data) {
      data.assign(total, 0);
      if (reads_device || options_.live)
        for (std::uint64_t r = 0; r < source.rows(); ++r)
          std::memcpy(data.data() + r * copy.source.width, host(source.row(r)), copy.source.width);
    }
    data.resize(total);
    if (reads_device && to_host) check_written(pending.operation);
    if (writes_device || options_.live)
      for (std::uint64_t r = 0; r < destination.rows(); ++r)
        std::memcpy(host(destination.row(r)), data.data() + r * copy.destination.width, copy.destination.width);
    mark_copied(copy, reads_device && writes_device);
  }
  deliver(pending);
  if (writes_device && to_host) // reported as the copy's HostRead
    for (std::uint64_t r = 0; r < destination.rows(); ++r)
      host_memory_.forget(destination.row(r), copy.destination.width);
}

// The host finds what a copy brought once it looks there, but what decides about a graph's node is read at once.
void DeviceImpl::deliver(Pending& pending) {
  if (!options_.sink) return;
  const auto& copy = std::get<trace::Copy>(pending.operation.what);
  const std::uint32_t id = pending.operation.id;
  if (copy.api == condition_read)
    return say(trace::HostRead{id, copy.source.address, keep(pending.data.data(), pending.data.size())});
  if (brings_host(pending.operation))
    return deliveries_.brought(id, copy.source.address, copy.destination, std::move(pending.data));
  const trace::MemoryRange& range = copy.destination;
  if (!into_host(copy) && !Memory::in_shared_arena(range.address)) return;
  deliveries_.wrote(id, range, [&] {
    std::vector<std::uint8_t> bytes = std::move(pending.data);
    return bytes.empty() ? bytes_at(range) : bytes;
  });
}

// Shadows, and that of written bytes, follow a copy, row by row where the rows are alike.
void DeviceImpl::mark_copied(const trace::Copy& copy, bool from_device) {
  const trace::MemoryRange &source = copy.source, &destination = copy.destination;
  for (std::uint64_t r = 0; options_.shadows && r < destination.rows(); ++r) {
    const std::uint64_t to = to_host(destination.row(r)), bytes = copy.destination.width;
    if (from_device && copy.source.width == bytes)
      options_.shadows->copy(to, to_host(source.row(r)), bytes);
    else
      options_.shadows->forget(to, bytes);
  }
  if (!memory_->tracks_written()) return;
  const bool alike = from_device && copy.source.width == copy.destination.width;
  for (std::uint64_t r = 0; r < destination.rows(); ++r) {
    const std::uint64_t to = to_host(destination.row(r));
    if (!alike) {
      memory_->written(to, copy.destination.width);
      continue;
    }
    memory_->copy_written(to, to_host(source.row(r)), copy.destination.width);
    machine_->copy_undefined(to, to_host(source.row(r)), copy.destination.width);
  }
}

// A copy that gives the host results of undefined bits, or nothing but bytes that nobody wrote. (Parts of a buffer may
// well be unwritten.)
void DeviceImpl::check_written(const trace::Operation& operation) {
  if (!memory_->tracks_written()) return;
  const auto& copy = std::get<trace::Copy>(operation.what);
  const trace::MemoryRange& source = copy.source;
  const std::string where = operation.call_site.empty() ? "" : " (called at " + operation.call_site + ")";
  bool written = false;
  for (std::uint64_t r = 0; r < source.rows(); ++r) {
    const std::uint64_t at = to_host(source.row(r));
    if (const std::int64_t load = machine_->find_undefined(at, copy.source.width); load >= 0)
      return machine_->report_undefined(std::uint32_t(load),
                                        ", and " + copy.api + " gives the host what is computed from it" + where);
    written = written || memory_->any_written(at, copy.source.width);
  }
  if (written) return;
  bool freed = false;
  trace::MemoryError error;
  error.kind = trace::MemoryError::Kind::uninitialized;
  error.address = copy.source.address;
  error.bytes = source.bytes();
  error.nearest_allocation = nearest_allocation(copy.source.address, &freed);
  error.text = copy.api + " gives the host bytes that nobody wrote" +
               (machine_->discards() ? " since they were discarded, if ever" : "") + where;
  say(error);
}

void DeviceImpl::run_set(const trace::Set& set, std::uint32_t operation) {
  const trace::MemoryRange& range = set.destination;
  for (std::uint64_t r = 0; r < range.rows(); ++r) {
    if (!touchable(range.row(r), set.destination.width, AccessKind::write)) return;
    std::uint8_t* to = host(range.row(r));
    memory_->written(to_host(range.row(r)), set.destination.width);
    if (options_.shadows) options_.shadows->forget(to_host(range.row(r)), set.destination.width);
    if (set.element_bytes == 1) {
      std::memset(to, int(set.value & 0xff), set.destination.width);
      continue;
    }
    for (std::uint64_t i = 0; i + set.element_bytes <= set.destination.width; i += set.element_bytes)
      std::memcpy(to + i, &set.value, set.element_bytes);
  }
  if (options_.sink && Memory::in_shared_arena(range.address))
    deliveries_.wrote(operation, range, [&] { return bytes_at(range); });
}

// An opaque launch, a host function: the bytes that it changed when it was recorded.
void DeviceImpl::run_effects(std::uint32_t operation) {
  for (const Change& change : effects_.at(operation)) {
    if (!touchable(change.address, change.bytes.size(), AccessKind::write)) return;
    std::memcpy(host(change.address), change.bytes.data(), change.bytes.size());
    memory_->written(to_host(change.address), change.bytes.size());
    if (options_.shadows) options_.shadows->forget(to_host(change.address), change.bytes.size());
    if (options_.sink && Memory::in_shared_arena(change.address))
      deliveries_.wrote(operation, {change.address, change.bytes.size(), change.bytes.size()},
                        [&] { return change.bytes; });
  }
}

void DeviceImpl::run_pool(const trace::PoolOperation& pool, std::uint32_t operation) {
  auto found = by_id_.find(pool.allocation);
  if (found == by_id_.end()) return;
  const std::uint64_t at = to_host(found->second.address), bytes = found->second.bytes;
  if (!pool.free) {
    memory_->fill(at, bytes);
    memory_->validate(at, bytes);
    if (options_.shadows) options_.shadows->forget(at, bytes);
    return;
  }
  memory_->invalidate(at, bytes);
  if (found->second.operation == 0) return; // reserved: the place stays
  memory_->complete_release(operation);
  by_id_.erase(found);
}

bool DeviceImpl::begin(Pending& pending) {
  spinning_.reset(); // it may be a function of the program
  const std::uint32_t id = pending.operation.id;
  const bool marker = std::holds_alternative<trace::Marker>(pending.operation.what);
  if (!marker) {
    device_looks();
    say(trace::OperationBegin{id});
    expect_device_writes();
  }
  const bool launch = std::holds_alternative<trace::Launch>(pending.operation.what);
  if (launch && !effects_.count(id)) return begin_launch(pending);
  if (watch_) watch_->settle();
  if (launch)
    run_effects(id);
  else if (std::holds_alternative<trace::Copy>(pending.operation.what))
    run_copy(pending);
  else if (auto* set = std::get_if<trace::Set>(&pending.operation.what))
    run_set(*set, id);
  else if (auto* pool = std::get_if<trace::PoolOperation>(&pending.operation.what))
    run_pool(*pool, id);
  else if (pending.callback.run)
    return run_on_host(pending);
  else if (effects_.count(id)) {
    run_effects(id);
    for (const Change& change : effects_.at(id)) host_memory_.forget(to_host(change.address), change.bytes.size());
  }
  if (fault_) return false;
  if (options_.end_later.count(id)) return pending.called = true;
  complete(id);
  return true;
}

void DeviceImpl::complete(std::uint32_t operation) {
  auto found = incomplete_.find(operation);
  if (!std::holds_alternative<trace::Marker>(found->second.operation.what)) say(trace::OperationEnd{operation});
  if (found->second.launch) machine_->end(found->second.launch);
  if (holds_) holds_->operation_done(operation);
  if (options_.chooser) options_.chooser->completed(operation);
  const bool launched = found->second.launch;
  if (launched && options_.sink && !found->second.shared.empty())
    deliveries_.may_have_written(operation, [this](std::uint64_t address) {
      return Memory::in_shared_arena(address) && find_allocation(address);
    });
  note_read(found->second);
  incomplete_.erase(found);
  if (launched) machine_->primary_complete(operation);
}

} // namespace deadheat::device
