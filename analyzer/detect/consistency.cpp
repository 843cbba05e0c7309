#include "analyzer/detect/consistency.h"

#include <iterator>

namespace deadheat::detect {

namespace {

std::string named(const char* what, std::uint32_t id) { return std::string(what) + " " + std::to_string(id); }

// More bytes than an address space of a device has are never copied.
bool extent_possible(const trace::MemoryRange& range) {
  constexpr std::uint64_t most = std::uint64_t(1) << 49;
  std::uint64_t product = 1;
  for (std::uint64_t factor : {range.width, range.height, range.depth}) {
    if (factor && product > most / factor) return false;
    product *= factor;
  }
  return true;
}

} // namespace

void Consistency::found(Kind kind, const std::string& first) {
  hiding_ += kind != Kind::allocation; // accesses there are told of the later one, whatever is missing
  Count& count = found_[kind];
  if (count.count++ == 0) count.first = first;
}

void Consistency::allocated(const trace::Allocate& allocation) {
  const std::uint64_t begin = allocation.address, end = begin + allocation.bytes;
  if (end < begin) {
    found(Kind::allocation, named("allocation", allocation.allocation) + " ends before it begins");
    return;
  }
  if (allocation.bytes == 0) {
    empty_.insert(allocation.allocation);
    return;
  }
  auto after = live_.lower_bound(begin);
  if (after != live_.begin()) {
    auto before = std::prev(after);
    if (before->second.end > begin) after = before;
  }
  if (after != live_.end() && after->first < end && after->second.end > begin) {
    found(Kind::allocation, named("allocation", allocation.allocation) + " lies on " +
                                named("allocation", after->second.allocation) + ", which was not freed");
  }
  live_[begin] = {end, allocation.allocation};
  address_of_[allocation.allocation] = begin;
}

void Consistency::submitted(const trace::Operation& operation) {
  auto* const nodes = operation.graph_launch ? &nodes_[operation.graph_launch] : nullptr;
  for (std::uint32_t before : operation.node_dependencies) {
    if (event_records_.contains(before)) continue; // the node waits for an event that was recorded outside
    if (!nodes || !nodes->count(before)) {
      found(Kind::node, named("operation", operation.id) + " waits for " + named("operation", before));
    }
  }
  if (!submitted_.insert(operation.id)) {
    found(Kind::execution, named("operation", operation.id) + " is submitted twice");
  }
  if (nodes) nodes->insert(operation.id);
  bool possible = true;
  if (auto* launch = std::get_if<trace::Launch>(&operation.what)) {
    // CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
    constexpr std::uint64_t most_x = (1ull << 31) - 1, most_yz = 65535, most_threads = 1024;
    const Dim3 &grid = launch->grid, &block = launch->block;
    possible = grid.x <= most_x && grid.y <= most_yz && grid.z <= most_yz && block.x <= most_threads &&
               block.y <= most_threads && block.z <= most_threads && block.count() <= most_threads;
  } else if (auto* copy = std::get_if<trace::Copy>(&operation.what)) {
    possible = extent_possible(copy->source) && extent_possible(copy->destination);
  } else if (auto* set = std::get_if<trace::Set>(&operation.what)) {
    possible = extent_possible(set->destination);
  }
  if (!possible) found(Kind::extent, named("operation", operation.id));
}

void Consistency::host_waits(const trace::HostWait& wait) {
  const std::uint32_t record = wait.kind == trace::HostWait::Kind::event ? wait.record_operation : 0;
  if (record && !event_records_.contains(record)) {
    found(Kind::host, "the host waits for " + named("operation", record));
  }
  if (wait.kind == trace::HostWait::Kind::operation && wait.id && !submitted_.contains(wait.id)) {
    found(Kind::host, "the host waits for " + named("operation", wait.id));
  }
}

bool Consistency::record(trace::Record& record) {
  if (auto* r = std::get_if<trace::Operation>(&record)) {
    submitted(*r);
  } else if (auto* r = std::get_if<trace::GraphLaunch>(&record)) {
    graphs_.insert(r->id);
  } else if (auto* r = std::get_if<trace::GraphEnd>(&record)) {
    nodes_.erase(r->id);
    if (!graphs_.erase(r->id)) found(Kind::graph, named("graph launch", r->id));
  } else if (auto* r = std::get_if<trace::HostWait>(&record)) {
    host_waits(*r);
  } else if (auto* r = std::get_if<trace::EventRecord>(&record)) {
    event_records_.insert(r->operation);
  } else if (auto* r = std::get_if<trace::StreamWait>(&record)) {
    if (r->record_operation && !event_records_.contains(r->record_operation)) {
      found(Kind::wait, named("stream", r->stream) + " waits for " + named("operation", r->record_operation));
    }
  } else if (auto* r = std::get_if<trace::Allocate>(&record)) {
    allocated(*r);
  } else if (auto* r = std::get_if<trace::Free>(&record)) {
    auto at = address_of_.find(r->allocation);
    if (at == address_of_.end()) {
      if (!empty_.count(r->allocation)) found(Kind::free, named("allocation", r->allocation));
      return true;
    }
    auto extent = live_.find(at->second);
    if (extent != live_.end() && extent->second.allocation == r->allocation) live_.erase(extent);
  } else if (auto* r = std::get_if<trace::OperationBegin>(&record)) {
    if (!submitted_.contains(r->operation)) {
      found(Kind::execution, named("operation", r->operation) + " begins and was never submitted");
    }
    running_.insert(r->operation);
  } else if (auto* r = std::get_if<trace::OperationEnd>(&record)) {
    if (!running_.erase(r->operation)) {
      found(Kind::execution, named("operation", r->operation) + " ends and never began");
    }
  }
  return true;
}

std::vector<std::string> Consistency::warnings() const {
  std::vector<std::string> lines;
  for (const auto& [kind, count] : found_) {
    const char* what = "";
    switch (kind) {
      case Kind::wait: what = "waits for event records that were not made before are ignored"; break;
      case Kind::host: what = "waits of the host for what was not submitted before are ignored"; break;
      case Kind::node: what = "graph edges that come from no earlier node of the graph are ignored"; break;
      case Kind::graph: what = "graphs end that were never launched"; break;
      case Kind::free: what = "memory is freed that was not allocated"; break;
      case Kind::extent: what = "launches, copies or sets are larger than any can be"; break;
      case Kind::allocation: what = "allocations overlap; accesses there are told of the later one"; break;
      case Kind::execution: what = "operations are submitted twice, begin or end that did not"; break;
    }
    lines.push_back("the trace contradicts itself: " + std::string(what) + " (" + std::to_string(count.count) +
                    ", the first: " + count.first + ")");
  }
  return lines;
}

} // namespace deadheat::detect
