// Threads that wait for a value in a loop, where nobody else goes on before they stop by themselves: what they read
// must be known again, in whatever form it was read, and its change be seen.
#include <algorithm>

#include "device_ptx.h"

namespace deadheat::device_test {

using device::Progress;

namespace {

constexpr std::uint64_t budget = 20'000; // visible operations

// Later blocks go first, however long they take.
device::DeviceOptions later_blocks_first() {
  device::DeviceOptions options;
  options.check = true;
  options.record_accesses = false;
  options.budget = budget;
  options.schedule.kind = Schedule::Kind::priorities;
  options.schedule.order = Schedule::Order::reversed;
  return options;
}

// Block 0 performs `store`; block 1 performs `poll`, which sets %p1 when it is to wait on, until it need not.
std::string waiting(const std::string& store, const std::string& poll) {
  return kernel("k", "setp.eq.u32 %p0, %r31, 0;\n@%p0 bra $first;\n$again:\n" + poll +
                         "\n@%p1 bra $again;\nbra $end;\n$first:\n" + store + "\n$end:");
}

// Recorded, in the default order, prompt or as witnesses of earlier versions have it.
device::DeviceOptions default_order(bool prompt) {
  device::DeviceOptions options = mode_options(2);
  if (!prompt) options.schedule.prompt = Schedule::Prompt::no;
  return options;
}

} // namespace

struct Form {
  const char* poll; // a vector at %rd30 whose elements are 0, 1, 2, …
  std::uint32_t element_bytes, elements;
  const char *last, *type; // register with its last element
};
const Form forms[] = {
    {"ld.volatile.global.v2.u32 {%r0, %r1}, [%rd30];", 4, 2, "%r1", "u32"},
    {"ld.relaxed.gpu.global.v2.u32 {%r0, %r1}, [%rd30];", 4, 2, "%r1", "u32"},
    {"ld.acquire.gpu.global.v4.u32 {%r0, %r1, %r2, %r3}, [%rd30];", 4, 4, "%r3", "u32"},
    {"ld.volatile.global.v2.u64 {%rd0, %rd1}, [%rd30];", 8, 2, "%rd1", "u64"},
    {"ld.volatile.global.v4.u16 {%h0, %h1, %h2, %h3}, [%rd30];", 2, 4, "%h3", "u16"},
    {"mov.u32 %r4, 0;\natom.relaxed.gpu.global.v2.f32.add {%r0, %r1}, [%rd30], {%r4, %r4};", 4, 2, "%r1", "u32"},
};

TEST(Spinning, OnVectorsOfWhichOneElementChanges) {
  for (const Form& form : forms)
    for (std::uint32_t changed : {0u, form.elements - 1}) {
      const std::string type = form.type, prefix = type == "u64" ? "%rd" : type == "u16" ? "%h" : "%r";
      const std::string element = changed ? form.last : prefix + "0";
      const std::string at = "[%rd30+" + std::to_string(changed * form.element_bytes) + "]";
      Rig rig(module_of(waiting(
                  "mov." + type + " " + prefix + "7, 77;\nst.volatile.global." + type + " " + at + ", " + prefix + "7;",
                  form.poll + ("\nsetp.eq." + type + " %p1, " + element + ", ") + std::to_string(changed) + ";")),
              nullptr, later_blocks_first());
      rig.load();
      std::vector<std::uint8_t> first(32);
      for (std::uint32_t n = 0; n < form.elements; ++n) first[n * form.element_bytes] = std::uint8_t(n);
      const std::uint64_t vector = rig.alloc(32), out = rig.alloc(4);
      rig.copy(trace::Copy::Direction::h2d, vector, std::uint64_t(first.data()), first.size());
      rig.set(out, 0, 4);
      rig.launch("k", 2, 1, {vector, out});
      EXPECT_EQ(rig.sync(), Progress::done) << form.poll << " element " << changed << rig.device->stuck_description();
    }
}

// One who waits for two places at once goes on looking; the other gets his turn all the same.
TEST(Spinning, OnSeveralPlaces) {
  const std::string both = "st.relaxed.gpu.global.u32 [%rd30], 1;\nst.relaxed.gpu.global.u32 [%rd30+64], 1;";
  for (const char* how : {"ld.volatile.global.u32 %r0, [%rd30];\nld.volatile.global.u32 %r1, [%rd30+64];\n",
                          "atom.relaxed.gpu.global.or.b32 %r0, [%rd30], 0;\natom.relaxed.gpu.global.or.b32 %r1, "
                          "[%rd30+64], 0;\n"}) {
    using Kind = Schedule::Kind;
    for (const Kind kind : {Kind::priorities, Kind::uniform, Kind::switches}) {
      device::DeviceOptions options = later_blocks_first();
      options.schedule.kind = kind;
      if (kind != Kind::priorities) options.schedule.order = Schedule::Order::random;
      std::string kernel = waiting(both, std::string(how) + "and.b32 %r2, %r0, %r1;\nsetp.eq.u32 %p1, %r2, 0;");
      if (kind != Kind::priorities) // the first block goes first, and waits
        kernel.replace(kernel.find("setp.eq.u32 %p0"), 11, "setp.ne.u32");
      Rig rig(module_of(kernel), nullptr, options);
      rig.load();
      const std::uint64_t flags = rig.alloc(128), out = rig.alloc(4);
      rig.set(flags, 0, 128);
      rig.launch("k", 2, 1, {flags, out});
      EXPECT_EQ(rig.sync(), Progress::done) << how << "kind " << int(kind) << rig.device->stuck_description();
    }
  }
}
// Though everybody gets their turn, nobody ends it.
TEST(Spinning, OnSeveralPlacesThatNobodyWritesEndsWithTheBudget) {
  Rig rig(module_of(waiting("",
                            "ld.volatile.global.u32 %r0, [%rd30];\nld.volatile.global.u32 %r1, [%rd30+64];\n"
                            "and.b32 %r2, %r0, %r1;\nsetp.eq.u32 %p1, %r2, 0;")),
          nullptr, later_blocks_first());
  rig.load();
  const std::uint64_t flags = rig.alloc(128), out = rig.alloc(4);
  rig.set(flags, 0, 128);
  rig.launch("k", 2, 1, {flags, out});
  EXPECT_EQ(rig.sync(), Progress::hang);
  EXPECT_NE(rig.device->stuck_description().find("budget"), std::string::npos);
}

TEST(Spinning, OnAVectorThatNobodyWritesIsToldOf) {
  Rig rig(module_of(waiting("", "ld.volatile.global.v2.u32 {%r0, %r1}, [%rd30];\nsetp.ne.u32 %p1, %r1, 2;")), nullptr,
          mode_options(1));
  rig.load();
  const std::vector<std::uint32_t> pair{0, 1};
  const std::uint64_t vector = rig.alloc(8), out = rig.alloc(4);
  rig.copy(trace::Copy::Direction::h2d, vector, std::uint64_t(pair.data()), 8);
  rig.launch("k", 2, 1, {vector, out});
  EXPECT_EQ(rig.sync(), Progress::hang);
  EXPECT_NE(rig.device->stuck_description().find("still reads {0x0, 0x1} at 0x"), std::string::npos)
      << rig.device->stuck_description();
}

// Two blocks wait for a flag that the third writes twice. Each looks behind the first write, before the second, unless
// the schedule is one of those that witnesses had before.
TEST(Spinning, LooksAsSoonAsThereIsSomethingToSee) {
  const std::string twice =
      "mov.u32 %r0, 1;\nst.release.gpu.global.u32 [%rd30], %r0;\n"
      "mov.u32 %r0, 2;\nst.release.gpu.global.u32 [%rd30], %r0;";
  const std::string body =
      "setp.eq.u32 %p0, %r31, 2;\n@%p0 bra $last;\n"
      "$again:\nld.acquire.gpu.global.u32 %r1, [%rd30];\nsetp.eq.u32 %p1, %r1, 0;\n"
      "@%p1 bra $again;\nmul.wide.u32 %rd0, %r31, 4;\nadd.u64 %rd0, %rd31, %rd0;\n"
      "st.global.u32 [%rd0], %r1;\nbra $end;\n$last:\n" +
      twice + "\n$end:";
  for (const bool prompt : {true, false}) {
    Rig rig(module_of(kernel("k", body)), nullptr, default_order(prompt));
    rig.load();
    const std::uint64_t flag = rig.alloc(4), seen = rig.alloc(8);
    rig.set(flag, 0, 4);
    rig.launch("k", 3, 1, {flag, seen});
    ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
    const std::uint32_t expected = prompt ? 1 : 2;
    EXPECT_EQ(rig.read(seen, 2), (std::vector<std::uint32_t>{expected, expected})) << prompt;
  }
}

// Many turns are no hang where a program waits.
TEST(Spinning, InALongLoopThatEnds) {
  device::DeviceOptions options = mode_options(0);
  options.live = true;
  Rig rig(module_of(kernel("k",
                           "mov.u32 %r0, 80000000;\n$again:\nst.volatile.global.u32 [%rd30], %r0;\n"
                           "sub.u32 %r0, %r0, 1;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra $again;\n"
                           "mov.u32 %r0, 7;\nst.global.u32 [%rd30], %r0;")),
          nullptr, options);
  rig.load();
  const std::uint64_t out = rig.alloc(4);
  rig.set(out, 0, 4);
  rig.launch("k", 1, 1, {out, 0});
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  EXPECT_EQ(rig.read(out, 1)[0], 7u);
}

// A flag that is the last thing its warp does before a barrier, where all others are, who waits for the flag but one:
// who saw it comes to the barrier while the flag's warp has its turn.
TEST(Spinning, OnAFlagWhoseWarpWaitsAtTheBarrier) {
  for (const char* barrier :
       {"bar.sync 0;", "barrier.cta.sync 1, 64;", "barrier.cta.red.popc.aligned.u32 %r5, 0, %p1;"})
    for (const char* store : {"st.release.cta.shared.u32 [%r29], %r0;", "red.release.cta.shared.add.u32 [%r29], 1;"})
      for (int mode = 0; mode < modes; ++mode) {
        const std::string all = std::string(barrier) + "\n";
        PtxRig rig(kernel("k",
                          "mov.u32 %r0, 0;\nsetp.ne.u32 %p1, %r30, 0;\n@%p1 bra $zeroed;\nst.shared.u32 [%r29], %r0;\n"
                          "$zeroed:\nbar.sync 0;\nsetp.ge.u32 %p0, %r30, 32;\n@%p0 bra $wait;\n@%p1 bra $join;\n"
                          "mov.u32 %r0, 1;\n" +
                              std::string(store) +
                              "\nbra $join;\n$wait:\nld.acquire.cta.shared.u32 %r1, [%r29];\n"
                              "setp.eq.u32 %p2, %r1, 0;\n@%p2 bra $wait;\n$join:\n" +
                              all +
                              "mul.wide.u32 %rd0, %r30, 4;\nadd.u64 %rd0, %rd30, %rd0;\n"
                              "st.global.u32 [%rd0], %r30;"),
                   mode);
        const std::uint64_t out = rig.alloc(256);
        rig.launch("k", 1, 64, {out, 0});
        ASSERT_EQ(rig.sync(), Progress::done) << barrier << store << mode << rig.device->stuck_description();
        EXPECT_TRUE(rig.errors().empty()) << barrier << store << mode;
        EXPECT_EQ(rig.read(out, 64)[63], 63u);
      }
}

// Who waits on for one flag while another one changes looks as soon all the same: block 0 waits for what block 1 writes
// twice, behind a flag of block 2's.
TEST(Spinning, LooksAsSoonWhenOthersHaveLookedBefore) {
  const auto wait = [](const std::string& label, const std::string& at) {
    return label + ":\nld.acquire.gpu.global.u32 %r1, " + at + ";\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra " + label + ";\n";
  };
  const auto set = [](const std::string& at, int value) {
    return "mov.u32 %r0, " + std::to_string(value) + ";\nst.release.gpu.global.u32 " + at + ", %r0;\n";
  };
  Rig rig(
      module_of(kernel("k", "setp.eq.u32 %p0, %r31, 1;\n@%p0 bra $one;\nsetp.eq.u32 %p0, %r31, 2;\n@%p0 bra $two;\n" +
                                wait("$a", "[%rd30]") + "st.global.u32 [%rd31], %r1;\nbra $end;\n$one:\n" +
                                wait("$b", "[%rd30+64]") + set("[%rd30]", 1) + set("[%rd30]", 2) +
                                "bra $end;\n$two:\n" + set("[%rd30+64]", 1) + "$end:")),
      nullptr, mode_options(2));
  rig.load();
  const std::uint64_t flags = rig.alloc(128), seen = rig.alloc(4);
  rig.set(flags, 0, 128);
  rig.launch("k", 3, 1, {flags, seen});
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  EXPECT_EQ(rig.read(seen, 1)[0], 1u);
}

// Block 0 waits for what block 1 changes until block 2 tells it to end: that others look again and again keeps nobody
// from their turn.
TEST(Spinning, WhoLooksOftenKeepsNobodyFromTheirTurn) {
  const std::string body =
      "setp.eq.u32 %p0, %r31, 1;\n@%p0 bra $one;\nsetp.eq.u32 %p0, %r31, 2;\n@%p0 bra $two;\n"
      "$a:\nld.acquire.gpu.global.u32 %r1, [%rd30];\nsetp.ne.u32 %p1, %r1, 7;\n@%p1 bra $a;\nbra $end;\n"
      "$one:\nmov.u32 %r2, 8;\n$b:\nst.relaxed.gpu.global.u32 [%rd30], %r2;\nadd.u32 %r2, %r2, 1;\n"
      "ld.relaxed.gpu.global.u32 %r1, [%rd30+64];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra $b;\n"
      "mov.u32 %r2, 7;\nst.relaxed.gpu.global.u32 [%rd30], %r2;\nbra $end;\n"
      "$two:\nmov.u32 %r1, 1;\nst.relaxed.gpu.global.u32 [%rd30+64], %r1;\n$end:";
  for (const bool prompt : {true, false}) {
    device::DeviceOptions options = default_order(prompt);
    options.budget = budget;
    Rig rig(module_of(kernel("k", body)), nullptr, options);
    rig.load();
    const std::uint64_t flags = rig.alloc(128), unused = rig.alloc(4);
    rig.set(flags, 0, 128);
    rig.launch("k", 3, 1, {flags, unused});
    EXPECT_EQ(rig.sync(), Progress::done) << prompt << ": " << rig.device->stuck_description();
  }
}

// Blocks take tickets in turn, though nothing makes the first one wait; with more blocks than share, and where a block
// takes more than it gives others their turn for, all tickets are taken.
TEST(Spinning, BlocksTakeTicketsInTurn) {
  const std::string body =
      "$again:\natom.relaxed.gpu.global.add.u32 %r1, [%rd30], 1;\n"
      "setp.ge.u32 %p1, %r1, 400;\n@%p1 bra $end;\nmul.wide.u32 %rd0, %r1, 4;\n"
      "add.u64 %rd0, %rd31, %rd0;\nst.global.u32 [%rd0], %r31;\nbra $again;\n$end:";
  for (const std::uint32_t blocks : {2u, 3u, 200u})
    for (const bool prompt : {true, false}) {
      Rig rig(module_of(kernel("k", body)), nullptr, default_order(prompt));
      rig.load();
      const std::uint64_t next = rig.alloc(4), owners = rig.alloc(1600);
      rig.set(next, 0, 4);
      rig.launch("k", blocks, 1, {next, owners});
      ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
      const std::vector<std::uint32_t> owner = rig.read(owners, 400);
      for (std::uint32_t n = 0; n < 16; ++n)
        EXPECT_EQ(owner[n], prompt ? n % std::min(blocks, 64u) : 0) << blocks << " blocks, ticket " << n;
      EXPECT_EQ(rig.read(next, 1)[0], 400 + blocks);
    }
}

// Each of two takes its own lock and tries the other's; where it is taken, both give theirs back. In step they would do
// so for ever, as would who takes turns of any length after which both stand where they stood.
TEST(Spinning, OnTwoLocksThatAreTakenInEitherOrder) {
  for (unsigned between = 0; between < 4; ++between) {
    std::string others;
    for (unsigned i = 0; i < between; ++i) others += "atom.relaxed.gpu.global.add.u32 %r5, [%rd30+128], 1;\n";
    const std::string kernels =
        kernel("k",
               "add.u32 %r0, %r30, %r31;\nmul.wide.u32 %rd0, %r0, 4;\nadd.u64 %rd0, %rd0, %rd30;\n"
               "xor.b32 %r1, %r0, 1;\nmul.wide.u32 %rd1, %r1, 4;\nadd.u64 %rd1, %rd1, %rd30;\n$again:\n"
               "atom.relaxed.gpu.global.cas.b32 %r2, [%rd0], 0, 1;\nsetp.ne.u32 %p0, %r2, 0;\n@%p0 bra $again;\n" +
                   others +
                   "atom.relaxed.gpu.global.cas.b32 %r2, [%rd1], 0, 1;\nsetp.eq.u32 %p0, %r2, 0;\n@%p0 bra $both;\n"
                   "atom.relaxed.gpu.global.exch.b32 %r2, [%rd0], 0;\nbra $again;\n$both:\n"
                   "atom.relaxed.gpu.global.add.u32 %r5, [%rd30+64], 1;\n"
                   "atom.relaxed.gpu.global.exch.b32 %r2, [%rd1], 0;\n"
                   "atom.relaxed.gpu.global.exch.b32 %r2, [%rd0], 0;");
    for (int mode = 0; mode < 3; ++mode)
      for (const std::uint32_t blocks : {1u, 2u}) {
        device::DeviceOptions options = mode_options(mode);
        options.budget = 1'000'000;
        Rig rig(module_of(kernels), nullptr, options);
        rig.load();
        const std::uint64_t memory = rig.alloc(256);
        rig.set(memory, 0, 256);
        rig.launch("k", blocks, 2 / blocks, {memory, 0});
        ASSERT_EQ(rig.sync(), Progress::done) << between << " " << mode << " " << blocks;
        EXPECT_EQ(rig.words(memory + 64, 1)[0], 2u);
      }
  }
}

} // namespace deadheat::device_test
