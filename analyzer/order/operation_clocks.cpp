#include "analyzer/order/operation_clocks.h"

#include <algorithm>

#include "deadheat/host_waits.h"

namespace deadheat::order {

namespace {

constexpr std::uint64_t hand_over_part = std::uint64_t(1) << 26; // bytes
constexpr std::uint64_t most_parts = 1 << 14; // of what is handed on: more than any device has
constexpr std::ptrdiff_t most_waits = 1 << 14; // of which an explanation may tell

} // namespace

std::uint32_t ChainClock::operator[](std::uint32_t chain) const {
  const auto at = std::lower_bound(reached_.begin(), reached_.end(), std::pair(chain, 0u));
  return at != reached_.end() && at->first == chain ? at->second : 0;
}

void ChainClock::reach(std::uint32_t chain, std::uint32_t position) {
  const auto at = std::lower_bound(reached_.begin(), reached_.end(), std::pair(chain, 0u));
  if (at == reached_.end() || at->first != chain)
    reached_.insert(at, {chain, position});
  else
    at->second = std::max(at->second, position);
}

void ChainClock::join(const ChainClock& other) {
  for (const auto& [chain, position] : other) reach(chain, position);
}

void OperationClocks::apply(const trace::StreamCreate& record) {
  streams_.stream_created(record);
  used(record.device);
}

void OperationClocks::used(std::uint32_t device) {
  if (first_device_ == ~0u) first_device_ = device;
  several_devices_ |= device != first_device_;
}

void OperationClocks::join(ChainClock& clock, OperationIndex operation) const {
  if (!operation) return;
  const Op& op = operations_[operation];
  clock.join(this->clock(op));
  clock.reach(op.chain, op.position);
}

OperationIndex OperationClocks::submitted(const trace::Operation& operation) {
  Op op;
  op.id = operation.id;
  op.stream = operation.stream;
  ChainClock before = host_;
  op.device = streams_.device(operation.stream);
  op.graph = operation.graph_launch;
  used(op.device);
  if (operation.graph_launch == batch_) op.batch = batch_;
  for (OperationId id : streams_.submitted(operation)) {
    OperationIndex dependency = index(id);
    join(before, dependency);
    // Go on with the chain of a dependency that is still its chain's end.
    if (dependency && !op.chain) {
      const Op& last = operations_[dependency];
      if (chain_length_[last.chain] == last.position) op.chain = last.chain;
    }
  }
  if (auto* pool = std::get_if<trace::PoolOperation>(&operation.what)) handed_on(*pool, op, before);
  op.primary = index(streams_.primary(operation.id));
  dependents_ |= op.primary != 0;
  if (!op.chain) { // any chain whose end comes before: chains are as many as operations were ever unordered
    for (const auto& [chain, position] : before) {
      if (chain_length_[chain] == position) op.chain = chain;
    }
  }
  if (!op.chain) {
    op.chain = std::uint32_t(chain_length_.size());
    chain_length_.push_back(0);
  }
  op.position = ++chain_length_[op.chain];
  if (before.begin() != before.end()) op.clock = std::make_unique<ChainClock>(std::move(before));
  OperationIndex at = OperationIndex(operations_.size());
  indices_.at(operation.id) = at;
  operations_.push_back(std::move(op));
  // The launch of a graph returns at once, whatever its copies are called.
  auto* copy = std::get_if<trace::Copy>(&operation.what);
  operations_[at].by_host = copy && copy->api == host_itself;
  // Copies of a batch are nodes; what is outside reads the source of one before.
  operations_[at].reads_early = copy && !operation.graph_launch && copy->api.find("Batch") != std::string::npos;
  if (copy && operations_[at].batch && host_waits(*copy) == HostWaits::until_done) batch_waits_.push_back(at);
  if (operation.graph_launch) return at;
  const auto begun = begun_waits_.find(operation.host_thread);
  const bool waited_for = begun != begun_waits_.end() && begun->second.kind == trace::HostWait::Kind::operation &&
                          begun->second.id == operation.id;
  const bool waited_before = begun != begun_waits_.end() && begun->second.kind == trace::HostWait::Kind::stream &&
                             begun->second.id == operation.stream;
  operations_[at].waited_for = waited_for;
  if (waited_for)
    join(begun->second.clock, at);
  else if (copy && !waited_before)
    host_waits_for(*copy, at);
  return at;
}

void OperationClocks::apply(const trace::GraphEnd& record) {
  streams_.graph_end(record);
  for (OperationIndex copy : batch_waits_) join(host_, copy);
  batch_waits_.clear();
}

void OperationClocks::missing() {
  for (std::uint32_t chain = 1; chain < chain_length_.size(); ++chain) host_.reach(chain, chain_length_[chain]);
}

void OperationClocks::apply(const trace::Allocate& record) {
  if (record.kind != trace::Allocate::Kind::pool || !record.bytes) return;
  if (record.bytes > ~record.address) return; // a damaged trace
  allocations_[record.allocation] = {record.address, record.bytes};
}

// Memory that was freed in one stream's order and is allocated in another's: the pool hands on only what it has seen
// freed or waits for, which it may, and need not (Runtime API, "Stream Ordered Memory Allocator", reuse policies).
void OperationClocks::handed_on(const trace::PoolOperation& pool, Op& op, const ChainClock& before) {
  op.allocates = !pool.free;
  op.frees = pool.free;
  const auto found = allocations_.find(pool.allocation);
  if (found == allocations_.end()) return;
  const auto [address, bytes] = found->second;
  const std::uint64_t end = address + bytes;
  auto at = freed_.upper_bound(address);
  if (at != freed_.begin() && std::prev(at)->second.end > address) --at;
  while (at != freed_.end() && at->first < end) { // a pool may hand on a part
    const auto [begin, old] = *at;
    if (op.allocates) {
      const Op& free = operations_[old.by];
      if (before[free.chain] < free.position) {
        keep(old.by);
        op.kept = true; // in all that are told the same
        const HandOver over{std::max(begin, address), std::min(old.end, end), old.by, count() + 1};
        const std::uint64_t last = std::min((over.end - 1) / hand_over_part, over.begin / hand_over_part + most_parts);
        for (std::uint64_t part = over.begin / hand_over_part; part <= last; ++part) hand_overs_[part].push_back(over);
      }
    }
    at = freed_.erase(at);
    if (begin < address) freed_[begin] = {address, old.by};
    if (old.end > end) freed_[end] = old;
  }
  if (pool.free) freed_[address] = {end, OperationIndex(operations_.size())};
}

// Of recorders that do not say when a copy's call returns. The host waits for a copy from pageable memory to begin, and
// not for what it does.
void OperationClocks::host_waits_for(const trace::Copy& copy, OperationIndex at) {
  const HostWaits waits = host_waits(copy);
  if (waits == HostWaits::until_done) return join(host_, at);
  if (waits == HostWaits::not_at_all) return;
  host_.join(clock(operations_[at]));
}

void OperationClocks::apply(const trace::EventRecord& record) {
  streams_.event_recorded(record);
  if (const auto late = recorded_late_.find(record.event); late != recorded_late_.end())
    late->second.insert(record.stream);
}

void OperationClocks::apply(const trace::StreamWait& record) {
  OperationId id = streams_.stream_waits(record);
  if (waits_.size() == 2 * most_waits) waits_.erase(waits_.begin(), waits_.begin() + most_waits);
  waits_.push_back({record.stream, record.event, index(id), count()});
  if (!waits_.back().record) recorded_late_.try_emplace(record.event);
}

void OperationClocks::apply(const trace::HostWaitBegin& record) {
  BegunWait& wait = begun_waits_[record.host_thread];
  wait = {record.kind, record.id, {}};
  // For an operation that comes next, or for one that there is.
  trace::HostWait all;
  all.kind = record.kind;
  all.id = record.id;
  for (OperationId id : streams_.host_waits(all)) join(wait.clock, index(id));
}

void OperationClocks::apply(const trace::HostWait& record) {
  if (record.kind == trace::HostWait::Kind::operation) {
    const auto function = on_host_.find(record.id);
    if (function != on_host_.end() && ++function->second > 1) return told(index(record.id));
  }
  const auto begun = begun_waits_.find(record.host_thread);
  if (!record.query && begun != begun_waits_.end() && begun->second.kind == record.kind &&
      begun->second.id == record.id) {
    host_.join(begun->second.clock);
    begun_waits_.erase(begun);
    return;
  }
  for (OperationId id : streams_.host_waits(record)) join(host_, index(id));
}

void OperationClocks::learn(OperationIndex operation, const ChainClock& more) {
  Op& op = operations_[operation];
  if (!op.clock) op.clock = std::make_unique<ChainClock>();
  for (const auto& [chain, position] : more) {
    const std::uint32_t before = chain == op.chain ? std::min(position, op.position - 1) : position;
    if (before) op.clock->reach(chain, before);
  }
}

void OperationClocks::begins(OperationIndex operation) {
  std::erase_if(told_, [&](const Told& told) { return told.submitted < first_running_; });
  for (const Told& told : told_) {
    if (operation <= told.submitted && ordered(told.function, operation))
      learn(operation, clock(operations_[told.function]));
  }
}

void OperationClocks::begins_on_host(OperationIndex operation) {
  learn(operation, host_);
  on_host_.try_emplace(id(operation), 0);
}

void OperationClocks::told(OperationIndex function) {
  learn(function, host_);
  told_.push_back({function, count()});
}

void OperationClocks::ended(OperationIndex operation) {
  on_host_.erase(id(operation));
  operations_[operation].over = true;
  while (first_running_ <= count() && operations_[first_running_].over) ++first_running_;
  if (first_running_ >= look_at_) settle();
}

void OperationClocks::keep(OperationIndex operation) {
  for (; operation && !operations_[operation].kept; operation = operations_[operation].primary) {
    operations_[operation].kept = true;
    kept_.push_back(operation);
  }
}

void OperationClocks::keep_those_of(const OperationClocks& other) {
  for (const OperationIndex operation : other.kept_) {
    keep(operation);
    Op& op = operations_[operation];
    if (!op.clock) op.clock = std::make_unique<ChainClock>(clock(other.operations_[operation]));
  }
}

// Looks at what was not settled before each time, so that this must be worth it.
void OperationClocks::settle() {
  if (settling_ && settling_->submitted < first_running_) {
    for (; looked_ < settling_->submitted; ++looked_) unsettled_.push_back(looked_ + 1);
    std::erase_if(unsettled_, [&](OperationIndex operation) {
      Op& op = operations_[operation];
      const bool settled = settling_->waited_for[op.chain] >= op.position;
      if (settled && !op.kept) op.clock.reset();
      return settled;
    });
    settling_.reset();
  }
  if (!settling_) settling_ = {host_, count()};
  look_at_ = std::max({settling_->submitted + 1, first_running_ + worth_a_look_,
                       first_running_ + OperationIndex(unsettled_.size() / 2)});
}

bool OperationClocks::ordered(OperationIndex first, OperationIndex second) const {
  const Op& a = operations_[first];
  return clock(operations_[second])[a.chain] >= a.position;
}

// Operations are ordered as they were submitted, if they are.
bool OperationClocks::handed_over(OperationIndex first, OperationIndex second, std::uint64_t address) const {
  if (first > second) std::swap(first, second);
  const auto part = hand_overs_.find(address / hand_over_part);
  if (part == hand_overs_.end()) return false;
  std::vector<OperationIndex> reached{first};
  auto at = std::upper_bound(part->second.begin(), part->second.end(), first,
                             [](OperationIndex operation, const HandOver& over) { return operation < over.allocated; });
  for (; at != part->second.end() && at->allocated <= second; ++at) {
    const HandOver& over = *at;
    if (address < over.begin || address >= over.end) continue;
    const bool freed_behind = std::any_of(
        reached.begin(), reached.end(), [&](OperationIndex operation) { return is_or_follows(over.freed, operation); });
    if (!freed_behind) continue;
    if (is_or_follows(second, over.allocated)) return true;
    reached.push_back(over.allocated);
  }
  return false;
}

std::vector<OperationIndex> OperationClocks::waited_for(OperationIndex operation) const {
  std::vector<OperationIndex> launches;
  for (OperationIndex primary = operations_[operation].primary; primary; primary = operations_[primary].primary) {
    launches.push_back(primary);
    if (!operations_[primary].waited) break; // it may be complete before the launch that it need not wait for
  }
  return launches;
}

bool OperationClocks::ordered_by_wait(OperationIndex first, OperationIndex second) const {
  for (OperationIndex primary = operations_[second].primary; primary; primary = operations_[primary].primary) {
    if (first == primary || ordered(first, primary)) return true;
    if (!operations_[primary].waited) return false; // it may be complete before the launch that it need not wait for
  }
  return false;
}

// Would the first come before the second, if that waited for all of its stream?
bool OperationClocks::before_by_its_stream(OperationIndex first, OperationIndex second) const {
  for (OperationIndex at = operations_[second].primary; at; at = operations_[at].primary)
    if (at == first || ordered(first, at)) return true;
  return false;
}

bool OperationClocks::wait_orders(OperationIndex first, OperationIndex second) const {
  if (!first || !second || first == second) return false;
  if (first > second) std::swap(first, second);
  const Op &a = operations_[first], &b = operations_[second];
  const bool one_graph = a.graph && a.graph == b.graph && !a.batch;
  return (a.stream != b.stream || one_graph || only_host_delays(second)) && !before_by_its_stream(first, second);
}

std::string OperationClocks::why_unordered(OperationIndex first, OperationIndex second) const {
  if (first > second) std::swap(first, second);
  const Op &a = operations_[first], &b = operations_[second];
  if (b.by_host) {
    return "the host overwrites page-locked memory that an operation in stream " + std::to_string(a.stream) +
           " has still to read: it never waits for that (cudaStreamSynchronize, cudaEventSynchronize)";
  }
  std::string streams = "stream " + std::to_string(b.stream);
  if (before_by_its_stream(first, second)) {
    const std::string begins = "the launch in " + streams +
                               " may begin before the one before it is complete (programmatic dependent launch), and ";
    if (!b.waited || ordered_by_wait(first, second))
      return begins + "no griddepcontrol.wait (cudaGridDependencySynchronize) comes before its access";
    OperationIndex last = b.primary; // that the wait reaches
    while (last && operations_[last].waited) last = operations_[last].primary;
    if (last) {
      return begins +
             "its griddepcontrol.wait (cudaGridDependencySynchronize) reaches no further than a launch "
             "between the two that does not wait itself";
    }
  }
  if (a.allocates && !b.allocates) {
    return "stream " + std::to_string(a.stream) + " allocates the memory in its order (cudaMallocAsync), and " +
           streams + " never waits for that: it may use the memory before it exists";
  }
  if (b.allocates && !a.allocates) {
    return streams + " is handed memory that was freed (cudaMallocAsync), and nothing made the free wait for stream " +
           std::to_string(a.stream) + ", which may still use it";
  }
  if (b.reads_early) {
    return "the copy may read its source before what comes before it in its stream is complete (srcAccessOrder), and "
           "the host never waited for stream " +
           std::to_string(a.stream);
  }
  if (b.frees && b.waited_for) {
    return "cudaFree of memory of a pool waits for nothing (cudaMallocAsync), and the host never waited for stream " +
           std::to_string(a.stream) + ", which may still use it";
  }
  if (a.batch && a.batch == b.batch) {
    return "they are copies of one batch in " + streams +
           ", and those come in any order: one that depends on another belongs into a later call";
  }
  if (a.stream == b.stream)
    return "they are nodes of graphs launched into " + streams + ", and no way along edges leads from one to the other";
  // A wait of the second stream on an event of the first, made for a record that came too early? One on an event of a
  // third stream may have a reason of its own.
  const Wait* other = nullptr;
  for (auto wait = waits_.rbegin(); wait != waits_.rend(); ++wait) {
    if (wait->stream != b.stream || wait->submitted_before >= second) continue;
    if (!wait->record) {
      // The first turn of a loop waits so for what tells of other streams: it does not lack this one's record.
      const std::set<std::uint32_t>& recorded = recorded_late_.at(wait->event);
      if (!recorded.empty() && !recorded.contains(a.stream)) continue;
      return streams + " waits for event " + std::to_string(wait->event) +
             ", which had never been recorded then: the wait does nothing";
    }
    const bool of_first = operations_[wait->record].stream == a.stream;
    if (of_first && wait->record < first) {
      return streams + " waits for event " + std::to_string(wait->event) + " of stream " + std::to_string(a.stream) +
             ", but for a record made before the operation it should cover";
    }
    if (!of_first && !other) other = &*wait;
  }
  std::string why = streams + " never waits for stream " + std::to_string(a.stream) +
                    ": no event, default-stream rule or host synchronization orders them";
  if (other) {
    why += " (its last wait is for event " + std::to_string(other->event) + ", which was recorded in stream " +
           std::to_string(operations_[other->record].stream) + ")";
  }
  return why;
}

} // namespace deadheat::order
