// Launches in which nothing can change any more are hung at once; those in which something can, however late, are not
// (replay/device/standstill.h).
#include "device_ptx.h"

namespace deadheat::device_test {

using device::Progress;

namespace {

constexpr std::uint64_t few_looks = 2000, budget = 1'000'000; // visible operations

// %rd30 is 128 bytes of zeros, %rd31 where results go. Labels of `body` are unique by themselves.
struct Program {
  const char* what;
  std::string body;
  std::uint32_t blocks, threads;
};

const std::string initialise = only_thread_0("mbarrier.init.shared::cta.b64 [%r20], 1;\n", 90) + "bar.sync 0;\n";
const std::string flag = "ld.volatile.global.u32 %r0, [%rd30];\nsetp.eq.u32 %p1, %r0, 0;\n";
const std::string done = "mov.u32 %r1, 1;\nst.global.u32 [%rd31], %r1;\n";

std::string repeat(const std::string& body) { return "$again:\n" + body + "@%p1 bra $again;\n"; }

const Program hung[] = {
    {"a flag", repeat(flag), 3, 40},
    {"a lock that is never free",
     "atom.global.exch.b32 %r0, [%rd30+4], 1;\n" +
         repeat("atom.acquire.gpu.global.cas.b32 %r0, [%rd30+4], 0, 1;\nsetp.ne.u32 %p1, %r0, 0;\n"),
     2, 33},
    {"an mbarrier, suspended", initialise + wait_parity("%r20", "0", 1), 1, 96},
    {"an mbarrier, polled", initialise + wait_parity("%r20", "0", 1, "test_wait"), 1, 96},
    {"a flag, asleep meanwhile and looking at the clock",
     "mov.u64 %rd0, %globaltimer;\n" +
         repeat("mov.u64 %rd1, %globaltimer;\nsub.u64 %rd2, %rd1, %rd0;\nshr.u64 %rd2, %rd2, 2;\n"
                "cvt.u32.u64 %r2, %rd2;\nnanosleep.u32 %r2;\n" +
                flag),
     2, 33},
    {"others of its block at a barrier", only_thread_0(repeat(flag), 1) + "bar.sync 0;\n", 2, 64},
};

const std::string bounded =
    "mov.u32 %r2, 0;\n" + repeat(flag + "add.u32 %r2, %r2, 1;\nsetp.lt.and.u32 %p1, %r2, 700, %p1;\n") + done;
// `count` adds one to %r2, kept where nobody but the thread looks.
std::string counted(const std::string& space, const std::string& at) {
  const std::string cell = space + ".u32 ";
  return "mov.u32 %r2, 0;\nst." + cell + "[" + at + "], %r2;\n" +
         repeat("ld." + cell + "%r2, [" + at + "];\nadd.u32 %r2, %r2, 1;\nst." + cell + "[" + at + "], %r2;\n" +
                "setp.lt.u32 %p0, %r2, 700;\n" + flag + "and.pred %p1, %p0, %p1;\n") +
         done;
}

const Program alive[] = {
    {"looks that are counted", bounded, 2, 33},
    {"looks that are counted in global memory", counted("global", "%rd31+64"), 1, 1},
    {"looks that are counted in shared memory", counted("shared", "%r29"), 1, 1},
    {"looks that are counted in local memory", ".local .align 4 .b32 l[1];\n" + counted("local", "l"), 2, 33},
    {"looks that are counted by a reduction",
     repeat("red.relaxed.gpu.global.add.u32 [%rd31+64], 1;\nld.relaxed.gpu.global.u32 %r2, [%rd31+64];\n"
            "setp.lt.u32 %p0, %r2, 700;\n" +
            flag + "and.pred %p1, %p0, %p1;\n") +
         done,
     1, 1},
    {"a wait of two seconds",
     "mov.u64 %rd0, %globaltimer;\n" +
         repeat("mov.u64 %rd1, %globaltimer;\nsub.u64 %rd2, %rd1, %rd0;\nsetp.lt.u64 %p0, %rd2, 2000000000;\n" + flag +
                "and.pred %p1, %p0, %p1;\n") +
         done,
     2, 33},
    {"a wait of half of what 32 bits count",
     "mov.u32 %r3, %clock;\n" +
         repeat("mov.u32 %r4, %clock;\nsub.u32 %r4, %r4, %r3;\nsetp.lt.u32 %p0, %r4, 0x80000000;\n" + flag +
                "and.pred %p1, %p0, %p1;\n") +
         done,
     2, 33},
    {"a phase that somebody completes who gives up waiting for something else",
     initialise + "setp.eq.u32 %p2, %r30, 40;\n@%p2 bra $gives_up;\n" + wait_parity("%r20", "0", 1) +
         "bra $out;\n$gives_up:\n" + bounded + "mbarrier.arrive.shared::cta.b64 _, [%r20];\n$out:",
     1, 96},
    {"a copy that is pending",
     initialise +
         only_thread_0("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 64;\ncp.async.bulk.shared::cluster.global"
                       ".mbarrier::complete_tx::bytes [%r29], [%rd30], 64, [%r20];\n",
                       1) +
         wait_parity("%r20", "0", 2) + done,
     1, 96},
    {"a barrier at which others wait for one who gives up", initialise + only_thread_0(bounded, 1) + "bar.sync 0;\n", 2,
     64},
};

std::vector<Schedule> schedules() {
  std::vector<Schedule> all;
  for (const auto kind : {Schedule::Kind::holds, Schedule::Kind::random, Schedule::Kind::switches,
                          Schedule::Kind::priorities, Schedule::Kind::uniform}) {
    all.emplace_back();
    all.back().kind = kind;
    all.back().quantum = 16;
  }
  all[0].holds.push_back({{3, 1, 0, 999, 1, 0, 0}, {3, 1, 0, 999, 1, 0, 0}}); // of nobody: the natural order
  all.push_back(all[1]);
  all.back().weak = true;
  all.back().old_rate = 64;
  return all;
}

struct Outcome {
  Progress progress = Progress::done;
  std::uint64_t visible = 0;
  std::uint32_t result = 0;
  std::string stuck;
  std::vector<std::uint8_t> holds;
};

Outcome run(const Program& program, const Schedule& schedule) {
  device::DeviceOptions options;
  options.live = false;
  options.record_accesses = false;
  options.budget = budget;
  options.schedule = schedule;
  Rig rig(module_of(kernel("k", program.body)), nullptr, options);
  rig.load();
  const std::uint64_t flags = rig.alloc(128), out = rig.alloc(128);
  rig.set(flags, 0, 128);
  rig.set(out, 0, 128);
  rig.launch("k", program.blocks, program.threads, {flags, out});
  Outcome outcome;
  outcome.progress = rig.sync();
  outcome.visible = rig.device->choices().visible;
  outcome.result = rig.words(out, 1)[0];
  outcome.stuck = rig.device->stuck_description();
  outcome.holds = rig.device->choices().hold_state;
  return outcome;
}

} // namespace

TEST(Standstill, IsAHangAtOnce) {
  for (const Program& program : hung)
    for (const Schedule& schedule : schedules()) {
      const Outcome outcome = run(program, schedule);
      EXPECT_EQ(outcome.progress, Progress::hang) << program.what << ", kind " << int(schedule.kind);
      EXPECT_LT(outcome.visible, few_looks + 200 * program.blocks * program.threads)
          << program.what << ", kind " << int(schedule.kind);
      EXPECT_NE(outcome.stuck.find("waiting for a value"), std::string::npos) << outcome.stuck;
    }
}

TEST(Standstill, IsNoneWhereSomethingWillChange) {
  for (const Program& program : alive)
    for (const Schedule& schedule : schedules()) {
      const Outcome outcome = run(program, schedule);
      EXPECT_EQ(outcome.progress, Progress::done)
          << program.what << ", kind " << int(schedule.kind) << ": " << outcome.stuck;
      EXPECT_EQ(outcome.result, 1u) << program.what << ", kind " << int(schedule.kind);
    }
}

// A hold that counts looks is kept: the 50th look comes, though 49 find nothing changed.
TEST(Standstill, IsNoneWhileAHoldCountsLooks) {
  const std::string body = "setp.eq.u32 %p0, %r31, 0;\n@%p0 bra $first;\n" + repeat(flag) + done +
                           "bra $end;\n$first:\nst.relaxed.gpu.global.u32 [%rd30], 1;\n$end:";
  const Program program{"", body, 2, 1};
  // Sites: the look, the store of `done`, the store of the flag. Operations: two sets and the launch.
  Schedule schedule;
  schedule.kind = Schedule::Kind::holds;
  schedule.holds.push_back({{3, 1, 0, 0, 1, 2, 0}, {3, 1, 1, 0, 1, 0, 49}});
  const Outcome outcome = run(program, schedule);
  EXPECT_EQ(outcome.progress, Progress::done) << outcome.stuck;
  ASSERT_EQ(outcome.holds.size(), 1u);
  EXPECT_EQ(int(outcome.holds[0]), 3);
  schedule.holds[0].until.thread = 7; // there is none: it is let go
  const Outcome other = run(program, schedule);
  EXPECT_EQ(other.progress, Progress::done) << other.stuck;
  EXPECT_EQ(int(other.holds.at(0)), 4);
}

} // namespace deadheat::device_test
