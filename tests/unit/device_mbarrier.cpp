// mbarrier objects (PTX ISA 9.7.13.15) as kernels use them.
#include "device_ptx.h"

namespace deadheat::device_test {

using device::Progress;

namespace {

std::string store(int word, const std::string& reg, const std::string& type = "u32") {
  return "st.global." + type + " [%rd30+" + std::to_string(4 * word) + "], " + reg + ";\n";
}

} // namespace

INSTANTIATE_TEST_SUITE_P(Modes, Ptx, ::testing::Range(0, modes));

// One thread and an object for three arrivals: what each operation gives.
TEST_P(Ptx, StatesOfAnMbarrier) {
  std::string body = "mbarrier.init.shared::cta.b64 [%r20], 3;\n";
  body += "mbarrier.arrive.shared::cta.b64 %rd0, [%r20];\n"; // the state before it: 3 are missing
  body += "mbarrier.pending_count.b64 %r0, %rd0;\n" + store(0, "%r0");
  body += "mbarrier.test_wait.shared::cta.b64 %p0, [%r20], %rd0;\nselp.u32 %r0, 1, 0, %p0;\n" + store(1, "%r0");
  body += "mbarrier.arrive.noComplete.shared::cta.b64 %rd1, [%r20], 1;\n";
  body += "mbarrier.pending_count.b64 %r0, %rd1;\n" + store(2, "%r0");
  body += "mbarrier.arrive_drop.shared::cta.b64 %rd1, [%r20];\n"; // completes, and the next phase expects 2
  body += "mbarrier.test_wait.shared::cta.b64 %p0, [%r20], %rd0;\nselp.u32 %r0, 1, 0, %p0;\n" + store(3, "%r0");
  body += "mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r20], 0;\nselp.u32 %r0, 1, 0, %p0;\n" + store(4, "%r0");
  body += "mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r20], 1;\nselp.u32 %r0, 1, 0, %p0;\n" + store(5, "%r0");
  body += "mbarrier.arrive.shared::cta.b64 %rd2, [%r20], 2;\n"; // both at once
  body += "mbarrier.pending_count.b64 %r0, %rd2;\n" + store(6, "%r0");
  body += "mbarrier.test_wait.shared::cta.b64 %p0, [%r20], %rd2;\nselp.u32 %r0, 1, 0, %p0;\n" + store(7, "%r0");
  // Bytes: the phase waits for them after its arrivals.
  body += "mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r20], 48;\n";
  body += "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r20], 16;\n";
  body += "mbarrier.arrive_drop.shared::cta.b64 _, [%r20];\n";
  body += "mbarrier.try_wait.shared::cta.b64 %p0, [%r20], %rd3, 1;\nselp.u32 %r0, 1, 0, %p0;\n" + store(8, "%r0");
  body += "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r20], 60;\n";
  body += "mbarrier.test_wait.shared::cta.b64 %p0, [%r20], %rd3;\nselp.u32 %r0, 1, 0, %p0;\n" + store(9, "%r0");
  body += "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r20], 4;\n";
  body += "mbarrier.test_wait.acquire.cta.shared::cta.b64 %p0, [%r20], %rd3;\nselp.u32 %r0, 1, 0, %p0;\n" +
          store(10, "%r0");
  // Invalidated memory is free for other use, and for another object.
  body += "mbarrier.inval.shared::cta.b64 [%r20];\nst.shared.u64 [%r20], 7;\n";
  body += "mbarrier.init.shared::cta.b64 [%r20], 1;\nmbarrier.arrive.shared.b64 %rd4, [%r20];\n";
  body += "mbarrier.test_wait.shared.b64 %p0, [%r20], %rd4;\nselp.u32 %r0, 1, 0, %p0;\n" + store(11, "%r0");
  PtxRig rig(kernel("k", body), GetParam());
  const std::uint64_t out = rig.alloc(64);
  rig.launch("k", 1, 1, {out, 0});
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  EXPECT_EQ(rig.words(out, 12), (std::vector<std::uint32_t>{3, 0, 2, 1, 1, 0, 2, 1, 0, 0, 1, 1}));
  EXPECT_EQ(rig.errors(), std::vector<std::string>{});
}

// A producer warp and a consumer warp, two stages, full and empty objects, by parity; with test_wait as with try_wait.
TEST_P(Ptx, PipelinesByParity) {
  for (const char* how : {"try_wait", "test_wait"}) {
    std::string body = only_thread_0(
        "mbarrier.init.shared::cta.b64 [%r20], 32;\nmbarrier.init.shared::cta.b64 [%r21], 32;\n"
        "mbarrier.init.shared::cta.b64 [%r22], 32;\nmbarrier.init.shared::cta.b64 [%r23], 32;\n",
        0);
    body += "bar.sync 0;\nand.b32 %r0, %r30, 31;\nmov.u32 %r1, 0;\nsetp.lt.u32 %p0, %r30, 32;\n";
    // %r2: stage, %r3: parity of its round, %r4 full, %r5 empty, %r6 slot, %r7 global offset
    body +=
        "$loop:\nand.b32 %r2, %r1, 1;\nshr.u32 %r3, %r1, 1;\nand.b32 %r3, %r3, 1;\nshl.b32 %r6, %r2, 3;\n"
        "add.u32 %r4, %r20, %r6;\nadd.u32 %r5, %r22, %r6;\nmul.lo.u32 %r6, %r2, 128;\nadd.u32 %r6, %r6, %r29;\n"
        "shl.b32 %r7, %r0, 2;\nadd.u32 %r6, %r6, %r7;\nshl.b32 %r8, %r1, 7;\nadd.u32 %r7, %r7, %r8;\n"
        "cvt.u64.u32 %rd0, %r7;\nadd.u64 %rd1, %rd31, %rd0;\nadd.u64 %rd2, %rd30, %rd0;\n@!%p0 bra $consume;\n";
    body += "xor.b32 %r9, %r3, 1;\n" + wait_parity("%r5", "%r9", 1, how) +
            "ld.global.u32 %r10, [%rd1];\nst.shared.u32 [%r6], %r10;\nmbarrier.arrive.shared::cta.b64 _, [%r4];\n"
            "bra $next;\n";
    body += "$consume:\n" + wait_parity("%r4", "%r3", 2, how) +
            "ld.shared.u32 %r10, [%r6];\nmad.lo.u32 %r10, %r10, 3, 1;\nst.global.u32 [%rd2], %r10;\n"
            "mbarrier.arrive.shared::cta.b64 _, [%r5];\n";
    body += "$next:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 7;\n@%p1 bra $loop;\n";
    PtxRig rig(kernel("k", body), GetParam());
    std::vector<std::uint32_t> values(7 * 32);
    for (std::uint32_t i = 0; i < values.size(); ++i) values[i] = i * 11;
    const std::uint64_t in = rig.words_of(values), out = rig.alloc(values.size() * 4);
    rig.launch("k", 3, 64, {out, in});
    ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
    const auto found = rig.words(out, values.size());
    for (std::uint32_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], i * 33 + 1) << how;
    EXPECT_EQ(rig.errors(), std::vector<std::string>{});
  }
}

// cp.async.mbarrier.arrive: with .noinc the arrival is one of those expected, else one more.
TEST_P(Ptx, ArrivalsOfCopies) {
  for (bool noinc : {true, false}) {
    std::string body = only_thread_0("mbarrier.init.shared::cta.b64 [%r20], 64;\n", 0) + "bar.sync 0;\n";
    body +=
        "shl.b32 %r0, %r30, 2;\ncvt.u64.u32 %rd0, %r0;\nadd.u64 %rd1, %rd31, %rd0;\nadd.u32 %r1, %r29, %r0;\n"
        "cp.async.ca.shared.global [%r1], [%rd1], 4;\n";
    body += noinc ? "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r20];\n"
                  : "cp.async.mbarrier.arrive.shared::cta.b64 [%r20];\nmbarrier.arrive.shared::cta.b64 _, [%r20];\n";
    body += wait_parity("%r20", "0", 1);
    body +=
        "sub.u32 %r2, 252, %r0;\nadd.u32 %r2, %r2, %r29;\nld.shared.u32 %r3, [%r2];\nadd.u64 %rd2, %rd30, %rd0;\n"
        "st.global.u32 [%rd2], %r3;\n";
    PtxRig rig(kernel("k", body), GetParam());
    std::vector<std::uint32_t> values(64);
    for (std::uint32_t i = 0; i < 64; ++i) values[i] = i * i;
    const std::uint64_t in = rig.words_of(values), out = rig.alloc(256);
    rig.launch("k", 1, 64, {out, in});
    ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
    const auto found = rig.words(out, 64);
    for (std::uint32_t i = 0; i < 64; ++i) ASSERT_EQ(found[i], (63 - i) * (63 - i));
    EXPECT_EQ(rig.errors(), std::vector<std::string>{});
  }
}

// An object of another block of the cluster: arrivals with and without bytes; waits are the owner's.
TEST_P(Ptx, ArrivalsFromAnotherBlock) {
  std::string body = only_thread_0("mbarrier.init.shared::cta.b64 [%r20], 33;\n", 0);
  body +=
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\nsetp.eq.u32 %p0, %r31, 0;\n"
      "@%p0 bra $owner;\nmapa.shared::cluster.u32 %r0, %r20, 0;\nmapa.shared::cluster.u32 %r1, %r29, 0;\n"
      "shl.b32 %r2, %r30, 2;\nadd.u32 %r1, %r1, %r2;\nadd.u32 %r3, %r30, 500;\n"
      "st.shared::cluster.u32 [%r1], %r3;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0];\n";
  body += only_thread_0(
      "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r0], 32;\n"
      "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r0], 32;\n",
      1);
  body +=
      "bra $end;\n$owner:\n"
      "$again:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r20], 0;\n@!%p1 bra $again;\n"
      "shl.b32 %r2, %r30, 2;\nadd.u32 %r1, %r29, %r2;\nld.shared.u32 %r3, [%r1];\ncvt.u64.u32 %rd0, %r2;\n"
      "add.u64 %rd0, %rd0, %rd30;\nst.global.u32 [%rd0], %r3;\n$end:\n"
      "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
  PtxRig rig(kernel("k", body), GetParam());
  const std::uint64_t out = rig.alloc(128);
  rig.launch(shape("k", {2, 1, 1}, 32, {2, 1, 1}), {out, 0});
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  const auto found = rig.words(out, 32);
  for (std::uint32_t i = 0; i < 32; ++i) ASSERT_EQ(found[i], 500 + i);
  EXPECT_EQ(rig.errors(), std::vector<std::string>{});
}

struct Misuse {
  const char *body, *said;
  bool hangs = false, faults = false;
};

// One thread a kernel: what is wrong is said once, in words, and nothing crashes.
TEST_P(Ptx, WrongUseOfMbarriers) {
  static const Misuse table[] = {
      {"mbarrier.init.shared::cta.b64 [%r20], 0;", "mbarrier.init with a count of 0"},
      {"mov.u32 %r0, 1048576;\nmbarrier.init.shared::cta.b64 [%r20], %r0;", "mbarrier.init with a count of 1048576"},
      {"mbarrier.arrive.shared::cta.b64 _, [%r20];", "not initialised"},
      {"mbarrier.inval.shared::cta.b64 [%r20];", "mbarrier.inval on an mbarrier object that is not initialised"},
      {"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r20], 16;",
       "mbarrier.expect_tx on an mbarrier object that is"},
      {"mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r20], 1;", "not initialised"},
      {"mbarrier.init.shared::cta.b64 [%r20], 1;\nmbarrier.init.shared::cta.b64 [%r20], 1;", "of an object in use"},
      {"mbarrier.init.shared::cta.b64 [%r20], 1;\nst.shared.u32 [%r20], 5;\nmbarrier.arrive.shared::cta.b64 _, [%r20];",
       "overwritten"},
      {"mbarrier.init.shared::cta.b64 [%r20], 2;\nmbarrier.arrive.shared::cta.b64 _, [%r20], 3;",
       "an arrival of 3 at an mbarrier phase that waits for 2 more"},
      {"mbarrier.init.shared::cta.b64 [%r20], 2;\nmov.u32 %r0, 0;\nmbarrier.arrive.shared::cta.b64 _, [%r20], %r0;",
       "an arrival of 0"},
      {"mbarrier.init.shared::cta.b64 [%r20], 1;\nmbarrier.arrive_drop.shared::cta.b64 _, [%r20];\n"
       "mbarrier.arrive.shared::cta.b64 _, [%r20];",
       "an arrival of 1 at an mbarrier phase that waits for 0 more"},
      {"mbarrier.init.shared::cta.b64 [%r20], 1;\nmbarrier.arrive.noComplete.shared::cta.b64 %rd0, [%r20], 1;",
       ".noComplete that completes the phase"},
      {"mbarrier.init.shared::cta.b64 [%r20], 1;\nmov.u32 %r0, 1048576;\n"
       "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r20], %r0;",
       "more than 1048575 bytes"},
      {"add.u32 %r0, %r20, 4;\nmbarrier.init.shared::cta.b64 [%r0], 1;", "misaligned", false, true},
      {"add.u32 %r0, %r20, 65536;\nmbarrier.init.shared::cta.b64 [%r0], 1;", "out of bounds", false, true},
      {"mbarrier.init.b64 [%rd30], 1;", "wrong space", false, true},
      {"mbarrier.init.shared::cta.b64 [%r20], 2;\nmbarrier.arrive.shared::cta.b64 _, [%r20];\n$w:\n"
       "mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r20], 0;\n@!%p0 bra $w;",
       "phase 0 waits for 1 arrival of 2", true},
      {"mbarrier.init.shared::cta.b64 [%r20], 1;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 64;\n$w:\n"
       "mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r20], 0;\n@!%p0 bra $w;",
       "waits for 0 arrivals of 1 and 64 bytes", true},
      // Two phases are over before the thread looks; or one, and it waits with the next one's parity.
      {"mbarrier.init.shared::cta.b64 [%r20], 1;\nmbarrier.arrive.shared::cta.b64 _, [%r20];\n"
       "mbarrier.arrive.shared::cta.b64 _, [%r20];\n$w:\n"
       "mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r20], 0;\n@!%p0 bra $w;",
       "phase 2 waits for 1 arrival of 1 (phase 0 is over, and the thread has not seen that: it has the same parity",
       true},
      {"mbarrier.init.shared::cta.b64 [%r20], 1;\nmbarrier.arrive.shared::cta.b64 _, [%r20];\n"
       "mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r20], 0;\nmbarrier.arrive.shared::cta.b64 _, [%r20];\n$w:\n"
       "mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r20], 0;\n@!%p0 bra $w;",
       "(phase 1 is over, and the thread has not seen that: it waits with the parity of the one behind it)", true},
      {"mbarrier.init.shared::cta.b64 [%r20], 1;\nmbarrier.arrive.shared::cta.b64 _, [%r20];\n"
       "mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r20], 0;\n$w:\n"
       "mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r20], 1;\n@!%p0 bra $w;",
       "phase 1 waits for 1 arrival of 1, which still reads", true},
  };
  for (const Misuse& misuse : table) {
    PtxRig rig(kernel("k", misuse.body), GetParam());
    const std::uint64_t out = rig.alloc(64);
    rig.launch("k", 1, 1, {out, 0});
    const Progress progress = rig.sync();
    EXPECT_EQ(progress, misuse.hangs    ? Progress::hang
                        : misuse.faults ? Progress::fault
                                        : Progress::done)
        << misuse.body;
    const auto errors = rig.errors();
    if (misuse.hangs) {
      EXPECT_NE(rig.device->stuck_description().find(misuse.said), std::string::npos)
          << rig.device->stuck_description();
    } else {
      ASSERT_EQ(errors.size(), 1u) << misuse.body;
      EXPECT_NE(errors[0].find(misuse.said), std::string::npos) << errors[0];
      EXPECT_EQ(errors[0].find('\n'), std::string::npos);
    }
  }
}

// A warp that arrives again and again, until another says stop which waits for every second phase of these: by a plain
// write, so that nothing but the phases tells that there is something to see.
TEST(PtxMbarriers, WhoArrivesForEverLetsThoseLookWhoWait) {
  PtxRig rig(kernel("k",
                    "mov.u32 %r31, %tid.x;\nsetp.eq.u32 %p0, %r31, 0;\n@!%p0 bra $ready;\n"
                    "mbarrier.init.shared::cta.b64 [%r20], 32;\nst.shared.u32 [%r20+16], 0;\n$ready:\nbar.sync 0;\n"
                    "setp.lt.u32 %p0, %r31, 32;\n@!%p0 bra $others;\nsetp.eq.u32 %p0, %r31, 0;\n@!%p0 bra $end;\n"
                    "mov.u32 %r1, 0;\n$wait:\n"
                    "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r20], %r1;\n@!%p1 bra $wait;\n"
                    "xor.b32 %r1, %r1, 1;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $wait;\n"
                    "st.shared.u32 [%r20+16], 1;\nbra $end;\n"
                    "$others:\nmbarrier.arrive.shared::cta.b64 _, [%r20];\nld.shared.u32 %r0, [%r20+16];\n"
                    "setp.eq.u32 %p1, %r0, 0;\n@%p1 bra $others;\n$end:"),
             2);
  rig.launch("k", 1, 64, {rig.alloc(64), 0});
  EXPECT_EQ(rig.sync(), Progress::done);
}

// Who waits at what was an object once, and whose bits still tell of a phase, hangs.
TEST(PtxMbarriers, AWaitForWhatIsNoObjectAnyMoreHangs) {
  for (int mode : {0, 2}) {
    PtxRig rig(kernel("k",
                      "mbarrier.init.shared::cta.b64 [%r20], 1;\nmbarrier.arrive.shared::cta.b64 _, [%r20];\n"
                      "mbarrier.inval.shared::cta.b64 [%r20];\n$w:\n"
                      "mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r20], 0;\n@!%p0 bra $w;"),
               mode);
    rig.launch("k", 1, 1, {rig.alloc(64), 0});
    ASSERT_EQ(rig.sync(), Progress::hang);
    EXPECT_NE(rig.device->stuck_description().find("not initialised"), std::string::npos)
        << rig.device->stuck_description();
  }
}

} // namespace deadheat::device_test
