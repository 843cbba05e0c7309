// What the host writes into page-locked memory while copies have still to read it (CUDA C++ Programming Guide,
// "Asynchronous Concurrent Execution": an asynchronous call returns before the device has done what it asks for).
//
// The host's writes are not seen, only that bytes differ from what they were when the host last called. They are known
// to come behind the submission of a copy whose source was looked at then. Where the copy has not been made either,
// and nothing that comes before it could be waiting for the host, the two are unordered: the write goes into the trace
// as an operation, which the host waits for at once. Everything else is a HostWrite, which orders and races nothing.
#include <algorithm>
#include <cstring>

#include "replay/device/device_impl.h"

namespace deadheat::device {

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

bool DeviceImpl::holds_shared_address(const std::vector<std::uint8_t>& arguments) {
  for (std::size_t at = 0; at + 8 <= arguments.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, arguments.data() + at, 8);
    if (Memory::in_shared_arena(word)) return true;
  }
  return false;
}

// A host function may itself be what writes, and a kernel may wait for a flag that the host sets once it has written.
bool DeviceImpl::may_wait_for_host(std::uint32_t operation) const {
  if (operation < callbacks_until_ || functions_running_) return true;
  for (const auto& [id, before] : incomplete_) {
    if (id >= operation) break;
    if (std::holds_alternative<trace::HostCallback>(before.operation.what)) return true;
    if (!std::holds_alternative<trace::Launch>(before.operation.what)) continue;
    if (before.launch || holds_shared_address(before.data)) return true; // of one that runs they have been given away
  }
  return false;
}

void DeviceImpl::host_wrote(std::uint64_t address, const std::uint8_t* data, std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::uint64_t end = address + bytes;
  for (const auto& [id, pending] : incomplete_) {
    const auto* copy = std::get_if<trace::Copy>(&pending.operation.what);
    if (!copy || pending.has_data || !Memory::in_shared_arena(copy->source.address)) continue;
    const trace::MemoryRange& source = copy->source;
    std::uint64_t begin = end, stop = end; // of the first row that overlaps
    for (std::uint64_t r = 0; begin == end && r < source.rows(); ++r) {
      const std::uint64_t row = source.row(r);
      if (row >= end || row + source.width <= address) continue;
      begin = std::max(row, address);
      stop = std::min(row + source.width, end);
    }
    if (begin == end || may_wait_for_host(id)) continue;
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
    return host_wrote(stop, data + (stop - address), end - stop);
  }
  say(trace::HostWrite{address, keep(data, bytes)});
}

} // namespace deadheat::device
