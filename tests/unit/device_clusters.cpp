// Thread block clusters (PTX ISA 5.1.7, 9.7.13.3) and programmatic dependent launch (9.7.13.16) as kernels use them.
#include <array>
#include <tuple>
#include <vector>

#include "deadheat/lanes.h"
#include "device_ptx.h"

namespace deadheat::device_test {

using device::Progress;

namespace {

const char* const cluster_sync = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n";

} // namespace

// What the registers say in every block of grids of clusters of several shapes.
TEST_P(Ptx, RegistersOfClusters) {
  static const char* const registers[] = {
      "%clusterid.x",      "%clusterid.y",      "%clusterid.z",     "%nclusterid.x",     "%nclusterid.y",
      "%nclusterid.z",     "%cluster_ctaid.x",  "%cluster_ctaid.y", "%cluster_ctaid.z",  "%cluster_nctaid.x",
      "%cluster_nctaid.y", "%cluster_nctaid.z", "%cluster_ctarank", "%cluster_nctarank",
  };
  constexpr std::uint32_t words = std::size(registers) + 1;
  std::string body =
      "mov.u32 %r0, %ctaid.y;\nmov.u32 %r1, %nctaid.x;\nmad.lo.u32 %r2, %r0, %r1, %r31;\n"
      "mov.u32 %r0, %ctaid.z;\nmov.u32 %r3, %nctaid.y;\nmul.lo.u32 %r1, %r1, %r3;\n"
      "mad.lo.u32 %r2, %r0, %r1, %r2;\nmul.wide.u32 %rd0, %r2, " +
      std::to_string(4 * words) + ";\nadd.u64 %rd0, %rd0, %rd30;\n";
  for (std::uint32_t i = 0; i < std::size(registers); ++i)
    body +=
        std::string("mov.u32 %r4, ") + registers[i] + ";\nst.global.u32 [%rd0+" + std::to_string(4 * i) + "], %r4;\n";
  body += "mov.pred %p0, %is_explicit_cluster;\nselp.u32 %r4, 1, 0, %p0;\nst.global.u32 [%rd0+" +
          std::to_string(4 * words - 4) + "], %r4;\n";
  PtxRig rig(kernel("k", body), GetParam());
  struct Shape {
    Dim3 grid, cluster;
  };
  for (const Shape& s : {Shape{{4, 6, 2}, {2, 3, 1}}, Shape{{8, 1, 1}, {8, 1, 1}}, Shape{{3, 2, 4}, {1, 2, 2}}}) {
    const std::uint64_t out = rig.alloc(4 * words * s.grid.count());
    rig.launch(shape("k", s.grid, 1, s.cluster), {out, 0});
    ASSERT_EQ(rig.sync(), Progress::done);
    const auto found = rig.words(out, words * s.grid.count());
    const std::uint32_t *g = &s.grid.x, *c = &s.cluster.x;
    for (std::uint32_t block = 0; block < s.grid.count(); ++block) {
      const std::uint32_t at[3] = {block % g[0], block / g[0] % g[1], block / g[0] / g[1]};
      const std::uint32_t* word = &found[block * words];
      for (int n = 0; n < 3; ++n) {
        EXPECT_EQ(word[n], at[n] / c[n]);
        EXPECT_EQ(word[3 + n], g[n] / c[n]);
        EXPECT_EQ(word[6 + n], at[n] % c[n]);
        EXPECT_EQ(word[9 + n], c[n]);
      }
      EXPECT_EQ(word[12], at[0] % c[0] + c[0] * (at[1] % c[1] + c[1] * (at[2] % c[2])));
      EXPECT_EQ(word[13], c[0] * c[1] * c[2]);
      EXPECT_EQ(word[14], 1u);
    }
  }
}

// Every block writes into the next one's shared memory and adds to all of them; addresses of all kinds.
TEST_P(Ptx, SharedMemoryOfOtherBlocks) {
  std::string body =
      "shl.b32 %r0, %r30, 2;\nadd.u32 %r1, %r29, %r0;\nst.shared.u32 [%r1], 0;\n"
      "st.shared.u32 [%r29+1024], 0;\nmov.u32 %r2, %cluster_ctarank;\nmov.u32 %r3, %cluster_nctarank;\n";
  body += cluster_sync;
  body +=
      "add.u32 %r4, %r2, 1;\nrem.u32 %r4, %r4, %r3;\n"
          // a word of the next block's memory, by the window's address
      "mapa.shared::cluster.u32 %r5, %r1, %r4;\nmad.lo.u32 %r6, %r31, 1000, %r30;\n"
      "st.shared::cluster.u32 [%r5], %r6;\n"
          // its counter and everybody's, by generic ones
      "cvt.u64.u32 %rd0, %r29;\ncvta.shared.u64 %rd0, %rd0;\nadd.u64 %rd0, %rd0, 1024;\nmov.u32 %r7, 0;\n"
      "$all:\nmapa.u64 %rd1, %rd0, %r7;\ngetctarank.u64 %r8, %rd1;\nadd.u32 %r9, %r8, 1;\n"
      "atom.add.u32 %r10, [%rd1], %r9;\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %p0, %r7, %r3;\n@%p0 bra $all;\n";
  body += cluster_sync;
  body +=
      "getctarank.shared::cluster.u32 %r11, %r5;\nsetp.eq.u32 %p1, %r11, %r4;\nselp.u32 %r11, 0, 5000, %p1;\n"
      "isspacep.shared::cluster %p2, %rd1;\nisspacep.shared::cta %p3, %rd0;\n"
      "and.pred %p2, %p2, %p3;\n@!%p2 add.u32 %r11, %r11, 7000;\n"
      "ld.shared.u32 %r6, [%r1];\nadd.u32 %r6, %r6, %r11;\nmov.u32 %r12, %ntid.x;\nadd.u32 %r13, %r12, 1;\n"
      "mad.lo.u32 %r14, %r31, %r13, %r30;\nmul.wide.u32 %rd2, %r14, 4;\nadd.u64 %rd2, %rd2, %rd30;\n"
      "st.global.u32 [%rd2], %r6;\nld.shared.u32 %r6, [%r29+1024];\nsub.u32 %r14, %r12, %r30;\n"
      "mul.wide.u32 %rd3, %r14, 4;\nadd.u64 %rd2, %rd2, %rd3;\nst.global.u32 [%rd2], %r6;\n";
  PtxRig rig(kernel("k", body), GetParam());
  constexpr std::uint32_t blocks = 8, threads = 40;
  for (std::uint32_t size : {1u, 2u, 4u, 8u}) {
    const std::uint64_t out = rig.alloc(4 * blocks * (threads + 1));
    rig.launch(shape("k", {blocks, 1, 1}, threads, {size, 1, 1}), {out, 0});
    ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
    const auto found = rig.words(out, blocks * (threads + 1));
    for (std::uint32_t block = 0; block < blocks; ++block) {
      const std::uint32_t first = block / size * size, before = first + (block - first + size - 1) % size;
      for (std::uint32_t t = 0; t < threads; ++t) ASSERT_EQ(found[block * (threads + 1) + t], before * 1000 + t);
      ASSERT_EQ(found[block * (threads + 1) + threads], threads * size * (block - first + 1));
    }
  }
  EXPECT_EQ(rig.errors(), std::vector<std::string>{});
}

// The barrier's halves apart, with .relaxed; and blocks that exit are not waited for.
TEST_P(Ptx, ClusterBarriers) {
  std::string body =
      "mov.u32 %r0, %cluster_ctarank;\nsetp.eq.u32 %p0, %r0, 3;\n@%p0 bra $end;\n"
      "mov.u32 %r1, 0;\nst.shared.u32 [%r29], 0;\n"
      "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
  body += "$loop:\nadd.u32 %r2, %r0, 1;\nrem.u32 %r2, %r2, 3;\nmapa.shared::cluster.u32 %r3, %r29, %r2;\n";
  body += only_thread_0("red.shared::cluster.add.u32 [%r3], %r1;\n", 1);
  body +=
      "barrier.cluster.arrive.relaxed;\nadd.u32 %r1, %r1, 1;\nbarrier.cluster.wait;\nsetp.lt.u32 %p1, %r1, 10;\n"
      "@%p1 bra $loop;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n";
  body += only_thread_0(
      "ld.shared.u32 %r4, [%r29];\nmul.wide.u32 %rd0, %r31, 4;\nadd.u64 %rd0, %rd0, %rd30;\n"
      "st.global.u32 [%rd0], %r4;\n",
      2);
  body += "$end:\n";
  PtxRig rig(kernel("k", body), GetParam());
  const std::uint64_t out = rig.alloc(32);
  rig.set(out, 0, 32);
  rig.launch(shape("k", {8, 1, 1}, 70, {4, 1, 1}), {out, 0});
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  EXPECT_EQ(rig.words(out, 8), (std::vector<std::uint32_t>{45, 45, 45, 0, 45, 45, 45, 0}));
  EXPECT_EQ(rig.errors(), std::vector<std::string>{});
}

// Proxy fences of one direction release or acquire, and are recorded with their scopes; aliases are not modelled.
TEST_P(Ptx, ProxyFencesOfOneDirection) {
  const std::string body =
      "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;\n"
      "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;\n"
      "fence.proxy.tensormap::generic.release.gpu;\n"
      "fence.proxy.tensormap::generic.acquire.sys [%rd30], 128;\n"
      "fence.proxy.alias;\n";
  PtxRig rig(kernel("k", body), GetParam());
  const std::uint64_t out = rig.alloc(128);
  rig.launch("k", 1, 32, {out, 0});
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  EXPECT_EQ(rig.errors(), std::vector<std::string>{});
  if (!mode_options(GetParam()).record_accesses) return;
  std::array<std::vector<std::tuple<Proxy, Ordering, Scope>>, 32> found; // by lane
  for (const auto& r : rig.sink.all<trace::Fence>())
    each_lane(r.mask, [&](unsigned lane) { found[lane].push_back({r.proxy, r.ordering, r.scope}); });
  const std::vector<std::tuple<Proxy, Ordering, Scope>> expected = {{Proxy::async, Ordering::release, Scope::cluster},
                                                                    {Proxy::async, Ordering::acquire, Scope::cluster},
                                                                    {Proxy::tensormap, Ordering::release, Scope::gpu},
                                                                    {Proxy::tensormap, Ordering::acquire, Scope::sys}};
  for (const auto& of_lane : found) EXPECT_EQ(of_lane, expected);
}

// A launch of clusters whose kernel reaches no other block.
TEST_P(Ptx, ClustersThatDoNotMeet) {
  const std::string body =
      "mul.wide.u32 %rd0, %r30, 4;\nmov.u32 %r0, %cluster_ctarank;\nmul.wide.u32 %rd1, %r31, 128;\n"
      "add.u64 %rd0, %rd0, %rd1;\nadd.u64 %rd0, %rd0, %rd30;\nst.shared.u32 [%r29], %r0;\n"
      "bar.sync 0;\nld.shared.u32 %r1, [%r29];\nst.global.u32 [%rd0], %r1;\n";
  PtxRig rig(kernel("k", body), GetParam());
  constexpr std::uint32_t blocks = 300;
  const std::uint64_t out = rig.alloc(128 * blocks);
  rig.launch(shape("k", {blocks, 1, 1}, 32, {3, 1, 1}), {out, 0});
  ASSERT_EQ(rig.sync(), Progress::done);
  const auto found = rig.words(out, 32 * blocks);
  for (std::uint32_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], i / 32 % 3);
}

TEST_P(Ptx, WrongUseOfClusters) {
  struct Misuse {
    const char *body, *said;
    bool faults = false, hangs = false;
  };
  static const Misuse table[] = {
      {"barrier.cluster.wait;", "barrier.cluster.wait of a thread that has not arrived"},
      {"barrier.cluster.arrive;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;",
       "barrier.cluster.arrive twice without barrier.cluster.wait between"},
      {"setp.eq.u32 %p0, %r31, 0;\n@%p0 bra $spin;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nbra $end;\n"
       "$spin:\nld.relaxed.gpu.global.u32 %r0, [%rd30];\nsetp.eq.u32 %p1, %r0, 0;\n@%p1 bra $spin;\n$end:",
       "cluster", false, true},
      // A block that is not there.
      {"setp.ne.u32 %p0, %r31, 0;\n@%p0 bra $end;\nmapa.shared::cluster.u32 %r0, %r29, 5;\n"
       "st.shared::cluster.u32 [%r0], 1;\n$end:",
       "out of bounds", true},
      // Shared memory that the other block does not have.
      {"setp.ne.u32 %p0, %r31, 0;\n@%p0 bra $end;\nmapa.shared::cluster.u32 %r0, %r29, 1;\nadd.u32 %r0, %r0, 65536;\n"
       "ld.shared::cluster.u32 %r1, [%r0];\nst.global.u32 [%rd30], %r1;\n$end:",
       "out of bounds", true},
  };
  for (const Misuse& misuse : table) {
    if (misuse.faults && !mode_options(GetParam()).check) continue;
    PtxRig rig(kernel("k", misuse.body), GetParam());
    const std::uint64_t out = rig.alloc(64);
    rig.set(out, 0, 64);
    rig.launch(shape("k", {2, 1, 1}, 1, {2, 1, 1}), {out, 0});
    const Progress progress = rig.sync();
    EXPECT_EQ(progress, misuse.hangs    ? Progress::hang
                        : misuse.faults ? Progress::fault
                                        : Progress::done)
        << misuse.body;
    if (misuse.hangs) {
      EXPECT_NE(rig.device->stuck_description().find(misuse.said), std::string::npos)
          << rig.device->stuck_description();
      continue;
    }
    const auto errors = rig.errors();
    ASSERT_FALSE(errors.empty()) << misuse.body;
    for (const std::string& error : errors) EXPECT_NE(error.find(misuse.said), std::string::npos) << error;
  }
}

TEST(ClusterMemory, OfABlockThatHasExitedIsCalledSo) {
  PtxRig rig(kernel("k",
                    "barrier.cluster.arrive;\nbarrier.cluster.wait;\nsetp.eq.u32 %p0, %r31, 0;\n@%p0 bra $end;\n"
                    "mov.u32 %r1, 0;\n$more:\natom.relaxed.gpu.global.add.u32 %r0, [%rd30], 1;\n"
                    "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 1000;\n@%p1 bra $more;\n"
                    "mapa.shared::cluster.u32 %r0, %r29, 0;\nst.shared::cluster.u32 [%r0], 1;\n$end:"),
             2);
  const std::uint64_t out = rig.alloc(64);
  rig.set(out, 0, 64);
  rig.launch(shape("k", {2, 1, 1}, 1, {2, 1, 1}), {out, 0});
  ASSERT_EQ(rig.sync(), Progress::fault);
  const auto errors = rig.sink.all<trace::MemoryError>();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].text.find("shared memory of block 0 of its cluster, which has exited"), std::string::npos)
      << errors[0].text;
}

// The first launch lets the second begin and waits for it: they run at once. Without the attribute nobody can go on.
TEST_P(Ptx, DependentLaunchesBeginEarly) {
  const std::string first = kernel("first",
                                   "griddepcontrol.launch_dependents;\n$spin:\n"
                                   "ld.relaxed.gpu.global.u32 %r0, [%rd30];\nsetp.eq.u32 %p0, %r0, 0;\n"
                                   "@%p0 bra $spin;\nst.global.u32 [%rd30+4], 41;\n");
  // Says that it has begun; then waits for all of the first, and reads what that wrote last.
  const std::string second = kernel("second",
                                    "st.relaxed.gpu.global.u32 [%rd30], 1;\ngriddepcontrol.wait;\n"
                                    "ld.global.u32 %r0, [%rd30+4];\nadd.u32 %r0, %r0, 1;\n"
                                    "st.global.u32 [%rd30+8], %r0;\n");
  for (bool programmatic : {true, false}) {
    PtxRig rig(first + second, GetParam());
    const std::uint64_t out = rig.alloc(64);
    rig.set(out, 0, 64);
    rig.launch("first", 1, 1, {out, 0});
    trace::Launch launch = shape("second", {2, 1, 1}, 40, {1, 1, 1});
    launch.programmatic = programmatic;
    rig.launch(launch, {out, 0});
    const Progress progress = rig.sync();
    if (!programmatic) {
      EXPECT_EQ(progress, Progress::hang);
      continue;
    }
    ASSERT_EQ(progress, Progress::done) << rig.device->stuck_description();
    EXPECT_EQ(rig.words(out, 3)[2], 42u);
    EXPECT_EQ(rig.errors(), std::vector<std::string>{});
  }
}

// A chain: every launch waits for the one before, and an ordinary launch behind waits for them all.
TEST_P(Ptx, ChainsOfDependentLaunches) {
  const std::string add = kernel("add",
                                 "griddepcontrol.launch_dependents;\ngriddepcontrol.wait;\n"
                                 "mad.lo.u32 %r0, %r31, 32, %r30;\nmul.wide.u32 %rd0, %r0, 4;\n"
                                 "add.u64 %rd0, %rd0, %rd30;\nld.global.u32 %r1, [%rd0];\n"
                                 "mad.lo.u32 %r1, %r1, 3, 1;\nst.global.u32 [%rd0], %r1;\n");
  PtxRig rig(add, GetParam());
  const std::uint64_t out = rig.alloc(1024);
  rig.set(out, 0, 1024);
  std::uint32_t expected = 0;
  for (int i = 0; i < 6; ++i) {
    trace::Launch launch = shape("add", {8, 1, 1}, 32, {1, 1, 1});
    launch.programmatic = i % 3 != 0;
    rig.launch(launch, {out, 0});
    expected = expected * 3 + 1;
  }
  ASSERT_EQ(rig.sync(), Progress::done) << rig.device->stuck_description();
  for (std::uint32_t word : rig.words(out, 256)) ASSERT_EQ(word, expected);
}

} // namespace deadheat::device_test
