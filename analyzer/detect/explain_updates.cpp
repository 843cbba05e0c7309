// Lost updates: threads that read a location and write it back in one line of the source, at once.
#include <algorithm>

#include "analyzer/detect/explain.h"
#include "deadheat/lanes.h"

namespace deadheat::detect {

using order::ThreadKey;

namespace {

constexpr std::size_t most_line_reads = 32; // of a thread

} // namespace

const Place* Explainer::write_of_line(const FoundRace& race) const {
  const Place &a = detector_.sides().place(race.first.place), &b = detector_.sides().place(race.second.place);
  if (race.level == RaceLevel::stream || !a.site || !b.site || a.site->source.empty()) return nullptr;
  if (a.site->source != b.site->source || a.kind == AccessKind::atomic || b.kind == AccessKind::atomic) return nullptr;
  return a.kind == AccessKind::write ? &a : &b;
}

void Explainer::note_line_use(const trace::AccessView& view, PlaceId place) {
  const Site& site = *detector_.sides().place(place).site;
  const bool shared = view.space == Space::shared;
  each_lane(view.mask, [&](unsigned lane) {
    const ThreadKey thread = key_of(detector_.operation_of(view.warp.launch), view.warp, lane);
    const auto cases = by_block_.find(thread.block_bits());
    if (cases == by_block_.end()) return;
    for (const std::size_t index : cases->second) {
      Case& entry = cases_[index];
      const FoundRace& race = *entry.race;
      if (race.first.thread != thread && race.second.thread != thread) continue;
      if ((race.level == RaceLevel::shared) != shared || !write_of_line(race) ||
          site.source != detector_.sides().place(race.first.place).site->source)
        continue;
      for (auto [of, reads] : {std::pair(&race.first, &entry.first_reads), {&race.second, &entry.second_reads}}) {
        if (of->thread != thread) continue;
        const auto known = reads->find(view.address[lane]);
        if (site.access == AccessKind::write && known != reads->end()) known->second = true;
        if (site.access == AccessKind::read && reads->size() < most_line_reads)
          reads->emplace(view.address[lane], false);
      }
    }
  });
}

bool Explainer::updates(const Case& entry) const {
  const Place* write = write_of_line(*entry.race);
  if (!write || !read_on_line_.count(write->side) || !written_by_many_.count(write->side)) return false;
  const auto all_written = [](const LineReads& reads) {
    return std::all_of(reads.begin(), reads.end(), [](const auto& read) { return read.second; });
  };
  return std::all_of(cases_.begin(), cases_.end(), [&](const Case& other) {
    const Place* at = write_of_line(*other.race);
    return !at || at->side != write->side || (all_written(other.first_reads) && all_written(other.second_reads));
  });
}

std::optional<SideId> Explainer::updated_by(std::size_t index) const {
  const Case& entry = cases_[index];
  if (!updates(entry)) return std::nullopt;
  return write_of_line(*entry.race)->side;
}

} // namespace deadheat::detect
