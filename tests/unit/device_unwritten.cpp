// What nobody wrote, in kernels of PTX that nvcc does not write so.
#include "device_ptx.h"

namespace deadheat::device_test {
namespace {

std::vector<std::string> errors_of(const std::string& body) {
  device::DeviceOptions options;
  options.check = options.record_accesses = options.unwritten = true;
  Rig rig(module_of(kernel("k", body)), nullptr, options);
  rig.load();
  const std::uint64_t out = rig.alloc(256);
  rig.set(out, 0, 256);
  rig.launch(shape("k", {1, 1, 1}, 1, {1, 1, 1}), {out, out});
  EXPECT_EQ(rig.sync(), device::Progress::done);
  std::vector<std::string> texts;
  for (const auto& e : rig.sink.all<trace::MemoryError>()) texts.push_back(e.text);
  return texts;
}

std::string decides_on(const std::string& address) {
  return "ld.local.u32 %r1, [" + address + "];\nsetp.eq.u32 %p1, %r1, 5;\n@%p1 st.global.u32 [%rd30], %r1;\n";
}
const std::string begin = "stacksave.u64 %rd3;\nalloca.u64 %rd1, 16;\n";
const std::string again = "stackrestore.u64 %rd3;\nalloca.u64 %rd2, 16;\n";

TEST(Unwritten, MemoryOfAllocaIsFreshEachTime) {
  EXPECT_EQ(errors_of(begin + "st.local.u32 [%rd1], %r30;\n" + decides_on("%rd1")), std::vector<std::string>{});
  const std::vector<std::string> found = errors_of(begin + "st.local.u32 [%rd1], %r30;\n" + again + decides_on("%rd2"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("local memory that the thread did not write"), std::string::npos) << found[0];
}

// Of global memory that is discarded; `out` is aligned to 256 bytes.
std::string uses(const std::string& address) {
  return "ld.global.u32 %r1, [" + address + "];\nsetp.eq.u32 %p1, %r1, 5;\n@%p1 st.global.u32 [%rd30+128], %r1;\n";
}

TEST(Unwritten, DiscardedMemoryIsUnwrittenAgain) {
  const std::string discard = "discard.global.L2 [%rd30], 128;\n", write = "st.global.u32 [%rd30+64], %r30;\n";
  EXPECT_EQ(errors_of(uses("%rd30+64")), std::vector<std::string>{});
  EXPECT_EQ(errors_of(discard + uses("%rd30+128")), std::vector<std::string>{});
  EXPECT_EQ(errors_of(discard + write + uses("%rd30+64")), std::vector<std::string>{});
  EXPECT_EQ(errors_of(discard + "ld.global.u32 %r1, [%rd30+64];\nst.global.u32 [%rd30+68], %r1;\n"), // a mere copy
            std::vector<std::string>{});
  for (const char* offset : {"", "+64", "+124"}) {
    const std::vector<std::string> found = errors_of(write + discard + uses(std::string("%rd30") + offset));
    ASSERT_EQ(found.size(), 1u) << offset;
    EXPECT_EQ(found[0],
              "reads memory that nobody wrote since it was allocated or discarded, and decides by it what to do next");
  }
}

// The result that was there, of undefined bits, is gone, too: it is not what is read behind a discard.
TEST(Unwritten, ADiscardEndsWhatWasKnownOfTheMemory) {
  const std::string computes = "ld.shared.u32 %r1, [%r29];\nadd.u32 %r1, %r1, 1;\nst.global.u32 [%rd30+64], %r1;\n";
  EXPECT_NE(errors_of(computes + uses("%rd30+64")).at(0).find("shared memory"), std::string::npos);
  const std::vector<std::string> found = errors_of(computes + "discard.global.L2 [%rd30], 128;\n" + uses("%rd30+64"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].find("shared memory"), std::string::npos) << found[0];
}

// The bits are the same in every run, and others where it is asked what rests on them (search/alternatives.h).
TEST(Unwritten, WhatADiscardLeaves) {
  std::set<std::uint32_t> left;
  for (const std::uint64_t garbage : {0, 0, 1})
    for (const bool check : {false, true}) {
      device::DeviceOptions options;
      options.check = check;
      options.garbage = garbage;
      options.seed = left.size(); // does not matter
      Rig rig(module_of(kernel("k", "discard.L2 [%rd30], 128;\n")), nullptr, options);
      rig.load();
      const std::uint64_t out = rig.alloc(256);
      rig.set(out, 0, 256);
      rig.launch(shape("k", {1, 1, 1}, 1, {1, 1, 1}), {out, out});
      std::uint32_t words[64] = {};
      rig.copy(trace::Copy::Direction::d2h, std::uint64_t(words), out, 256);
      EXPECT_EQ(rig.sync(), device::Progress::done);
      EXPECT_EQ(words[0], words[30]);
      EXPECT_EQ(words[32], 0u);
      left.insert(words[0]);
    }
  EXPECT_EQ(left.size(), 2u);
  EXPECT_TRUE(left.contains(0xDDDDDDDDu));
}

TEST(Unwritten, DiscardsOfOtherMemoryThanGlobalLines) {
  const auto kinds = [](const std::string& body) {
    PtxRig rig(kernel("k", body), 2);
    const std::uint64_t out = rig.alloc(256);
    rig.set(out, 0, 256);
    rig.launch(shape("k", {1, 1, 1}, 1, {1, 1, 1}), {out, out});
    rig.sync();
    return rig.errors();
  };
  const std::string shared = "cvt.u64.u32 %rd1, %r29;\ncvta.shared.u64 %rd1, %rd1;\n";
  EXPECT_EQ(kinds("discard.global.L2 [%rd30+128], 128;"), std::vector<std::string>{});
  EXPECT_EQ(kinds("discard.global.L2 [%rd30+64], 128;"), std::vector<std::string>{"misaligned"});
  EXPECT_EQ(kinds("discard.global.L2 [%rd30+1048576], 128;"), std::vector<std::string>{"out of bounds"});
  EXPECT_EQ(kinds(shared + "discard.L2 [%rd1], 128;"), std::vector<std::string>{"wrong space"});
  EXPECT_EQ(kinds(shared + "discard.global.L2 [%rd1], 128;"), std::vector<std::string>{"wrong space"});
}

} // namespace
} // namespace deadheat::device_test
