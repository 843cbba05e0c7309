// Executions of order_oracle.h as the records of a trace, and what detector and oracle say of them.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/detect/explain.h"
#include "analyzer/detect/find.h"
#include "deadheat/address.h"
#include "tests/unit/order_oracle.h"
#include "tests/unit/view_as_read.h"

namespace deadheat::test {

inline constexpr std::uint64_t memory = 0x8000'0000'0000;
using Races = std::set<std::pair<std::uint32_t, std::uint32_t>>; // lines, the smaller first

// The pooled form gives events that look the same one line; the sides of a race are then many events each.
class Records {
 public:
  Records(const Execution& execution, bool pooled) : execution_(execution) {
    trace::Module module;
    module.id = 1;
    for (const Event& event : execution.events) {
      Site site;
      using Kind = Event::Kind;
      site.kind = kind_of(event.kind);
      const bool generic_proxy = site.kind == SiteKind::access || site.kind == SiteKind::mbarrier ||
                                 site.kind == SiteKind::async_copy || site.kind == SiteKind::async_mbarrier_arrive ||
                                 site.kind == SiteKind::dependency;
      if (!generic_proxy && !event.generic) site.proxy = Proxy::async;
      site.access = event.access;
      site.space = event.shared ? Space::shared : Space::global;
      if (event.kind == Kind::proxy_fence && event.relaxed) site.space = Space::generic;
      if (event.one_way() && !event.of_shared) site.proxy = Proxy::tensormap;
      site.ordering = event.ordering;
      site.scope = event.scope;
      site.element_bytes = std::uint8_t(event.bytes);
      site.outcome_unused = event.unused;
      if (event.polls) site.polls = Polls::yes;
      site.opcode = event.of_shared ? "fence.sync_restrict" : event.reduction ? "red.add.u32" : "atom.add.u32";
      auto alike = std::make_tuple(event.kind, event.access, event.ordering, event.scope, event.bytes, event.shared,
                                   event.reduction, event.unused, event.of_shared);
      std::uint32_t line = event.line;
      if (pooled) line = pool_.try_emplace(alike, line).first->second;
      bool second_of_copy = (event.kind == Kind::copy || event.kind == Kind::bulk) && !lines_.empty() &&
                            event.access == AccessKind::write && !event.generic;
      if (second_of_copy) line = lines_.back();  // one instruction
      if (event.continued || event.together) line = lines_.back();
      const bool copied = event.kind == Kind::copy || event.kind == Kind::bulk;
      if (copied && execution.events[event.group].together) line = lines_[event.group - 1];
      if (event.instruction != Event::none) line = lines_[event.instruction];
      lines_.push_back(line);
      const std::size_t next = module.sites.size() + 1;
      if (next < execution.events.size() && execution.events[next].continued) site.elements = 2;
      site.source.push_back({"", "a.cu", line, 1});
      site.id = std::uint32_t(module.sites.size());
      module.sites.push_back(site);
    }
    records_.push_back(module);
    trace::Allocate allocation;
    allocation.allocation = 1;
    allocation.address = memory;
    allocation.bytes = 4096;
    records_.push_back(allocation);
    // Those of other devices as late as can be: when they are used.
    for (const Launched& launched : execution.launches) create(launched, 0);
    for (std::size_t i = 0; i < execution.events.size(); ++i) event(i);
    for (std::uint32_t number : running_) records_.push_back(trace::OperationEnd{number});
  }

  detect::Findings findings(const detect::FindOptions& options = {}) const {
    return detect::find_races(replay(), options);
  }
  Races found() const {
    const detect::Findings findings = this->findings();
    auto line = [&](const detect::Touch& touch) {
      return findings.detector->sides().place(touch.place).site->source[0].line;
    };
    Races races;
    for (const detect::FoundRace& race : findings.races) {
      if (race.race_class == RaceClass::data) races.insert(std::minmax(line(race.first), line(race.second)));
    }
    return races;
  }
  // Why the first race's accesses are unordered, as a report says it.
  std::string why() const {
    detect::Findings findings = detect::find_races(replay());
    if (findings.races.empty()) return {};
    detect::Explainer explainer(*findings.detector, findings.races, {});
    replay()(explainer);
    return explainer.why(0);
  }
  Races expected() const { return lines_of(data_races(execution_)); }
  Races at_most() const { return lines_of(data_races(execution_, true)); }

 private:
  std::function<void(trace::RecordVisitor&)> replay() const {
    return [this](trace::RecordVisitor& visitor) {
      for (trace::Record record : records_) {
        if (auto* access = std::get_if<trace::Access>(&record)) {
          // Addresses at equal distances are looked at as such, or one by one: half of all executions each.
          trace::AccessView view = execution_.events.size() % 2 ? view_as_read(*access) : view_of(*access);
          visitor.access(view);
        } else {
          visitor.record(record);
        }
      }
    };
  }
  Races lines_of(const EventPairs& pairs) const {
    Races races;
    for (auto [a, b] : pairs) races.insert(std::minmax(lines_[a], lines_[b]));
    return races;
  }
  static SiteKind kind_of(Event::Kind kind) {
    using Kind = Event::Kind;
    switch (kind) {
      case Kind::copy: return SiteKind::async_copy;
      case Kind::bulk:
      case Kind::bulk_issue: return SiteKind::bulk_copy;
      case Kind::bulk_commit: return SiteKind::async_commit;
      case Kind::bulk_wait: return SiteKind::async_wait;
      case Kind::fence: return SiteKind::fence;
      case Kind::proxy_fence: return SiteKind::proxy_fence;
      case Kind::mbarrier_arrive:
      case Kind::mbarrier_test: return SiteKind::mbarrier;
      case Kind::copy_arrive: return SiteKind::async_mbarrier_arrive;
      case Kind::dependency_wait: return SiteKind::dependency;
      default: return SiteKind::access;
    }
  }
  // The record before, if that is of the same instruction; else a new one.
  template <typename T>
  T of_warp(const Event& event) {
    T record;
    record.warp = {launch_of(event), block_of(event), event.thread / 32};
    if (event.together) {
      record = std::get<T>(records_.back());
      records_.pop_back();
    }
    record.mask |= 1u << event.thread % 32;
    return record;
  }
  // The first event of the instruction that event i is an execution of, by another lane of the warp.
  std::uint32_t first_of(std::size_t i) const {
    if (!execution_.events[i].together) return std::uint32_t(i);
    const Event& before = execution_.events[i - 1];
    const bool copied = before.kind == Event::Kind::copy || before.kind == Event::Kind::bulk;
    return copied ? before.group : std::uint32_t(i - 1);
  }
  void event(std::size_t i) {
    const Event& event = execution_.events[i];
    unsigned lane = event.thread % 32;
    bool first_of_group =
        i == 0 || execution_.events[i - 1].group != event.group || execution_.events[i - 1].kind != event.kind;
    switch (event.kind) {
      case Event::Kind::access: {
        if (event.continued) break;
        auto record = of_warp<trace::Access>(event);
        record.module = 1;
        record.site = event.instruction == Event::none ? first_of(i) : event.instruction;
        record.space = event.shared ? Space::shared : Space::global;
        record.address[lane] = event.address + rank_bits(event);
        if (event.strong()) {
          const bool vector = i + 1 < execution_.events.size() && execution_.events[i + 1].continued;
          const Event& other = execution_.events[i + vector];
          record.value_read[lane] = event.reads() ? event.value_read : 0;
          record.value_written[lane] = event.writes() ? event.value_written : 0;
          if (vector && event.reads()) record.value_read[lane] |= other.value_read << 32;
          if (vector && event.writes()) record.value_written[lane] |= other.value_written << 32;
          record.order_first[lane] = record.order_last[lane] = i + 1;
          record.wrote[lane] = event.writes();
        }
        records_.push_back(record);
        break;
      }
      case Event::Kind::fence: {
        auto record = of_warp<trace::Fence>(event);
        record.module = 1;
        record.site = first_of(i);
        record.ordering = event.ordering;
        record.scope = event.scope;
        records_.push_back(record);
        break;
      }
      case Event::Kind::arrive: {
        auto record = of_warp<trace::BarrierArrive>(event);
        record.module = 1;
        record.site = first_of(i);
        record.barrier = event.barrier;
        record.phase = event.phase;
        record.sync = leaves(event);
        records_.push_back(record);
        break;
      }
      case Event::Kind::leave:
        if (execution_.events[i - 1].kind == Event::Kind::arrive) {
          records_.push_back(trace::BarrierComplete{launch_of(event), block_of(event), event.barrier, event.phase});
        }
        break;
      case Event::Kind::block_barrier:
        if (first_of_group)
          records_.push_back(
              trace::BlockBarrier{launch_of(event), block_of(event), 0, event.group, 1, std::uint32_t(i)});
        break;
      case Event::Kind::warp_barrier:
        if (first_of_group) {
          auto record = of_warp<trace::WarpBarrier>(event);
          record.module = 1;
          record.site = first_of(i);
          // Whole warps have a way of their own. Lanes that no event names know what the named ones know: where these
          // exit, nobody may be left to tell.
          std::uint32_t gone = 0, go = 0;
          for (std::size_t at = 0; at < execution_.events.size(); ++at) {
            const Event& exit = execution_.events[at];
            const bool of_warp = exit.block == event.block && exit.thread < 32;
            if (exit.kind != Event::Kind::exit || !of_warp) continue;
            go |= 1u << exit.thread;
            if (at < i) gone |= 1u << exit.thread;
          }
          record.mask = (event.group % 2 || go == 3 ? 3 : ~0u) & ~gone;
          if (execution_.named_lanes) record.mask = lanes_from(i);
          if (event.relaxed) {
            trace::WarpValue vote;
            vote.warp = record.warp;
            vote.module = record.module;
            vote.site = record.site;
            vote.mask = record.mask;
            records_.push_back(vote);
          } else {
            records_.push_back(record);
          }
        }
        break;
      case Event::Kind::copy_issue: {
        auto record = of_warp<trace::AsyncCopy>(event);
        record.module = 1;
        record.site = first_of(i) + 1;
        record.bytes = record.source_bytes[lane] = 4;
        record.source[lane] = execution_.events[i + 1].address;
        record.destination[lane] = execution_.events[i + 2].address;
        records_.push_back(record);
        break;
      }
      case Event::Kind::copy: break;
      case Event::Kind::copy_commit: records_.push_back(of_warp<trace::AsyncCommit>(event)); break;
      case Event::Kind::copy_wait: {
        auto record = of_warp<trace::AsyncWait>(event);
        record.pending = event.phase;
        records_.push_back(record);
        break;
      }
      case Event::Kind::cluster_arrive:
      case Event::Kind::cluster_wait: {
        auto record = of_warp<trace::ClusterBarrier>(event);
        record.module = 1;
        record.site = first_of(i);
        record.phase = event.phase;
        record.wait = event.kind == Event::Kind::cluster_wait;
        record.relaxed = event.relaxed;
        records_.push_back(record);
        break;
      }
      case Event::Kind::mbarrier_arrive:
      case Event::Kind::mbarrier_test:
      case Event::Kind::copy_arrive:
      case Event::Kind::bulk_complete: {
        auto record = of_warp<trace::Mbarrier>(event);
        const bool completes = event.kind == Event::Kind::bulk_complete;
        record.what = completes                                    ? trace::Mbarrier::What::complete_tx
                      : event.kind == Event::Kind::copy_arrive     ? trace::Mbarrier::What::async_arrive
                      : event.kind == Event::Kind::mbarrier_arrive ? trace::Mbarrier::What::arrive
                                                                   : trace::Mbarrier::What::test;
        record.module = 1;
        record.site = completes ? first_of(event.group) + 1 : first_of(i);
        record.block = (event.barrier - 1) / 2 % blocks_per_launch;
        record.ordering = event.ordering;
        record.scope = event.scope;
        record.address[lane] = object_of(event);
        record.phase[lane] = event.phase;
        record.count[lane] = 4;
        if (record.what == trace::Mbarrier::What::test) record.succeeded = record.mask;
        records_.push_back(record);
        break;
      }
      case Event::Kind::bulk_issue: {
        auto record = of_warp<trace::BulkCopy>(event);
        record.module = 1;
        record.site = first_of(i) + 1;
        record.bytes[lane] = 4;
        auto generic = [&](const Event& access) {
          return access.address + (access.shared ? shared_window + rank_bits(access) : 0);
        };
        if (!event.generic) record.source[lane] = generic(execution_.events[i + 1]);
        record.destination[lane] = generic(execution_.events[i + (event.generic ? 1 : 2)]);
        if (event.barrier) {
          Event object = event;
          object.shared = true;
          object.owner = (event.barrier - 1) / 2;
          record.mbarrier[lane] = shared_window + rank_bits(object) + object_of(event);
        }
        records_.push_back(record);
        break;
      }
      case Event::Kind::bulk: break;
      case Event::Kind::bulk_commit: {
        auto record = of_warp<trace::AsyncCommit>(event);
        record.module = 1;
        record.site = first_of(i);
        records_.push_back(record);
        break;
      }
      case Event::Kind::bulk_wait: {
        auto record = of_warp<trace::AsyncWait>(event);
        record.module = 1;
        record.site = first_of(i);
        record.pending = event.phase;
        record.read_only = event.relaxed;
        records_.push_back(record);
        break;
      }
      case Event::Kind::proxy_fence: {
        auto record = of_warp<trace::Fence>(event);
        record.module = 1;
        record.site = first_of(i);
        record.ordering = event.one_way() ? event.ordering : Ordering::acq_rel;
        record.scope = event.scope;
        record.proxy = event.one_way() && !event.of_shared ? Proxy::tensormap : Proxy::async;
        records_.push_back(record);
        break;
      }
      case Event::Kind::dependency_wait: {
        auto record = of_warp<trace::Fence>(event);
        record.module = 1;
        record.site = first_of(i);
        record.ordering = Ordering::weak;
        record.scope = Scope::none;
        records_.push_back(record);
        break;
      }
      case Event::Kind::launch_begin: submit(event.launch()); break;
      case Event::Kind::launch_end:
        records_.push_back(trace::OperationEnd{launch_of(event)});
        running_.erase(launch_of(event));
        break;
      case Event::Kind::exit: records_.push_back(of_warp<trace::ThreadExit>(event)); break;
    }
  }
  void create(const Launched& launched, std::uint32_t device) {
    if (launched.device != device || !streams_.insert(launched.stream).second) return;
    records_.push_back(trace::StreamCreate{launched.stream, trace::StreamCreate::Kind::non_blocking, 0, device, 1});
  }
  void submit(std::uint32_t number) {
    const Launched& launched = execution_.launches[number];
    create(launched, launched.device);
    trace::Operation operation;
    if (launched.waits_for) {
      operation.id = ++waits_;
      operation.stream = launched.waits_for;
      records_.push_back(operation);
      records_.push_back(trace::EventRecord{operation.id, operation.stream, operation.id, 1});
      records_.push_back(trace::StreamWait{launched.stream, operation.id, operation.id, 0, 1});
    }
    trace::Launch launch;
    launch.module = 1;
    launch.grid = {2, 1, 1};
    launch.block = {execution_.threads_per_block, 1, 1};
    launch.cluster = {execution_.blocks_per_cluster, 1, 1};
    launch.instrumented = true;
    launch.programmatic = launched.primary != Launched::none;
    operation.id = operation.launch = number + 1;
    operation.stream = launched.stream;
    operation.what = launch;
    records_.push_back(operation);
    records_.push_back(trace::OperationBegin{operation.id});
    running_.insert(operation.id);
  }
  // Of the events of its barrier.
  std::uint32_t lanes_from(std::size_t i) const {
    const Event& first = execution_.events[i];
    std::uint32_t lanes = 0;
    for (; i < execution_.events.size(); ++i) {
      const Event& event = execution_.events[i];
      if (event.kind != first.kind || event.group != first.group) break;
      lanes |= 1u << event.thread % 32;
    }
    return lanes;
  }
  std::uint64_t rank_bits(const Event& event) const {
    if (!event.shared || event.memory_of() == event.block) return 0;
    return std::uint64_t(event.memory_of() % blocks_per_launch + 1) << cluster_shift;
  }
  static std::uint32_t launch_of(const Event& event) { return event.launch() + 1; }
  static std::uint32_t block_of(const Event& event) { return event.block % blocks_per_launch; }
  static std::uint64_t object_of(const Event& event) { return 512 + 8 * ((event.barrier - 1) % 2); }
  bool leaves(const Event& arrival) const {
    for (const Event& event : execution_.events) {
      if (event.kind == Event::Kind::leave && event.block == arrival.block && event.thread == arrival.thread &&
          event.barrier == arrival.barrier && event.phase == arrival.phase) {
        return true;
      }
    }
    return false;
  }

  const Execution& execution_;
  using Alike = std::tuple<Event::Kind, AccessKind, Ordering, Scope, std::uint32_t, bool, bool, bool, bool>;
  std::map<Alike, std::uint32_t> pool_;
  std::vector<std::uint32_t> lines_;
  std::vector<trace::Record> records_;
  std::set<std::uint32_t> running_; // launches
  std::set<std::uint32_t> streams_; // that have been created
  std::uint32_t waits_ = 1000; // operations
};

} // namespace deadheat::test
