// What is found out about one part of memory, and how the parts' findings become one list.
//
// Thread-safety: plain values; each part's are filled by one thread.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/detect/sides.h"
#include "analyzer/order/clock.h"
#include "analyzer/order/operation_clocks.h"
#include "deadheat/race.h"

namespace deadheat::detect {

// One side of one occurrence of a race.
struct Touch {
  order::ThreadKey thread;
  order::Stamp stamp = 0;
  PlaceId place = 0;
  friend auto operator<=>(const Touch&, const Touch&) = default;
};

// Threads of launches.
class Threads {
 public:
  static constexpr std::size_t most_blocks = std::size_t(1) << 16; // 160 bytes each
  void insert(order::ThreadKey thread);
  void insert(const Threads& others);
  void insert_others() { overflown_ = true; }
  bool contains(order::ThreadKey thread) const; // of overflown() ones perhaps not
  bool any_of(order::OperationIndex operation) const; // of overflown() ones perhaps not
  bool overflown() const { return overflown_; } // there are others
  bool empty() const { return blocks_.empty(); }

 private:
  static constexpr std::size_t most_threads = 1024; // of a block
  std::unordered_map<std::uint64_t, std::bitset<most_threads>> blocks_; // by ThreadKey::block_bits
  bool overflown_ = false;
};

// An instruction in a kernel's launches from streams of one maker; of a copy or set, and of an opaque launch, nothing.
struct Code {
  PlaceId place = 0;
  order::OperationIndex launch = 0; // the first of them
  friend auto operator<=>(const Code&, const Code&) = default;
};

struct FoundRace {
  RaceLevel level = RaceLevel::global;
  RaceClass race_class = RaceClass::data;
  Certainty certainty = Certainty::certain;
  // The occurrence that stands for all: the most telling one, of these the first.
  Touch first, second;
  unsigned telling = 0;
  order::Stamp common = 0; // the first's last synchronization that the second knows of; 0: there is none
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint32_t allocation = 0;
  std::string why;
  bool exited = false; // the first's thread, before a barrier of its block that the second may have come to
  std::uint64_t occurrences = 0;
  // Of pairs of writes: have there been any, any of the same bytes with different values, any that cannot be compared?
  bool any_write_pair = false, different_values = false, unknown_values = false;
  bool same_value() const { return any_write_pair && !different_values && !unknown_values; }
  bool lacks_proxy_fence = false; // that alone, the occurrence that stands for all
  bool issue_unordered = false; // its first is a copy's write, and nothing orders even the issue before the second
  bool owners_unknown = false; // of memory of the kernels' heap, on a GPU (kernel_heap.h)
  bool messages_unknown = false; // of two launches, of which one waits for the other, on a GPU (exchanges.h)
  bool lacks_other = false; // than a fence between a complete cp.async and the asynchronous proxy, any
  Threads readers; // of plain reads that race with writes
  using Instances = std::vector<std::pair<Touch, Touch>>;
  std::array<Instances, 3> instances; // by Distance, the first of each
  Instances last; // some of the last operation that a second access is of
  struct Lot { // a random number that is an instance's, whoever finds it
    std::uint64_t number = 0;
    std::pair<Touch, Touch> instance;
    friend auto operator<=>(const Lot&, const Lot&) = default;
  };
  std::vector<Lot> sample; // of all, the least
  // The first occurrence in each code that its lines are: of a template, that is each kernel made of it.
  std::map<std::pair<Code, Code>, std::pair<Touch, Touch>> codes;
};
std::set<PlaceId> instructions(const FoundRace& race); // that its lines are

// How far apart the threads of a pair are. Replay tries one_block first: warps of one block are on the device together,
// and an order of two lanes of one warp cannot be had from hardware.
enum class Distance : std::uint8_t { one_block, blocks, one_warp };
inline constexpr std::size_t most_instances = 16; // of a distance and order, and of all that chosen_instances() returns
inline constexpr std::size_t most_first_instances = 12; // of those, where there are others
inline constexpr std::size_t most_last_instances = 4;
inline constexpr std::size_t most_sampled_instances = 64;
// What orders the pairs whose threads are furthest apart orders the others too, and where the write came first, what
// its thread did to tell the other is there to be looked at.
unsigned telling(RaceLevel level, const Touch& first, const Touch& second, bool write_first);
// Keeps the pair when neither thread occurs in an instance of its distance yet, in which the same instruction comes
// first, and there is room; and when it is one of the sample.
void add_instance(FoundRace& race, const Touch& first, const Touch& second);
// Some of every distance and both orders where there are several, and of the last operation, or else of the sample, in
// the order in which they are to be tried. What the first ones do may be alike: who walks a list reads the first of it
// in vain, whatever it finds later.
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
  // Float atomics of unordered threads to the same bytes: how often, at least. The passes count in different ways.
  std::map<PlaceId, std::uint64_t> order_dependent;
  std::map<PlaceId, std::uint64_t> additions; // float atomics: by how many lanes, ordered or not; of the first pass
  std::uint64_t unknown = 0; // records that name a launch or site that does not exist
  std::uint64_t unchecked = 0; // accesses after memory ran out; of the second pass, to suspect words
};

// Adds what another part has: the earliest occurrence stands for both.
void merge(PartFindings& into, const PartFindings& part);
// The most important first.
std::vector<FoundRace> ranked(const PartFindings& findings);
void rank(std::vector<FoundRace>& races); // again, where one turned out to be less certain

} // namespace deadheat::detect
