// What the host writes into page-locked memory while a window is open: a record ahead of each operation that may read
// it.
//
// What copies bring from the host is kept with them as well (bytes_of). Which of the two a replay goes by depends on
// whether operations write there (replay/search/window.cpp).
#include <algorithm>
#include <cstring>

#include "tracer/cupti/libraries.h"
#include "tracer/cupti/session.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

bool Window::followed(const trace::Allocate& memory) const {
  return memory.kind == trace::Allocate::Kind::pinned && !others_.count(memory.address);
}

// The part of the range that lies in page-locked memory of the program. Under the session's lock.
trace::Span Window::on_host(const trace::MemoryRange& range) {
  const trace::Allocate* memory = session_.allocation_at(range.address);
  if (!memory || !followed(*memory)) return {};
  return {range.address, std::min(range.extent(), memory->address + memory->bytes - range.address)};
}

void Window::look(std::uint64_t address, std::uint64_t bytes) {
  host_.device_reads(address, bytes, room(), [&](std::uint64_t at, const std::uint8_t* data, std::uint64_t count) {
    if (!room()(count)) return false;
    session_.journal().push(trace::HostWrite{at, session_.writer().bytes({data, count})});
    return true;
  });
}

// The session's lock is held while memory is looked at: on its way into a free, a thread waits for it.
void Window::device_reads(const trace::MemoryRange& range) {
  if (!open()) return;
  std::lock_guard live(session_.lock);
  const trace::Span span = on_host(range);
  if (!span.bytes) return;
  touch(range);
  std::lock_guard hold(host_lock_);
  look(span.address, span.bytes);
}

void Window::device_writes(const trace::MemoryRange& range, std::uint32_t stream, std::uint32_t operation,
                           CUstream handle) {
  if (!open()) return;
  std::lock_guard live(session_.lock);
  const trace::Span span = on_host(range);
  if (!span.bytes) return;
  touch(range);
  std::lock_guard hold(host_lock_);
  host_.device_writes({span.address, span.bytes, stream, operation, handle}, room());
  // It has ended already where the call waited for it.
  if (session_.captures().load() == 0 && driver().cuStreamQuery && driver().cuStreamQuery(handle) == CUDA_SUCCESS) {
    host_.completed([&](const HostMemory::Writer& writer) { return writer.operation == operation; });
  }
}

std::vector<trace::Span> Window::before_launch(const std::vector<std::uint8_t>& arguments, CUstream handle) {
  std::vector<trace::Span> reached;
  if (!open()) return reached;
  std::lock_guard live(session_.lock);
  for (std::size_t at = 0; at + 8 <= arguments.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, arguments.data() + at, 8);
    const trace::Allocate* memory = session_.allocation_at(word);
    if (memory && others_.count(memory->address)) spoil("a kernel is given memory of another device");
    if (!memory || !followed(*memory)) continue;
    const auto same = [&](const trace::Span& span) { return span.address == memory->address; };
    if (std::none_of(reached.begin(), reached.end(), same)) reached.push_back({memory->address, memory->bytes});
  }
  std::lock_guard hold(host_lock_);
  for (const trace::Span& span : reached) {
    look(span.address, span.bytes);
    host_.device_writes({span.address, span.bytes, 0, HostMemory::not_submitted, handle}, room());
    reached_.insert(span.address);
  }
  return reached;
}

void Window::after_launch(const std::vector<trace::Span>& reached, std::uint32_t stream, std::uint32_t operation,
                          CUstream handle) {
  std::lock_guard hold(host_lock_);
  for (const trace::Span& span : reached) host_.submitted({span.address, span.bytes, stream, operation, handle});
}

void Window::not_launched(const std::vector<trace::Span>& reached, CUstream handle) {
  std::lock_guard live(session_.lock); // memory is looked at
  std::lock_guard hold(host_lock_);
  for (const trace::Span& span : reached) host_.withdraw(span.address, handle);
}

// Its kernels' arguments are not looked at: any page-locked memory may be written, and all of it must fit in the
// budget.
void Window::graph_launched(std::uint32_t stream, std::uint32_t operation, CUstream handle) {
  if (!open()) return;
  std::lock_guard hold(session_.lock);
  std::lock_guard host(host_lock_);
  for (const auto& [address, memory] : session_.allocations()) {
    if (followed(memory)) host_.device_writes({address, memory.bytes, stream, operation, handle}, room());
  }
}

void Window::waited(trace::HostWait::Kind kind, std::uint32_t id) {
  using Kind = trace::HostWait::Kind;
  if (!open()) return;
  std::lock_guard hold(host_lock_);
  if (!host_.anybody_writes()) return;
  const std::uint32_t record = kind == Kind::event ? session_.recorded(id) : 0;
  const std::uint32_t record_stream = kind == Kind::event ? session_.recorded_on(id) : 0;
  host_.completed([&](const HostMemory::Writer& writer) {
    return kind == Kind::device || (kind == Kind::stream && writer.stream == id) ||
           (kind == Kind::event && record && writer.stream == record_stream && writer.operation < record);
  });
  // What was waited for may itself have waited for others.
  if (!host_.anybody_writes() || session_.captures().load() > 0 || !driver().cuStreamQuery) return;
  host_.completed([&](const HostMemory::Writer& writer) {
    const auto stream = static_cast<CUstream>(writer.handle);
    return writer.operation != HostMemory::not_submitted && session_.known(stream) &&
           driver().cuStreamQuery(stream) == CUDA_SUCCESS;
  });
}

void Window::host_wrote(std::uint64_t address, std::uint64_t bytes) {
  std::lock_guard hold(host_lock_);
  host_.device_wrote(address, bytes);
}

void Window::of_another_device(std::uint64_t address) { others_.insert(address); }

void Window::host_memory_freed(std::uint64_t address, std::uint64_t bytes) {
  std::lock_guard hold(host_lock_);
  others_.erase(address);
  host_.forget(address, bytes);
  reached_.erase(address);
}

}  // namespace deadheat::cupti
