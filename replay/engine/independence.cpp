#include "replay/engine/independence.h"

#include <algorithm>
#include <limits>
#include <map>

#include "deadheat/address.h"

namespace deadheat::engine {

namespace {

using Kind = RegionRange::Kind;
using Interval = ByteSet::Interval;

constexpr std::size_t most_intervals = 1024; // of a set
constexpr std::size_t most_steps = 4;
constexpr std::uint64_t most_listed = 8192;
constexpr std::uint64_t most_span = std::uint64_t(1) << 30; // of what is folded: ProbeFold computes in 32 bits

// The farthest ends of what some groups touch, so far in the order of lows.
class Reach {
 public:
  void add(std::uint64_t end, std::uint32_t group) {
    if (group == group_) {
      end_ = std::max(end_, end);
    } else if (end > end_) {
      others_ = end_;
      end_ = end;
      group_ = group;
    } else {
      others_ = std::max(others_, end);
    }
  }
  bool any_beyond(std::uint64_t low) const { return end_ > low; }
  bool others_beyond(std::uint64_t low, std::uint32_t group) const { return (group == group_ ? others_ : end_) > low; }

 private:
  std::uint64_t end_ = 0, others_ = 0; // the farthest, and the farthest of all groups but that one's
  std::uint32_t group_ = ~0u;
};

} // namespace

bool apart(std::vector<Touched>& touched) {
  std::sort(touched.begin(), touched.end(), [](const Touched& a, const Touched& b) { return a.low < b.low; });
  Reach read, written, steers;
  std::map<std::uint8_t, Reach> combined;
  for (const Touched& t : touched) {
    auto combined_by_others = [&](int but) {
      return std::any_of(combined.begin(), combined.end(),
                         [&](const auto& c) { return c.first != but && c.second.others_beyond(t.low, t.group); });
    };
    switch (t.kind) {
      case Kind::read:
        if (written.others_beyond(t.low, t.group) || combined_by_others(-1)) return false;
        read.add(t.end, t.group);
        break;
      case Kind::steers:
        if (written.any_beyond(t.low)) return false;
        for (const auto& c : combined)
          if (c.second.any_beyond(t.low)) return false;
        steers.add(t.end, t.group);
        break;
      case Kind::written:
        if (steers.any_beyond(t.low) || read.others_beyond(t.low, t.group) || written.others_beyond(t.low, t.group) ||
            combined_by_others(-1))
          return false;
        written.add(t.end, t.group);
        break;
      case Kind::combined:
        if (steers.any_beyond(t.low) || read.others_beyond(t.low, t.group) || written.others_beyond(t.low, t.group) ||
            combined_by_others(t.operation))
          return false;
        combined[t.operation].add(t.end, t.group);
        break;
    }
  }
  return true;
}

// ---- sets

namespace {

void merge(std::vector<Interval>& intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::size_t kept = 0;
  for (const Interval& next : intervals)
    if (kept > 0 && next.first <= intervals[kept - 1].second)
      intervals[kept - 1].second = std::max(intervals[kept - 1].second, next.second);
    else
      intervals[kept++] = next;
  intervals.resize(kept);
}

} // namespace

void ByteSet::add(std::uint64_t low, std::uint64_t end) {
  if (!intervals_.empty()) {
    auto& [last_low, last_end] = intervals_.back();
    if (low <= last_end && end >= last_low) {
      last_low = std::min(last_low, low);
      last_end = std::max(last_end, end);
      return;
    }
  }
  intervals_.push_back({low, end});
  if (intervals_.size() > most_intervals) compact();
}

void ByteSet::compact() {
  merge(intervals_);
  if (intervals_.size() <= most_intervals / 2) return;
  intervals_ = {{intervals_.front().first, intervals_.back().second}};
}

std::vector<std::uint64_t> interleaving_steps(std::vector<Interval> touched) {
  merge(touched);
  std::vector<std::uint64_t> starts, steps;
  for (const Interval& interval : touched) starts.push_back(interval.first);
  while (starts.size() > 1 && steps.size() < most_steps) {
    std::uint64_t step = ~std::uint64_t(0);
    for (std::size_t n = 1; n < starts.size(); ++n) step = std::min(step, starts[n] - starts[n - 1]);
    // Stretches of starts at that distance are one element of the next level.
    std::vector<std::uint64_t> next{starts[0]};
    for (std::size_t n = 1; n < starts.size(); ++n)
      if (starts[n] - starts[n - 1] != step) next.push_back(starts[n]);
    steps.push_back(step);
    starts = std::move(next);
  }
  return steps;
}

// ---- groups of blocks

namespace {

class Decision {
 public:
  Decision(const FootprintCode& code, std::size_t groups, const TouchableMemory& memory, BlockProber& prober)
      : code_(code), groups_(groups), memory_(memory), prober_(prober) {}

  Independence decide() {
    using By = Independence::By;
    if (!probe(code_.probe, nullptr, false) || !addresses_are_legal()) return {};
    find_components();
    std::vector<Interval> touched;
    for (const std::vector<ByteSet>& group : sets_)
      for (const ByteSet& set : group) touched.insert(touched.end(), set.intervals().begin(), set.intervals().end());
    merge(touched);
    std::vector<Component*> interleaved;
    for (Component& component : components_)
      if (!apart_in_memory(component)) interleaved.push_back(&component);
    if (interleaved.empty()) return {By::ranges, std::move(touched)};
    if (!apart_in_residues(interleaved)) return {};
    return {By::residues, std::move(touched)};
  }

 private:
  // Ranges whose bytes lie between each other's.
  struct Component {
    std::uint64_t low = 0, end = 0;
    std::vector<std::size_t> ranges;
    std::uint64_t anchor = 0; // where the listed block begins
    std::vector<std::uint64_t> steps; // to try
  };

  // What a probe says of all groups, to `sets_`. False: what steers could not be read, or addresses are misaligned.
  bool probe(RegionProbe probe, const ProbeFold* folds, bool one_of_each) {
    sets_.assign(groups_, std::vector<ByteSet>(code_.ranges.size()));
    std::vector<char> bad(groups_, 0);
    prober_.each(probe, folds, one_of_each, [&](std::size_t group, const std::int64_t* numbers) {
      bad[group] |= numbers[code_.numbers() - 1] != 0;
      for (std::size_t n = 0; n < code_.ranges.size(); ++n) {
        const RegionRange& range = code_.ranges[n];
        std::int64_t low = numbers[2 * n], end = numbers[2 * n + 1];
        if (low > end) continue; // nobody
        if (folds) { // first bytes: where they lie on the circle
          if (folds[n].modulus) sets_[group][n].add(std::uint64_t(low), std::uint64_t(end + (range.end - range.low)));
        } else if (__builtin_add_overflow(low, range.low, &low) || __builtin_add_overflow(end, range.end, &end) ||
                   low < 0) {
          bad[group] = 1;
        } else {
          sets_[group][n].add(std::uint64_t(low), std::uint64_t(end));
        }
      }
    });
    return std::find(bad.begin(), bad.end(), 1) == bad.end();
  }

  // Drops what lies in the blocks' own memory.
  bool addresses_are_legal() {
    for (std::vector<ByteSet>& group : sets_)
      for (std::size_t n = 0; n < code_.ranges.size(); ++n) {
        ByteSet outside;
        for (const auto& [low, end] : group[n].intervals()) {
          if (low >= window_bit) {
            if (low < shared_window || end > shared_window + memory_.shared_bytes ||
                code_.ranges[n].kind == Kind::steers)
              return false;
            continue;
          }
          if (!(low & device_bit) || !memory_.legal(low, end)) return false; // or memory that the host sees
          outside.add(low, end);
        }
        group[n] = std::move(outside);
      }
    return true;
  }

  void find_components() {
    struct Hull {
      std::uint64_t low = ~std::uint64_t(0), end = 0;
      std::size_t range = 0;
    };
    std::vector<Hull> hulls;
    for (std::size_t n = 0; n < code_.ranges.size(); ++n) {
      Hull hull;
      hull.range = n;
      for (const std::vector<ByteSet>& group : sets_)
        for (const auto& [low, end] : group[n].intervals()) {
          hull.low = std::min(hull.low, low);
          hull.end = std::max(hull.end, end);
        }
      if (hull.end) hulls.push_back(hull);
    }
    std::sort(hulls.begin(), hulls.end(), [](const Hull& a, const Hull& b) { return a.low < b.low; });
    for (const Hull& hull : hulls) {
      if (components_.empty() || components_.back().end <= hull.low)
        components_.push_back({.low = hull.low, .end = hull.end, .ranges = {}, .anchor = 0, .steps = {}});
      components_.back().end = std::max(components_.back().end, hull.end);
      components_.back().ranges.push_back(hull.range);
    }
  }

  bool apart_in_memory(const Component& component) const {
    std::vector<Touched> touched;
    for (std::uint32_t g = 0; g < groups_; ++g)
      for (std::size_t n : component.ranges)
        for (const auto& [low, end] : sets_[g][n].intervals())
          touched.push_back({low, end, g, code_.ranges[n].kind, code_.ranges[n].operation});
    return apart(touched);
  }

  bool apart_on_circle(const Component& component, std::uint64_t modulus) const {
    std::vector<Touched> touched;
    for (std::uint32_t g = 0; g < groups_; ++g)
      for (std::size_t n : component.ranges)
        for (const auto& [low, end] : sets_[g][n].intervals()) {
          const RegionRange& range = code_.ranges[n];
          auto add = [&](std::uint64_t from, std::uint64_t to) {
            touched.push_back({from, to, g, range.kind, range.operation});
          };
          add(low, std::min(end, modulus));
          if (end > modulus) add(0, end - modulus);
        }
    return apart(touched);
  }

  // Steps to try, from what one block does: of the middle where that does something, since those of the first group, or
  // of the last, may stand at an edge.
  bool find_steps(const std::vector<Component*>& components, RegionProbe probe) {
    std::size_t open = components.size();
    for (std::size_t n = 0; n < groups_ && open > 0; ++n) {
      ProbeList list;
      list.entries.resize(most_listed);
      prober_.list(probe, (groups_ / 2 + n) % groups_, list);
      const std::uint64_t known = std::min<std::uint64_t>(list.count, most_listed - 1);
      for (Component* component : components) {
        if (!component->steps.empty()) continue;
        std::vector<Interval> touched;
        for (std::uint64_t e = 0; e < known; ++e) {
          const auto& [range, base] = list.entries[e];
          if (std::find(component->ranges.begin(), component->ranges.end(), range) != component->ranges.end())
            touched.push_back(
                {std::uint64_t(base + code_.ranges[range].low), std::uint64_t(base + code_.ranges[range].end)});
        }
        if (touched.empty()) continue;
        component->anchor = std::min_element(touched.begin(), touched.end())->first;
        if (component->anchor < component->low || component->anchor >= component->end) return false;
        component->steps = interleaving_steps(std::move(touched));
        std::erase_if(component->steps, [](std::uint64_t step) { return step >= most_span / 4; });
        if (component->steps.empty() || component->end - component->low > most_span) return false;
        --open;
      }
    }
    return open == 0;
  }

  void fold(const Component& component, std::uint64_t modulus, std::vector<ProbeFold>& folds) const {
    // The circle is cut where the listed block begins, which is not inside what one block touches.
    const std::uint64_t turns = (component.anchor - component.low + modulus - 1) / modulus;
    for (std::size_t n : component.ranges)
      folds[n] = {.origin = std::int64_t(component.anchor - turns * modulus) - code_.ranges[n].low,
                  .inverse = 1.0 / double(modulus),
                  .modulus = std::uint32_t(modulus),
                  .unused = 0};
  }

  bool apart_in_residues(const std::vector<Component*>& components) {
    const InterleavedProbes* probes = code_.interleaved ? code_.interleaved() : nullptr;
    if (!probes || !find_steps(components, probes->list)) return false;
    std::vector<ProbeFold> folds(code_.ranges.size());
    std::vector<std::size_t> chosen(components.size(), 0);
    // One block of each group shows which steps can do.
    for (bool settled = false; !settled;) {
      for (std::size_t c = 0; c < components.size(); ++c) {
        if (chosen[c] == components[c]->steps.size()) return false;
        fold(*components[c], components[c]->steps[chosen[c]], folds);
      }
      if (!probe(probes->residues, folds.data(), true)) return false;
      settled = true;
      for (std::size_t c = 0; c < components.size(); ++c)
        if (!apart_on_circle(*components[c], components[c]->steps[chosen[c]])) {
          ++chosen[c];
          settled = false;
        }
    }
    if (!probe(probes->residues, folds.data(), false)) return false;
    for (std::size_t c = 0; c < components.size(); ++c)
      if (!apart_on_circle(*components[c], components[c]->steps[chosen[c]])) return false;
    return true;
  }

  const FootprintCode& code_;
  const std::size_t groups_;
  const TouchableMemory& memory_;
  BlockProber& prober_;
  std::vector<std::vector<ByteSet>> sets_; // by group and range
  std::vector<Component> components_;
};

} // namespace

Independence independence(const FootprintCode& code, std::size_t groups, const TouchableMemory& memory,
                          BlockProber& prober) {
  return Decision(code, groups, memory, prober).decide();
}

} // namespace deadheat::engine
