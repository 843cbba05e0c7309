// mbarriers in logs whose operations overlapped: warps and bulk copies take steps in random order on an mbarrier that
// counts as the manual says (PTX ISA 9.7.13.15), and what they would have stored is put in order again.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "deadheat/address.h"
#include "tests/unit/device_log_seen.h"
#include "tests/unit/device_log_segments.h"
#include "tests/unit/seeds.h"

namespace deadheat::device_log {
namespace {

using What = trace::Mbarrier::What;

struct TrueBarrier {
  std::uint32_t expected = 0, pending = 0, phase = 0;
  std::int64_t bytes = 0;
  void change(std::uint32_t arrivals, std::int64_t by) {
    pending -= arrivals;
    bytes += by;
    if (pending || bytes) return;
    pending = expected;
    ++phase;
  }
};

// Segments of one slot each, as tracer/ptx/instrument_async.cpp lays them out.
enum Segment : std::uint32_t { init, arrive, arrive_expect, wait_parity, wait_state, copy, leave };
struct Code : Segments {
  Code() {
    ptx::Slot slot;
    slot.kind = ptx::Slot::Kind::mbarrier;
    slot.narrow = true;
    slot.address = header + 32;
    slot.operand = slot.address + lanes4;
    add("mbarrier.init.shared.b64", SiteKind::mbarrier, slot, 32 + 2 * lanes4);
    slot.operand = 0;
    slot.operand_known = true;
    slot.number = 1;
    slot.value_read = slot.address + lanes4;
    add("mbarrier.arrive.shared.b64", SiteKind::mbarrier, slot, 32 + lanes4 + lanes8);
    slot.value_read = 0;
    slot.size = slot.address + lanes4;
    add("mbarrier.arrive.expect_tx.shared.b64", SiteKind::mbarrier, slot, 32 + 2 * lanes4);
    slot.size = 0;
    slot.operand_known = false;
    slot.operand = slot.address + lanes4;
    slot.short_values = true;
    add("mbarrier.try_wait.parity.shared.b64", SiteKind::mbarrier, slot, 32 + 2 * lanes4);
    slot.short_values = false;
    add("mbarrier.test_wait.shared.b64", SiteKind::mbarrier, slot, 32 + lanes4 + lanes8);
    ptx::Slot bulk;
    bulk.kind = ptx::Slot::Kind::bulk;
    bulk.address = header + 32;
    bulk.source = bulk.address + lanes8;
    bulk.object = bulk.source + lanes8;
    bulk.size = bulk.object + lanes8;
    add("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", SiteKind::bulk_copy, bulk,
        32 + 3 * lanes8 + lanes4);
    add_exit();
  }
};

struct Operation {
  Segment what = arrive;
  std::uint32_t object = 0;  // its offset in shared memory
  std::uint32_t operand = 0; // count, bytes or parity
  std::uint32_t phase = 0;   // that is right
  std::uint32_t lanes = 1;
  bool watches = false;      // a wait for any phase of that parity
};
constexpr std::uint32_t any_phase = ~0u;

class Simulation {
 public:
  Simulation(std::uint32_t warps, unsigned seed) : random_(seed), warps_(warps) {}

  void initialise(std::uint32_t object, std::uint32_t count) {
    barriers_[object] = {count, count, 0, 0};
    Operation operation{init, object, count, 0, 1};
    const std::uint64_t before = ticket_++;
    emit(0, operation, before, ticket_++, 0);
  }
  void then(std::uint32_t warp, Operation operation) { warps_[warp].todo.push_back(operation); }

  // Runs all, and compares phases with what is right, and the order with what a wait means.
  void run() {
    for (std::uint64_t left = 1; left;) {
      left = copies_.size();
      for (const Warp& warp : warps_) left += warp.todo.size() - warp.at;
      if (!left) break;
      const std::uint32_t who = std::uint32_t(random_() % (warps_.size() + 1));
      if (who < warps_.size())
        step(who);
      else if (!copies_.empty())
        complete(random_() % copies_.size());
    }
    Shape shape;
    shape.launch = 1;
    shape.threads = std::uint32_t(32 * warps_.size());
    shape.strong = true;
    shape.segments = &code_.segments;
    shape.sites = &code_.sites;
    for (const bool beside_another : {false, true}) read(shape, beside_another);
  }

 private:
  // `beside_another`: launch that did the same, in memory of its own.
  void read(Shape shape, bool beside_another) {
    Seen seen, others;
    LaunchLog log(shape, seen);
    shape.launch = 2;
    LaunchLog other(shape, others);
    // Rings are read one after another: only what one warp wrote comes in its order.
    std::vector<std::size_t> at(warps_.size(), 0);
    for (std::size_t left = 1; left;) {
      left = 0;
      for (std::size_t w = 0; w < warps_.size(); ++w) left += warps_[w].log.size() - at[w];
      if (!left) break;
      const std::size_t w = random_() % warps_.size();
      if (at[w] == warps_[w].log.size()) continue;
      other.segment(warps_[w].log[at[w]].data());
      log.segment(warps_[w].log[at[w]++].data());
    }
    if (beside_another) LaunchLog::put_in_order({&other, &log});
    for (LaunchLog* each : {&log, &other}) {
      each->finish();
      EXPECT_EQ(each->guessed(), 0u);
      EXPECT_EQ(each->damaged(), 0u);
    }
    check(seen);
    check(others);
  }

  struct Warp {
    std::vector<Operation> todo;
    std::size_t at = 0;
    unsigned stage = 0;  // 0: before its ticket, 1: before the operation, 2: before the second ticket
    std::uint64_t before = 0, state = 0, last_state = 0;
    std::vector<std::vector<std::uint8_t>> log;
    std::vector<std::uint32_t> phases;  // that are right, a lane each
  };

  // As hardware may pack it: what tells phases apart only by parity.
  static std::uint64_t state_of(const TrueBarrier& b) { return std::uint64_t(b.phase & 1) << 63 | b.pending; }

  void step(std::uint32_t w) {
    Warp& warp = warps_[w];
    if (warp.at == warp.todo.size()) return;
    const Operation& o = warp.todo[warp.at];
    const bool waits = o.what == wait_parity || o.what == wait_state;
    TrueBarrier& barrier = barriers_[o.object];
    switch (warp.stage) {
      case 0:
        warp.before = waits ? ticket_ : ticket_++;
        warp.stage = 1;
        return;
      case 1:
        if (waits) {
          if (o.watches ? (barrier.phase & 1) == o.operand : barrier.phase <= o.phase) {
            warp.stage = 0;  // it failed, and is asked again
            return;
          }
        } else if (o.what == copy) {
          copies_.push_back(o);
        } else {
          warp.last_state = state_of(barrier);
          ASSERT_EQ(barrier.phase, o.phase);
          for (std::uint32_t l = 0; l < o.lanes; ++l) barrier.change(1, o.what == arrive_expect ? o.operand : 0);
        }
        warp.stage = 2;
        return;
      default:
        emit(w, o, warp.before, ticket_++, warp.last_state);
        ++warp.at;
        warp.stage = 0;
    }
  }

  void complete(std::size_t which) {
    barriers_[copies_[which].object].change(0, -std::int64_t(copies_[which].operand));
    copies_.erase(copies_.begin() + std::ptrdiff_t(which));
  }

  void emit(std::uint32_t w, const Operation& o, std::uint64_t before, std::uint64_t after, std::uint64_t state) {
    const ptx::Segment& segment = code_.segments[o.what];
    const ptx::Slot& slot = segment.slots[0];
    std::vector<std::uint8_t> bytes(segment.bytes, 0);
    SegmentHeader head;
    head.segment = o.what;
    head.warp = w;
    head.mask = o.lanes == 32 ? ~0u : (1u << o.lanes) - 1;
    std::memcpy(bytes.data(), &head, sizeof head);
    auto put = [&](std::uint32_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
    put(slot.offset, before);
    put(slot.offset + 8, after);
    for (std::uint32_t l = 0; l < o.lanes; ++l) {
      if (o.what == copy) {
        put(slot.address + 8 * l, shared_mark | 4096);
        put(slot.source + 8 * l, std::uint64_t(device_bit));
        put(slot.object + 8 * l, shared_mark | o.object);
        put(slot.size + 4 * l, o.operand);
      } else {
        put(slot.address + 4 * l, o.object);
        if (slot.operand && o.what != wait_state) put(slot.operand + 4 * l, o.operand);
        if (o.what == wait_state) put(slot.operand + 8 * l, state);
        if (slot.size) put(slot.size + 4 * l, o.operand);
        if (slot.value_read) put(slot.value_read + 8 * l, state);
      }
      warps_[w].phases.push_back(o.watches ? any_phase : o.phase);
    }
    warps_[w].log.push_back(std::move(bytes));
  }

  void check(const Seen& seen) {
    std::vector<std::size_t> at(warps_.size(), 0);
    std::map<std::uint64_t, std::uint32_t> complete;
    for (const trace::Mbarrier& r : seen.all<trace::Mbarrier>()) {
      for (unsigned l = 0; l < 32; ++l) {
        if (!(r.mask >> l & 1)) continue;
        Warp& warp = warps_[r.warp.warp];
        ASSERT_LT(at[r.warp.warp], warp.phases.size());
        const std::uint32_t right = warp.phases[at[r.warp.warp]++];
        if (right != any_phase) {
          ASSERT_EQ(r.phase[l], right) << "warp " << r.warp.warp << " what " << int(r.what);
        }
        std::uint32_t& done = complete[r.address[l]];
        if (r.what == What::test)
          done = std::max(done, r.phase[l] + 1);
        else
          ASSERT_GE(r.phase[l], done) << "an arrival comes after a test of its phase";
      }
    }
    for (std::size_t w = 0; w < warps_.size(); ++w) EXPECT_EQ(at[w], warps_[w].phases.size());
  }

  std::mt19937 random_;
  const Code code_;
  std::vector<Warp> warps_;
  std::map<std::uint32_t, TrueBarrier> barriers_;
  std::vector<Operation> copies_;
  std::uint64_t ticket_ = 1;
};

class Seeds : public testing::TestWithParam<unsigned> {};

// A producer's copies through a ring of stages, each with an mbarrier for full and one for empty.
TEST_P(Seeds, Pipeline) {
  const unsigned seed = GetParam(), stages = 1 + seed % 3, consumers = 1 + seed % 4, rounds = 24;
  const std::uint32_t lanes = seed % 2 ? 32 : 1;
  Simulation simulation(1 + consumers, seed);
  auto full = [](unsigned s) { return 16 * s; };
  auto empty = [](unsigned s) { return 16 * s + 8; };
  for (unsigned s = 0; s < stages; ++s) {
    simulation.initialise(full(s), 1);
    simulation.initialise(empty(s), consumers * lanes);
  }
  for (unsigned i = 0; i < rounds; ++i) {
    const unsigned s = i % stages, turn = i / stages;
    if (turn) simulation.then(0, {wait_parity, empty(s), (turn - 1) & 1, turn - 1, 1});
    const Operation expect{arrive_expect, full(s), 512, turn, 1}, two{copy, full(s), 256, turn, 1};
    simulation.then(0, expect);
    simulation.then(0, two);
    simulation.then(0, two);
    for (unsigned c = 1; c <= consumers; ++c) {
      simulation.then(c, {wait_parity, full(s), turn & 1, turn, lanes});
      simulation.then(c, {arrive, empty(s), 1, turn, lanes});
    }
  }
  simulation.run();
}

// All warps meet again and again, and wait by the state that they were given.
TEST_P(Seeds, StatesOfABarrier) {
  const unsigned seed = GetParam(), warps = 2 + seed % 5;
  Simulation simulation(warps, seed);
  simulation.initialise(8, warps * 32);
  for (unsigned round = 0; round < 16; ++round) {
    for (unsigned w = 0; w < warps; ++w) {
      simulation.then(w, {arrive, 8, 1, round, 32});
      simulation.then(w, {wait_state, 8, 0, round, 32});
    }
  }
  simulation.run();
}

// Somebody who does not arrive looks: what he saw may be over when his turn comes.
TEST_P(Seeds, Watcher) {
  const unsigned seed = GetParam(), warps = 2 + seed % 3;
  Simulation simulation(warps + 1, seed);
  simulation.initialise(8, warps);
  for (unsigned w = 0; w < warps; ++w) {
    for (unsigned round = 0; round < 41; ++round) {
      simulation.then(w, {arrive, 8, 1, round, 1});
      simulation.then(w, {wait_state, 8, 0, round, 1});
    }
  }
  simulation.then(warps, {wait_parity, 8, 0, 0, 1, true});
  simulation.run();
}

INSTANTIATE_TEST_SUITE_P(Orders, Seeds, testing::ValuesIn(test::seed_list(0, 60)));

}  // namespace
}  // namespace deadheat::device_log
