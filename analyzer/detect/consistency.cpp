#include "analyzer/detect/consistency.h"

#include <iterator>

namespace deadheat::detect {

namespace {

std::string named(const char* what, std::uint32_t id) { return std::string(what) + " " + std::to_string(id); }

} // namespace

void Consistency::found(Kind kind, const std::string& first) {
  Count& count = found_[kind];
  if (count.count++ == 0) count.first = first;
}

void Consistency::allocated(const trace::Allocate& allocation) {
  const std::uint64_t begin = allocation.address, end = begin + allocation.bytes;
  if (end < begin) {
    found(Kind::allocation, named("allocation", allocation.allocation) + " ends before it begins");
    return;
  }
  if (allocation.bytes == 0) return;
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

bool Consistency::record(trace::Record& record) {
  if (auto* r = std::get_if<trace::Operation>(&record)) {
    for (std::uint32_t before : r->node_dependencies) {
      auto node = graph_of_.find(before);
      if (node == graph_of_.end() || node->second != r->graph_launch) {
        found(Kind::node, named("operation", r->id) + " waits for " + named("operation", before));
      }
    }
    submitted_.insert(r->id);
    if (r->graph_launch) graph_of_[r->id] = r->graph_launch;
  } else if (auto* r = std::get_if<trace::EventRecord>(&record)) {
    event_records_.insert(r->operation);
  } else if (auto* r = std::get_if<trace::StreamWait>(&record)) {
    if (r->record_operation && !event_records_.count(r->record_operation)) {
      found(Kind::wait, named("stream", r->stream) + " waits for " + named("operation", r->record_operation));
    }
  } else if (auto* r = std::get_if<trace::Allocate>(&record)) {
    allocated(*r);
  } else if (auto* r = std::get_if<trace::Free>(&record)) {
    auto at = address_of_.find(r->allocation);
    if (at == address_of_.end()) return true;
    auto extent = live_.find(at->second);
    if (extent != live_.end() && extent->second.allocation == r->allocation) live_.erase(extent);
  } else if (auto* r = std::get_if<trace::OperationBegin>(&record)) {
    if (!submitted_.count(r->operation)) {
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
      case Kind::node: what = "graph edges that come from no earlier node of the graph are ignored"; break;
      case Kind::allocation: what = "allocations overlap; accesses there are told of the later one"; break;
      case Kind::execution: what = "operations begin or end that did not"; break;
    }
    lines.push_back("the trace contradicts itself: " + std::string(what) + " (" + std::to_string(count.count) +
                    ", the first: " + count.first + ")");
  }
  return lines;
}

} // namespace deadheat::detect
