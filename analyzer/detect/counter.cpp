#include "analyzer/detect/counter.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <unordered_set>

namespace deadheat::detect {

namespace {

// A thread's executions of a site.
struct Key {
  std::uint32_t launch = 0, block = 0, thread = 0, module = 0, site = 0;
  friend auto operator<=>(const Key&, const Key&) = default;
};
using Counts = std::map<Key, std::uint64_t>;
using Hits = std::map<std::pair<Key, order::Stamp>, std::uint64_t>; // stamp of the access → executions before it

struct Wanted {
  std::set<std::pair<std::uint32_t, std::uint32_t>> sites; // (module, site)
  std::set<std::pair<std::uint32_t, std::uint32_t>> mbarriers; // those of them that operate on mbarriers
  std::unordered_set<std::uint64_t> warps;                 // of some thread: block, warp and launch, mixed
  std::set<Key> keys;
  std::set<std::pair<Key, order::Stamp>> accesses;
  static std::uint64_t warp(std::uint32_t launch, std::uint32_t block, std::uint32_t warp) {
    return (std::uint64_t(launch) * 0x9e3779b97f4a7c15u ^ block) * 32 + warp;
  }
};

// One chunk's executions of the wanted sites by the wanted threads.
class ChunkCounter final : public trace::RecordVisitor {
 public:
  ChunkCounter(const Wanted& wanted, order::Stamp before) : wanted_(wanted), now_(before) {}
  bool access(const trace::AccessView& view) override {
    const order::Stamp first = now_ + 1; // stamps count as in Batcher
    now_ += access_stamps;
    if (!interesting(view.warp, view.module, view.site)) return true;
    unsigned order[32], count = 0;
    for (std::uint32_t rest = view.mask; rest; rest &= rest - 1) order[count++] = unsigned(std::countr_zero(rest));
    if (view.strong) {
      std::stable_sort(order, order + count,
                       [&](unsigned a, unsigned b) { return view.order_first[a] < view.order_first[b]; });
    }
    // Strong accesses have a stamp each; which record is a strong one's without values, only its site knows.
    for (unsigned i = 0; i < count; ++i) one(view.warp, view.module, view.site, order[i], first, first + i);
    return true;
  }
  bool record(trace::Record& record) override {
    ++now_;
    if (auto* copy = std::get_if<trace::AsyncCopy>(&record)) {
      if (!interesting(copy->warp, copy->module, copy->site)) return true;
      for (std::uint32_t rest = copy->mask; rest; rest &= rest - 1) {
        one(copy->warp, copy->module, copy->site, unsigned(std::countr_zero(rest)), now_, now_);
      }
    }
    if (auto* bulk = std::get_if<trace::BulkCopy>(&record)) {
      if (!interesting(bulk->warp, bulk->module, bulk->site)) return true;
      for (std::uint32_t rest = bulk->mask; rest; rest &= rest - 1) {
        const unsigned lane = unsigned(std::countr_zero(rest));
        one(bulk->warp, bulk->module, bulk->site, lane, now_, now_, bulk->further);
      }
    }
    if (auto* free = std::get_if<trace::HeapFree>(&record)) {
      const trace::Warp warp{free->launch, free->block, free->thread / 32};
      if (interesting(warp, free->module, free->site))
        one(warp, free->module, free->site, free->thread % 32, now_, now_);
    }
    if (auto* mbarrier = std::get_if<trace::Mbarrier>(&record)) {
      // A completion is its copy's doing, no execution of its own.
      if (!wanted_.mbarriers.count({mbarrier->module, mbarrier->site}) ||
          !interesting(mbarrier->warp, mbarrier->module, mbarrier->site)) {
        return true;
      }
      for (std::uint32_t rest = mbarrier->mask; rest; rest &= rest - 1) {
        one(mbarrier->warp, mbarrier->module, mbarrier->site, unsigned(std::countr_zero(rest)), now_, now_);
      }
    }
    return true;
  }
  Counts counts;
  Hits hits;

 private:
  bool interesting(const trace::Warp& warp, std::uint32_t module, std::uint32_t site) const {
    return wanted_.warps.count(Wanted::warp(warp.launch, warp.block, warp.warp & 31)) &&
           wanted_.sites.count({module, site});
  }
  void one(const trace::Warp& warp, std::uint32_t module, std::uint32_t site, unsigned lane, order::Stamp stamp,
           order::Stamp other, bool further = false) {
    const Key key{warp.launch, warp.block, (warp.warp & 31) * 32 + lane, module, site};
    if (!wanted_.keys.count(key)) return;
    std::uint64_t& executions = counts[key];
    // A further record is of the execution counted before; where that was in the chunk before, the sum is right again.
    const std::uint64_t earlier = further ? executions - 1 : executions++;
    for (order::Stamp at : {stamp, other}) {
      if (wanted_.accesses.count({key, at})) hits[{key, at}] = earlier;
    }
  }
  const Wanted& wanted_;
  order::Stamp now_;
};

} // namespace

std::map<Touch, std::uint64_t> count_executions(const Source& source, unsigned jobs, const Findings& findings,
                                                const std::set<Touch>& touches) {
  const Detector& detector = *findings.detector;
  Wanted wanted;
  std::map<Touch, Key> keys;
  for (const Touch& touch : touches) {
    const Place& place = detector.sides().place(touch.place);
    const Detector::LaunchInfo* launch = detector.launch_of(touch.thread.operation());
    if (!place.site || !launch) continue;
    const Key key{launch->number, touch.thread.block(), touch.thread.thread(), place.module, place.site_number};
    keys[touch] = key;
    wanted.sites.insert({key.module, key.site});
    const SiteKind kind = place.site->kind;
    if (kind == SiteKind::mbarrier || kind == SiteKind::async_mbarrier_arrive) {
      wanted.mbarriers.insert({key.module, key.site});
    }
    wanted.warps.insert(Wanted::warp(key.launch, key.block, key.thread / 32));
    wanted.keys.insert(key);
    wanted.accesses.insert({key, touch.stamp});
  }
  std::vector<ChunkCounter> chunks;
  for (std::size_t i = 0; i < source.chunks(); ++i) chunks.emplace_back(wanted, findings.chunk_stamps[i]);
  if (!wanted.keys.empty()) {
    for_each_chunk(source, jobs, [&](std::size_t i) { source.play(i, chunks[i]); });
  }
  Counts before;
  Hits hits;
  for (const ChunkCounter& chunk : chunks) {
    for (const auto& [access, earlier] : chunk.hits) hits[access] = before[access.first] + earlier;
    for (const auto& [key, count] : chunk.counts) before[key] += count;
  }
  std::map<Touch, std::uint64_t> result;
  for (const auto& [touch, key] : keys) {
    if (auto hit = hits.find({key, touch.stamp}); hit != hits.end()) result[touch] = hit->second;
  }
  return result;
}

} // namespace deadheat::detect
