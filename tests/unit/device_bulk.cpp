// cp.async.bulk and cp.reduce.async.bulk (PTX ISA 9.7.9.25.4) as kernels use them.
#include "device_ptx.h"

namespace deadheat::device_test {

using device::Progress;

namespace {

std::vector<std::uint32_t> counted(std::uint32_t n, std::uint32_t from) {
  std::vector<std::uint32_t> values(n);
  for (std::uint32_t i = 0; i < n; ++i) values[i] = from + i;
  return values;
}

// Every thread stores its word of `in` at that offset of s.
std::string fill_shared(int offset = 0) {
  return "shl.b32 %r0, %r30, 2;\ncvt.u64.u32 %rd0, %r0;\nadd.u64 %rd1, %rd31, %rd0;\nld.global.u32 %r1, [%rd1];\n"
         "add.u32 %r2, %r29, %r0;\nst.shared.u32 [%r2+" +
         std::to_string(offset) + "], %r1;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n";
}
const char* const commit_and_wait = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";

} // namespace

// Global memory to shared memory on an mbarrier, two copies a phase, and back with a bulk group.
TEST_P(Ptx, BulkCopiesThereAndBack) {
  std::string body = only_thread_0(
      "mbarrier.init.shared::cta.b64 [%r20], 1;\nfence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 256;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r29], [%rd31], 128, [%r20];\n"
      "add.u64 %rd0, %rd31, 128;\nadd.u32 %r0, %r29, 128;\n"
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r0], [%rd0], 128, [%r20];\n",
      0);
  body += "bar.sync 0;\n" + wait_parity("%r20", "0", 1);
  // Reversed, through the other half.
  body +=
      "shl.b32 %r0, %r30, 2;\nadd.u32 %r1, %r29, %r0;\nld.shared.u32 %r2, [%r1];\nsub.u32 %r3, 252, %r0;\n"
      "add.u32 %r3, %r3, %r29;\nst.shared.u32 [%r3+1024], %r2;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n";
  body += only_thread_0(
      "add.u32 %r4, %r29, 1024;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%rd30], [%r4], 128;\n"
      "cp.async.bulk.commit_group;\nadd.u64 %rd0, %rd30, 128;\nadd.u32 %r4, %r29, 1152;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r4], 128;\ncp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group.read 1;\ncp.async.bulk.wait_group.read 0;\n"
      "cp.async.bulk.wait_group 0;\n",
      2);
  PtxRig rig(kernel("k", body), GetParam());
  const std::uint64_t in = rig.words_of(counted(64, 9)), out = rig.alloc(256);
  rig.launch("k", 1, 64, {out, in});
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  const auto found = rig.words(out, 64);
  for (std::uint32_t i = 0; i < 64; ++i) ASSERT_EQ(found[i], 9 + 63 - i);
  EXPECT_EQ(rig.errors(), std::vector<std::string>{});
  if (mode_options(GetParam()).record_accesses) {
    EXPECT_EQ(rig.sink.all<trace::BulkCopy>().size(), 4u);
    std::size_t completions = 0;
    for (const auto& r : rig.sink.all<trace::Mbarrier>()) completions += r.what == trace::Mbarrier::What::complete_tx;
    EXPECT_EQ(completions, 2u);
  }
}

// Every operation and type of a reduction into global memory; 64 threads' words, two blocks.
TEST_P(Ptx, BulkReductions) {
  using Words = std::vector<std::uint32_t>;
  auto f16x2 = [](std::uint32_t low, std::uint32_t high) { return low | high << 16; };
  auto f32 = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  auto pair = [](std::uint64_t x) { return Words{std::uint32_t(x), std::uint32_t(x >> 32)}; };
  auto f64 = [&](double x) { return pair(std::bit_cast<std::uint64_t>(x)); };
  struct Case {
    const char* what;
    Words memory, operand, result; // repeated; result: after two blocks
  };
  const Case cases[] = {
      {"add.u32", {5}, {0xfffffffe}, {1}},
      {"add.s32", {5}, {0xfffffffe}, {1}},
      {"add.u64", pair(0xffffffffull), pair(1), pair(0x100000001ull)},
      {"min.u32", {7}, {0x80000000}, {7}},
      {"min.s32", {7}, {0x80000000}, {0x80000000}},
      {"max.u32", {7}, {0x80000000}, {0x80000000}},
      {"max.s32", {7}, {0x80000000}, {7}},
      {"min.u64", pair(7), pair(1ull << 63), pair(7)},
      {"min.s64", pair(7), pair(1ull << 63), pair(1ull << 63)},
      {"max.u64", pair(7), pair(1ull << 63), pair(1ull << 63)},
      {"max.s64", pair(7), pair(1ull << 63), pair(7)},
      {"inc.u32", {3}, {4}, {0}},
      {"dec.u32", {1}, {9}, {9}},
      {"and.b32", {0xff00ff00}, {0x0ff00ff0}, {0x0f000f00}},
      {"or.b64", pair(0x11), pair(0x2200000000ull), pair(0x2200000011ull)},
      {"xor.b32", {0x1234}, {0xffff}, {0x1234}},
      {"add.f32", {f32(1.5f)}, {f32(0.25f)}, {f32(2.0f)}},
      {"add.f64", f64(1.5), f64(0.25), f64(2.0)},
      {"add.noftz.f16", {f16x2(0x3c00, 0x4000)}, {f16x2(0x3c00, 0xc000)}, {f16x2(0x4200, 0xc000)}}, // 1+1+1, 2-2-2
      {"add.noftz.bf16", {f16x2(0x3f80, 0x4000)}, {f16x2(0x3f80, 0xc000)}, {f16x2(0x4040, 0xc000)}},
      {"min.f16", {f16x2(0x3c00, 0x4000)}, {f16x2(0x4000, 0xbc00)}, {f16x2(0x3c00, 0xbc00)}},
      {"max.f16", {f16x2(0x3c00, 0x8000)}, {f16x2(0x7e00, 0x0000)}, {f16x2(0x3c00, 0x0000)}}, // of NaN, and of -0 and 0
      {"max.bf16", {f16x2(0x3f80, 0xc000)}, {f16x2(0x4000, 0xbf80)}, {f16x2(0x4000, 0xbf80)}},
  };
  for (const Case& c : cases) {
    const std::string body =
        fill_shared() + only_thread_0("cp.reduce.async.bulk.global.shared::cta.bulk_group." + std::string(c.what) +
                                          " [%rd30], [%r29], 256;\n" + commit_and_wait,
                                      0);
    PtxRig rig(kernel("k", body), GetParam());
    Words memory, operand, expected;
    while (memory.size() < 64) {
      memory.insert(memory.end(), c.memory.begin(), c.memory.end());
      operand.insert(operand.end(), c.operand.begin(), c.operand.end());
      expected.insert(expected.end(), c.result.begin(), c.result.end());
    }
    const std::uint64_t in = rig.words_of(operand), out = rig.words_of(memory);
    rig.launch("k", 2, 64, {out, in});
    ASSERT_EQ(rig.sync(), Progress::done) << c.what;
    EXPECT_EQ(rig.words(out, 64), expected) << c.what;
    EXPECT_EQ(rig.errors(), std::vector<std::string>{}) << c.what;
  }
}

// From one block of a cluster to another's shared memory, and a reduction there; both complete on the other's mbarrier.
TEST_P(Ptx, BulkCopiesBetweenBlocks) {
  std::string body = only_thread_0(
      "mbarrier.init.shared::cta.b64 [%r20], 1;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 512;\n",
      0);
  body += fill_shared() + fill_shared(256); // at 0: what goes; at 256: what is added
  body +=
      "st.shared.u32 [%r2+768], 1000;\nfence.proxy.async.shared::cta;\n"
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n";
  body += only_thread_0(
      "xor.b32 %r3, %r31, 1;\nmapa.shared::cluster.u32 %r4, %r29, %r3;\n"
      "mapa.shared::cluster.u32 %r5, %r20, %r3;\nadd.u32 %r6, %r4, 512;\nadd.u32 %r7, %r29, 256;\n"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%r29], 256, [%r5];\n"
      "add.u32 %r6, %r4, 768;\n"
      "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r6], [%r7], 256, "
      "[%r5];\n",
      1);
  body += wait_parity("%r20", "0", 2);
  body +=
      "shl.b32 %r8, %r31, 9;\nadd.u32 %r8, %r8, %r0;\ncvt.u64.u32 %rd2, %r8;\nadd.u64 %rd2, %rd2, %rd30;\n"
      "ld.shared.u32 %r9, [%r2+512];\nst.global.u32 [%rd2], %r9;\nld.shared.u32 %r9, [%r2+768];\n"
      "st.global.u32 [%rd2+256], %r9;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
  // Each block reads a part of `in` of its own.
  body = "shl.b32 %r10, %r31, 8;\ncvt.u64.u32 %rd3, %r10;\nadd.u64 %rd31, %rd31, %rd3;\n" + body;
  PtxRig rig(kernel("k", body), GetParam());
  const std::uint64_t in = rig.words_of(counted(128, 0)), out = rig.alloc(1024);
  rig.launch(shape("k", {2, 1, 1}, 64, {2, 1, 1}), {out, in});
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  const auto found = rig.words(out, 256);
  for (std::uint32_t block = 0; block < 2; ++block) {
    for (std::uint32_t i = 0; i < 64; ++i) {
      const std::uint32_t sent = (1 - block) * 64 + i;
      ASSERT_EQ(found[block * 128 + i], sent);
      ASSERT_EQ(found[block * 128 + 64 + i], 1000 + sent);
    }
  }
  EXPECT_EQ(rig.errors(), std::vector<std::string>{});
}

// st.async and red.async: each block fills the other's shared memory, which waits for all bytes; st.bulk clears it
// first.
TEST_P(Ptx, AsynchronousStores) {
  std::string body = "st.bulk.weak.shared::cta [%r29], 2048, 0;\nbar.sync 0;\n";
  body += only_thread_0(
      "mbarrier.init.shared::cta.b64 [%r20], 1;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 2816;\n", // 64 * (16 + 16 + 4 + 8)
      0);
  body +=
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
      "xor.b32 %r3, %r31, 1;\nmapa.shared::cluster.u32 %r4, %r29, %r3;\nmapa.shared::cluster.u32 %r5, %r20, %r3;\n"
      "shl.b32 %r6, %r30, 4;\nadd.u32 %r6, %r6, %r4;\nadd.u32 %r7, %r30, 1000;\nadd.u32 %r8, %r30, 2000;\n"
      "mad.lo.u32 %r9, %r31, 100, %r30;\ncvt.u64.u32 %rd4, %r9;\nneg.s64 %rd5, %rd4;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r6], {%r9, %r7, %r8, %r30}, [%r5];\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%r6+1024], {%rd4, %rd5}, [%r5];\n"
      "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r4+2048], %r7, [%r5];\n"
      "red.async.relaxed.cluster.shared::cluster.add.u64 [%r4+2056], %rd5, [%r5];\n";
  body = "st.shared.u32 [%r29+2048], 5;\nst.shared.u64 [%r29+2056], 7;\n" + body;
  body += wait_parity("%r20", "0", 2);
  body +=
      "mul.lo.u32 %r10, %r31, 2112;\nmad.lo.u32 %r10, %r30, 16, %r10;\ncvt.u64.u32 %rd2, %r10;\n"
      "add.u64 %rd2, %rd2, %rd30;\nshl.b32 %r11, %r30, 4;\nadd.u32 %r11, %r11, %r29;\n"
      "ld.shared.v4.u32 {%r12, %r13, %r14, %r15}, [%r11];\nst.global.v4.u32 [%rd2], {%r12, %r13, %r14, %r15};\n"
      "ld.shared.v4.u32 {%r12, %r13, %r14, %r15}, [%r11+1024];\n"
      "st.global.v4.u32 [%rd2+1024], {%r12, %r13, %r14, %r15};\n";
  body += only_thread_0(
      "ld.shared.u32 %r12, [%r29+2048];\nst.global.u32 [%rd2+2048], %r12;\n"
      "ld.shared.u64 %rd6, [%r29+2056];\nst.global.u64 [%rd2+2056], %rd6;\n",
      3);
  body += "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
  PtxRig rig(kernel("k", body), GetParam());
  const std::uint64_t out = rig.alloc(2 * 2112);
  rig.launch(shape("k", {2, 1, 1}, 64, {2, 1, 1}), {out, out});
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  EXPECT_EQ(rig.errors(), std::vector<std::string>{});
  const auto found = rig.words(out, 2 * 528);
  for (std::uint32_t block = 0; block < 2; ++block) {
    const std::uint32_t* at = &found[block * 528];
    std::uint64_t sum = 7;
    for (std::uint32_t i = 0; i < 64; ++i) {
      const std::uint32_t sent = (1 - block) * 100 + i;
      ASSERT_EQ(std::vector<std::uint32_t>(at + 4 * i, at + 4 * i + 4),
                (std::vector<std::uint32_t>{sent, i + 1000, i + 2000, i}));
      const std::uint64_t minus = std::uint64_t(-std::int64_t(sent));
      ASSERT_EQ(std::vector<std::uint32_t>(at + 256 + 4 * i, at + 256 + 4 * i + 4),
                (std::vector<std::uint32_t>{sent, 0, std::uint32_t(minus), std::uint32_t(minus >> 32)}));
      sum += minus;
    }
    EXPECT_EQ(at[512], 5 + 64 * 1000 + 63 * 32);
    EXPECT_EQ(at[514] | std::uint64_t(at[515]) << 32, sum);
  }
  if (mode_options(GetParam()).record_accesses) {
    EXPECT_FALSE(rig.sink.all<trace::BulkCopy>().empty());
    for (const auto& r : rig.sink.all<trace::BulkCopy>())
      for (std::uint64_t source : r.source) ASSERT_EQ(source, 0u);
  }
}

// One copy to the blocks of ranks 0, 1 and 3, at the same offset in each, and to the mbarrier there.
TEST_P(Ptx, BulkCopiesToManyBlocks) {
  std::string body = "st.shared.u32 [%r29], 0;\nst.shared.u32 [%r29+60], 0;\n";
  body += only_thread_0(
      "mbarrier.init.shared::cta.b64 [%r20], 1;\nsetp.eq.u32 %p0, %r31, 2;\n"
      "selp.u32 %r0, 0, 64, %p0;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], %r0;\n",
      0);
  body +=
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\nsetp.ne.u32 %p1, %r31, 2;\n"
      "@%p1 bra $receive;\n";
  body += only_thread_0(
      "mov.u16 %h0, 11;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%r29], [%rd31], 64, [%r20], %h0;\n",
      1);
  body += "$receive:\n" + wait_parity("%r20", "0", 2);
  body += only_thread_0(
      "shl.b32 %r1, %r31, 3;\ncvt.u64.u32 %rd0, %r1;\nadd.u64 %rd0, %rd0, %rd30;\n"
      "ld.shared.u32 %r2, [%r29];\nst.global.u32 [%rd0], %r2;\nld.shared.u32 %r2, [%r29+60];\n"
      "st.global.u32 [%rd0+4], %r2;\n",
      3);
  body += "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
  PtxRig rig(kernel("k", body), GetParam());
  const std::uint64_t in = rig.words_of(counted(16, 70)), out = rig.alloc(32);
  rig.launch(shape("k", {4, 1, 1}, 32, {4, 1, 1}), {out, in});
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  EXPECT_EQ(rig.words(out, 8), (std::vector<std::uint32_t>{70, 85, 70, 85, 0, 0, 70, 85}));
  EXPECT_EQ(rig.errors(), std::vector<std::string>{});
}

// A prefetch does nothing, and a copy of no bytes completes at once.
TEST_P(Ptx, BulkCopiesOfNothing) {
  const std::string body =
      "cp.async.bulk.prefetch.L2.global [%rd31], 64;\nmov.u32 %r0, 0;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%rd30], [%r29], %r0;\n" +
      std::string(commit_and_wait) + "st.global.u32 [%rd30], 5;\n";
  PtxRig rig(kernel("k", body), GetParam());
  const std::uint64_t in = rig.words_of(counted(16, 1)), out = rig.alloc(32);
  rig.launch("k", 1, 1, {out, in});
  ASSERT_EQ(rig.sync(), Progress::done);
  EXPECT_EQ(rig.words(out, 1)[0], 5u);
  EXPECT_EQ(rig.errors(), std::vector<std::string>{});
}

TEST_P(Ptx, WrongUseOfBulkCopies) {
  struct Misuse {
    const char *body, *said;
    bool hangs = false;
  };
  static const Misuse table[] = {
      {"cp.async.bulk.global.shared::cta.bulk_group [%rd30], [%r29], %r28;", "misaligned"}, // %r28: 24
      {"add.u32 %r0, %r29, 8;\ncp.async.bulk.global.shared::cta.bulk_group [%rd30], [%r0], 16;", "misaligned"},
      {"add.u64 %rd0, %rd30, 4;\ncp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r29], 16;", "misaligned"},
      {"cp.async.bulk.global.shared::cta.bulk_group [%rd30], [%r29], 65536;", "out of bounds"},
      {"add.u64 %rd0, %rd30, 1048576;\ncp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r29], 16;",
       "out of bounds"},
      {"add.u32 %r0, %r20, 4;\n"
       "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r29], [%rd30], 16, [%r0];",
       "misaligned"},
      {"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r29], [%rd30], 16, [%r20];",
       "the completion of a bulk copy on an mbarrier object that is not initialised"},
      {"mov.u16 %h0, 2;\nmbarrier.init.shared::cta.b64 [%r20], 1;\n"
       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
       "[%r29], [%rd30], 16, [%r20], %h0;",
       "out of bounds"},
      {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r21], {%r0, %r1, %r2, %r3}, [%r20];",
       "misaligned"},
      {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r29+1048576], %r0, [%r20];", "out of bounds"},
      {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r29], %r0, [%r20];",
       "the completion of a bulk copy on an mbarrier object that is not initialised"},
      // Bytes that nobody announced: the phase never completes.
      {"mbarrier.init.shared::cta.b64 [%r20], 1;\n"
       "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r29], [%rd30], 32, [%r20];\n"
       "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 16;\n$w:\n"
       "mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r20], 0;\n@!%p0 bra $w;",
       "to be told of 16 bytes that have come", true},
  };
  for (const Misuse& misuse : table) {
    PtxRig rig(kernel("k", "mov.u32 %r28, 24;\n" + std::string(misuse.body)), GetParam());
    const std::uint64_t out = rig.alloc(64);
    rig.launch("k", 1, 1, {out, 0});
    const Progress progress = rig.sync();
    if (misuse.hangs) {
      EXPECT_EQ(progress, Progress::hang);
      EXPECT_NE(rig.device->stuck_description().find(misuse.said), std::string::npos)
          << rig.device->stuck_description();
      continue;
    }
    const auto errors = rig.errors();
    ASSERT_EQ(errors.size(), 1u) << misuse.body;
    EXPECT_NE(errors[0].find(misuse.said), std::string::npos) << errors[0] << "\n" << misuse.body;
  }
}

// Its words are stored one after another: another warp may look in between.
TEST(Bulk, StoresOfManyWordsCanBeSeenHalfDone) {
  std::set<std::vector<std::uint32_t>> seen;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    device::DeviceOptions options;
    options.check = true;
    options.schedule.kind = Schedule::Kind::random;
    options.schedule.seed = seed;
    Rig rig(module_of(kernel("k",
                             "st.shared.u32 [%r29], 1;\nst.shared.u32 [%r29+56], 1;\n"
                             "bar.sync 0;\nsetp.eq.u32 %p1, %r30, 32;\nsetp.eq.u32 %p2, %r30, 0;\n"
                             "@%p1 st.bulk.weak.shared::cta [%r29], 64, 0;\n"
                             "@!%p2 bra $end;\nld.shared.u32 %r3, [%r29];\nld.shared.u32 %r2, [%r29+56];\n"
                             "st.global.u32 [%rd30], %r3;\nst.global.u32 [%rd30+4], %r2;\n$end:\n")),
            nullptr, options);
    rig.load();
    const std::uint64_t out = rig.alloc(8);
    rig.launch(shape("k", {1, 1, 1}, 64, {1, 1, 1}), {out, out});
    EXPECT_EQ(rig.sync(), Progress::done);
    seen.insert(rig.words(out, 2));
  }
  EXPECT_EQ(seen.count({0, 1}), 1u) << seen.size();
}

} // namespace deadheat::device_test
