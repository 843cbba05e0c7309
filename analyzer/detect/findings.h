// What is found out about one part of memory, and how the parts' findings become one list.
//
// Thread-safety: plain values; each part's are filled by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/detect/sides.h"
#include "analyzer/order/clock.h"
#include "deadheat/race.h"

namespace deadheat::detect {

// One side of one occurrence of a race.
struct Touch {
  order::ThreadKey thread;
  order::Stamp stamp = 0;
  PlaceId place = 0;
  friend auto operator<=>(const Touch&, const Touch&) = default;
};

struct FoundRace {
  RaceLevel level = RaceLevel::global;
  RaceClass race_class = RaceClass::data;
  Certainty certainty = Certainty::certain;
  Touch first, second;
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint64_t occurrences = 0;
  bool same_value = true; // as far as write-write pairs go
  bool any_write_pair = false;
  std::uint32_t allocation = 0;
  std::string why;
  using Instances = std::vector<std::pair<Touch, Touch>>;
  std::array<Instances, 3> instances; // by Distance
};
// How far apart the threads of a pair are. Replay tries one_block first: warps of one block are on the device together,
// and an order of two lanes of one warp cannot be had from hardware.
enum class Distance : std::uint8_t { one_block, blocks, one_warp };
inline constexpr std::size_t most_instances = 16; // of a distance, and of all that chosen_instances() returns
// Keeps the pair when neither thread occurs in an instance of its distance yet and there is room.
void add_instance(FoundRace& race, const Touch& first, const Touch& second);
// Some of every distance where there are several, in the order in which they are to be tried.
FoundRace::Instances chosen_instances(const FoundRace& race);

struct PairKey {
  SideId a = 0, b = 0;
  RaceLevel level = RaceLevel::global;
  RaceClass race_class = RaceClass::data;
  Certainty certainty = Certainty::certain;
  friend auto operator<=>(const PairKey&, const PairKey&) = default;
};

struct PartFindings {
  std::map<PairKey, FoundRace> races;
  std::map<PlaceId, std::uint64_t> order_dependent; // float atomics of unordered threads to the same bytes: how often
  std::uint64_t unknown = 0; // records that name a launch or site that does not exist
  std::uint64_t unchecked = 0; // accesses after memory ran out
};

// Adds what another part has: the earliest occurrence stands for both.
void merge(PartFindings& into, const PartFindings& part);
// The most important first.
std::vector<FoundRace> ranked(const PartFindings& findings);

} // namespace deadheat::detect
