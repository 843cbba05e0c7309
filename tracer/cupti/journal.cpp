#include "tracer/cupti/journal.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tracer/cupti/modules.h"

namespace deadheat::cupti {

void Journal::push(Item item) {
  std::lock_guard hold(lock_);
  queue_.push_back(std::move(item));
}

// Allocations that words of the arguments point into: pointers, alone or inside structures.
std::vector<std::uint64_t> Journal::footprint(const std::vector<std::uint8_t>& arguments) const {
  std::vector<std::uint64_t> reached;
  if (live_.empty()) return reached;
  const std::uint64_t least = live_.begin()->first;
  const std::uint64_t most = live_.rbegin()->first + live_.rbegin()->second.bytes;
  for (std::size_t at = 0; at + 8 <= arguments.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, arguments.data() + at, 8);
    if (word < least || word >= most) continue;
    const auto memory = std::prev(live_.upper_bound(word));
    if (word - memory->first >= memory->second.bytes) continue;
    const std::uint64_t id = memory->second.allocation;
    if (std::find(reached.begin(), reached.end(), id) == reached.end()) reached.push_back(id);
  }
  return reached;
}

void Journal::write(Launched& l, trace::TraceWriter& writer) {
  const Kernel& kernel = *l.kernel;
  trace::Launch launch;
  launch.module = kernel.code ? kernel.code->module : kernel.opaque_module;
  launch.kernel = kernel.name;
  launch.grid = l.grid;
  launch.block = l.block;
  launch.cluster = l.cluster;
  launch.dynamic_shared = l.dynamic_shared;
  launch.static_shared = kernel.static_shared;
  launch.cooperative = l.cooperative;
  launch.instrumented = l.accesses != nullptr;
  launch.programmatic = l.programmatic && launch.instrumented;  // when an opaque one waits, nothing tells
  if (!launch.instrumented) launch.footprint = footprint(l.arguments);
  launch.arguments = writer.bytes(l.arguments);
  trace::Operation operation;
  operation.id = l.operation;
  operation.stream = l.stream;
  operation.host_thread = l.host_thread;
  operation.launch = l.launch;
  operation.what = std::move(launch);
  if (l.ranges) operation.call_site = *l.ranges;
  if (!l.python.empty()) operation.call_site += (l.ranges ? " / " : "") + l.python;
  if (l.by_effect) writer.write(trace::Effects{l.operation, std::move(l.effects)});
  writer.write(operation);
  writer.write(trace::OperationBegin{l.operation});
}

bool Journal::write(Item& item, trace::TraceWriter& writer, bool last_chance) {
  return std::visit(
      [&](auto& what) {
        using What = std::decay_t<decltype(what)>;
        if constexpr (std::is_same_v<What, std::shared_ptr<Awaited>>) {
          return what->write(writer, last_chance);
        } else if constexpr (std::is_same_v<What, std::unique_ptr<Launched>>) {
          if (what->kernel) write(*what, writer);
          what->kernel = nullptr;  // the launch itself is written
          if (what->accesses && !what->accesses->write(writer, last_chance)) return false;
          writer.write(trace::OperationEnd{what->operation});
        } else if constexpr (std::is_same_v<What, EventRecorded>) {
          trace::Operation operation;
          operation.id = what.operation;
          operation.stream = what.stream;
          operation.host_thread = what.host_thread;
          writer.write(operation);
          writer.write(trace::EventRecord{what.event, what.stream, what.operation, what.host_thread});
        } else if constexpr (std::is_same_v<What, std::unique_ptr<trace::Operation>> ||
                             std::is_same_v<What, std::unique_ptr<trace::Module>>) {
          writer.write(*what);
        } else {
          if constexpr (std::is_same_v<What, trace::Allocate>) {
            live_[what.address] = {what.bytes, what.allocation};
            addresses_[what.allocation] = what.address;
          } else if constexpr (std::is_same_v<What, trace::Free>) {
            if (auto known = addresses_.find(what.allocation); known != addresses_.end()) {
              auto memory = live_.find(known->second);
              if (memory != live_.end() && memory->second.allocation == what.allocation) live_.erase(memory);
              addresses_.erase(known);
            }
          }
          writer.write(what);
        }
        return true;
      },
      item);
}

void Journal::pump(trace::TraceWriter& writer, bool last_chance) {
  std::lock_guard one(pumping_);
  for (;;) {
    if (next_ == batch_.size()) {
      batch_.clear();
      next_ = 0;
      std::lock_guard hold(lock_);
      batch_.swap(queue_);
    }
    if (batch_.empty()) return;
    for (; next_ < batch_.size(); ++next_) {
      if (!write(batch_[next_], writer, last_chance)) return;
    }
  }
}

}  // namespace deadheat::cupti
