// Whether a set and a kernel that race wrote the same values.
#include "tests/unit/analyzer_traces.h"

namespace deadheat::test {
namespace {

class Written : public ::testing::Test {
 protected:
  LittleTrace trace;
  void SetUp() override {
    trace.stream(1);
    trace.stream(2);
  }
  void set(std::uint32_t value, std::uint8_t element, std::uint64_t address, std::uint64_t bytes,
           std::uint32_t stream = 2) {
    trace::Set set;
    set.destination = {address, bytes, bytes, 1, 1, bytes};
    set.value = value;
    set.element_bytes = element;
    set.api = "cudaMemsetAsync";
    trace::Operation operation;
    operation.what = set;
    const std::uint32_t id = trace.submit(operation, stream);
    trace.begin(id);
    trace.end(id);
  }
  void store(std::uint64_t address, std::uint32_t digest, const LittleTrace::SiteOf& of) {
    const auto site = trace.site(1, of);
    const auto l = trace.launch();
    trace.access(l, 0, 0, site, address, digest);
    trace.end_launch(l);
  }
  std::string values() {
    const auto races = trace.analyze().races;
    EXPECT_EQ(races.size(), 1u);
    if (races.empty()) return "";
    const std::string& why = races[0].why;
    const bool same = why.find("always wrote the same value") != why.npos,
               different = why.find("did not always write the same value") != why.npos,
               unknown = why.find("is not known") != why.npos;
    EXPECT_EQ(same + different + unknown, 1) << why;
    EXPECT_EQ(races[0].same_value, same) << why;
    return same ? "same" : different ? "different" : "unknown";
  }
  static LittleTrace::SiteOf write(unsigned bytes, unsigned elements = 1) {
    return {.access = AccessKind::write, .bytes = bytes, .elements = elements};
  }
  static std::uint32_t mixed(std::initializer_list<std::uint32_t> words) {
    std::uint32_t digest = 0;
    for (const std::uint32_t& word : words) digest = &word == words.begin() ? word : (digest * 0x9e3779b1u) ^ word;
    return digest;
  }
};

TEST_F(Written, TheValueOfABytewiseSet) {
  set(0xffffff05u, 1, memory, 64);
  store(memory + 8, 0x05050505, write(4));
  EXPECT_EQ(values(), "same");
}
TEST_F(Written, AnotherValue) {
  set(5, 1, memory, 64);
  store(memory + 8, 0x05050504, write(4));
  EXPECT_EQ(values(), "different");
}
TEST_F(Written, ElementsOfTheSetLieAtMultiplesOfTheirSize) {
  set(0x11223344, 4, memory + 4, 64);
  store(memory + 10, 0x1122, write(2));
  EXPECT_EQ(values(), "same");
}
TEST_F(Written, HalfOfAnElement) {
  set(0x1122, 2, memory, 10);
  store(memory + 9, 0x11, write(1));
  EXPECT_EQ(values(), "same");
}
TEST_F(Written, AnElementThatTheSetEndsIn) {
  set(7, 1, memory, 10);
  store(memory + 8, 0x55550707, write(4));
  EXPECT_EQ(values(), "same");
}
TEST_F(Written, EightBytes) {
  set(0x01020304, 4, memory, 64);
  store(memory + 16, mixed({0x01020304, 0x01020304}), write(8));
  EXPECT_EQ(values(), "same");
}
TEST_F(Written, EightBytesThatDiffer) {
  set(0, 1, memory, 64);
  store(memory + 16, mixed({0, 1}), write(8));
  EXPECT_EQ(values(), "different");
}
TEST_F(Written, AVector) {
  set(9, 4, memory, 64);
  store(memory + 16, mixed({9, 9, 9, 9}), write(4, 4));
  EXPECT_EQ(values(), "same");
}
TEST_F(Written, AVectorOfWhichTheSetWritesAPart) {
  set(9, 4, memory, 24);
  store(memory + 16, mixed({9, 9, 8, 8}), write(4, 4));
  EXPECT_EQ(values(), "unknown");
}
TEST_F(Written, OfMatricesNobodyKnowsWhoseBytesTheyAre) {
  set(9, 4, memory, 64);
  auto of = write(4);
  of.opcode = "wmma.store.d.sync.aligned.row.m16n16k16.global.f32";
  store(memory + 16, 9, of);
  EXPECT_EQ(values(), "unknown");
}
TEST_F(Written, WhatADiscardLeavesNobodyKnows) {
  auto discard = write(16, 8);
  discard.opcode = "discard.global.L2";
  set(0xDD, 1, memory, 128);
  store(memory, 0, discard);
  EXPECT_EQ(values(), "unknown");
}
TEST_F(Written, TwoDiscards) {
  auto discard = write(16, 8);
  discard.opcode = "discard.L2";
  const auto site = trace.site(1, discard);
  for (const std::uint32_t stream : {1u, 2u}) {
    const auto l = trace.launch(stream);
    trace.access(l, 0, 0, site, memory);
    trace.end_launch(l);
  }
  EXPECT_EQ(values(), "unknown");
}
TEST_F(Written, TwoSets) {
  set(0x0101, 2, memory, 64);
  set(1, 1, memory + 3, 9, 1);
  EXPECT_EQ(values(), "same");
}
TEST_F(Written, TwoSetsThatDiffer) {
  set(0x0201, 2, memory, 64);
  set(1, 1, memory + 3, 9, 1);
  EXPECT_EQ(values(), "different");
}
TEST_F(Written, TwoSetsThatMeetWhereTheyDoNotDiffer) {
  set(0x0201, 2, memory, 64);
  set(1, 1, memory + 2, 1, 1);
  EXPECT_EQ(values(), "same");
}

} // namespace
} // namespace deadheat::test
