// Which write of a stream into memory another's wait counts as having seen (tracer/cupti/stream_values.h).
#include "tracer/cupti/stream_values.h"

#include <gtest/gtest.h>

#include <vector>

namespace deadheat::cupti {
namespace {

using Until = StreamValues::Until;

class StreamWrites : public ::testing::Test {
 protected:
  static constexpr std::uint64_t word = 0x1000;
  StreamValues values;
  std::uint32_t records = 0;

  void writes(std::initializer_list<std::uint64_t> list, unsigned bits = 32) {
    for (std::uint64_t value : list) values.wrote(word, {value, bits, ++records});
  }
  // The number of the write, from 1; 0: none.
  std::uint32_t seen(std::uint64_t value, Until until, unsigned bits = 32) const {
    const StreamValues::Write* write = values.seen(word, value, bits, until);
    return write ? write->record : 0;
  }
};

TEST_F(StreamWrites, OneThatDoesNotSatisfyIsNotSeen) {
  EXPECT_EQ(seen(0, Until::at_least), 0u); // nobody wrote
  writes({4, 1});
  EXPECT_EQ(seen(5, Until::at_least), 0u);
  EXPECT_EQ(seen(4, Until::equal), 1u);
  EXPECT_EQ(seen(2, Until::equal), 0u);
  EXPECT_EQ(seen(4, Until::a_bit), 1u);
  EXPECT_EQ(seen(2, Until::a_bit), 0u);
  EXPECT_EQ(seen(0xffffffff, Until::no_bit), 0u);
  EXPECT_EQ(seen(0xfffffffb, Until::no_bit), 2u); // 4 sets the last bit
  EXPECT_EQ(values.seen(word + 4, 1, 32, Until::equal), nullptr);
}

TEST_F(StreamWrites, OfACounterTheFirstThatSatisfiesIsSeen) {
  writes({1, 2, 3});
  EXPECT_EQ(seen(1, Until::at_least), 1u);
  EXPECT_EQ(seen(2, Until::at_least), 2u);
  EXPECT_EQ(seen(3, Until::at_least), 3u);
}

TEST_F(StreamWrites, OfOneThatIsPutBackTheLast) {
  writes({1, 0, 1}); // seen
  EXPECT_EQ(seen(1, Until::at_least), 3u);
  writes({1}); // not seen: it was put back in between, or the wait would be over already
  EXPECT_EQ(seen(1, Until::at_least), 4u);
  EXPECT_EQ(seen(1, Until::equal), 4u);
}

TEST_F(StreamWrites, WhatWasWrittenIntoMemoryThatIsGoneIsNotSeen) {
  writes({1});
  values.wrote(word + 64, {1, 32, 7});
  std::vector<std::uint64_t> forgotten;
  values.forget(word - 16, 32, [&](std::uint64_t address) { forgotten.push_back(address); });
  EXPECT_EQ(forgotten, std::vector<std::uint64_t>{word});
  EXPECT_EQ(seen(1, Until::equal), 0u);
  EXPECT_NE(values.seen(word + 64, 1, 32, Until::equal), nullptr);
}

TEST_F(StreamWrites, CountersWrapAround) {
  writes({0xfffffffe, 0xffffffff, 0, 1});
  EXPECT_EQ(seen(0xffffffff, Until::at_least), 2u);
  EXPECT_EQ(seen(0, Until::at_least), 3u);
  EXPECT_EQ(seen(0x80000002, Until::at_least), 1u);
}

TEST_F(StreamWrites, OfTwoWidthsTheBitsOfBothCount) {
  writes({0x100000001}, 64);
  EXPECT_EQ(seen(0x100000001, Until::equal, 64), 1u);
  EXPECT_EQ(seen(1, Until::equal, 64), 0u);
  EXPECT_EQ(seen(1, Until::equal, 32), 1u);
  writes({2}); // its upper half is not known
  EXPECT_EQ(seen(0x100000002, Until::equal, 64), 2u);
}

TEST_F(StreamWrites, OldOnesAreForgotten) {
  for (std::uint64_t value = 1; value <= 10 * StreamValues::most_writes; ++value) writes({value});
  EXPECT_EQ(seen(1, Until::equal), 0u);
  EXPECT_EQ(seen(10 * StreamValues::most_writes, Until::at_least), records);
}

} // namespace
} // namespace deadheat::cupti
