// A launch that truly happens, in an order that is known: lanes of warps come apart and meet again, at barriers of
// blocks and clusters, at mbarriers and around strong accesses, in steps of random order with long sleeps between them.
// What they would have stored lies in rings, which are drained while it runs.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/device_log_rings.h"
#include "tests/unit/device_log_segments.h"

namespace deadheat::device_log::true_order {

inline constexpr std::uint32_t blocks = 4, warps = 2, threads = 64, in_cluster = 2; // of a block: 64 threads, 2 warps

enum What : std::uint32_t {
  load,
  store,
  exchange,
  add,
  compare,
  cluster_arrive,
  cluster_wait,
  barrier,
  named_barrier, // of both warps
  named_arrive,
  object_init,
  object_arrive,
  object_wait, // by parity
  leave
};

// What a lane did, and what its record must say.
struct Event {
  What what = load;
  std::uint64_t address = 0;
  std::uint32_t read = 0, written = 0, phase = 0;
  bool wrote = false;
  std::uint32_t seen = 0; // the write that was read: its number; 0: what was there at first
  friend bool operator==(const Event& a, const Event& b) {
    return a.what == b.what && a.address == b.address && a.read == b.read && a.written == b.written &&
           a.phase == b.phase && a.wrote == b.wrote;
  }
};
using Lane = std::pair<std::uint32_t, std::uint32_t>; // block, thread

struct Options {
  unsigned seed = 0;
  std::uint32_t stages = 12;
  bool parted = true; // lanes of a warp come apart
  bool objects = false; // mbarriers: these launches are put in order at their end
  unsigned writers = 2; // of 8 strong accesses so many are not loads
  bool atomics = true, stores = true;
  std::uint32_t locations = 3;
  bool own = false; // each location is written by one thread only: then nothing is a guess
  bool leftover = false; // locations hold at first what will be stored there
  bool early = true; // settled while it runs
};

class World {
 public:
  explicit World(const Options& options);
  ~World();

  void run(Output& to); // all of it; what is made of its log goes to `to`

  std::map<Lane, std::vector<Event>> truth;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> numbers; // of writes, by location and value
  std::uint64_t settled = 0, guessed = 0;

 private:
  struct Code;
  struct Strand { // lanes of a warp that go together
    std::uint32_t block = 0, warp = 0, lanes = 0, stage = 0;
    std::vector<What> todo;
    std::size_t at = 0, segment = 0; // in its ring
    unsigned step = 0, sleeps = 0;
    std::uint32_t left = 0; // lanes that have yet to perform it
    std::uint64_t before = 0;
  };
  struct Location {
    std::uint32_t value = 0, number = 0;
  };
  struct Meeting { // a barrier's
    std::uint32_t here = 0, phase = 0;
    std::map<Lane, std::uint32_t> arrivals; // how often
  };

  // The warp's lanes that go together in a stage, each part with what it does.
  void part(std::uint32_t block, std::uint32_t warp, std::uint32_t stage);
  What strong();
  // Lanes whose stage is over. They meet again before they come apart otherwise.
  void free(const Strand& strand);
  std::vector<std::uint8_t>& bytes_of(const Strand& s);
  void reserve(Strand& s);
  void publish(const Strand& s);
  void put_address(Strand& s, unsigned lane, std::uint64_t address);
  void happened(const Strand& s, unsigned lane, Event event);
  void all(const Strand& s, Event event = {});
  Meeting& meeting(const Strand& s);
  std::uint32_t arrive(Strand& s, std::uint32_t wanted); // the phase in which it arrived
  std::uint32_t awaited(Strand& s); // the number of phases that must be complete
  bool next(Strand& s);
  // True: it has done all.
  bool step(Strand& s);
  bool step_of_barrier(Strand& s);
  bool step_of_wait(Strand& s); // for an mbarrier
  bool step_of_tickets(Strand& s);
  void perform(Strand& s, const ptx::Slot& slot, What what, unsigned lane);

  const Options options_;
  std::mt19937 random_;
  const std::unique_ptr<const Code> code_;
  Shape shape_;
  std::vector<Strand> strands_;
  std::array<Ring, 2> rings_;
  std::map<std::uint64_t, Location> memory_;
  std::map<std::uint32_t, std::uint32_t> latest_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Meeting> meetings_;
  std::map<Lane, std::uint32_t> over_; // lanes, by warp
  std::uint64_t ticket_ = 1, steps_ = 0;
  std::uint32_t number_ = 0;
};

} // namespace deadheat::device_log::true_order
