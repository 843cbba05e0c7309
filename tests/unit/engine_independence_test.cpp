// What independence.h calls independent is, against lists of every byte; and what people write is called that.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "deadheat/address.h"
#include "replay/engine/independence.h"

namespace deadheat::engine {

namespace {

using Kind = RegionRange::Kind;

// Whether two groups (or, of what steers, one) touch a byte in a way that matters.
bool really_apart(const std::vector<Touched>& touched) {
  std::map<std::uint64_t, std::vector<const Touched*>> bytes;
  for (const Touched& t : touched)
    for (std::uint64_t b = t.low; b < t.end; ++b) bytes[b].push_back(&t);
  for (const auto& [byte, all] : bytes)
    for (const Touched* a : all)
      for (const Touched* b : all) {
        if (a->kind != Kind::written && a->kind != Kind::combined) continue;
        if (b->kind == Kind::steers) return false;
        if (a->group == b->group) continue;
        if (a->kind == Kind::combined && b->kind == Kind::combined && a->operation == b->operation) continue;
        return false;
      }
  return true;
}

// Accesses in nested loops: first byte = start + the sum over loops of step * counter.
struct Loops {
  Kind kind = Kind::written;
  std::uint8_t operation = 0;
  unsigned bytes = 4;
  std::int64_t start = 0, block_step = 0;
  std::vector<std::pair<std::int64_t, unsigned>> loops; // step, turns
  std::vector<std::int64_t> displacements{0}; // of accesses of one range
};

struct Kernel {
  std::vector<Loops> accesses; // a range each
  std::vector<unsigned> group_of; // by block
  std::size_t groups() const { return group_of.empty() ? 0 : group_of.back() + 1; }
};

constexpr std::uint64_t memory = to_device(device_arena);

// A probe is a plain function, as compiled ones are: this is what it looks at.
const Kernel* probed = nullptr;

template <typename Take> void bases(const Loops& a, std::uint32_t block, const Take& take) {
  std::vector<unsigned> turn(a.loops.size(), 0);
  for (;;) {
    std::int64_t base = std::int64_t(memory) + a.start + a.block_step * block;
    for (std::size_t n = 0; n < turn.size(); ++n) base += a.loops[n].first * turn[n];
    take(base);
    std::size_t n = 0;
    while (n < turn.size() && ++turn[n] == a.loops[n].second) turn[n++] = 0;
    if (n == turn.size()) return;
  }
}

template <typename Kept> void probe(RegionContext* c, const Kept& kept) {
  const std::size_t count = probed->accesses.size();
  for (std::size_t n = 0; n < count; ++n) {
    std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = std::numeric_limits<std::int64_t>::min();
    bases(probed->accesses[n], c->block->linear, [&](std::int64_t base) {
      const std::int64_t k = kept(n, base);
      low = std::min(low, k);
      high = std::max(high, k);
    });
    c->ranges[2 * n] = low;
    c->ranges[2 * n + 1] = high;
  }
  c->ranges[2 * count] = 0;
}
void probe_bounds(RegionContext* c) {
  probe(c, [](std::size_t, std::int64_t base) { return base; });
}
void probe_residues(RegionContext* c) {
  probe(c, [&](std::size_t n, std::int64_t base) -> std::int64_t {
    const ProbeFold& fold = c->folds[n];
    if (fold.modulus == 0) return 0;
    EXPECT_GE(base, fold.origin);
    EXPECT_LT(base - fold.origin, std::int64_t(1) << 31);
    return (base - fold.origin) % fold.modulus;
  });
}
void probe_list(RegionContext* c) {
  probe(c, [&](std::size_t n, std::int64_t base) {
    c->listed[std::min(c->listed_count++, c->listed_room - 1)] = {n, base};
    return base;
  });
}

class Prober final : public BlockProber {
 public:
  void each(RegionProbe probe, const ProbeFold* folds, bool one_of_each,
            const std::function<void(std::size_t, const std::int64_t*)>& take) override {
    for (std::uint32_t block = 0; block < probed->group_of.size(); ++block) {
      if (one_of_each && block > 0 && probed->group_of[block] == probed->group_of[block - 1]) continue;
      run(probe, block, folds, nullptr);
      take(probed->group_of[block], numbers_.data());
    }
  }
  void list(RegionProbe probe, std::size_t group, ProbeList& list) override {
    const auto first = std::find(probed->group_of.begin(), probed->group_of.end(), group);
    run(probe, std::uint32_t(first - probed->group_of.begin()), nullptr, &list);
  }

 private:
  void run(RegionProbe probe, std::uint32_t at, const ProbeFold* folds, ProbeList* list) {
    numbers_.resize(2 * probed->accesses.size() + 1);
    BlockContext block;
    block.linear = at;
    RegionContext context;
    context.block = &block;
    context.ranges = numbers_.data();
    context.folds = folds;
    if (list) context.listed = list->entries.data(), context.listed_room = list->entries.size();
    probe(&context);
    if (list) list->count = context.listed_count;
  }
  std::vector<std::int64_t> numbers_;
};

Independence::By decide(const Kernel& kernel) {
  static const InterleavedProbes interleaved{probe_residues, probe_list};
  FootprintCode code;
  code.probe = probe_bounds;
  code.interleaved = [] { return &interleaved; };
  for (const Loops& a : kernel.accesses) {
    const auto [least, greatest] = std::minmax_element(a.displacements.begin(), a.displacements.end());
    code.ranges.push_back(
        {.kind = a.kind, .space = Space::global, .operation = a.operation, .low = *least, .end = *greatest + a.bytes});
  }
  probed = &kernel;
  Prober prober;
  const TouchableMemory all{0, [](std::uint64_t, std::uint64_t) { return true; }};
  return independence(code, kernel.groups(), all, prober).by;
}

bool really_independent(const Kernel& kernel) {
  std::vector<Touched> touched;
  for (std::uint32_t block = 0; block < kernel.group_of.size(); ++block)
    for (const Loops& a : kernel.accesses)
      bases(a, block, [&](std::int64_t base) {
        for (std::int64_t d : a.displacements)
          touched.push_back({std::uint64_t(base + d), std::uint64_t(base + d + a.bytes), kernel.group_of[block], a.kind,
                             a.operation});
      });
  return really_apart(touched);
}

// Thousands of cases, in place of a hundred.
template <typename Property> bool check_often(const Property& property) {
  return rc::check([&] {
    for (int n = 0; n < 40; ++n) property();
  });
}

std::vector<unsigned> groups_of(unsigned blocks, unsigned each) {
  std::vector<unsigned> groups(blocks);
  for (unsigned b = 0; b < blocks; ++b) groups[b] = b / each;
  return groups;
}

} // namespace

TEST(Independence, SetsAreApartWhereEveryByteIs) {
  std::size_t yes = 0, no = 0;
  const bool good = check_often([&] {
    std::vector<Touched> touched;
    const auto size = *rc::gen::inRange<std::size_t>(0, 9);
    for (std::size_t n = 0; n < size; ++n) {
      Touched t;
      t.low = *rc::gen::inRange<std::uint64_t>(0, 40);
      t.end = t.low + *rc::gen::inRange<std::uint64_t>(1, 9);
      t.group = *rc::gen::inRange<std::uint32_t>(0, 3);
      t.kind = *rc::gen::element(Kind::read, Kind::steers, Kind::written, Kind::combined);
      if (t.kind == Kind::combined) t.operation = *rc::gen::inRange<std::uint8_t>(1, 3);
      touched.push_back(t);
    }
    const bool really = really_apart(touched);
    ++(really ? yes : no);
    RC_ASSERT(apart(touched) == really);
  });
  EXPECT_TRUE(good);
  EXPECT_GT(yes, 10u);
  EXPECT_GT(no, 10u);
}

// Whatever the steps are.
TEST(Independence, NeverClaimedWhereBytesAreShared) {
  std::size_t claimed[3] = {}, shared = 0;
  const bool good = check_often([&] {
    Kernel kernel;
    const unsigned blocks = *rc::gen::inRange(2u, 9u), each = *rc::gen::inRange(1u, 4u);
    kernel.group_of = groups_of(blocks, each);
    const std::int64_t run = *rc::gen::inRange<std::int64_t>(1, 9), step = 4 * run;
    const auto count = *rc::gen::inRange<std::size_t>(1, 4);
    for (std::size_t n = 0; n < count; ++n) {
      Loops a;
      a.kind = n == 0 ? Kind::written : *rc::gen::element(Kind::read, Kind::steers, Kind::written, Kind::combined);
      if (a.kind == Kind::combined) a.operation = *rc::gen::inRange<std::uint8_t>(1, 3);
      a.bytes = *rc::gen::element(1u, 4u, 8u);
      a.start = 4096 + *rc::gen::elementOf(std::vector<std::int64_t>{0, 0, 4, step, 100 * step});
      a.block_step = *rc::gen::elementOf(std::vector<std::int64_t>{step, step, step, 2 * step, 0, -step, 4});
      a.loops.push_back({4, unsigned(run)});
      const std::int64_t turn = *rc::gen::elementOf(std::vector<std::int64_t>{
          step * blocks, step * blocks, step * blocks + 4, step * blocks - 4, 3 * step * blocks, step, 64});
      a.loops.push_back({turn, *rc::gen::inRange(1u, 5u)});
      if (*rc::gen::inRange(0, 3) == 0)
        a.loops.push_back({turn * 4 + *rc::gen::elementOf(std::vector<std::int64_t>{0, 4, 40}), 2});
      if (*rc::gen::inRange(0, 3) == 0)
        a.displacements.push_back(*rc::gen::elementOf(std::vector<std::int64_t>{4, -4, turn}));
      kernel.accesses.push_back(std::move(a));
    }
    const Independence::By found = decide(kernel);
    const bool really = really_independent(kernel);
    ++claimed[std::size_t(found)];
    shared += !really;
    RC_ASSERT(found == Independence::By::none || really);
  });
  EXPECT_TRUE(good);
  EXPECT_GT(claimed[std::size_t(Independence::By::residues)], 3u);
  EXPECT_GT(claimed[std::size_t(Independence::By::ranges)], 3u);
  EXPECT_GT(shared, 10u);
}

// Grid-stride loops over one or two arrays in place, and columns of tiles, whatever their sizes are.
TEST(Independence, ClaimedForWhatPeopleWrite) {
  const bool strides = rc::check([] {
    Kernel kernel;
    const unsigned blocks = *rc::gen::inRange(2u, 20u), turns = *rc::gen::inRange(2u, 6u);
    const std::int64_t threads = *rc::gen::inRange<std::int64_t>(1, 70), bytes = *rc::gen::element(1, 4, 8, 16);
    kernel.group_of = groups_of(blocks, *rc::gen::inRange(1u, blocks));
    Loops written;
    written.bytes = unsigned(bytes);
    written.start = bytes * *rc::gen::inRange<std::int64_t>(0, 99);
    written.block_step = bytes * threads;
    written.loops = {{bytes, unsigned(threads)}, {bytes * threads * blocks, turns}};
    Loops read = written, other = written;
    read.kind = Kind::read;
    other.bytes = 1;
    other.start = 1 << 20;
    other.block_step = threads;
    other.loops = {{1, unsigned(threads)}, {threads * blocks, turns}};
    kernel.accesses = {written, read, other};
    RC_ASSERT(really_independent(kernel));
    RC_ASSERT(decide(kernel) == Independence::By::residues);
  });
  EXPECT_TRUE(strides);
  const bool tiles = rc::check([] {
    Kernel kernel;
    const unsigned blocks = *rc::gen::inRange(2u, 20u), width = *rc::gen::inRange(1u, 33u);
    const std::int64_t pitch = 4 * (std::int64_t(blocks) * width + *rc::gen::inRange(0, 40));
    kernel.group_of = groups_of(blocks, *rc::gen::inRange(1u, blocks));
    Loops written;
    written.block_step = 4 * width;
    written.loops = {{4, width}, {pitch, *rc::gen::inRange(2u, 17u)}};
    kernel.accesses = {written};
    RC_ASSERT(really_independent(kernel));
    RC_ASSERT(decide(kernel) == Independence::By::residues);
  });
  EXPECT_TRUE(tiles);
}

TEST(Independence, StepsOfNestedLoops) {
  std::vector<ByteSet::Interval> touched;
  for (std::uint64_t plane = 0; plane < 2; ++plane)
    for (std::uint64_t row = 0; row < 3; ++row)
      for (std::uint64_t n = 0; n < 4; ++n)
        for (std::uint64_t word = 0; word < 2; ++word) {
          const std::uint64_t at = 10000 * plane + 1000 * row + 100 * n + 4 * word;
          touched.push_back({at, at + 4});
        }
  EXPECT_EQ(interleaving_steps(touched), (std::vector<std::uint64_t>{100, 1000, 10000}));
  EXPECT_TRUE(interleaving_steps({{0, 4}, {4, 8}}).empty());
}

} // namespace deadheat::engine
