// Commands as records of a trace: what the host did in the recorded run, done again.
#include <cstring>

#include "replay/device/device_impl.h"
#include "replay/engine/shadow.h"

namespace deadheat::device {

namespace {

Expected<std::vector<std::uint8_t>> load(const trace::Bytes& bytes, const BlobReader& blob) {
  if (bytes.inlined.size() == bytes.size) return bytes.inlined;
  Expected<std::vector<std::uint8_t>> read = blob(bytes.blob);
  if (!read) return read;
  if (read->size() != bytes.size) return Error{"a blob of the trace has the wrong size", {}, "the trace is damaged"};
  return read;
}

} // namespace

Expected<Progress> DeviceImpl::apply_module(const trace::Module& record, const BlobReader& blob) {
  if (record.kind != trace::Module::Kind::ptx) return Progress::done; // opaque: its launches are refused
  Expected<std::vector<std::uint8_t>> text = blob(record.image);
  if (!text) return text.error();
  Expected<std::uint32_t> id = load(std::string(text->begin(), text->end()), record.origin, record.id, false);
  if (!id) return id.error();
  return Progress::done;
}

Expected<Progress> DeviceImpl::apply_allocate(const trace::Allocate& record) {
  Expected<trace::Allocate> made = make_allocation(record, to_host(record.address), valid_at_once(record));
  if (!made) return made.error();
  if (record.name == heap_name) {
    heap_ = record.address;
    heap_bytes_ = record.bytes;
    memory_->invalidate(to_host(heap_), record.bytes);
  }
  return Progress::done;
}

Expected<Progress> DeviceImpl::apply_symbol(const trace::Symbol& record) {
  auto module = modules_.find(record.module);
  auto allocation = by_id_.find(record.allocation);
  if (module == modules_.end() || allocation == by_id_.end()) return Progress::done; // of an opaque module
  LoadedState& state = module->second;
  state.symbols[record.name] = {allocation->second.address, allocation->second.bytes, record.allocation};
  say(record);
  if (!state.initialised && state.symbols.size() == state.expected)
    if (Expected<void> ok = initialise(state); !ok) return ok.error();
  return Progress::done;
}

Expected<Progress> DeviceImpl::apply_free(const trace::Free& record) {
  auto allocation = by_id_.find(record.allocation);
  if (allocation == by_id_.end()) return Error{"the trace frees what it never allocated", {}, "the trace is damaged"};
  const std::uint64_t address = allocation->second.address;
  if (allocation->second.kind == trace::Allocate::Kind::symbol) return Progress::done; // its module stays
  if (!allocations_.count(address)) return Error{"the trace frees memory twice", {}, "the trace is damaged"};
  Expected<void> ok = record.operation ? release_in_stream(address, record.host_thread, 0, record.operation)
                                       : release_at_once(address, record.host_thread);
  if (!ok) return ok.error();
  return Progress::done;
}

Expected<Progress> DeviceImpl::apply_operation(trace::Operation operation, const BlobReader& blob) {
  if (Expected<void> ok = check(operation); !ok) return ok.error();
  // Variables that the recorder could not find have places of their own.
  if (const auto* launch = std::get_if<trace::Launch>(&operation.what); launch && !effects_.count(operation.id)) {
    LoadedState& module = modules_.at(launch->module);
    if (!module.initialised)
      if (Expected<void> bound = bind_symbols(launch->module, module); !bound) return bound.error();
  }
  std::vector<std::uint8_t> data;
  bool has_data = false;
  const trace::Bytes* bytes = nullptr;
  if (const auto* copy = std::get_if<trace::Copy>(&operation.what)) {
    has_data = copy->data.size != 0 || copy->pageable_source;
    if (has_data) bytes = &copy->data;
  } else if (const auto* launch = std::get_if<trace::Launch>(&operation.what)) {
    has_data = true;
    bytes = &launch->arguments;
  }
  if (bytes) {
    Expected<std::vector<std::uint8_t>> read = deadheat::device::load(*bytes, blob);
    if (!read) return read.error();
    data = std::move(*read);
  }
  Expected<std::uint32_t> id = submit_with(std::move(operation), std::move(data), has_data);
  if (!id) return id.error();
  // What the host did itself is done at once, where the schedule does not ask for anything else.
  Pending& pending = incomplete_.at(*id);
  const auto* copy = std::get_if<trace::Copy>(&pending.operation.what);
  if (copy && copy->api == order::host_itself && !control_ && is_ready(pending) && (!holds_ || holds_->may_begin(*id)))
    begin(pending);
  return Progress::done;
}

Expected<Progress> DeviceImpl::apply_effects(const trace::Effects& record, const BlobReader& blob) {
  std::vector<Change>& changes = effects_[record.operation];
  for (const trace::Effects::Change& change : record.changes) {
    Expected<std::vector<std::uint8_t>> bytes = deadheat::device::load(change.data, blob);
    if (!bytes) return bytes.error();
    changes.push_back({change.address, std::move(*bytes)});
  }
  say(record);
  return Progress::done;
}

Expected<Progress> DeviceImpl::apply_host_write(const trace::HostWrite& record, const BlobReader& blob) {
  // What had ended when the host wrote this did not see it.
  const std::vector<std::uint32_t> ended(recorded_as_done_.begin(), recorded_as_done_.end());
  recorded_as_done_.clear();
  const Progress progress = drive(ended, 0);
  if (progress != Progress::done) return progress;
  Expected<std::vector<std::uint8_t>> data = deadheat::device::load(record.data, blob);
  if (!data) return data.error();
  const trace::Allocate* a = find_allocation(record.address);
  if (!a || data->size() > a->bytes - (record.address - a->address) || !Memory::in_shared_arena(record.address))
    return Error{"the trace writes host memory that is not allocated", {}, "the trace is damaged"};
  std::memcpy(reinterpret_cast<void*>(record.address), data->data(), data->size());
  if (options_.shadows) options_.shadows->forget(record.address, data->size());
  host_memory_.forget(record.address, data->size());
  say(record);
  return Progress::done;
}

Expected<Progress> DeviceImpl::apply(const trace::Record& record, const BlobReader& blob) {
  if (fault_) return Progress::fault;
  if (auto* r = std::get_if<trace::Module>(&record)) return apply_module(*r, blob);
  if (auto* r = std::get_if<trace::Symbol>(&record)) return apply_symbol(*r);
  if (auto* r = std::get_if<trace::Allocate>(&record)) return apply_allocate(*r);
  if (auto* r = std::get_if<trace::Free>(&record)) return apply_free(*r);
  if (auto* r = std::get_if<trace::StreamCreate>(&record)) {
    order_.stream_created(*r);
  } else if (auto* r = std::get_if<trace::StreamDestroy>(&record)) {
    order_.stream_destroyed(*r);
  } else if (auto* r = std::get_if<trace::EventRecord>(&record)) {
    order_.event_recorded(*r);
  } else if (auto* r = std::get_if<trace::StreamWait>(&record)) {
    order_.stream_waits(*r);
  } else if (auto* r = std::get_if<trace::GraphLaunch>(&record)) {
    order_.graph_begin(*r);
  } else if (auto* r = std::get_if<trace::GraphEnd>(&record)) {
    order_.graph_end(*r);
  } else if (auto* r = std::get_if<trace::Operation>(&record)) {
    return apply_operation(*r, blob);
  } else if (auto* r = std::get_if<trace::OperationEnd>(&record)) {
    if (options_.end_later.count(r->operation)) return replay_function_end(r->operation);
    recorded_as_done_.insert(r->operation);
    return Progress::done;
  } else if (auto* r = std::get_if<trace::HostWait>(&record)) {
    recorded_as_done_.clear();
    if (r->kind == trace::HostWait::Kind::operation && functions_told_.count(r->id)) return replay_function_wait(*r);
    std::vector<std::uint32_t> until;
    return wait_since_begin(*r, until);
  } else if (auto* r = std::get_if<trace::HostWaitBegin>(&record)) {
    begin_wait(*r);
    return Progress::done;
  } else if (auto* r = std::get_if<trace::Effects>(&record)) {
    return apply_effects(*r, blob);
  } else if (auto* r = std::get_if<trace::HostWrite>(&record)) {
    return apply_host_write(*r, blob);
  } else if (std::holds_alternative<trace::ProgramEnd>(record)) {
    return drain();
  } else {
    return Progress::done; // not a command
  }
  say(record);
  return Progress::done;
}

} // namespace deadheat::device
