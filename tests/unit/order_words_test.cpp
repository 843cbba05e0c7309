// Whole warps on a word, or on a few: every pair of sites that the axioms call a race is found, with its class and with
// no other, however many accesses there are to the word; where they are too many to be remembered, a pair that is
// missing is one that the findings call uncertain.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "tests/unit/order_records.h"
#include "tests/unit/order_text.h"
#include "tests/unit/order_words.h"
#include "tests/unit/seeds.h"

namespace deadheat::test {
namespace {

struct PairOfLines {
  std::uint32_t first = 0, second = 0; // the smaller first
  RaceLevel level = RaceLevel::global;
  RaceClass race_class = RaceClass::data;
  friend auto operator<=>(const PairOfLines&, const PairOfLines&) = default;
};
struct Count {
  std::uint64_t least = 0, most = 0; // pairs of lanes
};
using Counts = std::map<PairOfLines, Count>;

PairOfLines pair_of(const Execution& execution, std::size_t a, std::size_t b, RaceClass race_class) {
  const Event &x = execution.events[a], &y = execution.events[b];
  const RaceLevel level = x.launch() != y.launch() ? RaceLevel::stream
                          : x.shared               ? RaceLevel::shared
                                                   : RaceLevel::global;
  const auto [first, second] = std::minmax(x.line, y.line);
  return {first, second, level, race_class};
}

// Volatile and relaxed ones that are no atomic operations: they may have been written so for the compiler alone.
bool plain(const Event& event) {
  return event.access != AccessKind::atomic &&
         (event.ordering == Ordering::relaxed || event.ordering == Ordering::volatile_);
}

// An occurrence is a pair of lanes. Of those of a site that a later one of that site comes after none need be told.
Counts counts(const Execution& execution, bool needed_only) {
  const Overlaps said = overlaps(execution, needed_only);
  const std::vector<Event>& events = execution.events;
  std::vector<std::vector<std::size_t>> followed(events.size()); // by such
  for (const auto& [a, b] : said.ordered) {
    if (events[a].line == events[b].line) followed[a].push_back(b);
  }
  const auto linked = [&](std::size_t a, std::size_t b) { // atomic operations of one site, ordered or not
    for (std::size_t c = a + 1; c < b; ++c) {
      if (events[c].line == events[a].line && events[c].address == events[a].address &&
          events[c].memory_of() == events[a].memory_of())
        return true;
    }
    return false;
  };
  Counts counts;
  const auto add = [&](const EventPairs& pairs, RaceClass race_class) {
    for (const auto& [a, b] : pairs) {
      Count& count = counts[pair_of(execution, a, b, race_class)];
      ++count.most;
      const bool stood_for =
          std::any_of(followed[a].begin(), followed[a].end(), [&](std::size_t c) { return c < b; }) ||
          (events[a].access == AccessKind::atomic && linked(a, b));
      count.least += !stood_for;
    }
  };
  add(said.races, RaceClass::data);
  EventPairs strong;
  std::copy_if(said.strong.begin(), said.strong.end(), std::inserter(strong, strong.end()),
               [&](const auto& pair) { return plain(events[pair.first]) && plain(events[pair.second]); });
  add(strong, RaceClass::strong);
  return counts;
}

std::string lines(const PairOfLines& pair) {
  static const char* const levels[] = {"shared", "global", "stream"};
  return std::to_string(pair.first) + "-" + std::to_string(pair.second) + " " + levels[int(pair.level)] +
         (pair.race_class == RaceClass::data ? "" : " strong");
}

// Every line has one kind of access.
struct Found {
  Found(const Records& records, const Execution& execution, const detect::FindOptions& options) {
    const detect::Findings findings = records.findings(options);
    const detect::Sides& sides = findings.detector->sides();
    std::map<detect::SideId, std::uint32_t> lines;
    for (std::uint32_t site = 0; site < execution.events.size(); ++site) {
      const detect::Place& place = sides.place(sides.site(1, site));
      lines[place.side] = place.site->source[0].line;
    }
    const auto line = [&](const detect::Touch& touch) { return lines.at(sides.place(touch.place).side); };
    for (const detect::FoundRace& race : findings.races) {
      const std::uint32_t one = line(race.first), other = line(race.second);
      const auto [first, second] = std::minmax(one, other);
      races[{first, second, race.level, race.race_class}] += race.occurrences;
    }
    for (const auto& [a, b] : findings.uncertain) {
      const std::uint32_t one = lines.at(a), other = lines.at(b);
      uncertain.insert(std::minmax(one, other));
    }
  }
  std::map<PairOfLines, std::uint64_t> races;
  Races uncertain; // pairs of lines
};

// Bounds of words that little executions reach.
detect::WordBounds narrow(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint32_t count) { return std::uint32_t(random() % count); };
  detect::WordBounds bounds;
  bounds.crowded = 2 + below(60);
  bounds.crowded_soon = 1 + below(bounds.crowded);
  bounds.few_looks = below(2) ? below(200) : ~0u;
  bounds.few_looks_an_access = below(8);
  bounds.many_entries = 1 + below(32);
  bounds.indexed_from = 1 + below(32);
  if (below(2)) bounds.most_entries = 1 + below(40);
  if (below(2)) {
    bounds.most_conflicts = 1 + below(40);
    bounds.fewer_conflicts = 1 + below(bounds.most_conflicts);
    bounds.many_looks = below(500);
  }
  return bounds;
}

class Words {
 public:
  explicit Words(Execution execution) : execution_(std::move(execution)), records_(execution_, false) {
    least_ = most_ = counts(execution_, false);
    const bool fences = std::any_of(execution_.events.begin(), execution_.events.end(), [](const Event& event) {
      return event.kind == Event::Kind::fence && event.ordering == Ordering::sc;
    });
    if (fences) most_ = counts(execution_, true);
  }
  std::size_t races() const { return least_.size(); }
  std::string text() const { return test::text(execution_); }

  // Empty: what is found is what the axioms say.
  std::string wrong(const detect::FindOptions& options, bool narrow) {
    const Found found(records_, execution_, options);
    const bool guesses = options.bounds.many_looks < detect::WordBounds{}.many_looks; // of lanes, from there on
    std::string wrong;
    for (const auto& [pair, occurrences] : found.races) {
      const auto most = most_.find(pair), least = least_.find(pair);
      const std::uint64_t at_least = narrow || least == least_.end() ? 1 : least->second.least;
      if (most == most_.end())
        wrong += "accused: " + lines(pair) + "\n";
      else if (occurrences < at_least || (occurrences > most->second.most && !guesses))
        wrong += "counted: " + lines(pair) + ": " + std::to_string(occurrences) + ", not " + std::to_string(at_least) +
                 " to " + std::to_string(most->second.most) + "\n";
    }
    for (const auto& [pair, count] : least_) {
      if (found.races.count(pair)) continue;
      const bool uncertain = found.uncertain.count({pair.first, pair.second});
      uncertain_ += uncertain;
      // A later access of a site may stand for one of another launch: the lines are told, and their class. Of too many
      // conflicts of morally strong accesses some may be missing where others of the lines are races.
      const bool told = std::any_of(found.races.begin(), found.races.end(), [&](const auto& race) {
        const PairOfLines& other = race.first;
        return other.first == pair.first && other.second == pair.second &&
               (other.race_class == pair.race_class || (narrow && other.race_class == RaceClass::data));
      });
      if (!(narrow && uncertain) && !(told && (narrow || !count.least))) wrong += "missed: " + lines(pair) + "\n";
    }
    if (!narrow && !found.uncertain.empty()) wrong += "uncertain, of few accesses\n";
    return wrong;
  }
  std::size_t uncertain() const { return uncertain_; }

 private:
  const Execution execution_;
  const Records records_;
  Counts least_, most_;
  std::size_t uncertain_ = 0;
};

TEST(Words, OfWholeWarpsLoseNoRace) {
  std::size_t races = 0;
  const std::uint64_t usual = 100;
  for (const std::uint64_t seed : seeds(1, usual)) {
    Words words(WordsOfWarps(seed).take());
    ASSERT_EQ(words.wrong({}, false), "") << "seed " << seed << "\n" << words.text();
    races += words.races();
  }
  EXPECT_GT(races, 2 * usual);
}

TEST(Words, WithTooManyAccessesSayWhatTheyMayLack) {
  std::size_t uncertain = 0;
  const std::uint64_t usual = 100, rounds = 4;
  for (const std::uint64_t seed : seeds(1001, usual)) {
    Words words(WordsOfWarps(seed).take());
    for (std::uint64_t round = 0; round < rounds; ++round) {
      detect::FindOptions options;
      options.bounds = narrow(seed * rounds + round);
      ASSERT_EQ(words.wrong(options, true), "") << "seed " << seed << ", bounds " << round << "\n" << words.text();
    }
    uncertain += words.uncertain();
  }
  EXPECT_GT(uncertain, usual / 4);
}

} // namespace
} // namespace deadheat::test
