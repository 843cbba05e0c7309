// Which vector reads wait for a flag and take the data beside it, and where their wait is over.
#include "tracer/ptx/flagged_reads.h"

#include "ptx_support.h"
#include "tracer/ptx/polls.h"

namespace deadheat::ptx {
namespace {

// Of the vector reads of a kernel with this body, in order: their data elements, and what ends the wait: "on" another
// address, instructions by their opcodes, the thread's "end", and after "others" instructions behind others; "-": no
// such read.
std::string flagged_in(const std::string& body) {
  const Module module = kernel_of(body);
  const SiteTable table = site_table(module);
  const FlaggedReads found = flagged_reads(module, table, polls(module, table));
  std::string text;
  for (const Site& site : table.sites) {
    if (site.kind != SiteKind::access || site.access != AccessKind::read || site.elements == 1) continue;
    text += text.empty() ? "" : "; ";
    const auto known = found.find(site.id);
    if (known == found.end()) {
      text += "-";
      continue;
    }
    const FlaggedRead& read = known->second;
    for (unsigned e = 0; e < site.elements; ++e) text += read.data >> e & 1 ? std::to_string(e) : "";
    if (read.moves_on) text += " on";
    for (const std::uint32_t behind : read.next.behind) text += " " + table.sites[behind].opcode;
    if (read.next.ends) text += " end";
    for (const std::uint32_t behind : read.behind_others.behind) text += " others " + table.sites[behind].opcode;
  }
  return text;
}

const std::string pair = "ld.volatile.global.v2.u32 {%r1, %r2}, [%rd1];\n";
const std::string four = "ld.volatile.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n";
const std::string until_equal = "setp.ne.u32 %p1, %r2, %r9;\n@%p1 bra L;\n";
const std::string take = "st.global.u32 [%rd9], %r1;\nret;\n";

TEST(PtxFlaggedReads, WaitForOneValue) {
  EXPECT_EQ(flagged_in("L: " + pair + until_equal + take), "0 on st.global.u32");
  EXPECT_EQ(flagged_in("L: " + pair + "setp.eq.u32 %p1, %r2, 7;\n@!%p1 bra L;\n" + take), "0 on st.global.u32");
  EXPECT_EQ(flagged_in("L: " + pair + "setp.eq.u32 %p1, %r9, %r2;\n@%p1 bra E;\nbra L;\nE: " + take),
            "0 on st.global.u32");
  EXPECT_EQ(flagged_in("L: " + pair + "xor.b32 %r5, %r2, %r9;\nsetp.ne.u32 %p1, %r5, 0;\n@%p1 bra L;\n" + take),
            "0 on st.global.u32");
  EXPECT_EQ(flagged_in("L: ld.relaxed.sys.global.v2.b64 {%rd3, %rd4}, [%rd1+16];\nsetp.ne.s64 %p1, %rd4, %rd9;\n"
                       "@%p1 bra L;\nst.global.u64 [%rd8], %rd3;\nret;\n"),
            "0 on st.global.u64");
  // Two flags: at once, one after the other, as numbers.
  EXPECT_EQ(flagged_in("L: " + four +
                       "setp.ne.u32 %p1, %r2, %r9;\nsetp.ne.u32 %p2, %r4, %r9;\nor.pred %p3, %p1, %p2;\n"
                       "@%p3 bra L;\nadd.u32 %r1, %r1, %r3;\n" +
                       take),
            "02 on st.global.u32");
  EXPECT_EQ(flagged_in("L: " + four + until_equal +
                       "setp.ne.u32 %p2, %r4, %r9;\n@%p2 bra L;\nadd.u32 %r1, %r1, %r3;\n" + take),
            "02 on st.global.u32");
  EXPECT_EQ(flagged_in("L: " + four +
                       "setp.eq.u32 %p1, %r2, %r9;\nsetp.eq.and.u32 %p2, %r4, %r9, %p1;\n"
                       "selp.u32 %r5, 1, 0, %p2;\nsetp.eq.u32 %p3, %r5, 0;\n@%p3 bra L;\nadd.u32 %r1, %r1, %r3;\n" +
                       take),
            "02 on st.global.u32");
  // The lanes of a warp wait together, or get the flag from another one.
  EXPECT_EQ(
      flagged_in("L: " + pair + "setp.ne.u32 %p1, %r2, %r9;\nvote.sync.any.pred %p2, %p1, -1;\n@%p2 bra L;\n" + take),
      "0 on st.global.u32");
  EXPECT_EQ(
      flagged_in("L: " + pair + "setp.eq.u32 %p1, %r2, %r9;\nvote.sync.all.pred %p2, %p1, -1;\n@!%p2 bra L;\n" + take),
      "0 on st.global.u32");
  EXPECT_EQ(flagged_in("L: " + pair +
                       "shfl.sync.idx.b32 %r5, %r2, 7, 31, -1;\nsetp.ne.u32 %p1, %r5, %r9;\n"
                       "@%p1 bra L;\n" +
                       take),
            "0 on st.global.u32");
  EXPECT_EQ(flagged_in("mov.u32 %r20, %tid.x;\nsetp.eq.u32 %p4, %r20, 7;\nL: " + pair +
                       "setp.ne.and.u32 %p1, %r2, %r9, %p4;\nvote.sync.any.pred %p2, %p1, -1;\n@%p2 bra L;\n" + take),
            "0 on st.global.u32");
  // What is compared with is computed each time, of what stays.
  EXPECT_EQ(flagged_in("L: add.u32 %r9, %r10, 1;\n" + pair + until_equal + take), "0 on st.global.u32");
  // Nothing comes behind it but the end; a barrier; another read, of what is not told beforehand.
  EXPECT_EQ(flagged_in("L: " + pair + until_equal + "mov.u32 %r7, %r1;\nret;\n"), "0 on end");
  EXPECT_EQ(flagged_in("L: " + pair + until_equal + "bar.sync 0;\n" + take), "0 on bar.sync");
}

TEST(PtxFlaggedReads, OtherWaysOutOfTheLoop) {
  // A flag of another kind, which is looked at from time to time.
  const std::string spin = "add.u32 %r5, %r5, 1;\nsetp.ne.u32 %p2, %r5, 1000;\n@%p2 bra L;\n";
  const std::string aborted = "ld.volatile.global.u32 %r6, [%rd2];\nsetp.eq.u32 %p3, %r6, 0;\n@%p3 bra L;\n";
  const std::string until = "setp.eq.u32 %p1, %r2, %r9;\n@%p1 bra E;\n";
  EXPECT_EQ(flagged_in("L: " + pair + until + spin + aborted + "red.global.add.u32 [%rd3], 1;\nret;\nE: " + take),
            "0 on st.global.u32");
  // The same, looked at before the flag.
  EXPECT_EQ(flagged_in("L: " + pair +
                       "add.u32 %r5, %r5, 1;\nsetp.ne.u32 %p2, %r5, 1000;\n@%p2 bra N;\n"
                       "ld.volatile.global.u32 %r6, [%rd2];\nsetp.ne.u32 %p3, %r6, 0;\n@%p3 bra E;\nN: " +
                       until_equal + "E: " + take),
            "0 on st.global.u32");
  // Who has looked often enough ends, or stops the program.
  for (const std::string end : {"exit;\n", "trap;\n"}) {
    EXPECT_EQ(flagged_in("L: " + pair + until + spin + end + "E: " + take), "0 on st.global.u32");
    EXPECT_EQ(flagged_in("L: add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 1000;\n@%p2 bra N;\n" + end + "N: " + pair +
                         until_equal + take),
              "0 on st.global.u32");
    EXPECT_EQ(flagged_in("mov.u32 %r5, 0;\nL: add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 1000;\n@%p2 bra N;\n" + end +
                         "N: " + pair + until_equal + "st.global.u32 [%rd9], %r1;\nmov.u32 %r5, 0;\n" +
                         "M: add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 1000;\n@%p2 bra O;\n" + end + "O: " + pair +
                         "setp.ne.u32 %p1, %r2, %r10;\n@%p1 bra M;\n" + take),
              "0 on st.global.u32; 0 on st.global.u32");
  }
  EXPECT_EQ(flagged_in("L: " + pair + until + spin + "red.global.add.u32 [%rd3], 1;\nexit;\nE: " + take),
            "0 st.global.u32"); // where he goes on to is not looked at
  EXPECT_EQ(flagged_in("L: " + pair + "setp.ge.u32 %p1, %r2, %r9;\n@%p1 bra E;\n" + spin + "exit;\nE: " + take), "-");
  EXPECT_EQ(
      flagged_in("L: mov.u32 %r5, 0;\n" + pair + until + "setp.lt.u32 %p2, %r2, %r9;\n@%p2 bra N;\nmov.u32 %r5, 1;\n" +
                 "N: setp.eq.u32 %p3, %r5, 0;\n@%p3 bra L;\nexit;\nE: " + take),
      "-"); // it was told so by the flag
  // Who gives up tries the next one.
  EXPECT_EQ(flagged_in("O: mov.u32 %r5, 0;\nL: " + pair + until + spin + "add.u64 %rd1, %rd1, 8;\nbra O;\nE: " + take),
            "0 st.global.u32");
  // Who gives up comes to the same place: from there nobody knows.
  EXPECT_EQ(flagged_in("L: " + pair + until + spin + "E: " + take), "-");
  // A first look, outside of the loop.
  EXPECT_EQ(flagged_in(pair + "setp.eq.u32 %p1, %r2, %r9;\n@%p1 bra E;\nL: " + pair + until_equal + "E: " + take),
            "0 st.global.u32; 0 on st.global.u32");
  // Several at once.
  EXPECT_EQ(flagged_in("L: " + pair +
                       "ld.volatile.global.v2.u32 {%r3, %r4}, [%rd1+8];\nsetp.ne.u32 %p1, %r2, %r9;\n"
                       "setp.ne.u32 %p2, %r4, %r9;\nor.pred %p3, %p1, %p2;\n@%p3 bra L;\nadd.u32 %r1, %r1, %r3;\n" +
                       take),
            "0 on others st.global.u32; 0 on st.global.u32");
  // Whoever comes first takes it.
  EXPECT_EQ(flagged_in("L: " + pair + until_equal + "atom.global.cas.b32 %r7, [%rd3], 0, 1;\nadd.u32 %r1, %r1, %r7;\n" +
                       take),
            "0 on");
  EXPECT_EQ(flagged_in("L: " + pair + until_equal + "atom.global.add.u32 %r7, [%rd3], 1;\n" + take),
            "0 on atom.global.add.u32");
}

TEST(PtxFlaggedReads, TakeWhatIsNewer) {
  EXPECT_EQ(flagged_in("L: " + pair + "setp.lt.u32 %p1, %r2, %r9;\n@%p1 bra L;\n" + take), "-");
  EXPECT_EQ(flagged_in("L: " + pair + "setp.eq.u32 %p1, %r2, 0;\n@%p1 bra L;\n" + take), "-");
  EXPECT_EQ(flagged_in("L: " + pair + "and.b32 %r5, %r2, 1;\nsetp.ne.u32 %p1, %r5, 1;\n@%p1 bra L;\n" + take), "-");
  // Elements against each other, or against what is read each time.
  EXPECT_EQ(flagged_in("L: " + four + "setp.ne.u32 %p1, %r2, %r4;\n@%p1 bra L;\n" + take), "-");
  EXPECT_EQ(flagged_in("L: ld.volatile.global.u32 %r9, [%rd2];\n" + pair + until_equal + take), "-");
  EXPECT_EQ(flagged_in("L: add.u32 %r9, %r9, 1;\n" + pair + until_equal + take), "-");
  // Any of two values.
  EXPECT_EQ(flagged_in("L: " + pair +
                       "setp.eq.u32 %p1, %r2, 1;\nsetp.eq.u32 %p2, %r2, 2;\nor.pred %p3, %p1, %p2;\n"
                       "@!%p3 bra L;\n" +
                       take),
            "-");
  EXPECT_EQ(flagged_in("L: " + pair +
                       "setp.eq.u32 %p1, %r2, 1;\n@%p1 bra E;\nsetp.ne.u32 %p2, %r2, 2;\n@%p2 bra L;\nE: " + take),
            "-");
  // Who need not wait.
  EXPECT_EQ(flagged_in("L: " + pair + "setp.ne.and.u32 %p1, %r2, %r9, %p4;\n@%p1 bra L;\n" + take), "-");
  EXPECT_EQ(flagged_in("L: " + pair +
                       "setp.ne.and.u32 %p1, %r2, %r9, %p4;\nvote.sync.any.pred %p2, %p1, -1;\n"
                       "@%p2 bra L;\n" +
                       take),
            "-");
}

TEST(PtxFlaggedReads, HaveNoDataOfTheirOwn) {
  EXPECT_EQ(flagged_in("L: " + pair + until_equal + "ret;\n"), "-"); // not used
  EXPECT_EQ(flagged_in("L: " + pair + until_equal + pair + take), "-; -"); // read again
  EXPECT_EQ(flagged_in("L: " + pair + "setp.eq.u32 %p2, %r1, 5;\n@%p2 bra L;\n" + until_equal + take),
            "-"); // decides, too
  EXPECT_EQ(flagged_in("L: ld.volatile.global.u32 %r1, [%rd1];\nsetp.ne.u32 %p1, %r1, %r9;\n@%p1 bra L;\n" + take), "");
}

} // namespace
} // namespace deadheat::ptx
