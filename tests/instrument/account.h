// What happened in a run, in words that can be compared: thread by thread, and location by location.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "deadheat/address.h"
#include "deadheat/lanes.h"
#include "deadheat/site.h"
#include "deadheat/trace.h"
#include "tracer/recorder/access_view.h"

namespace deadheat {

template <typename... Parts>
std::string words(Parts... parts) {
  std::string text;
  ((text += std::to_string(parts), text += ' '), ...);
  return text;
}

// One account of a run: engine's or buffers'.
struct Account {
  using Thread = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>; // launch, block, thread
  std::map<Thread, std::vector<std::string>> threads;
  std::map<std::string, std::vector<std::uint64_t>> written; // by location
  std::uint64_t unexplained = 0; // of these, those that no weak store explains either, nor that they came back
  std::set<std::string> guessed; // locations, of strong reads whose value no strong write explains
  std::set<std::string> weakly_written; // pieces of memory that weak stores touched
  static constexpr std::uint64_t piece = ~std::uint64_t(15);
  std::map<std::uint32_t, std::uint32_t> block_threads; // by launch
  std::map<std::uint32_t, std::pair<Dim3, Dim3>> extents; // likewise: grid, cluster
  std::set<Thread> ended;
  std::map<std::string, std::uint32_t> phases; // that tests have seen, of each mbarrier
  std::string disorder;

  void add(const trace::Warp& w, unsigned lane, std::string what) {
    threads[{w.launch, w.block, w.warp * 32 + lane}].push_back(std::move(what));
  }
  void lanes(const trace::Warp& w, std::uint32_t mask, const std::string& what) {
    each_lane(mask, [&](unsigned lane) { add(w, lane, what); });
  }
  // In shared memory, that of the block whose memory it is.
  std::string location(const trace::Warp& w, Space space, std::uint64_t address) const {
    if (space != Space::shared) return words(w.launch, 0, address);
    std::uint32_t block = w.block;
    const std::uint32_t rank = std::uint32_t(address >> cluster_shift);
    const auto& [grid, cluster] = extents.at(w.launch);
    if (rank) block = cluster_peer(block, rank - 1, grid, cluster);
    return words(w.launch, block + 1, address & cluster_offset_mask);
  }
  void weak(const trace::Warp& w, unsigned lane, std::uint32_t site, Space space, std::uint64_t address,
            std::uint32_t digest, bool writes) {
    if (writes) weakly_written.insert(location(w, space, address & piece));
    add(w, lane, "site " + words(site, unsigned(space), address, digest));
  }
  // Has the location held the value that was read more than once? Which of them it was, nothing tells.
  bool again(const trace::AccessView& a, unsigned lane) {
    const std::vector<std::uint64_t>& values = written[location(a.warp, a.space, a.address[lane])];
    return std::count(values.begin(), values.end(), a.value_read[lane]) > 1;
  }
  // Of atomic operations on vectors a device keeps no values: their digests tell.
  void strong(const trace::AccessView& a, const Site& of, std::uint32_t site) {
    const bool vector = of.elements > 1 && of.access == AccessKind::atomic, writes = of.access != AccessKind::read;
    std::vector<unsigned> order;
    each_lane(a.mask, [&](unsigned lane) { order.push_back(lane); });
    std::stable_sort(order.begin(), order.end(),
                     [&](unsigned x, unsigned y) { return a.order_last[x] < a.order_last[y]; });
    for (unsigned lane : order) {
      if (a.order_first[lane] != a.order_last[lane]) {
        guessed.insert(location(a.warp, a.space, a.address[lane]));
        if (!weakly_written.count(location(a.warp, a.space, a.address[lane] & piece)) && !again(a, lane)) ++unexplained;
      }
      const bool wrote = a.wrote >> lane & 1;
      add(a.warp, lane,
          "strong " + words(site, unsigned(a.space), a.address[lane], vector ? 0 : a.value_read[lane],
                            writes && !vector ? a.value_written[lane] : 0, wrote, wrote ? a.digest[lane] : 0));
      if (!wrote) continue;
      written[location(a.warp, a.space, a.address[lane])].push_back(vector ? a.digest[lane] : a.value_written[lane]);
    }
  }
  // Whoever had a block of the heap: one after the other, and freed in between.
  void heap(std::uint32_t launch, std::uint32_t block, std::uint32_t thread, std::string what, std::uint64_t address) {
    written["heap " + words(address)].push_back((std::uint64_t(block) << 10 | thread) * 2 + (what[0] == 'f'));
    threads[{launch, block, thread}].push_back(std::move(what));
  }
  // What completes a phase comes before the tests that saw it complete.
  void completed(const trace::Mbarrier& r, unsigned lane) {
    using What = trace::Mbarrier::What;
    std::uint32_t& seen = phases[words(r.warp.launch, r.block, r.address[lane])];
    if (r.what == What::init) seen = 0;
    if (r.what == What::test)
      seen = std::max(seen, r.phase[lane] + 1);
    else if (r.what != What::init && r.what != What::inval && r.phase[lane] < seen)
      disorder = "an arrival comes after a test of its phase: mbarrier at " + std::to_string(r.address[lane]);
  }
  void record(const trace::Record& record, const std::vector<std::uint32_t>& original) {
    auto site = [&](std::uint32_t s) { return s < original.size() ? original[s] : ~0u; };
    if (auto* r = std::get_if<trace::Fence>(&record)) {
      if (site(r->site) != ~0u) lanes(r->warp, r->mask, "fence " + words(site(r->site)));
    } else if (auto* r = std::get_if<trace::BlockBarrier>(&record)) {
      for (std::uint32_t t = 0; t < block_threads[r->launch]; ++t) {
        if (!ended.count({r->launch, r->block, t})) {
          threads[{r->launch, r->block, t}].push_back("barrier " + words(r->barrier, r->phase));
        }
      }
    } else if (auto* r = std::get_if<trace::BarrierArrive>(&record)) {
      lanes(r->warp, r->mask, "arrive " + words(site(r->site), r->barrier, r->phase, r->sync));
    } else if (auto* r = std::get_if<trace::WarpBarrier>(&record)) {
      if (site(r->site) != ~0u) lanes(r->warp, r->mask, "warp barrier " + words(r->mask));
    } else if (auto* r = std::get_if<trace::AsyncCopy>(&record)) {
      each_lane(r->mask, [&](unsigned l) {
        add(r->warp, l, "copy " + words(site(r->site), r->bytes, r->source[l], r->destination[l], r->source_bytes[l]));
      });
    } else if (auto* r = std::get_if<trace::AsyncCommit>(&record)) {
      lanes(r->warp, r->mask, "commit " + words(site(r->site)));
    } else if (auto* r = std::get_if<trace::AsyncWait>(&record)) {
      lanes(r->warp, r->mask, "wait " + words(site(r->site), r->all ? 0 : r->pending, r->all));
    } else if (auto* r = std::get_if<trace::BulkCopy>(&record)) {
      each_lane(r->mask, [&](unsigned l) {
        add(r->warp, l,
            "bulk " + words(site(r->site), r->destination[l], r->source[l], r->mbarrier[l], r->bytes[l], r->further));
      });
    } else if (auto* r = std::get_if<trace::Mbarrier>(&record)) {
      each_lane(r->mask, [&](unsigned l) {
        add(r->warp, l,
            "mbarrier " + words(site(r->site), unsigned(r->what), r->block, r->address[l], r->count[l], r->phase[l]));
        completed(*r, l);
      });
    } else if (auto* r = std::get_if<trace::ClusterBarrier>(&record)) {
      lanes(r->warp, r->mask, "cluster " + words(site(r->site), r->phase, r->wait, r->relaxed));
    } else if (auto* r = std::get_if<trace::HeapBlock>(&record)) {
      heap(r->launch, r->block, r->thread, "malloc " + words(r->address, r->bytes), r->address);
    } else if (auto* r = std::get_if<trace::HeapFree>(&record)) {
      heap(r->launch, r->block, r->thread, "free " + words(site(r->site), r->address), r->address);
    } else if (auto* r = std::get_if<trace::ThreadExit>(&record)) {
      each_lane(r->mask, [&](unsigned l) { ended.insert({r->warp.launch, r->warp.block, r->warp.warp * 32 + l}); });
    }
  }
};

} // namespace deadheat
