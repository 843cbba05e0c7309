// Records in chunks, as a log has them, and what is found in them: for tests of what must not depend on chunks,
// threads, memory and the first pass.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "analyzer/detect/find.h"
#include "tests/unit/seeds.h"
#include "tests/unit/view_as_read.h"

namespace deadheat::test {

inline constexpr std::uint64_t memory = 0x8000'0000'0000;

// Records in chunks of a length.
class Chunks final : public detect::Source {
 public:
  Chunks(std::vector<trace::Record> records, std::size_t length) : records_(std::move(records)), length_(length) {}
  std::size_t chunks() const override { return (records_.size() + length_ - 1) / length_; }
  void play(std::size_t chunk, trace::RecordVisitor& visitor) const override {
    for (std::size_t i = chunk * length_; i < std::min(records_.size(), (chunk + 1) * length_); ++i) {
      trace::Record record = records_[i];
      if (auto* access = std::get_if<trace::Access>(&record)) {
        trace::AccessView view = view_as_read(*access);
        visitor.access(view);
      } else {
        visitor.record(record);
      }
    }
  }
  const std::vector<trace::Record>& records() const { return records_; }

 private:
  std::vector<trace::Record> records_;
  std::size_t length_;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 88172645463325252ull | 1) {}
  std::uint32_t below(std::uint32_t count) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return std::uint32_t((state_ >> 16) % count);
  }

 private:
  std::uint64_t state_;
};

struct SiteOf {
  AccessKind access;
  Space space;
  unsigned bytes;
  unsigned elements = 1;
  Ordering ordering = Ordering::weak;
  Scope scope = Scope::none;
};

inline std::vector<trace::Record> launch(const std::vector<SiteOf>& sites, std::uint32_t blocks, std::uint32_t warps,
                                         std::uint64_t bytes) {
  trace::Module module;
  module.id = 1;
  for (const SiteOf& of : sites) {
    Site site;
    site.id = std::uint32_t(module.sites.size());
    site.kind = SiteKind::access;
    site.access = of.access;
    site.space = of.space;
    site.element_bytes = std::uint8_t(of.bytes);
    site.elements = std::uint8_t(of.elements);
    site.ordering = of.ordering;
    site.scope = of.scope;
    site.opcode = of.access == AccessKind::atomic ? "atom.add.f32" : "ld.u32";
    site.source.push_back({"", "a.cu", site.id + 1, 1});
    module.sites.push_back(site);
  }
  trace::Allocate allocation;
  allocation.allocation = 1;
  allocation.address = memory;
  allocation.bytes = bytes;
  trace::Launch launch;
  launch.module = 1;
  launch.grid = {blocks, 1, 1};
  launch.block = {warps * 32, 1, 1};
  launch.instrumented = true;
  trace::Operation operation;
  operation.id = operation.launch = 1;
  operation.stream = 1;
  operation.what = launch;
  return {module, allocation, operation, trace::OperationBegin{1}};
}

// `instances`: with those of each race, which may be others where a part of memory alone had no room.
inline std::string text(const detect::Findings& findings, bool instances = true) {
  std::string out;
  auto touch = [](const detect::Touch& at) {
    return std::to_string(at.thread.bits) + "@" + std::to_string(at.stamp) + "/" + std::to_string(at.place);
  };
  for (const detect::FoundRace& race : findings.races) {
    out += std::to_string(int(race.race_class)) + " " + touch(race.first) + " " + touch(race.second) + " " +
           std::to_string(race.address) + "+" + std::to_string(race.bytes) + " x" + std::to_string(race.occurrences) +
           (race.same_value() ? " same" : "") + " " + race.why + " |";
    for (const auto& of_distance : race.instances)
      for (const auto& [first, second] : instances ? of_distance : detect::FoundRace::Instances())
        out += " " + touch(first) + "-" + touch(second);
    out += "\n";
  }
  for (const auto& [place, count] : findings.order_dependent) {
    out += "order " + std::to_string(place) + " x" + std::to_string(count) + "\n";
  }
  for (const auto& [place, count] : findings.additions) {
    out += "added " + std::to_string(place) + " x" + std::to_string(count) + "\n";
  }
  return out + std::to_string(findings.unknown) + " " + std::to_string(findings.unchecked) + " " +
         std::to_string(findings.detector->summary().accesses) + "\n";
}

// With so little memory the same is found as with plenty, or else what had no room is counted. Returns whether it had.
inline bool loses_nothing_untold(const detect::Source& source, const detect::Findings& all, unsigned jobs,
                                 std::uint64_t memory_limit, unsigned* halved = nullptr) {
  detect::FindOptions options;
  options.jobs = jobs;
  options.memory_limit = memory_limit;
  const detect::Findings less = detect::find_races(source, options);
  if (halved) *halved += less.halved > 0;
  if (less.unchecked) return false;
  EXPECT_EQ(text(less, !less.halved), text(all, !less.halved)) << jobs << " jobs, " << memory_limit << " bytes";
  return true;
}

inline std::string found(const detect::Source& source, unsigned jobs, std::uint64_t memory_limit = 0,
                         std::uint64_t piece_bytes = detect::Routing{}.piece_bytes) {
  detect::FindOptions options;
  options.jobs = jobs;
  options.memory_limit = memory_limit;
  options.piece_bytes = piece_bytes;
  options.most_bytes_ahead = std::min(options.most_bytes_ahead, 16 * piece_bytes);
  return text(detect::find_races(source, options));
}

// The second pass alone, with everything suspect, finds the same data races as both.
inline std::string left_out(const Chunks& chunks) {
  detect::Suspects all;
  for (std::uint64_t page = 0; page < 17; ++page) all.add_page(0, memory / 4096 + page);
  for (std::uint64_t page = 0; page < 3; ++page) all.add_page(order::first_block_of(1) + 1, page); // operation 1
  detect::Detector::Setup setup;
  setup.pass = detect::Detector::Pass::pairs;
  setup.share.parts.set();
  detect::Detector naive(all, setup);
  detect::Routing routing;
  routing.suspects = &all;
  order::IdTable<std::uint32_t> operations;
  operations.at(1) = 1;
  routing.operations = &operations;
  detect::run(chunks, routing, {[&](const detect::Batch& batch) { naive.play(batch); }}, {});
  detect::PartFindings parts;
  for (unsigned part = 0; part < detect::partitions; ++part) merge(parts, naive.findings(part));
  detect::Findings findings = detect::find_races(chunks);
  auto lines = [](const std::vector<detect::FoundRace>& races) {
    std::map<std::string, std::uint64_t> out;
    for (const detect::FoundRace& race : races) {
      if (race.race_class != RaceClass::data) continue;
      out[std::to_string(race.first.place) + "-" + std::to_string(race.second.place)] += race.occurrences;
    }
    return out;
  };
  std::string difference;
  const auto expected = lines(ranked(parts)), actual = lines(findings.races);
  for (const auto& [pair, count] : expected) {
    const auto at = actual.find(pair);
    const std::uint64_t other = at == actual.end() ? 0 : at->second;
    if (other != count) difference += pair + ": " + std::to_string(other) + " of " + std::to_string(count) + "\n";
  }
  if (actual.size() != expected.size()) difference += std::to_string(actual.size()) + " places\n";
  return difference;
}

// Of each seed's records: the first pass leaves nothing out, and three threads find what one does (asked of every nth).
template <typename Make>
void compare_ways(Make&& make, std::uint64_t usual, std::size_t chunk, std::uint64_t every, std::size_t& races) {
  for (const std::uint64_t seed : seeds(1, usual)) {
    const Chunks chunks(make(seed), chunk);
    ASSERT_EQ(left_out(chunks), "") << "seed " << seed;
    const std::string expected = found(chunks, 1);
    races += std::size_t(std::count(expected.begin(), expected.end(), '|'));
    if (seed % every == 0) {
      ASSERT_EQ(found(chunks, 3), expected) << "seed " << seed;
    }
  }
}

} // namespace deadheat::test
