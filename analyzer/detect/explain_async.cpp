// Why two accesses are unordered although an mbarrier, a bulk copy, a proxy fence or a cluster barrier is there.
#include <bit>

#include "analyzer/detect/explain.h"
#include "deadheat/lanes.h"
#include "deadheat/proxy_fence.h"

namespace deadheat::detect {

namespace {

using order::ThreadKey;

constexpr std::size_t most_objects = 16; // mbarriers of a race that are remembered

template <class Map, class Value> void remember(Map& map, const typename Map::key_type& object, const Value& value) {
  if (map.size() < most_objects || map.count(object)) map[object] = value;
}

std::string object_text(std::uint64_t address) {
  char text[48];
  std::snprintf(text, sizeof text, "the mbarrier at shared offset 0x%llx", static_cast<unsigned long long>(address));
  return text;
}

} // namespace

void Explainer::asynchronous(const trace::Mbarrier& r) {
  using What = trace::Mbarrier::What;
  const order::OperationIndex operation = detector_.operation_of(r.warp.launch);
  each_case(operation, r.warp.block, [&](Case& entry) {
    const FoundRace& race = *entry.race;
    const Place& first = detector_.sides().place(race.first.place);
    each_lane(r.mask, [&](unsigned lane) {
      const ThreadKey thread = key_of(operation, r.warp, lane);
      const Phase phase{{r.module, r.site}, r.block, r.address[lane], r.phase[lane], r.scope, r.ordering};
      const Object object{phase.block, phase.address};
      const bool arrives = r.what == What::arrive || r.what == What::arrive_drop || r.what == What::async_arrive;
      if (now_ <= race.first.stamp) {
        if (thread == race.first.thread && arrives) remember(entry.arrived_before, object, phase);
        return;
      }
      if (thread == race.first.thread && arrives && !entry.arrived.mark) entry.arrived = phase;
      if (thread == race.first.thread && r.what == What::complete_tx && !entry.completed.mark &&
          first.module == r.module && first.site_number == r.site) {
        entry.completed = phase;
      }
      if (r.what != What::test) return;
      const bool succeeded = r.succeeded >> lane & 1;
      if (thread != race.second.thread) {
        const bool beside = thread.block_bits() == race.second.thread.block_bits();
        if (beside && succeeded && phase.ordering == Ordering::relaxed) remember(entry.relaxed_of, object, phase);
      } else {
        const Site* site = detector_.sides().place(detector_.sides().site(r.module, r.site)).site;
        if (site && site->outcome_unused) {
          entry.unlooked = phase;
          entry.unlooked_succeeded = succeeded;
        } else if (succeeded) {
          entry.tested = phase;
          remember(entry.tested_of, object, phase);
        }
      }
    });
  });
}

void Explainer::asynchronous(const trace::ClusterBarrier& r) {
  const order::OperationIndex operation = detector_.operation_of(r.warp.launch);
  each_case(operation, r.warp.block, [&](Case& entry) {
    each_lane(r.mask, [&](unsigned lane) {
      const ThreadKey thread = key_of(operation, r.warp, lane);
      const bool after = now_ > entry.race->first.stamp;
      if (!r.wait && thread == entry.race->first.thread) {
        (after ? entry.cluster_arrive : entry.cluster_arrive_before) = {r.module, r.site};
        if (after) entry.cluster_relaxed = r.relaxed;
      }
      if (r.wait && after && thread == entry.race->second.thread) entry.cluster_wait = {r.module, r.site};
    });
  });
}

void Explainer::proxy_fence(const trace::Fence& r) {
  const order::OperationIndex operation = detector_.operation_of(r.warp.launch);
  each_case(operation, r.warp.block, [&](Case& entry) {
    each_lane(r.mask, [&](unsigned lane) {
      const ThreadKey thread = key_of(operation, r.warp, lane);
      if (thread != entry.race->first.thread && thread != entry.race->second.thread) return;
      (now_ > entry.race->first.stamp ? entry.proxy_fence : entry.proxy_fence_before) = {r.module, r.site};
    });
  });
}

void Explainer::explain_asynchronous(const Case& entry, std::vector<std::string>& out) const {
  const FoundRace& race = *entry.race;
  const Place &first = detector_.sides().place(race.first.place), &second = detector_.sides().place(race.second.place);
  const Apart between = apart(race.first.thread, race.second.thread);
  auto bulk = [](const Place& place) { return place.site && place.site->kind == SiteKind::bulk_copy; };

  // What releases the first: an arrival by its thread, or its copy's own completion.
  const Phase& released = bulk(first) ? entry.completed : entry.arrived;
  const auto of_released = [&](const std::map<Object, Phase>& phases) -> const Phase* {
    const auto found = released.mark ? phases.find({released.block, released.address}) : phases.end();
    return found == phases.end() || found->second.phase < released.phase ? nullptr : &found->second;
  };
  const Phase *own = of_released(entry.tested_of), *beside = own ? nullptr : of_released(entry.relaxed_of);
  const Phase& seen = own ? *own : entry.tested;
  const std::string releases = bulk(first) ? "the copy completes on " : "the first arrives at ";
  const Phase& unlooked = entry.unlooked;
  const auto covers = [&](const Phase& wait) {
    return wait.mark && released.mark && wait.block == released.block && wait.address == released.address &&
           wait.phase >= released.phase;
  };
  const auto early = entry.arrived_before.find({seen.block, seen.address});
  const auto makes = [](const Place& place) { return place.site && place.site->opcode.starts_with("mbarrier.init"); };
  if (makes(first) || makes(second)) {
    out.push_back(std::string("the mbarrier itself orders nothing with its own initialization (") +
                  (makes(first) ? "the first" : "the second") +
                  "): a barrier has to come behind that (__syncthreads, or the cluster's where other blocks use it)");
  } else if (!bulk(first) && !covers(seen) && seen.mark && early != entry.arrived_before.end() &&
             early->second.phase <= seen.phase) {
    out.push_back("the first arrived at " + object_text(seen.address) + " (" + place(early->second.mark) +
                  ") before it made its access, so that who waits for that, as the second does at " + place(seen.mark) +
                  ", need not come after it" +
                  (released.mark && released.block == seen.block && released.address == seen.address
                       ? "; it arrives again behind it, for phase " + std::to_string(released.phase) +
                             ": unless that first arrival comes too early, the wait asks for the wrong parity or token"
                       : ""));
  } else if (covers(unlooked) && !covers(seen)) {
    out.push_back(releases + object_text(released.address) + ", but nothing depends on the outcome of the wait at " +
                  place(unlooked.mark) + ", which orders nothing" +
                  (entry.unlooked_succeeded ? ", though it succeeded in this run" : ""));
  } else if (own && own->ordering == Ordering::relaxed && !entry.second_fence.mark) {
    out.push_back(releases + object_text(released.address) + ", but the wait for it at " + place(own->mark) +
                  " is .relaxed: without a fence behind it, it acquires nothing");
  } else if (beside) {
    out.push_back(releases + object_text(released.address) + ", but the wait for it at " + place(beside->mark) +
                  ", by another thread of the second's block, is .relaxed: without a fence behind it, it acquires "
                  "nothing that a barrier could hand on");
  } else if (own && !bulk(first) && released.ordering == Ordering::relaxed && !entry.first_fence.mark) {
    out.push_back("the arrival at " + object_text(released.address) + " (" + place(released.mark) +
                  ") is .relaxed: without a fence before it, it releases nothing");
  } else if (released.mark && !seen.mark) {
    out.push_back(releases + object_text(released.address) + ", and the thread of the second waits for no phase of it");
  } else if (released.mark && (released.block != seen.block || released.address != seen.address)) {
    out.push_back(releases + object_text(released.address) + ", but the second waits at " + place(seen.mark) + " for " +
                  object_text(seen.address) + (released.block != seen.block ? " of another block" : ""));
  } else if (released.mark && seen.phase < released.phase && race.issue_unordered) {
    out.push_back("the wait at " + place(seen.mark) + " sees phase " + std::to_string(seen.phase) +
                  " complete, and the first belongs to phase " + std::to_string(released.phase) +
                  ", a later one: who issues it does not wait until the second is done");
  } else if (released.mark && seen.phase < released.phase) {
    out.push_back("the wait at " + place(seen.mark) + " sees phase " + std::to_string(seen.phase) +
                  " complete, and the first belongs to phase " + std::to_string(released.phase) +
                  ": it asks for the wrong parity or token");
  } else if (released.mark && !bulk(first) && (narrow(released.scope, between) || narrow(seen.scope, between))) {
    const Phase& narrower = narrow(seen.scope, between) ? seen : released;
    out.push_back("the operation on the mbarrier at " + place(narrower.mark) + too_narrow(narrower.scope, between));
  } else if (!released.mark && seen.mark && !bulk(first) &&
             (race.level == RaceLevel::shared || race.first.thread.block_bits() == race.second.thread.block_bits())) {
    out.push_back("the second waits for " + object_text(seen.address) + " (" + place(seen.mark) +
                  "), where the first's thread does not arrive between the two");
  }
  if (bulk(first) && entry.async_wait) {
    if (entry.async_reads_only && first.kind != AccessKind::read) {
      out.push_back("the wait at " + place(entry.async_wait) +
                    " has .read: it says that the source was read, not that the result is there");
    } else if (entry.async_pending) {
      out.push_back("the wait at " + place(entry.async_wait) + " leaves up to " + std::to_string(entry.async_pending) +
                    " of the latest bulk groups unfinished, and this copy is in one of them");
    }
  }
  if (bulk(second) && first.kind == AccessKind::read && !bulk(first)) {
    out.push_back(second.site->proxy == Proxy::async
                      ? "once issued, the bulk copy may write at any time until its mbarrier's phase, or its bulk "
                        "group, was waited for"
                      : "once issued, the asynchronous store may write at any time until its mbarrier's phase was "
                        "waited for");
  } else if (bulk(second) && !bulk(first)) {
    if (entry.proxy_fence) {
      const Site* site =
          detector_.sides().place(detector_.sides().site(entry.proxy_fence.module, entry.proxy_fence.site)).site;
      const bool of_shared = race.level == RaceLevel::shared;
      if (site && one_way(*site) && !is_release(site->ordering)) {
        out.push_back("the fence at " + place(entry.proxy_fence) +
                      " only acquires, and makes nothing visible by itself: the thread of the first has to release "
                      "what it wrote to the asynchronous proxy");
      } else if (site && site->space != Space::generic && (site->space == Space::shared) != of_shared) {
        out.push_back("the fence.proxy.async at " + place(entry.proxy_fence) + " is of " +
                      (of_shared ? "global" : "shared") + " memory only");
      }
    } else if (entry.proxy_fence_before) {
      out.push_back("the fence.proxy.async at " + place(entry.proxy_fence_before) +
                    " comes before the first, not after it");
    }
  }
  if (entry.restricted) {
    const PlaceId fence = detector_.sides().site(entry.restricted.module, entry.restricted.site);
    const bool inits = order::restriction_of(*detector_.sides().place(fence).site) == order::Restriction::mbarrier_init;
    if (inits || race.level != RaceLevel::shared)
      out.push_back("the fence at " + place(entry.restricted) + " is " +
                    (inits ? "for the thread's own mbarrier.init alone" : "for accesses to shared memory alone"));
  }
  if (entry.cluster_arrive && entry.cluster_wait && entry.cluster_relaxed) {
    out.push_back("the arrival at the cluster barrier (" + place(entry.cluster_arrive) +
                  ") is .relaxed: without a fence of cluster scope before it, it releases nothing");
  } else if (entry.cluster_arrive && !entry.cluster_wait && !shortfall(entry).message) { // else that was to order them
    out.push_back("the first arrives at the cluster barrier (" + place(entry.cluster_arrive) +
                  "), but the second does not wait there before its access");
  } else if (!entry.cluster_arrive && entry.cluster_wait && entry.cluster_arrive_before) {
    out.push_back("the first arrived at the cluster barrier (" + place(entry.cluster_arrive_before) +
                  ") before it made its access, so that the second does not wait for that");
  }
}

} // namespace deadheat::detect
