// What the host writes into page-locked memory while copies have still to read it (CUDA C++ Programming Guide,
// "Asynchronous Concurrent Execution": an asynchronous call returns before the device has done what it asks for).
//
// The host's writes are not seen, only that bytes differ from what they were when the host last called. They are known
// to come behind the submission of a copy whose source was looked at then. Where the copy has not been made either,
// and nothing that comes before it could be waiting for the host, the two are unordered; so they are where it has been
// made, but the host has not waited for that. Then the write goes into the trace as an operation, which the host waits
// for at once. Everything else is a HostWrite, which orders and races nothing.
#include <algorithm>
#include <cstring>

#include "replay/device/device_impl.h"

namespace deadheat::device {

namespace {

constexpr std::size_t most_read = 256; // copies that are complete

// Of the bytes that a copy reads, the first row's in [address, end).
std::optional<std::pair<std::uint64_t, std::uint64_t>> overlap(const trace::Copy& copy, std::uint64_t address,
                                                               std::uint64_t end) {
  const trace::MemoryRange& source = copy.source;
  if (!Memory::in_shared_arena(source.address)) return {};
  for (std::uint64_t r = 0; r < source.rows(); ++r) {
    const std::uint64_t row = source.row(r);
    if (row < end && row + source.width > address)
      return std::pair(std::max(row, address), std::min(row + source.width, end));
  }
  return {};
}

} // namespace

// The host's writes so far come before the copy.
void DeviceImpl::look_before(const trace::Copy& copy) {
  if (!options_.live || !options_.sink || host_memory_.empty() || driving_) return;
  if (!Memory::in_shared_arena(copy.source.address)) return;
  mirrors_.to_device();
  note_host_writes(copy.source.address);
}

void DeviceImpl::note_host_writes(std::uint64_t at) {
  const HostMemory::Changed wrote = [this](auto address, auto data, auto bytes) { host_wrote(address, data, bytes); };
  if (at)
    host_memory_.compare_at(at, wrote);
  else
    host_memory_.compare(wrote);
}

std::vector<std::uint64_t> DeviceImpl::shared_addresses(const std::vector<std::uint8_t>& arguments) {
  std::vector<std::uint64_t> found;
  for (std::size_t at = 0; at + 8 <= arguments.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, arguments.data() + at, 8);
    if (Memory::in_shared_arena(word)) found.push_back(word);
  }
  return found;
}

// A host function may itself be what writes, and a kernel may wait for a flag that the host sets once it has written.
bool DeviceImpl::may_wait_for_host(std::uint32_t operation) const {
  if (operation < callbacks_until_ || functions_running_) return true;
  for (const auto& [id, before] : incomplete_) {
    if (id >= operation) break;
    if (std::holds_alternative<trace::HostCallback>(before.operation.what)) return true;
    if (!std::holds_alternative<trace::Launch>(before.operation.what)) continue;
    if (before.launch || !before.shared.empty()) return true;
  }
  return false;
}

void DeviceImpl::note_read(const Pending& pending) {
  const auto* copy = std::get_if<trace::Copy>(&pending.operation.what);
  if (!copy || pending.has_data || !is_looked_at() || !Memory::in_shared_arena(copy->source.address)) return;
  read_.emplace(pending.operation.id, pending.operation);
  if (read_.size() > most_read) read_.erase(read_.begin());
}

// Roughly: whether a wait orders the host behind a copy the analyzer finds out.
void DeviceImpl::forget_read(const trace::HostWait& wait) {
  using Kind = trace::HostWait::Kind;
  if (wait.kind == Kind::device) read_.clear();
  std::uint32_t stream = wait.kind == Kind::stream ? wait.id : 0;
  if (const auto event = event_streams_.find(wait.id); wait.kind == Kind::event && event != event_streams_.end())
    stream = event->second;
  const std::uint32_t until = wait.kind == Kind::event ? wait.record_operation : next_operation_;
  std::erase_if(read_, [&](const auto& read) { return read.second.stream == stream && read.first < until; });
}

// A copy that the host has not waited for and that reads of these bytes, or has read of them.
const trace::Copy* DeviceImpl::unordered_reader(std::uint64_t address, std::uint64_t end) const {
  for (const auto& [id, pending] : incomplete_) {
    const auto* copy = std::get_if<trace::Copy>(&pending.operation.what);
    if (copy && !pending.has_data && overlap(*copy, address, end) && !may_wait_for_host(id)) return copy;
  }
  for (const auto& [id, operation] : read_) {
    const auto& copy = std::get<trace::Copy>(operation.what);
    if (id >= callbacks_until_ && !kernels_reach_host_ && overlap(copy, address, end)) return &copy;
  }
  return nullptr;
}

void DeviceImpl::host_wrote(std::uint64_t address, const std::uint8_t* data, std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::uint64_t end = address + bytes;
  const trace::Copy* reader = unordered_reader(address, end);
  if (!reader) return say(trace::HostWrite{address, keep(data, bytes)});
  const auto [begin, stop] = *overlap(*reader, address, end);
  trace::Copy written;
  written.direction = trace::Copy::Direction::h2h;
  written.destination = {begin, stop - begin, stop - begin, 1, 1, stop - begin};
  written.source = written.destination;
  written.pageable_source = true;
  written.api = order::host_itself;
  written.data = keep(data + (begin - address), stop - begin);
  trace::Operation operation;
  operation.id = next_operation_++;
  operation.stream = host_stream();
  operation.what = std::move(written);
  order_.submitted(operation);
  const std::uint32_t number = operation.id;
  say(operation);
  say(trace::OperationBegin{number});
  say(trace::OperationEnd{number});
  say(trace::HostWait{trace::HostWait::Kind::operation, number, 0, false, 0});
  host_wrote(address, data, begin - address);
  host_wrote(stop, data + (stop - address), end - stop);
}

} // namespace deadheat::device
