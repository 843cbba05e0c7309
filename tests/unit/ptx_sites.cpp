// Classification into sites: memory-model terms, value types, source chains.
#include "tracer/ptx/sites.h"

#include <utility>

#include "ptx_support.h"
#include "tracer/ptx/rewrite.h"
#include "tracer/ptx/value_types.h"

namespace deadheat::ptx {
namespace {

Site site_of(const std::string& text) {
  Module m = kernel_of(text);
  std::vector<Site> all = sites(m);
  const bool texture = all.size() == 1 + SiteTable::texel_sizes && is_texture(all[0]);
  if (all.size() != 1 && !texture) {
    ADD_FAILURE() << all.size() << " sites: " << text;
    return {};
  }
  return all[0];
}

void expect_access(const std::string& text, AccessKind access, Space space, Ordering ordering, Scope scope,
                   unsigned bytes, unsigned elements, const std::string& type) {
  SCOPED_TRACE(text);
  Site site = site_of(text);
  EXPECT_EQ(site.kind, SiteKind::access);
  EXPECT_EQ(site.access, access);
  EXPECT_EQ(site.space, space);
  EXPECT_EQ(site.ordering, ordering);
  EXPECT_EQ(site.scope, scope);
  EXPECT_EQ(site.element_bytes, bytes);
  EXPECT_EQ(site.elements, elements);
  EXPECT_EQ(site.type, type);
}

TEST(PtxSites, Accesses) {
  using A = AccessKind;
  using S = Space;
  using O = Ordering;
  expect_access("discard.global.L2 [%rd1], 128;", A::write, S::global, O::weak, Scope::none, 16, 8, "b128");
  expect_access("discard.L2 [%rd1], 128;", A::write, S::global, O::weak, Scope::none, 16, 8, "b128");
  expect_access("ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1];", A::read, S::global, O::weak, Scope::none, 4, 4, "f32");
  expect_access("ld.u32 %r1, [%rd1];", A::read, S::generic, O::weak, Scope::none, 4, 1, "u32");
  expect_access("ld.global.nc.u8 %rs1, [%rd1];", A::read, S::global, O::nc, Scope::none, 1, 1, "u8");
  expect_access("ld.volatile.shared.u32 %r1, [%r2];", A::read, S::shared, O::volatile_, Scope::sys, 4, 1, "u32");
  expect_access("ld.acquire.gpu.global.b64 %rd1, [%rd2];", A::read, S::global, O::acquire, Scope::gpu, 8, 1, "b64");
  expect_access("ld.global.acquire.cluster.u32 %r1, [%rd2];", A::read, S::global, O::acquire, Scope::cluster, 4, 1,
                "u32");
  expect_access("ld.relaxed.sys.u32 %r1, [%rd2];", A::read, S::generic, O::relaxed, Scope::sys, 4, 1, "u32");
  expect_access("ld.mmio.relaxed.sys.global.u32 %r1, [%rd2];", A::read, S::global, O::mmio, Scope::sys, 4, 1, "u32");
  expect_access("ld.weak.global.u32 %r1, [%rd2];", A::read, S::global, O::weak, Scope::none, 4, 1, "u32");
  expect_access("ld.const.f32 %f1, [%rd2];", A::read, S::constant, O::weak, Scope::none, 4, 1, "f32");
  expect_access("st.release.sys.global.u32 [%rd1], %r1;", A::write, S::global, O::release, Scope::sys, 4, 1, "u32");
  expect_access("st.shared::cluster.u32 [%r1], %r2;", A::write, S::shared, O::weak, Scope::none, 4, 1, "u32");
  expect_access("st.local.f64 [%rd1], %fd1;", A::write, S::local, O::weak, Scope::none, 8, 1, "f64");
  expect_access("atom.global.add.u32 %r1, [%rd1], %r2;", A::atomic, S::global, O::relaxed, Scope::gpu, 4, 1, "u32");
  expect_access("atom.add.release.gpu.u32 %r1, [%rd1], %r2;", A::atomic, S::generic, O::release, Scope::gpu, 4, 1,
                "u32");
  expect_access("atom.or.acq_rel.cta.b32 %r1, [%rd1], %r2;", A::atomic, S::generic, O::acq_rel, Scope::cta, 4, 1,
                "b32");
  expect_access("atom.global.sys.add.u64 %rd1, [%rd2], %rd3;", A::atomic, S::global, O::relaxed, Scope::sys, 8, 1,
                "u64");
  expect_access("red.shared.add.f32 [%r1], %f1;", A::atomic, S::shared, O::relaxed, Scope::gpu, 4, 1, "f32");
  expect_access("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%r1,%r2,%r3,%r4}, [%r5];", A::read, S::shared, O::weak,
                Scope::none, 2, 8, "b16");
  expect_access("stmatrix.sync.aligned.m8n8.x2.shared::cta.b16 [%r5], {%r1,%r2};", A::write, S::shared, O::weak,
                Scope::none, 2, 8, "b16");
  expect_access("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1], %r9;",
                A::read, S::global, O::weak, Scope::none, 2, 8, "f16");
  expect_access("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r9], {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, %r10;",
                A::write, S::shared, O::weak, Scope::none, 4, 8, "f32");
}

TEST(PtxSites, Synchronization) {
  auto expect = [](const std::string& text, SiteKind kind, Ordering ordering, Scope scope, bool arrive = false,
                   bool wait = false, bool aligned = false, Proxy proxy = Proxy::generic) {
    SCOPED_TRACE(text);
    Site site = site_of(text);
    EXPECT_EQ(site.kind, kind);
    EXPECT_EQ(site.ordering, ordering);
    EXPECT_EQ(site.scope, scope);
    EXPECT_EQ(site.arrive_only, arrive);
    EXPECT_EQ(site.wait_only, wait);
    EXPECT_EQ(site.aligned, aligned);
    EXPECT_EQ(site.proxy, proxy);
  };
  using K = SiteKind;
  using O = Ordering;
  expect("membar.cta;", K::fence, O::sc, Scope::cta);
  expect("membar.gl;", K::fence, O::sc, Scope::gpu);
  expect("membar.sys;", K::fence, O::sc, Scope::sys);
  expect("fence.sc.cluster;", K::fence, O::sc, Scope::cluster);
  expect("fence.acq_rel.gpu;", K::fence, O::acq_rel, Scope::gpu);
  expect("fence.gpu;", K::fence, O::acq_rel, Scope::gpu);
  expect("fence.mbarrier_init.release.cluster;", K::fence, O::release, Scope::cluster);
  expect("fence.proxy.async.shared::cta;", K::proxy_fence, O::acq_rel, Scope::none, false, false, false, Proxy::async);
  expect("fence.proxy.alias;", K::proxy_fence, O::acq_rel, Scope::none, false, false, false, Proxy::alias);
  expect("fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;", K::proxy_fence, O::acquire, Scope::gpu, false,
         false, false, Proxy::tensormap);
  expect("bar.sync 0;", K::barrier, O::acq_rel, Scope::cta, false, false, true);
  expect("barrier.sync 1, 64;", K::barrier, O::acq_rel, Scope::cta);
  expect("bar.arrive 1, 64;", K::barrier, O::release, Scope::cta, true, false, true);
  expect("bar.red.popc.u32 %r1, 0, %p1;", K::barrier, O::acq_rel, Scope::cta, false, false, true);
  expect("bar.warp.sync 0xffffffff;", K::warp_barrier, O::acq_rel, Scope::none);
  expect("barrier.cluster.arrive.aligned;", K::cluster_barrier, O::release, Scope::cluster, true, false, true);
  expect("barrier.cluster.arrive.relaxed.aligned;", K::cluster_barrier, O::relaxed, Scope::cluster, true, false, true);
  expect("barrier.cluster.wait;", K::cluster_barrier, O::acquire, Scope::cluster, false, true);
  expect("vote.ballot.sync.b32 %r1, %p1, -1;", K::warp_value, O::weak, Scope::none);
  expect("mbarrier.arrive.shared.b64 _, [%r1];", K::mbarrier, O::release, Scope::cta, true);
  expect("mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%r1], 4;", K::mbarrier, O::relaxed,
         Scope::cluster, true);
  expect("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;", K::mbarrier, O::acquire, Scope::cta, false, true);
  expect("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 16;", K::mbarrier, O::relaxed, Scope::cta);
  expect("mbarrier.init.shared.b64 [%r1], 1;", K::mbarrier, O::weak, Scope::none);
  expect("cp.async.commit_group;", K::async_commit, O::weak, Scope::none);
  expect("cp.async.wait_all;", K::async_wait, O::weak, Scope::none, false, true);
  expect("cp.async.bulk.wait_group.read 0;", K::async_wait, O::weak, Scope::none, false, true, false, Proxy::async);
  expect("cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];", K::async_mbarrier_arrive, O::release, Scope::cta, true);
  expect("griddepcontrol.wait;", K::dependency, O::weak, Scope::none, false, true);
  expect("griddepcontrol.launch_dependents;", K::dependency, O::weak, Scope::none, true);
  expect("exit;", K::exit, O::weak, Scope::none);
}

TEST(PtxSites, Copies) {
  Site plain = site_of("cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;");
  EXPECT_EQ(plain.kind, SiteKind::async_copy);
  EXPECT_EQ(plain.space, Space::shared);
  EXPECT_EQ(plain.element_bytes, 16);
  EXPECT_EQ(plain.access, AccessKind::write);
  Site load = site_of(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];");
  EXPECT_EQ(load.kind, SiteKind::bulk_copy);
  EXPECT_EQ(load.space, Space::shared);
  EXPECT_TRUE(load.shared_cluster);
  EXPECT_EQ(load.proxy, Proxy::async);
  Site store = site_of("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;");
  EXPECT_EQ(store.space, Space::global);
  EXPECT_FALSE(store.shared_cluster);
  Site reduce = site_of("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], 64;");
  EXPECT_EQ(reduce.access, AccessKind::atomic);
  EXPECT_EQ(reduce.ordering, Ordering::relaxed);
  EXPECT_EQ(reduce.type, "f32");
}

TEST(PtxSites, AsynchronousStores) {
  Site store = site_of("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r1], {%r2, %r4}, [%r3];");
  EXPECT_EQ(store.kind, SiteKind::bulk_copy);
  EXPECT_EQ(store.access, AccessKind::write);
  EXPECT_EQ(store.space, Space::shared);
  EXPECT_TRUE(store.shared_cluster);
  EXPECT_EQ(store.proxy, Proxy::generic);
  EXPECT_EQ(store.elements, 2);
  Site add =
      site_of("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, [%r3];");
  EXPECT_EQ(add.kind, SiteKind::bulk_copy);
  EXPECT_EQ(add.access, AccessKind::atomic);
  EXPECT_EQ(add.ordering, Ordering::relaxed);
  EXPECT_EQ(add.scope, Scope::cluster);
  Site multiply =
      site_of("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 1, 1, 0, 0;");
  EXPECT_EQ(multiply.kind, SiteKind::bulk_copy);
  EXPECT_EQ(multiply.access, AccessKind::read);
  EXPECT_EQ(multiply.space, Space::shared);
  EXPECT_EQ(multiply.proxy, Proxy::async);
  EXPECT_EQ(site_of("wgmma.commit_group.sync.aligned;").kind, SiteKind::async_commit);
  EXPECT_EQ(site_of("wgmma.wait_group.sync.aligned 1;").kind, SiteKind::async_wait);
  Site fill = site_of("st.bulk.weak.shared::cta [%r1], %rd1, 0;");
  EXPECT_EQ(fill.kind, SiteKind::access);
  EXPECT_EQ(fill.access, AccessKind::write);
  EXPECT_EQ(fill.element_bytes, 8);
}

// The completion mechanism need not be written where an mbarrier is named; fences of shared memory are of nothing else.
TEST(PtxSites, DefaultsOfAsynchronousOperations) {
  EXPECT_EQ(site_of("st.async.weak.shared::cluster.b32 [%r1], %r2, [%r3];").kind, SiteKind::bulk_copy);
  EXPECT_EQ(site_of("red.async.relaxed.cluster.shared::cluster.add.u32 [%r1], %r2, [%r3];").kind, SiteKind::bulk_copy);
  EXPECT_EQ(site_of("red.async.release.gpu.global.add.u32 [%rd1], %r2;").kind, SiteKind::opaque);
  EXPECT_EQ(site_of("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;").space, Space::shared);
  EXPECT_EQ(site_of("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;").space, Space::shared);
  EXPECT_EQ(site_of("fence.proxy.async;").space, Space::generic);
  const Site weak = site_of("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r2];");
  EXPECT_EQ(weak.ordering, Ordering::weak);
  const Site strong = site_of("cp.async.bulk.relaxed.gpu.global.shared::cta.bulk_group.b128 [%rd1], [%r1], 64;");
  EXPECT_EQ(strong.ordering, Ordering::relaxed);
  EXPECT_EQ(strong.scope, Scope::gpu);
  EXPECT_EQ(strong.element_bytes, 16);
}

// multimem loads and stores are weak, reductions relaxed and of system scope (PTX ISA 9.0, 9.7.9.14, multimem).
TEST(PtxSites, DefaultsOfMultimem) {
  const Site load = site_of("multimem.ld_reduce.global.add.f32 %f1, [%rd1];");
  EXPECT_EQ(load.access, AccessKind::read);
  EXPECT_EQ(load.ordering, Ordering::weak);
  EXPECT_EQ(load.scope, Scope::none);
  EXPECT_EQ(site_of("multimem.st.global.f32 [%rd1], %f1;").ordering, Ordering::weak);
  const Site reduction = site_of("multimem.red.global.add.f32 [%rd1], %f1;");
  EXPECT_EQ(reduction.access, AccessKind::atomic);
  EXPECT_EQ(reduction.ordering, Ordering::relaxed);
  EXPECT_EQ(reduction.scope, Scope::sys);
  EXPECT_EQ(site_of("multimem.st.release.gpu.global.f32 [%rd1], %f1;").scope, Scope::gpu);
  EXPECT_EQ(site_of("multimem.cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;").access,
            AccessKind::write);
  EXPECT_EQ(site_of("multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], 64;").access,
            AccessKind::atomic);
}

// What a word means that the tables do not have nobody knows: such sites are opaque, unless it is a hint to a cache.
TEST(PtxSites, LaterPtx) {
  struct Known {
    bool later = false;
    std::optional<Site> site;
  };
  const auto first = [](const std::string& text) {
    const Module m = kernel_of(text);
    Known known;
    bool found = false;
    each_instruction(m.functions[0], [&](std::size_t, const Instruction& i) {
      if (!std::exchange(found, true)) known = {of_later_ptx(i), classify(i, true)};
    });
    return known;
  };
  for (const char* text :
       {"mbarrier.try_wait.parity.phase_type::conditional.shared::cta.b64 %p1, [%r1], %r2;",
        "mbarrier.arrive.release.cta.shared::cluster.multicast::cluster::32b.b64 _, [%r1], %r2;",
        "fence.proxy.async::generic.release.sync_restrict::shared::cluster::read.cluster;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster::32b [%r1], [%rd1], 64, "
        "[%r2], %r3;",
        "ld.later.gpu.global.u32 %r1, [%rd1];", "frobnicate.sync;", "frobnicate.b32 [%rd1], %r1;"}) {
    const Known known = first(text);
    EXPECT_TRUE(known.later) << text;
    ASSERT_TRUE(known.site) << text;
    EXPECT_EQ(known.site->kind, SiteKind::opaque) << text;
  }
  for (const char* text : {"ld.global.L2::evict_later.u32 %r1, [%rd1];", "frobnicate.b32 %r1, %r2;",
                           "mma.sync.aligned.later.m16n8k8.row.col.f16.f16.f16.f16 {%r1,%r2}, {%r1,%r2}, {%r3}, "
                           "{%r1,%r2};",
                           "st.async.release.gpu.global.b32 [%rd1], %r2;",
                           "tcgen05.mma.later.cta_group::1.kind::f16 [%r1], %rd1, %rd1, %r2, %p1;"}) {
    EXPECT_FALSE(first(text).later) << text;
  }
  EXPECT_EQ(first("ld.global.L2::evict_later.u32 %r1, [%rd1];").site->kind, SiteKind::access);
  EXPECT_FALSE(first("frobnicate.b32 %r1, %r2;").site);
}

TEST(PtxSites, OpaqueAndAbsent) {
  for (const char* text :
       {"sust.b.2d.b32.trap [%rd1, {%r1, %r2}], {%r3};", "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f5,%f6}];",
        "tcgen05.wait::ld.sync.aligned;", "multimem.ld_reduce.weak.global.add.f32 %f1, [%rd1];",
        "st.async.release.gpu.global.b32 [%rd1], %r2;"}) {
    EXPECT_EQ(site_of(text).kind, SiteKind::opaque) << text;
  }
  Module m = kernel_of(
      "add.s32 %r1, %r1, 1;\nld.param.u32 %r1, [n];\nprefetch.global.L2 [%rd1];\nmov.u32 %r1, %tid.x;\n"
      "nanosleep.u32 20;\nwgmma.fence.sync.aligned;\nmbarrier.pending_count.b64 %r1, "
      "%rd1;\ncp.async.bulk.prefetch.L2.global [%rd1], 64;");
  EXPECT_TRUE(sites(m).empty());
}

// Behind all other sites those of texels, by size.
TEST(PtxSites, Texels) {
  const Module m = kernel_of(
      "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f5,%f6}];\nld.global.u32 %r1, [%rd1];\n"
      "sust.b.2d.b32.trap [%rd1, {%r1, %r2}], {%r3};");
  const SiteTable table = site_table(m);
  ASSERT_EQ(table.sites.size(), 3 + 2 * SiteTable::texel_sizes);
  ASSERT_EQ(table.texels.at(0).size(), 2u);
  for (const auto& [statement, first] : table.texels[0])
    for (std::uint32_t n = 0; n < SiteTable::texel_sizes; ++n) {
      const Site& site = table.sites.at(first + n);
      const bool fetch = table.sites[table.site_of(0, statement)].opcode.starts_with("tex");
      EXPECT_EQ(site.id, first + n);
      EXPECT_EQ(site.instruction, statement);
      EXPECT_EQ(site.kind, SiteKind::access);
      EXPECT_EQ(site.space, Space::global);
      EXPECT_EQ(site.access, fetch ? AccessKind::read : AccessKind::write);
      EXPECT_EQ(site.ordering, fetch ? Ordering::nc : Ordering::weak);
      EXPECT_EQ(site.element_bytes, 1u << n);
    }
}

// A loop may wait for what functions read that it calls, themselves or through others.
TEST(PtxSites, FunctionsThatLoopsCall) {
  const auto in_loops = [](const std::string& before, const std::string& in_loop) {
    const Module m = module_of(
        ".func f() { membar.gl; ret; }\n.func g() { membar.gl; call f; ret; }\n.func h() { membar.gl; ret; }\n"
        ".entry k() { .reg .pred %p<2>; .reg .u64 %a<2>;\n" +
        before + "\nL: " + in_loop + "\n@%p1 bra L; ret;\nP: .callprototype _ (); }\n");
    std::string found;
    for (const Site& site : site_table(m).sites)
      if (site.in_loop) found += site.function;
    return found;
  };
  EXPECT_EQ(in_loops("call g; call h;", ""), "");
  EXPECT_EQ(in_loops("call g;", "call f;"), "f");
  EXPECT_EQ(in_loops("call h;", "call g;"), "fg");
  EXPECT_EQ(in_loops("", "call %a1, P;"), "fgh"); // any of them
}

TEST(PtxSites, NumbersAndTables) {
  Module m = module_of(
      ".extern .func d();\n.func f() { membar.gl; ret; }\n.entry k() { .reg .pred %p<2>; L: bar.sync 0; @%p1 bra L; "
      "ret; }\n");
  SiteTable table = site_table(m);
  ASSERT_EQ(table.sites.size(), 3u); // the ret of a function is no exit
  EXPECT_TRUE(table.by_function[0].empty());
  for (std::uint32_t i = 0; i < table.sites.size(); ++i) {
    EXPECT_EQ(table.sites[i].id, i);
    std::size_t f = table.sites[i].function == "f" ? 1 : 2;
    EXPECT_EQ(table.site_of(f, table.sites[i].instruction), i);
  }
  EXPECT_FALSE(table.sites[0].in_loop);
  EXPECT_TRUE(table.sites[1].in_loop);
  EXPECT_EQ(table.sites[2].kind, SiteKind::exit);
  EXPECT_EQ(table.sites[1].opcode, "bar.sync");
  EXPECT_EQ(table.sites[1].ptx_line, 6u);
}

std::string first_type(const std::string& body) {
  Module m = kernel_of(body);
  std::vector<Site> all = sites(m);
  return all.empty() ? "" : all[0].type;
}

TEST(PtxSites, TypesFollowTheValue) {
  EXPECT_EQ(first_type("ld.global.b32 %r1, [%rd1];\nmov.b32 %f1, %r1;\nadd.f32 %f2, %f1, %f1;"), "f32");
  EXPECT_EQ(first_type("ld.global.u32 %r1, [%rd1];\nmov.b32 %f1, %r1;"), "f32");
  EXPECT_EQ(first_type("ld.global.b64 %rd2, [%rd1];\nmov.b64 %fd1, %rd2;"), "f64");
  EXPECT_EQ(first_type("ld.global.u16 %rs1, [%rd1];\n{ cvt.f32.f16 %f1, %rs1; }"), "f16");
  EXPECT_EQ(first_type("ld.global.b16 %rs1, [%rd1];\nmov.b32 %f1, {0, %rs1};"), "bf16");
  EXPECT_EQ(first_type("ld.global.b32 %r1, [%rd1];\nmov.b32 {%rs1, %rs2}, %r1;\ncvt.f32.f16 %f1, %rs1;"), "f16x2");
  EXPECT_EQ(first_type("ld.global.b32 %r1, [%rd1];\nadd.bf16x2 %r2, %r1, %r1;"), "bf16x2");
  EXPECT_EQ(first_type("ld.global.v2.b32 {%r1, %r2}, [%rd1];\nadd.f32 %r3, %r1, %r2;"), "f32");
  EXPECT_EQ(first_type("ld.global.v2.b32 {%r1, %r2}, [%rd1];\nadd.f32 %r3, %r1, %r1;\nadd.s32 %r3, %r2, %r2;"), "b32");
  EXPECT_EQ(first_type("ld.global.b32 %r1, [%rd1];\nadd.s32 %r2, %r1, 1;"), "s32");
  EXPECT_EQ(first_type("ld.global.u32 %r1, [%rd1];\nadd.s32 %r2, %r1, 1;"), "u32");
  EXPECT_EQ(first_type("ld.global.b32 %r1, [%rd1];"), "b32");
  EXPECT_EQ(first_type("st.global.b32 [%rd1], %r1;\nselp.b32 %r1, %r2, %r3, %p1;\nmul.f32 %r3, %f1, %f2;"), "f32");
  EXPECT_EQ(first_type("st.global.u16 [%rd1], %rs1;\ncvt.rn.bf16.f32 %rs1, %f1;"), "bf16");
  EXPECT_EQ(first_type("st.global.b32 [%rd1], %r1;\nmov.b32 %r1, {%rs1, %rs2};\ncvt.rn.f16.f32 %rs1, "
                       "%f1;\ncvt.rn.f16.f32 %rs2, %f1;"),
            "f16x2");
  EXPECT_EQ(first_type("atom.global.cas.b32 %r1, [%rd1], %r2, %r3;\nmov.b32 %r3, %f1;"), "f32");
  EXPECT_EQ(first_type("st.global.b32 [%rd1], %r1;\nshfl.sync.down.b32 %r1|%p1, %r2, 1, 31, -1;\nmov.b32 %r2, %f1;"),
            "f32");
  EXPECT_EQ(
      first_type("ld.shared.v4.b32 {%r1,%r2,%r3,%r4}, [%r9];\n"
                 "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
                 "{%f1,%f2,%f3,%f4};"),
      "bf16x2");
  // Used as two kinds of float: as written.
  EXPECT_EQ(first_type("ld.global.b32 %r1, [%rd1];\nadd.f32 %r2, %r1, %r1;\nadd.f16x2 %r2, %r1, %r1;"), "b32");
}

TEST(PtxSites, SourceChains) {
  Module m = module_of(
      ".entry _Z1kPf() {\n.loc 1 10 5\n.loc 2 20 3, function_name $L__n, inlined_at 1 10 5\nbar.sync 0;\n.loc 1 11 "
      "1\nbar.sync 0; }\n"
      ".file 1 \"/x/a.cu\"\n.file 2 \"/x/b.h\"\n.section .debug_str {\n$L__n: .b8 95,90,49,102,105,0\n}\n");
  std::vector<Site> all = sites(m);
  ASSERT_EQ(all.size(), 2u);
  const std::vector<SourceFrame> expected = {{"f(int)", "/x/b.h", 20, 3}, {"k(float*)", "/x/a.cu", 10, 5}};
  EXPECT_EQ(all[0].source, expected);
  ASSERT_EQ(all[1].source.size(), 1u);
  EXPECT_EQ(all[1].source[0].function, "k(float*)");
  EXPECT_EQ(all[1].source[0].line, 11u);
}

} // namespace
} // namespace deadheat::ptx
