// Which strong reads wait, and which take data.
#include "tracer/ptx/polls.h"

#include "ptx_support.h"

namespace deadheat::ptx {
namespace {

// Of the strong reads of a kernel with this body, in order: y they poll, n they do not, ? nothing is known.
std::string polls_of(const Module& module) {
  const SiteTable table = site_table(module);
  const std::map<std::uint32_t, Polls> found = polls(module, table);
  std::string text;
  for (const Site& site : table.sites) {
    const bool read = site.opcode.starts_with("ld.volatile") || site.opcode.starts_with("ld.relaxed") ||
                      site.opcode.starts_with("ld.acquire");
    const auto known = found.find(site.id);
    if (read) text += known == found.end() ? '?' : known->second == Polls::yes ? 'y' : 'n';
  }
  return text;
}
std::string polls_in(const std::string& body) { return polls_of(kernel_of(body)); }

const std::string read = "ld.volatile.global.u32 %r1, [%rd1];\n";
const std::string until_set = "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra L;\n";
const std::string step = "add.u64 %rd1, %rd1, 4;\n";
const std::string more = "setp.ne.u64 %p2, %rd1, %rd2;\n@%p2 bra L;\n";
const std::string done = "st.global.u32 [%rd9], %r9;\nret;\n";

TEST(PtxPolls, LoopsAtOneAddress) {
  EXPECT_EQ(polls_in("L: " + read + until_set + done), "y");
  EXPECT_EQ(polls_in("L: ld.relaxed.gpu.global.u32 %r1, [%rd1+8];\n" + until_set + done), "y");
  EXPECT_EQ(polls_in("L: ld.acquire.gpu.global.u32 %r1, [%rd1];\n" + until_set + done), "?"); // synchronizes anyway
  EXPECT_EQ(polls_in("L: ld.volatile.shared.u32 %r1, [s+4];\n" + until_set + done), "y");
  // The address is computed each time, of what stays; the value goes a long way, through other lanes, too.
  EXPECT_EQ(
      polls_in("L: cvt.u64.u32 %rd4, %r4;\nshl.b64 %rd5, %rd4, 2;\nadd.u64 %rd1, %rd5, %rd6;\n" + read +
               "and.b32 %r2, %r1, 255;\nsetp.ne.u32 %p1, %r2, 7;\nvote.sync.any.pred %p3, %p1, -1;\n@%p3 bra L;\n" +
               done),
      "y");
  EXPECT_EQ(
      polls_in("L: " + read + "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra L;\n" + done),
      "y");
  EXPECT_EQ(polls_in("L: " + read + "setp.eq.u32 %p1, %r1, 0;\nbar.red.and.pred %p3, 0, %p1;\n@%p3 bra L;\n" + done),
            "y");
  EXPECT_EQ(polls_in("L: " + read + "nanosleep.u32 %r5;\nshl.b32 %r5, %r5, 1;\n" + until_set + done), "y");
  // A limit of turns; a vector; two at once, of which one may be set.
  EXPECT_EQ(polls_in("L: " + read + "add.u32 %r5, %r5, 1;\nsetp.gt.u32 %p3, %r5, 99;\n@%p3 bra E;\n" + until_set +
                     "E: " + done),
            "y");
  EXPECT_EQ(polls_in("L: ld.volatile.global.v2.u32 {%r2, %r1}, [%rd1];\n" + until_set + done), "y");
  EXPECT_EQ(polls_in("L: " + read + until_set +
                     "ld.volatile.global.u32 %r2, [%rd2];\nsetp.eq.u32 %p3, %r2, 0;\n@%p3 bra L;\n" + done),
            "yy");
}

TEST(PtxPolls, LoopsWhoseAddressMovesOnWhenTheValueIsThere) {
  // An inner loop in one over locations.
  EXPECT_EQ(polls_in("O:\nL: " + read + until_set + step + "setp.ne.u64 %p2, %rd1, %rd2;\n@%p2 bra O;\n" + done), "y");
  // One loop: a branch, a guard, a choice.
  const std::string tail = more + done;
  EXPECT_EQ(polls_in("L: " + read + "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra N;\nmembar.gl;\n" + step + "N:\n" + tail), "y");
  EXPECT_EQ(polls_in("L: " + read + "setp.ne.u32 %p1, %r1, 0;\n@%p1 " + step + tail), "y");
  EXPECT_EQ(polls_in("L: " + read + "setp.ne.u32 %p1, %r1, 0;\nselp.u64 %rd3, 4, 0, %p1;\nadd.u64 %rd1, %rd1, %rd3;\n" +
                     tail),
            "y");
  // The location's number lies in memory, and its address is computed anew; the loop knows its place twice.
  EXPECT_EQ(polls_in("L: ld.global.u64 %rd1, [%rd4];\n" + read +
                     "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra N;\nadd.u64 %rd4, %rd4, 8;\n" +
                     "N: setp.ne.u64 %p2, %rd4, %rd2;\n@%p2 bra L;\n" + done),
            "y");
  EXPECT_EQ(
      polls_in("L: shl.b64 %rd5, %rd6, 2;\nadd.u64 %rd1, %rd5, %rd7;\n" + read +
               "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra N;\nadd.u64 %rd8, %rd8, 32;\n" +
               "N: not.b64 %rd10, %rd8;\nadd.u64 %rd6, %rd11, %rd10;\nsetp.gt.s64 %p2, %rd6, 0;\n@%p2 bra L;\n" + done),
      "y");
  // An inner loop over those that are set, in one that begins again where it stopped.
  EXPECT_EQ(polls_in("O: setp.eq.u64 %p3, %rd1, %rd2;\n@%p3 bra E;\nL: " + read +
                     "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra O;\n" + step + more + "bra O;\nE: " + done),
            "y");
}

TEST(PtxPolls, LooksBesideTheLoop) {
  const std::string first = read + "setp.ne.u32 %p3, %r1, 0;\n@%p3 bra E;\n";
  EXPECT_EQ(polls_in(first + "L: " + read + until_set + "E: " + done), "yy"); // the first, in front of it
  EXPECT_EQ(polls_in(first + "L: ld.acquire.gpu.global.u32 %r1, [%rd1];\n" + until_set + "E: " + done), "y?");
  EXPECT_EQ(polls_in("L: " + read + "setp.ne.u32 %p3, %r1, 0;\n@%p3 bra E;\n" + read + until_set + "E: " + done),
            "yy"); // unrolled
  EXPECT_EQ(polls_in(first + read + "mov.u32 %r9, %r1;\nE: " + done), "??"); // no loop
  // Two waits for one counter, again and again.
  EXPECT_EQ(
      polls_in("O:\nL: " + read + until_set + "M: " + read + "setp.ne.u32 %p3, %r1, 2;\n@%p3 bra M;\nbar.sync 0;\n" +
               "setp.ne.u32 %p4, %r4, %r5;\nadd.u32 %r4, %r4, 1;\n@%p4 bra O;\n" + done),
      "yy");
}

TEST(PtxPolls, LoopsOverData) {
  const std::string sum = "add.u32 %r9, %r9, %r1;\n";
  EXPECT_EQ(polls_in("L: " + read + sum + step + more + done), "n");
  EXPECT_EQ(polls_in("L: ld.relaxed.gpu.global.u32 %r1, [%rd1];\n" + sum + step + more + done), "n");
  EXPECT_EQ(polls_in("L: " + read +
                     "max.u32 %r9, %r9, %r1;\nshr.u64 %rd3, %rd3, 1;\nadd.u64 %rd1, %rd4, %rd3;\n"
                     "setp.ne.u64 %p2, %rd3, 0;\n@%p2 bra L;\n" +
                     done),
            "n");
  // Values beside a flag that is waited for.
  EXPECT_EQ(polls_in("O:\nL: " + read + until_set +
                     "membar.gl;\nadd.u64 %rd3, %rd1, %rd4;\nld.volatile.global.u32 %r2, [%rd3];\n" +
                     "add.u32 %r9, %r9, %r2;\n" + step + "setp.ne.u64 %p2, %rd1, %rd2;\n@%p2 bra O;\n" + done),
            "yn");
  // The same location each time, as often as something else says.
  const std::string times = "add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p2, %r4, 9;\n@%p2 bra L;\n";
  EXPECT_EQ(polls_in("L: " + read + sum + times + done), "n");
  EXPECT_EQ(polls_in("L: " + read + "st.global.u32 [%rd9], %r1;\n" + times + done), "n");
  // What is done with it decides nothing about the loop, as long as that does not look at what was stored.
  EXPECT_EQ(polls_in("L: " + read + "st.shared.u32 [s], %r1;\nbar.sync 0;\nld.shared.u32 %r4, [s+4];\n" +
                     "setp.lt.u32 %p2, %r4, 9;\n@%p2 bra L;\n" + done),
            "?");
}

TEST(PtxPolls, NothingIsSaid) {
  // Of searches, of lists, of what is tried again until another read allows it, of reads in functions that are called.
  EXPECT_EQ(polls_in("L: " + read + "setp.eq.u32 %p3, %r1, %r2;\n@%p3 bra E;\n" + step + more + "E: " + done), "?");
  EXPECT_EQ(polls_in("L: ld.volatile.global.u64 %rd1, [%rd1];\nsetp.ne.u64 %p2, %rd1, 0;\n@%p2 bra L;\n" + done), "?");
  EXPECT_EQ(polls_in("L: ld.volatile.global.u32 %r3, [%rd2];\n" + read + "ld.volatile.global.u32 %r4, [%rd2];\n" +
                     "setp.ne.u32 %p2, %r3, %r4;\n@%p2 bra L;\nmov.u32 %r9, %r1;\n" + done),
            "??y"); // of the first read, the second is next in any case
  EXPECT_EQ(polls_in("L: " + read + "st.shared.u32 [s], %r1;\nbar.sync 0;\nld.shared.u32 %r2, [s];\n" +
                     "setp.eq.u32 %p1, %r2, 0;\n@%p1 bra L;\n" + done),
            "?");
  EXPECT_EQ(polls_in("L: " + read + "{ .param .b32 p; st.param.b32 [p], %r1; call f, (p); }\n" + step + more + done),
            "?");
  EXPECT_EQ(polls_of(module_of(".func (.reg .u32 %v) f(.reg .u64 %a) { ld.volatile.global.u32 %v, [%a]; ret; }\n")),
            "?");
  EXPECT_EQ(polls_in("L: " + read + "call f, (%r1);\n" + step + more + done), "?");
  // Tries of one read, and of a loop over several.
  const std::string begin = "ld.volatile.shared.u32 %r3, [s];\n", end = "ld.volatile.shared.u32 %r4, [s];\n";
  const std::string again = "setp.ne.u32 %p4, %r3, %r4;\n@%p4 bra O;\n", sum = "add.u32 %r9, %r9, %r1;\n";
  EXPECT_EQ(polls_in("O: " + begin + read + end + again + "mov.u32 %r9, %r1;\n" + done), "??y");
  EXPECT_EQ(polls_in("O: " + begin + "mov.u64 %rd1, %rd5;\nmov.u32 %r9, 0;\nL: " + read + sum + step + more + end +
                     again + done),
            "??y");
  // Whose address lies in a variable that is written meanwhile: it goes on each time, for all that is known.
  EXPECT_EQ(polls_in("L: ld.shared.u64 %rd1, [s];\n" + read + sum + "st.shared.u64 [s], %rd4;\n" +
                     "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra L;\n" + done),
            "?");
  // A loop with two entries.
  EXPECT_EQ(polls_in("@%p4 bra M;\nL: " + read + "M: " + until_set + done), "?");
}

TEST(PtxPolls, VeryManyWays) {
  std::string body = "L: " + read;
  for (int n = 0; n < 40; ++n) // each may move the address, by another power of two
    body += "setp.eq.u32 %p1, %r2, " + std::to_string(n) + ";\n@%p1 add.u64 %rd1, %rd1, " +
            std::to_string(std::uint64_t(4) << n) + ";\n";
  EXPECT_EQ(polls_in(body + until_set + done), "y");
}

} // namespace
} // namespace deadheat::ptx
