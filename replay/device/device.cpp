#include <algorithm>
#include <cstring>

#include "deadheat/conditions.h"
#include "replay/device/builtins.h"
#include "replay/device/device_impl.h"
#include "replay/device/trace_sink.h"
#include "replay/engine/shadow.h"

namespace deadheat::device {

namespace {

bool shared_kind(trace::Allocate::Kind kind) {
  return kind == trace::Allocate::Kind::pinned || kind == trace::Allocate::Kind::managed;
}
} // namespace

Expected<std::unique_ptr<Device>> Device::create(DeviceOptions options) {
  Expected<std::unique_ptr<Memory>> memory =
      Memory::create(options.seed ^ options.garbage, options.profile.memory_bytes);
  if (!memory) return memory.error();
  // First of all, so that it lies at the same place in every run.
  Expected<std::uint64_t> workspaces =
      (*memory)->place(false, DeviceImpl::workspace_bytes * DeviceImpl::workspace_slots);
  if (!workspaces) return workspaces.error();
  return std::unique_ptr<Device>(std::make_unique<DeviceImpl>(std::move(options), std::move(*memory), *workspaces));
}

DeviceImpl::DeviceImpl(DeviceOptions options, std::unique_ptr<Memory> memory, std::uint64_t workspaces)
    : options_(std::move(options)), memory_(std::move(memory)), workspaces_(workspaces) {
  if (!options_.modules) options_.modules = make_module_cache();
  if (options_.live && options_.sink && options_.record_accesses && options_.check && options_.unwritten)
    memory_->track_written();
  MachineOptions machine;
  machine.seed = options_.seed;
  machine.profile = &options_.profile;
  machine.environment = this;
  machine.sink = options_.sink;
  machine.shadow = memory_->shadow();
  machine.garbage = [memory = memory_.get()](std::uint64_t salt) { return memory->garbage(salt); };
  machine.discarded = engine::discard_pattern ^ options_.garbage;
  machine.prompt = options_.schedule.prompt;
  machine.budget = options_.budget;
  // Schedules that choose who goes on leave nothing to others.
  if (options_.schedule.kind == Schedule::Kind::natural && !options_.shadows)
    machine.cores = options_.cores ? options_.cores : usable_cores();
  machine.spread_after = options_.spread_after;
  machine.shadows = options_.shadows;
  machine_ = std::make_unique<Machine>(std::move(machine));
  switch (options_.schedule.kind) {
    case Schedule::Kind::natural: break;
    case Schedule::Kind::holds:
      holds_.emplace(options_.schedule.holds);
      machine_->set_holds(&*holds_);
      break;
    case Schedule::Kind::random:
    case Schedule::Kind::priorities:
    case Schedule::Kind::switches:
    case Schedule::Kind::uniform:
      control_.emplace(options_.schedule);
      machine_->set_control(&*control_);
      break;
  }
  if (options_.live) options_.chooser = nullptr;
  if (control_)
    control_->drive(options_.chooser, [this](std::uint32_t id, NextAccess& next) { return describe(id, next); });
  if (options_.live || (!options_.performed && !options_.chooser && !(!holds_ && options_.schedule.weak))) return;
  watch_.emplace(options_.schedule, options_.performed, options_.most_performed);
  watch_->drive(options_.chooser);
  machine_->set_watch(&*watch_);
}

DeviceImpl::~DeviceImpl() = default;

trace::Bytes DeviceImpl::keep(const void* data, std::uint64_t size) {
  if (options_.sink) return options_.sink->keep(data, size);
  trace::Bytes bytes;
  bytes.size = size;
  const auto* from = static_cast<const std::uint8_t*>(data);
  bytes.inlined.assign(from, from + size);
  return bytes;
}

// ---- modules

bool DeviceImpl::has_storage(const ptx::Variable& v) {
  return (v.space == Space::global || v.space == Space::constant) && v.linkage != ptx::Variable::Linkage::extern_ &&
         !v.opaque_reference && v.size != 0;
}

Expected<std::uint32_t> DeviceImpl::load_module(std::string ptx_text, std::string origin, std::uint32_t id) {
  Expected<std::string> linked = link_builtins(std::move(ptx_text), origin);
  if (!linked) return linked.error();
  return load(std::move(*linked), std::move(origin), id, true);
}

Expected<std::uint32_t> DeviceImpl::load(std::string ptx_text, std::string origin, std::uint32_t id, bool bind) {
  Expected<std::shared_ptr<CachedModule>> code = options_.modules->find(ptx_text, origin, nullptr);
  if (!code) return code.error();
  if (!id) id = next_module_;
  next_module_ = std::max(next_module_, id + 1);
  LoadedState& module = modules_[id];
  module.text = std::move(ptx_text);
  module.origin = std::move(origin);
  module.code = std::move(*code);
  if (options_.sink) {
    trace::Module record;
    record.id = id;
    record.image = options_.sink->keep_blob(module.text.data(), module.text.size());
    record.origin = module.origin;
    record.sites = module.code->module->sites();
    options_.sink->record(record);
  }
  for (const ptx::Variable& v : module.code->module->ptx().variables) module.expected += has_storage(v);
  Expected<void> bound = bind ? bind_symbols(id, module) : module.expected == 0 ? initialise(module) : Expected<void>();
  if (!bound) return bound.error();
  return id;
}

Expected<void> DeviceImpl::bind_symbols(std::uint32_t id, LoadedState& module) {
  const ptx::Module& ptx = module.code->module->ptx();
  for (const ptx::Variable& v : ptx.variables) {
    if (!has_storage(v) || module.symbols.count(v.name)) continue;
    trace::Allocate record;
    record.kind = v.managed ? trace::Allocate::Kind::managed : trace::Allocate::Kind::symbol;
    record.bytes = v.size;
    record.name = v.name;
    Expected<trace::Allocate> made = make_allocation(std::move(record), 0, true);
    if (!made) return made.error();
    module.symbols[v.name] = {made->address, made->bytes, made->allocation};
    say(trace::Symbol{id, v.name, made->allocation});
  }
  return initialise(module);
}

// All symbols have their addresses: picks the code compiled for these, and writes the initial values.
Expected<void> DeviceImpl::initialise(LoadedState& module) {
  SymbolTable table;
  for (const auto& [name, symbol] : module.symbols) table[name] = symbol.address;
  Expected<std::shared_ptr<CachedModule>> code = options_.modules->find(module.text, module.origin, &table);
  if (!code) return code.error();
  module.code = std::move(*code);
  *module.code->symbols = table;
  module.initialised = true;
  for (const ptx::Variable& v : module.code->module->ptx().variables) {
    auto symbol = module.symbols.find(v.name);
    if (!has_storage(v) || symbol == module.symbols.end()) continue;
    const std::vector<std::uint8_t> bytes = module.code->module->initial_bytes(v);
    auto* to = reinterpret_cast<std::uint8_t*>(to_host(symbol->second.address));
    std::memset(to, 0, symbol->second.bytes);
    memory_->written(to_host(symbol->second.address), symbol->second.bytes);
    std::memcpy(to, bytes.data(), std::min<std::uint64_t>(bytes.size(), symbol->second.bytes));
    host_memory_.forget(symbol->second.address, symbol->second.bytes);
  }
  return {};
}

engine::LoadedModule* DeviceImpl::module(std::uint32_t id) {
  auto found = modules_.find(id);
  return found == modules_.end() ? nullptr : found->second.code->module.get();
}

std::uint64_t DeviceImpl::symbol_address(std::uint32_t module, std::string_view name, std::uint64_t* bytes) {
  auto found = modules_.find(module);
  if (found == modules_.end()) return 0;
  auto symbol = found->second.symbols.find(name);
  if (symbol == found->second.symbols.end()) return 0;
  if (bytes) *bytes = symbol->second.bytes;
  return symbol->second.address;
}

// ---- memory

Expected<trace::Allocate> DeviceImpl::make_allocation(trace::Allocate record, std::uint64_t at_host, bool now,
                                                      std::uint32_t stream) {
  const bool shared = shared_kind(record.kind);
  Memory::Reusable reusable;
  if (stream && !at_host) {
    reusable = [this, stream, tail = order_.stream_tail(stream)](std::uint32_t freed_in, std::uint32_t operation) {
      return freed_in == stream || ordered_before(operation, tail);
    };
  }
  Expected<std::uint64_t> host = memory_->place(shared, std::max<std::uint64_t>(record.bytes, 1), at_host, reusable);
  if (!host) return host.error();
  if (!record.allocation) record.allocation = next_allocation_;
  next_allocation_ = std::max(next_allocation_, record.allocation + 1);
  record.address = shared ? *host : to_device(*host);
  record.host_address = shared ? *host : 0;
  if (now) {
    memory_->fill(*host, record.bytes);
    // What nobody sets decides as on a GPU as a rule, for nothing, and not by chance.
    if (record.name == conditions_memory) std::memset(reinterpret_cast<void*>(*host), 0, record.bytes);
    memory_->validate(*host, record.bytes);
    if (options_.shadows) options_.shadows->forget(*host, record.bytes);
  }
  if (shared) host_memory_.add(*host, record.bytes);
  allocations_[record.address] = record;
  by_id_[record.allocation] = record;
  say(record);
  return record;
}

Expected<trace::Allocate> DeviceImpl::allocate(trace::Allocate::Kind kind, std::uint64_t bytes,
                                               std::uint32_t host_thread, std::uint32_t stream,
                                               const trace::Allocate* at) {
  if (at) return make_allocation(*at, to_host(at->address), valid_at_once(*at));
  trace::Allocate record;
  record.kind = kind;
  record.bytes = bytes;
  record.host_thread = host_thread;
  const bool pool = kind == trace::Allocate::Kind::pool;
  record.operation = pool ? next_operation_ : 0;
  Expected<trace::Allocate> made = make_allocation(record, 0, !pool, pool ? stream : 0);
  if (!made || !pool) return made;
  trace::Operation operation;
  operation.id = made->operation;
  operation.stream = stream;
  operation.host_thread = host_thread;
  operation.what = trace::PoolOperation{false, made->allocation};
  if (Expected<std::uint32_t> submitted = submit(std::move(operation)); !submitted) return submitted.error();
  return made;
}

Expected<trace::Allocate> DeviceImpl::reserve(std::uint64_t bytes, std::uint32_t host_thread) {
  trace::Allocate record;
  record.kind = trace::Allocate::Kind::pool;
  record.bytes = bytes;
  record.host_thread = host_thread;
  return make_allocation(std::move(record), 0, false);
}

Expected<trace::Allocate> DeviceImpl::place_conditions(std::uint64_t bytes) {
  trace::Allocate record;
  record.bytes = bytes;
  record.name = conditions_memory;
  return make_allocation(std::move(record), 0, true);
}

void DeviceImpl::mirror(std::uint64_t address, void* host) {
  mirrors_.add(address, reinterpret_cast<std::uint64_t>(host), allocations_.at(address).bytes);
}

bool DeviceImpl::ordered_before(std::uint32_t operation, const std::vector<std::uint32_t>& tail) const {
  std::vector<std::uint32_t> todo = tail;
  std::set<std::uint32_t> seen;
  while (!todo.empty()) {
    const std::uint32_t id = todo.back();
    todo.pop_back();
    if (id == operation) return true;
    auto pending = incomplete_.find(id);
    if (pending == incomplete_.end() || !seen.insert(id).second) continue;
    todo.insert(todo.end(), pending->second.after.begin(), pending->second.after.end());
  }
  return false;
}

Expected<void> DeviceImpl::release(std::uint64_t address, std::uint32_t host_thread, std::uint32_t stream) {
  auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.kind == trace::Allocate::Kind::symbol)
    return Error{"not the address of a live allocation"};
  if (stream) return release_in_stream(address, host_thread, stream, 0);
  return release_at_once(address, host_thread);
}

std::uint32_t DeviceImpl::host_stream() {
  if (!host_stream_) host_stream_ = create_stream(trace::StreamCreate::Kind::non_blocking, 0, 0);
  return host_stream_;
}

Expected<std::uint32_t> DeviceImpl::release_by_host(std::uint64_t address, std::uint32_t host_thread) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.kind != trace::Allocate::Kind::pool)
    return Error{"not the address of a live allocation of a pool"};
  const std::uint32_t stream = host_stream(), operation = next_operation_;
  next_is_waited_for();
  if (Expected<void> freed = release_in_stream(address, host_thread, stream, 0); !freed) return freed.error();
  return operation;
}

void DeviceImpl::drop_allocation(std::uint64_t address) {
  auto found = allocations_.find(address);
  freed_[address] = found->second;
  if (shared_kind(found->second.kind)) {
    host_memory_.remove(to_host(address));
    mirrors_.remove(address);
    std::erase_if(read_, [&](const auto& read) {
      return std::get<trace::Copy>(read.second.what).source.address - address < found->second.bytes;
    });
  }
  allocations_.erase(found);
}

Expected<void> DeviceImpl::release_at_once(std::uint64_t address, std::uint32_t host_thread) {
  const trace::Allocate record = allocations_.at(address);
  drop_allocation(address);
  by_id_.erase(record.allocation);
  memory_->release(to_host(address), std::max<std::uint64_t>(record.bytes, 1));
  say(trace::Free{record.allocation, 0, host_thread});
  return {};
}

Expected<void> DeviceImpl::release_in_stream(std::uint64_t address, std::uint32_t host_thread, std::uint32_t stream,
                                             std::uint32_t operation_id) {
  const trace::Allocate record = allocations_.at(address);
  if (record.kind != trace::Allocate::Kind::pool && record.kind != trace::Allocate::Kind::device)
    return Error{"this memory cannot be freed in stream order"};
  const std::uint32_t id = operation_id ? operation_id : next_operation_;
  drop_allocation(address);
  memory_->release_later(to_host(address), std::max<std::uint64_t>(record.bytes, 1), stream, id);
  say(trace::Free{record.allocation, id, host_thread});
  if (operation_id) return {}; // its operation comes as a record
  trace::Operation operation;
  operation.id = id;
  operation.stream = stream;
  operation.host_thread = host_thread;
  operation.what = trace::PoolOperation{true, record.allocation};
  if (Expected<std::uint32_t> submitted = submit(std::move(operation)); !submitted) return submitted.error();
  return {};
}

namespace {
const trace::Allocate* find_in(const std::map<std::uint64_t, trace::Allocate>& all, std::uint64_t address) {
  auto found = all.upper_bound(address);
  if (found == all.begin()) return nullptr;
  --found;
  return address - found->first < found->second.bytes ? &found->second : nullptr;
}
} // namespace

const trace::Allocate* DeviceImpl::find_allocation(std::uint64_t address) const {
  return find_in(allocations_, address);
}

const trace::Allocate* DeviceImpl::find_freed(std::uint64_t address) const { return find_in(freed_, address); }

const std::uint8_t* DeviceImpl::peek(std::uint64_t address, std::uint64_t bytes) const {
  const trace::Allocate* a = find_allocation(address);
  if (!a || bytes > a->bytes - (address - a->address)) return nullptr;
  return reinterpret_cast<const std::uint8_t*>(to_host(address));
}

std::vector<trace::Allocate> DeviceImpl::live_allocations() const {
  std::vector<trace::Allocate> all;
  for (const auto& [address, record] : allocations_) all.push_back(record);
  return all;
}

bool DeviceImpl::legal(std::uint64_t address, std::uint64_t bytes) {
  if (address & device_bit) return memory_->valid(to_host(address), bytes);
  if (!Memory::in_shared_arena(address)) return false;
  const trace::Allocate* a = find_allocation(address);
  return a && bytes <= a->bytes - (address - a->address);
}

// The allocation that holds the address, or lies nearest before or behind it.
std::uint32_t DeviceImpl::nearest_allocation(std::uint64_t address, bool* freed) {
  *freed = false;
  auto after = allocations_.upper_bound(address);
  const trace::Allocate* best = nullptr;
  std::uint64_t distance = ~std::uint64_t(0);
  if (after != allocations_.begin()) {
    const trace::Allocate& before = std::prev(after)->second;
    best = &before;
    distance = address - before.address < before.bytes ? 0 : address - before.address - before.bytes;
  }
  // Memory handed on in stream order belongs to its next allocation only once the stream has come there.
  if (distance == 0 && legal(address, 1)) return best->allocation;
  if (const trace::Allocate* gone = find_in(freed_, address)) {
    *freed = true;
    return gone->allocation;
  }
  if (distance == 0) return best->allocation;
  if (after != allocations_.end() && after->second.address - address < distance) best = &after->second;
  return best ? best->allocation : 0;
}

std::uint64_t DeviceImpl::heap(std::uint64_t* bytes) {
  *bytes = heap_bytes_;
  if (heap_) return heap_;
  trace::Allocate record;
  record.bytes = heap_bytes_;
  record.name = heap_name;
  Expected<trace::Allocate> made = make_allocation(std::move(record), 0, true);
  if (!made) return 0;
  heap_ = made->address;
  memory_->invalidate(to_host(heap_), heap_bytes_);
  return heap_;
}

bool DeviceImpl::set_heap_bytes(std::uint64_t bytes) {
  if (heap_) return bytes == heap_bytes_;
  heap_bytes_ = std::clamp<std::uint64_t>(bytes, 4096, std::uint64_t(4) << 30);
  return true;
}

void DeviceImpl::heap_valid(std::uint64_t address, std::uint64_t bytes, bool valid) {
  if (!valid) return memory_->invalidate(to_host(address), bytes);
  memory_->validate(to_host(address), bytes);
  memory_->unwritten(to_host(address), bytes);
  if (options_.shadows) options_.shadows->forget(to_host(address), bytes);
}

// ---- streams, events, graphs

std::uint32_t DeviceImpl::create_stream(trace::StreamCreate::Kind kind, std::int32_t priority,
                                        std::uint32_t host_thread) {
  const trace::StreamCreate record{next_stream_++, kind, priority, 0, host_thread};
  order_.stream_created(record);
  say(record);
  return record.stream;
}

void DeviceImpl::destroy_stream(std::uint32_t stream, std::uint32_t host_thread) {
  const trace::StreamDestroy record{stream, host_thread};
  order_.stream_destroyed(record);
  say(record);
}

void DeviceImpl::record_event(std::uint32_t event, std::uint32_t stream, std::uint32_t host_thread) {
  trace::Operation operation;
  operation.stream = stream;
  operation.host_thread = host_thread;
  Expected<std::uint32_t> id = submit(std::move(operation));
  if (id) event_recorded(event, stream, *id, host_thread);
}

void DeviceImpl::event_recorded(std::uint32_t event, std::uint32_t stream, std::uint32_t operation,
                                std::uint32_t host_thread) {
  const trace::EventRecord record{event, stream, operation, host_thread};
  order_.event_recorded(record);
  event_streams_[event] = stream;
  say(record);
}

void DeviceImpl::stream_wait(std::uint32_t stream, std::uint32_t event, std::uint32_t host_thread) {
  trace::StreamWait record;
  record.stream = stream;
  record.event = event;
  record.record_operation = order_.event_operation(event);
  record.host_thread = host_thread;
  order_.stream_waits(record);
  say(record);
}

std::uint32_t DeviceImpl::begin_graph(std::uint32_t graph, std::uint32_t stream, std::uint32_t host_thread) {
  const trace::GraphLaunch record{next_graph_++, graph, stream, host_thread};
  order_.graph_begin(record);
  say(record);
  return record.id;
}

void DeviceImpl::end_graph(std::uint32_t graph_launch) {
  const trace::GraphEnd record{graph_launch};
  order_.graph_end(record);
  say(record);
}

// ---- what the run chose

const ChoiceSummary& DeviceImpl::choices() const {
  choices_.visible = machine_->visible();
  choices_.spread = machine_->spread();
  choices_.interleaved = machine_->interleaved();
  choices_.dependent = machine_->dependent();
  if (control_) choices_.switches = control_->switches();
  if (holds_) {
    choices_.hold_state = holds_->states();
    choices_.old_shown = holds_->old_shown();
    choices_.held_apart = holds_->apart();
    choices_.until_wrote = holds_->until_wrote();
    choices_.held_performed =
        std::all_of(choices_.hold_state.begin(), choices_.hold_state.end(), [](std::uint8_t s) { return s == 3; });
  }
  return choices_;
}

std::vector<Switch> DeviceImpl::switches() const { return control_ ? control_->departures() : std::vector<Switch>(); }

const std::vector<OldRead>& DeviceImpl::old_reads() const {
  static const std::vector<OldRead> none;
  return watch_ ? watch_->old_reads() : none;
}

} // namespace deadheat::device
