// Traces that lie: records of every kind with any numbers in them. Whatever they say, the analysis ends, with an
// answer.
#include "deadheat/footprint.h"
#include "tests/unit/analyzer_traces.h"
#include "tests/unit/seeds.h"
#include "tests/unit/trace_generate.h"

namespace deadheat::test {
namespace {

using Races = std::vector<std::string>;

// Random records, their ids pulled towards those that exist.
trace::Record lie(trace::Random& random) {
  trace::Record record = random.any();
  auto near = [&](std::uint32_t& id) {
    if (random.below(4)) id = std::uint32_t(random.below(6));
  };
  std::visit(
      [&](auto& r) {
        if constexpr (requires { r.module; }) near(r.module);
        if constexpr (requires { r.site; }) near(r.site);
        if constexpr (requires { r.operation; }) near(r.operation);
        if constexpr (requires { r.launch; }) near(r.launch);
        if constexpr (requires { r.block; }) near(r.block);
        if constexpr (requires {
                        r.id;
                        r.stream;
                      })
          near(r.id);
        if constexpr (requires { r.stream; }) near(r.stream);
        if constexpr (requires { r.event; }) near(r.event);
        if constexpr (requires { r.record_operation; }) near(r.record_operation);
        if constexpr (requires { r.allocation; }) near(r.allocation);
        if constexpr (requires {
                        r.phase;
                        r.barrier;
                      })
          near(r.phase);
      },
      record);
  if (auto* access = std::get_if<trace::Access>(&record); access && random.below(2)) {
    for (auto& address : access->address) address = memory + random.below(8192);
  }
  if (auto* allocation = std::get_if<trace::Allocate>(&record)) {
    allocation->address = memory + random.below(1 << 17);
    allocation->bytes = random.below(8) ? random.below(1 << 16) : ~0ull;
  }
  if (auto* copy = std::get_if<trace::AsyncCopy>(&record)) copy->bytes = 4u << random.below(4);
  return record;
}

TEST(LyingTraces, EndInAnAnswer) {
  for (const std::uint64_t seed : seeds(1, 60)) {
    trace::Random random(seed);
    LittleTrace trace;
    for (std::uint32_t line = 0; line < 6; ++line) {
      LittleTrace::SiteOf of;
      of.access = AccessKind(random.below(3));
      of.space = random.below(2) ? Space::global : Space::shared;
      of.ordering = Ordering(random.below(9));
      of.scope = Scope(random.below(5));
      of.bytes = 1u << random.below(5);
      of.elements = unsigned(1 + random.below(4));
      of.kind = line == 5 ? SiteKind::async_copy : SiteKind::access;
      trace.site(line, of);
    }
    trace.stream(2);
    trace.launch(1);
    trace.launch(2, {2, 2, 1}, {128, 1, 1});
    for (int i = 0; i < 400; ++i) trace.add(lie(random));
    Analysis analysis = trace.analyze();
    EXPECT_LE(analysis.races.size(), 2000u) << "seed " << seed;
  }
}

TEST(LyingTraces, SayWhatWasLeftOut) {
  LittleTrace trace;
  auto read = trace.site(1, {});
  auto l = trace.launch();
  trace.access(l, 0, 0, read, memory);
  EXPECT_TRUE(trace.analyze().summary.complete);
  trace.access(l + 7, 0, 0, read, memory);
  Analysis analysis = trace.analyze();
  EXPECT_FALSE(analysis.summary.complete);
  ASSERT_EQ(analysis.warnings.size(), 1u);
  EXPECT_NE(analysis.warnings[0].find("1 record was left out: it names launches"), std::string::npos);
}

TEST(LyingTraces, RecordingsThatSayThatTheyAreNotWhole) {
  for (const auto& [kind, complete] :
       {std::pair{"lost", false}, {"budget", false}, {"stalled", false}, {"blocks", true}}) {
    LittleTrace trace;
    auto l = trace.launch();
    trace.access(l, 0, 0, trace.site(1, {}), memory);
    trace.add(trace::Incident{kind, 1, "later accesses are missing"});
    trace.end_launch(l);
    Analysis analysis = trace.analyze();
    EXPECT_EQ(analysis.summary.complete, complete) << kind;
    EXPECT_EQ(analysis.warnings.size(), 1u) << kind;
  }
}

TEST(LyingTraces, AFunctionWhoseNumberAnotherOperationHas) {
  LittleTrace trace;
  trace::Operation operation;
  operation.what = trace::HostCallback{"cudaLaunchHostFunc"};
  const std::uint32_t id = trace.submit(operation, 1);
  trace.begin(id);
  operation.id = id;
  operation.stream = 1;
  operation.what = trace::Marker{};
  trace.add(operation);
  trace::Effects effects;
  effects.operation = id;
  effects.changes.resize(1);
  effects.changes[0].address = memory;
  effects.changes[0].data.size = 4;
  trace.add(effects);
  trace.end(id);
  EXPECT_FALSE(trace.analyze().summary.complete);
}

TEST(LyingTraces, CopiesLargerThanMemory) {
  LittleTrace trace;
  trace::Set set;
  set.destination = {memory, 0, ~0ull, ~0ull, ~0ull, 0};
  set.api = "cudaMemset3D";
  trace::Operation operation;
  operation.what = set;
  std::uint32_t id = trace.submit(operation, 1);
  trace.begin(id);
  trace.end(id);
  EXPECT_FALSE(trace.analyze().summary.complete);
}

// ---- what else an analysis says

class Findings : public ::testing::Test {
 protected:
  LittleTrace trace;
  std::uint32_t write = trace.site(1, {.access = AccessKind::write});
  std::uint32_t read = trace.site(2, {});

  void run_opaque(const trace::Launch& launch) { // in stream 2
    trace::Operation operation;
    operation.launch = 77;
    operation.what = launch;
    const std::uint32_t id = trace.submit(operation, 2);
    trace.begin(id);
    trace.end(id);
  }
};

TEST_F(Findings, NonCoherentReadsOfWhatTheLaunchWrites) {
  auto cached = trace.site(3, {.ordering = Ordering::nc});
  auto l = trace.launch();
  trace.access(l, 0, 0, write, memory);
  trace.block_barrier(l, 0);
  trace.access(l, 0, 40, cached, memory);  // the barrier does not help
  Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_NE(analysis.races[0].why.find("non-coherent"), std::string::npos);
}

TEST_F(Findings, NonCoherentReadsOfWhatAnEarlierLaunchWrote) {
  auto cached = trace.site(3, {.ordering = Ordering::nc});
  auto first = trace.launch();
  trace.access(first, 0, 0, write, memory);
  trace.end_launch(first);
  auto second = trace.launch();
  trace.access(second, 0, 40, cached, memory);
  EXPECT_EQ(trace.races(), Races{});
}

// Two launches at the same time, one of which tells the other that it has written, or read. `plain`: through the
// coherent caches. `behind`: the other launch comes after the first's end.
std::vector<Race> races_beside(bool read_first, bool plain, bool behind) {
  LittleTrace trace;
  const auto write = trace.site(1, {.access = AccessKind::write});
  const auto read = trace.site(2, {.ordering = plain ? Ordering::weak : Ordering::nc});
  const auto tell = trace.site(3, {.access = AccessKind::write, .ordering = Ordering::release, .scope = Scope::gpu});
  const auto look = trace.site(4, {.ordering = Ordering::acquire, .scope = Scope::gpu});
  trace.stream(2);
  trace.stream(3);
  const std::uint64_t flag = memory + 64;
  const auto one = trace.launch(2);
  std::uint32_t other = behind ? 0 : trace.launch(3);
  trace.access(one, 0, 0, read_first ? read : write, memory);
  trace.access(one, 0, 0, tell, flag, 0, 0, 1);
  if (behind) {
    trace.end_launch(one);
    trace.add(trace::HostWait{trace::HostWait::Kind::stream, 2, 0, false, 1});
    other = trace.launch(3);
  }
  trace.access(other, 0, 40, look, flag, 0, 1, 0);
  trace.access(other, 0, 40, read_first ? write : read, memory);
  if (!behind) trace.end_launch(one);
  trace.end_launch(other);
  return trace.analyze().races;
}

TEST(NonCoherentReads, OfWhatALaunchBesideWrites) {
  for (const bool read_first : {false, true}) {
    EXPECT_EQ(races_beside(read_first, true, false).size(), 0u) << read_first;
    EXPECT_EQ(races_beside(read_first, false, true).size(), 0u) << read_first;
    const std::vector<Race> races = races_beside(read_first, false, false);
    ASSERT_EQ(races.size(), 1u) << read_first;
    EXPECT_NE(races[0].why.find("while its launch may run"), std::string::npos) << races[0].why;
  }
}

// What it read is remembered, though a launch that comes after that read has read it since.
TEST(NonCoherentReads, BeforeThoseOfOthers) {
  LittleTrace trace;
  const auto write = trace.site(1, {.access = AccessKind::write}), plain = trace.site(2, {});
  const auto cached = trace.site(3, {.ordering = Ordering::nc});
  const auto tell = trace.site(4, {.access = AccessKind::write, .ordering = Ordering::release, .scope = Scope::gpu});
  const auto look = trace.site(5, {.ordering = Ordering::acquire, .scope = Scope::gpu});
  trace.stream(2);
  trace.stream(3);
  const auto one = trace.launch(2), other = trace.launch(3);
  trace.access(one, 0, 0, cached, memory);
  trace.access(one, 0, 0, tell, memory + 64, 0, 0, 1);
  trace.access(other, 0, 40, look, memory + 64, 0, 1, 0);
  trace.access(other, 0, 40, plain, memory);
  trace.end_launch(other);
  const auto last = trace.launch(3); // comes after the second, and the first may still run
  trace.access(last, 0, 0, write, memory);
  trace.end_launch(one);
  trace.end_launch(last);
  EXPECT_EQ(trace.races(), (Races{"1-3"}));
}

TEST_F(Findings, FloatSumsDependOnTheirOrder) {
  auto add = trace.site(5, {.access = AccessKind::atomic,
                            .ordering = Ordering::relaxed,
                            .scope = Scope::gpu,
                            .opcode = "red.global.add.f32"});
  auto count = trace.site(6, {.access = AccessKind::atomic,
                              .ordering = Ordering::relaxed,
                              .scope = Scope::gpu,
                              .opcode = "red.global.add.u32"});
  auto l = trace.launch();
  trace.access(l, 0, 0, add, memory, 0, 0, 1);
  trace.access(l, 0, 0, add, memory, 0, 1, 2);  // the same thread again: ordered
  EXPECT_TRUE(trace.analyze().order_dependent.empty());
  for (unsigned block = 0; block < 4; ++block) {
    trace.access(l, block, 1, add, memory, 0, block + 2, block + 3);
    trace.access(l, block, 1, count, memory + 4, 0, block, block + 1);
  }
  Analysis analysis = trace.analyze();
  EXPECT_TRUE(analysis.races.empty());
  ASSERT_EQ(analysis.order_dependent.size(), 1u);
  EXPECT_EQ(analysis.order_dependent[0].site.source[0].line, 5u);
  EXPECT_EQ(analysis.order_dependent[0].atomic, "add.f32");
}

TEST_F(Findings, MemoryThatKernelsGiveBack) {
  constexpr std::uint64_t elsewhere = memory + (std::uint64_t(1) << 40); // than what the host allocated
  const auto certainty = [&](std::uint64_t address, const std::string& device, const std::string& called) {
    LittleTrace trace;
    const std::uint32_t write = trace.site(1, {.access = AccessKind::write}), read = trace.site(2, {});
    auto l = trace.launch();
    trace.access(l, 0, 0, write, address);
    trace.access(l, 0, 40, read, address);
    trace.device_kind = device;
    trace.text(".version 9.0\n.target sm_90a\n.address_size 64\n.extern .func " + called +
               "\n(\n.param .b64 p\n)\n;\n");
    const Analysis analysis = trace.analyze();
    EXPECT_EQ(analysis.races.size(), 1u);
    return analysis.races.empty() ? Certainty::certain : analysis.races[0].certainty;
  };
  EXPECT_EQ(certainty(elsewhere, "gpu", "free"), Certainty::possible);
  EXPECT_EQ(certainty(elsewhere, "gpu", "free_slot"), Certainty::certain);
  EXPECT_EQ(certainty(elsewhere, "embedded", "free"), Certainty::certain); // there it is known whose it was
  EXPECT_EQ(certainty(memory, "gpu", "free"), Certainty::certain);
}

TEST_F(Findings, SumsOfOneLineAreOneEntry) { // as an unrolled loop has them
  LittleTrace::SiteOf spec{
      .access = AccessKind::atomic, .ordering = Ordering::relaxed, .scope = Scope::gpu, .opcode = "red.global.add.f32"};
  const std::uint32_t first = trace.site(5, spec), second = trace.site(5, spec);
  spec.opcode = "red.global.add.f64";
  const std::uint32_t wider = trace.site(5, spec);
  auto l = trace.launch();
  for (unsigned block = 0; block < 4; ++block) {
    trace.access(l, block, 1, first, memory, 0, block, block + 1);
    trace.access(l, block, 1, second, memory + 4, 0, block, block + 1);
    trace.access(l, block, 1, wider, memory + 8, 0, block, block + 1);
  }
  const Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.order_dependent.size(), 2u);
  EXPECT_EQ(analysis.order_dependent[0].atomic, "add.f32");
  EXPECT_EQ(analysis.order_dependent[0].occurrences, 8u);
  EXPECT_EQ(analysis.order_dependent[0].instructions.size(), 2u);
  EXPECT_EQ(analysis.order_dependent[1].atomic, "add.f64");
  EXPECT_EQ(analysis.order_dependent[1].occurrences, 4u);
}

TEST_F(Findings, ManyReadersAndAWriterThatComesAfterThem) {
  auto l = trace.launch(1, {2, 1, 1}, {1024, 1, 1});
  for (unsigned thread = 0; thread < 1024; ++thread) trace.access(l, 0, thread, read, memory);
  trace.block_barrier(l, 0);
  trace.access(l, 0, 7, write, memory);
  EXPECT_EQ(trace.races(), Races{});
  trace.access(l, 1, 7, read, memory);  // another block
  EXPECT_EQ(trace.races(), Races{"1-2"});
}

// Of a word with so many entries reads look at writes and at what their own threads did: that is all that matters.
TEST_F(Findings, ManyReadersOfAWordThatFewWrite) {
  constexpr unsigned blocks = 3, threads = 1024;
  auto l = trace.launch(1, {blocks + 1, 1, 1}, {threads, 1, 1});
  const auto all_read = [&] {
    for (unsigned block = 0; block < blocks; ++block) {
      for (unsigned thread = 0; thread < threads; ++thread) trace.access(l, block, thread, read, memory);
    }
  };
  all_read();
  for (int i = 0; i < 2; ++i) {
    trace.access(l, blocks, 0, write, memory);
    all_read();
  }
  // Each write with the last read of each thread, each read with the last write.
  const Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_EQ(analysis.races[0].occurrences, 4u * blocks * threads);
}

// Lanes of a warp that do the same are one access, and as many pairs as are not ordered.
TEST_F(Findings, PairsOfLanesAreCounted) {
  const auto count = [](LittleTrace& of) {
    std::map<std::string, std::uint64_t> found;
    for (const Race& race : of.analyze().races)
      found[std::to_string(race.first.source.at(0).line) + "-" + std::to_string(race.second.source.at(0).line)] =
          race.occurrences;
    return found;
  };
  auto l = trace.launch();
  trace.broadcast(l, 0, 0, 0x00ff'ffff, read, memory);
  trace.broadcast(l, 0, 1, ~0u, read, memory);
  trace.access(l, 1, 0, write, memory);
  // A warp's lanes before they synchronize: each of sixteen with the others' write, and thread 3 with what it did not
  // itself read. Behind that none.
  trace.broadcast(l, 2, 0, 0xffff, read, memory + 64);
  trace.access(l, 2, 3, write, memory + 64);
  trace.warp_barrier(l, 2, 0, ~0u);
  trace.access(l, 2, 4, write, memory + 64);
  // Of those who synchronized with the writer half.
  trace.broadcast(l, 3, 0, ~0u, read, memory + 128);
  trace.warp_barrier(l, 3, 0, 0x8000'ffff);
  trace.access(l, 3, 31, write, memory + 128);
  const auto found = count(trace);
  EXPECT_EQ(found, (std::map<std::string, std::uint64_t>{{"2-1", 24 + 32 + 15 + 15}}));
}

// Reads by many threads, a write that comes after them, and one that comes after neither: it races with both sites. Of
// thousands of readers in a word the first pair is no longer known, and that is said; but not where it is ordered.
TEST(Hidden, WhatAWriteOfAnotherSiteComesAfterRacesAsWell) {
  constexpr std::uint32_t blocks = 5, threads = 1024;
  for (const std::uint32_t readers : {23u, 24u, 200u, blocks * threads})
    for (const bool waits : {false, true}) {
      LittleTrace trace;
      const std::uint32_t all_read = trace.site(1, {}), after = trace.site(2, {AccessKind::write}),
                          apart = trace.site(3, {AccessKind::write});
      trace.stream(2);
      trace.stream(3);
      auto first = trace.launch(2, {blocks, 1, 1}, {threads, 1, 1});
      for (std::uint32_t n = 0; n < readers; ++n) trace.access(first, n / threads, n % threads, all_read, memory);
      trace.end_launch(first);
      if (waits) trace.add(trace::HostWait{trace::HostWait::Kind::device, 0, 0, false, 0});
      auto second = trace.launch(2);
      trace.access(second, 0, 3, after, memory);
      trace.end_launch(second);
      auto third = trace.launch(3);
      trace.access(third, 0, 0, apart, memory);
      trace.end_launch(third);
      const bool forgotten = readers == blocks * threads && !waits;
      EXPECT_EQ(trace.races(), waits || forgotten ? Races{"2-3"} : (Races{"1-3", "2-3"})) << readers << waits;
      const Analysis analysis = trace.analyze();
      EXPECT_EQ(analysis.summary.complete, !forgotten) << readers << waits;
      EXPECT_EQ(analysis.warnings.size(), forgotten);
      if (forgotten) {
        EXPECT_NE(analysis.warnings.at(0).find(": 1 pair of places may race too"), std::string::npos);
      }
    }
}

TEST_F(Findings, FreedAndAllocatedAnew) {
  trace.stream(2);
  trace.stream(3);
  auto first = trace.launch(2);
  trace.access(first, 0, 0, write, memory);
  trace.end_launch(first);
  trace.add(trace::Free{1, 0, 1}); // cudaFree waits
  trace.allocate(2, memory, 4096);
  auto second = trace.launch(3);
  trace.access(second, 0, 0, write, memory);
  EXPECT_EQ(trace.races(), Races{});
}

TEST_F(Findings, OpaqueKernelsMayHaveTouchedWhatTheyReach) {
  trace.stream(2);
  trace.stream(3);
  trace::Launch launch;
  launch.kernel = "_Z6opaquePf";
  launch.footprint = {1};
  run_opaque(launch);
  auto l = trace.launch(3);
  trace.access(l, 0, 0, read, memory + 128);
  Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_EQ(analysis.races[0].certainty, Certainty::possible);
  EXPECT_EQ(analysis.races[0].first.kernel, "opaque(float*)");
  EXPECT_EQ(analysis.summary.opaque, 1u);
}

// Blocks of an allocation, as the program's own allocator hands them out; numbers that are neither are passed over.
TEST_F(Findings, OpaqueKernelsReachRanges) {
  trace.stream(2);
  trace.stream(3);
  trace::Launch launch;
  launch.kernel = "_Z6opaquePf";
  launch.footprint = {99, std::uint64_t(1) << 40};
  trace::add_range(launch.footprint, memory + 512, 512);
  launch.footprint.push_back(trace::footprint_range | memory);
  run_opaque(launch);
  auto l = trace.launch(3);
  trace.access(l, 0, 0, read, memory + 508);
  trace.access(l, 0, 1, read, memory + 1024);
  EXPECT_EQ(trace.races(), Races{});
  trace.access(l, 0, 2, read, memory + 1020);
  Analysis analysis = trace.analyze();
  ASSERT_EQ(analysis.races.size(), 1u);
  EXPECT_EQ(analysis.races[0].certainty, Certainty::possible);
}

// Memory that a caching allocator hands on: inside one allocation that lives on, to another stream, while kernels of
// the first one still use it. Opaque kernels that come after the certain reader and may have written all of the
// allocation do not stand for that reader, whether they cover pages (first) or only words (second).
TEST_F(Findings, OpaqueKernelsHideNothingThatIsCertain) {
  constexpr std::uint64_t small = memory + (1 << 16);
  trace.allocate(2, small, 2048);
  trace.stream(2);
  trace.stream(3);
  auto reader = trace.launch(2);
  for (std::uint64_t at : {memory + 4096, small}) {
    for (unsigned i = 0; i < 64; ++i) trace.access(reader, 0, i, read, at + 4 * i);
  }
  trace.end_launch(reader);
  auto operation = [&](auto what, std::uint32_t stream, std::uint32_t launch = 0) {
    trace::Operation operation;
    operation.launch = launch;
    operation.what = what;
    const std::uint32_t id = trace.submit(operation, stream);
    trace.begin(id);
    trace.end(id);
  };
  for (std::uint32_t i = 0; i < 40; ++i) { // more than a word keeps apart
    trace::Launch launch;
    launch.kernel = "opaque" + std::to_string(i);
    launch.footprint = {1, 2};
    operation(launch, 2, 77 + i);
  }
  for (std::uint64_t at : {memory + 4096, small}) {
    trace::Copy copy;
    copy.direction = trace::Copy::Direction::h2d;
    copy.pageable_source = true;
    copy.destination = {at, 0, 256, 1, 1, 0};
    copy.api = at == small ? "small" : "large";
    operation(copy, 3);
  }
  Analysis analysis = trace.analyze();
  std::map<std::string, std::uint64_t> certain, possible;
  for (const Race& race : analysis.races) {
    if (race.certainty == Certainty::certain) {
      EXPECT_EQ(race.first.kernel, "kernel");
      certain[race.second.kernel] += race.occurrences;
    } else {
      ++possible[race.second.kernel];
    }
  }
  EXPECT_EQ(certain, (std::map<std::string, std::uint64_t>{{"large", 64}, {"small", 64}}));
  EXPECT_GE(possible["large"], 1u);
  EXPECT_GE(possible["small"], 1u);
}

TEST_F(Findings, WaitLoopsAreNoFindings) {
  auto set = trace.site(5, {.access = AccessKind::write, .ordering = Ordering::volatile_, .scope = Scope::sys});
  auto poll = trace.site(6, {.ordering = Ordering::volatile_, .scope = Scope::sys, .in_loop = true});
  auto l = trace.launch();
  for (int i = 0; i < 5; ++i) trace.access(l, 1, 0, poll, memory);
  trace.access(l, 0, 0, set, memory, 1, 0, 1);
  trace.access(l, 1, 0, poll, memory, 0, 1);
  EXPECT_EQ(trace.races(), Races{});
}

// A look-back goes from one location to the next, and polls each. A loop over data does not, however many of them a
// thread reads. What the code says of it counts, where it is to be had.
TEST_F(Findings, LookBacksPoll) {
  auto races = [](const std::string& how, unsigned count, bool polls) {
    LittleTrace trace;
    const std::string look = "ld." + how + ".global.u32 %r1, [%rd2];\n";
    trace.kernel("st." + how + ".global.u32 [%rd1], %r1;\nL: " + look +
                 (polls ? "setp.eq.u32 %p1, %r1, 0; @%p1 bra L;\n" : "add.u32 %r2, %r2, %r1;\n") +
                 "add.u64 %rd2, %rd2, 4; setp.ne.u64 %p2, %rd2, %rd3; @%p2 bra L;\nst.global.u32 [%rd4], %r2;");
    auto l = trace.launch();
    for (unsigned i = 0; i < count; ++i) trace.access(l, 0, i, 0, memory + 4 * i, 1, 0, 1);
    for (unsigned i = 0; i < count; ++i) trace.access(l, 1, 0, 1, memory + 4 * i, 0, 1);
    return trace.races().size();
  };
  for (const char* how : {"volatile", "relaxed.gpu"})
    for (const unsigned count : {1u, 4u}) {
      EXPECT_EQ(races(how, count, true), 0u) << how << count;
      EXPECT_EQ(races(how, count, false), 1u) << how << count;
    }
}

// Asynchronous ones to pageable memory "might be synchronous" (Runtime API, "API synchronization behavior").
TEST_F(Findings, DownloadsHoldTheHostWhereTheySaySo) {
  trace.stream(2);
  trace.stream(3);
  trace::Copy copy;
  copy.direction = trace::Copy::Direction::d2h;
  copy.source = {memory, 0, 64, 1, 1, 0};
  auto run = [&](const char* api, bool pageable) {
    copy.api = api;
    copy.pageable_destination = pageable;
    trace::Operation operation;
    operation.what = copy;
    std::uint32_t id = trace.submit(operation, 2);
    trace.begin(id);
    trace.end(id);
    auto l = trace.launch(3);
    trace.access(l, 0, 0, write, memory);
    trace.end_launch(l);
    trace.add(trace::HostWait{});
  };
  run("cudaMemcpy", true);
  run("cudaMemcpy", false);
  EXPECT_EQ(trace.races(), Races{});
  run("cudaMemcpyAsync", true);
  EXPECT_EQ(trace.races().size(), 1u);
  run("cudaMemcpyAsync", false);
  EXPECT_EQ(trace.races().size(), 1u); // the same lines
}

} // namespace
} // namespace deadheat::test
