// What may be performed before the value of a load is there.
#include "tracer/ptx/taken.h"

#include "ptx_support.h"

namespace deadheat::ptx {
namespace {

// Of the first site, a load of %f1 from [%rd1]: opcodes of the stores that may come before, "sync", "anything".
std::string ahead(const std::string& body, const std::string& load = "ld.global.nc.f32 %f1, [%rd1];") {
  const Module module = kernel_of(load + "\n" + body);
  const SiteTable table = site_table(module);
  const Ahead found = ahead_of(module, table, 0);
  if (found.anything) return "anything";
  std::string text = found.synchronization ? "sync" : "";
  for (const std::uint32_t site : found.stores) text += (text.empty() ? "" : " ") + table.sites[site].opcode;
  return text;
}

const std::string computed = "mul.f32 %f2, %f1, %f1;\nadd.f32 %f3, %f2, %f4;\n";

TEST(PtxTaken, ByTheStoreOfWhatIsComputedFromIt) {
  EXPECT_EQ(ahead(computed + "st.global.f32 [%rd2], %f3;\nbar.sync 0;\nst.global.f32 [%rd2], %f9;\nret;"), "");
  EXPECT_EQ(ahead(computed + "st.shared.f32 [%r2], %f3;\nbar.sync 0;\nst.global.f32 [%rd2], %f9;\nret;"), "");
  EXPECT_EQ(ahead("cvt.rzi.u64.f32 %rd3, %f1;\nst.global.f32 [%rd3], %f9;\nbar.sync 0;\nret;"), ""); // says where
  EXPECT_EQ(ahead("red.shared.add.f32 [%r2], %f1;\nbar.sync 0;\nret;"), "");
  EXPECT_EQ(ahead("st.global.v4.f32 [%rd2], {%f9, %f9, %f3, %f9};\nbar.sync 0;\nret;",
                  "ld.global.nc.v2.f32 {%f3, %f5}, [%rd1];"),
            "");
  // What is found by it needs it, too.
  EXPECT_EQ(
      ahead("cvt.rzi.u64.f32 %rd3, %f1;\nld.global.f32 %f3, [%rd3];\nst.shared.f32 [%r2], %f3;\nbar.sync 0;\nret;"),
      "");
}

TEST(PtxTaken, ByShufflesAndVotes) {
  EXPECT_EQ(ahead("mov.b32 %r1, %f1;\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\nbar.sync 0;\nret;"), "");
  EXPECT_EQ(ahead("setp.gt.f32 %p1, %f1, %f2;\nvote.sync.any.pred %p2, %p1, -1;\nbar.sync 0;\nret;"), "");
  EXPECT_EQ(ahead("setp.gt.f32 %p1, %f1, %f2;\nbarrier.sync 0;\nret;"), "sync");
  EXPECT_EQ(ahead("setp.gt.f32 %p1, %f1, %f2;\nbarrier.red.popc.u32 %r1, 0, %p1;\nst.global.u32 [%rd2], %r1;\nret;"),
            "");
}

TEST(PtxTaken, TooLate) {
  EXPECT_EQ(ahead("st.global.f32 [%rd2], %f9;\nst.global.f32 [%rd3], %f1;\nret;"), "st.global.f32");
  EXPECT_EQ(ahead("bar.sync 0;\nst.global.f32 [%rd3], %f1;\nret;"), "sync");
  EXPECT_EQ(ahead("bar.warp.sync -1;\nst.global.f32 [%rd3], %f1;\nret;"), "sync");
  EXPECT_EQ(ahead("fence.acq_rel.gpu;\nst.global.f32 [%rd3], %f1;\nret;"), "sync");
  EXPECT_EQ(ahead("atom.global.add.u32 %r2, [%rd2], 1;\nst.global.f32 [%rd3], %f1;\nret;"), "sync");
  EXPECT_EQ(ahead("st.release.gpu.global.f32 [%rd2], %f9;\nst.global.f32 [%rd3], %f1;\nret;"), "sync");
  EXPECT_EQ(ahead("setp.gt.f32 %p1, %f1, %f2;\n@%p1 bra NEXT;\nNEXT: bar.sync 0;\nret;"), "sync"); // may be predicated
  EXPECT_EQ(ahead("ret;"), ""); // never
}

TEST(PtxTaken, OnOneWayOnly) {
  const std::string both =
      "@%p2 bra OTHER;\nst.shared.f32 [%r2], %f1;\nOTHER: bar.sync 0;\nst.global.f32 [%rd2], %f9;\nret;";
  EXPECT_EQ(ahead(both), "sync st.global.f32");
  EXPECT_EQ(ahead("@%p2 st.shared.f32 [%r2], %f1;\nbar.sync 0;\nret;"), "sync");
  EXPECT_EQ(ahead("setp.gt.f32 %p1, %f1, %f2;\n@%p1 st.shared.f32 [%r2], %f9;\nbar.sync 0;\nret;"),
            ""); // tells whether
  EXPECT_EQ(ahead("@%p2 st.global.f32 [%rd2], %f1;\nret;"), ""); // that store itself needs it
  // Around a loop: what was accumulated is stored at the end.
  EXPECT_EQ(ahead("add.f32 %f3, %f3, %f1;\n@%p1 bra AGAIN;\nst.shared.f32 [%r2], %f3;\nbar.sync 0;\nret;",
                  "AGAIN: ld.global.nc.f32 %f1, [%rd1];"),
            "");
}

TEST(PtxTaken, MemoryOfItsOwn) {
  EXPECT_EQ(ahead("st.f32 [%rd2], %f1;\nbar.sync 0;\nret;"), "sync"); // may be
  EXPECT_EQ(ahead("st.f32 [%rd2], %f1;\nret;"), "");
}

TEST(PtxTaken, NotKnown) {
  EXPECT_EQ(ahead("st.global.f32 [%rd2], %f1;\nret;", "atom.global.add.f32 %f1, [%rd1], %f2;"), "anything");
  const Module module =
      module_of(".func f()\n{\n.reg .f32 %f<2>;\n.reg .b64 %rd<2>;\nld.global.nc.f32 %f1, [%rd1];\nret;\n}\n");
  EXPECT_TRUE(ahead_of(module, site_table(module), 0).anything); // what its caller does, nobody looks at
  EXPECT_TRUE(ahead_of(module, site_table(module), 7).anything);
}

} // namespace
} // namespace deadheat::ptx
