// What the arguments of opaque launches reach, with and without blocks of a caching allocator.
#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "deadheat/footprint.h"
#include "tracer/cupti/reach.h"

namespace deadheat::cupti {
namespace {

constexpr std::uint64_t base = 0x7f0000000000, segment = 2 << 20;
using Range = std::pair<std::uint64_t, std::uint64_t>;

struct ReachTest : testing::Test {
  Reach reach;
  std::vector<std::uint32_t> whole;
  std::vector<Range> parts;

  void allocate(std::uint32_t id, std::uint64_t address, std::uint64_t bytes = segment) {
    trace::Allocate memory;
    memory.allocation = id;
    memory.address = address;
    memory.bytes = bytes;
    reach.allocated(memory);
  }
  void look(const std::vector<std::uint64_t>& words, bool alone = true) {
    std::vector<std::uint64_t> marked, reached;
    for (std::uint64_t word : words) marked.push_back(Reach::marked(word, alone));
    whole.clear();
    parts.clear();
    reach.of(marked, reached);
    trace::each_reached(
        reached, [&](std::uint32_t id) { whole.push_back(id); },
        [&](std::uint64_t address, std::uint64_t bytes) { parts.emplace_back(address, bytes); });
  }
};

TEST_F(ReachTest, WithoutBlocksItIsAllocations) {
  allocate(1, base);
  allocate(2, base + 4 * segment);
  look({base + 5, 7, base + 4 * segment, base + 100, base + segment});
  EXPECT_EQ(whole, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_TRUE(parts.empty());
}

TEST_F(ReachTest, WithBlocksItIsBlocks) {
  allocate(1, base);
  allocate(2, base + segment);
  EXPECT_TRUE(reach.block_taken(base, 512));
  EXPECT_TRUE(reach.block_taken(base + 512, 1024));
  look({base + 600, base + 1535, base + segment});
  EXPECT_EQ(whole, std::vector<std::uint32_t>{2});
  EXPECT_EQ(parts, std::vector<Range>({{base + 512, 1024}}));
}

// What ATen's kernels over lists of tensors are handed, by value: addresses of `lists` lists, elements of each tensor,
// and of every block which tensor and which part of it it works on (aten/src/ATen/native/cuda/MultiTensorApply.cuh,
// TensorListMetadata). As many as fit into 4 KB of parameters, or into 32 764 bytes (CUDA C++ Programming Guide,
// "Kernel Function Parameters").
template <std::size_t lists, std::size_t tensors, std::size_t blocks>
struct TensorLists {
  std::uint64_t addresses[lists][tensors];
  std::int64_t elements[tensors];
  std::uint8_t block_to_tensor[blocks];
  std::int32_t block_to_part[blocks], start;
};

template <typename Lists>
struct ReachOfLists : ReachTest {
  Lists given{};
  std::size_t tensors = std::size(given.elements);

  // Blocks of 512 bytes, of which each second one is a tensor's. Returns what is reached when the first `used` are
  // handed over.
  std::vector<Range> hand_over(std::size_t used) {
    std::vector<Range> expected;
    const std::size_t count = std::size(given.addresses) * tensors;
    allocate(1, base, count * 1024);
    allocate(2, base + count * 1024, segment);
    for (std::size_t i = 0; i < 2 * count; ++i) EXPECT_TRUE(reach.block_taken(base + i * 512, 512));
    for (std::size_t list = 0; list < std::size(given.addresses); ++list) {
      for (std::size_t i = 0; i < used; ++i) {
        const std::uint64_t block = base + (list * tensors + i) * 1024;
        given.addresses[list][i] = block + (list ? 128 : 0); // views of it
        expected.emplace_back(block, 512);
      }
    }
    for (std::size_t i = 0; i < used; ++i) given.elements[i] = std::int64_t(1) << (i % 40);
    for (std::size_t i = 0; i < std::size(given.block_to_tensor); ++i) {
      given.block_to_tensor[i] = std::uint8_t(i);
      given.block_to_part[i] = std::int32_t(i / 3);
    }
    std::vector<std::uint64_t> words(sizeof given / 8);
    std::memcpy(words.data(), &given, words.size() * 8);
    look(words, false);
    EXPECT_TRUE(whole.empty());
    return expected;
  }
};

struct ReachOfListsTest : ReachOfLists<TensorLists<4, 36, 320>> {};
struct ReachOfLargeListsTest : ReachOfLists<TensorLists<4, 252, 2240>> {};
static_assert(sizeof(TensorLists<4, 252, 2240>) > 4096 && sizeof(TensorLists<4, 252, 2240>) <= 32764);

TEST_F(ReachOfListsTest, EachTensorOfListsIsReachedAndNothingElse) {
  const std::vector<Range> expected = hand_over(36);
  EXPECT_EQ(parts, expected);
}

TEST_F(ReachOfListsTest, ListsMayBeShorter) {
  const std::vector<Range> expected = hand_over(5);
  EXPECT_EQ(parts, expected);
}

TEST_F(ReachOfLargeListsTest, EachTensorOfListsIsReachedAndNothingElse) {
  const std::vector<Range> expected = hand_over(252);
  EXPECT_EQ(parts, expected);
}

TEST_F(ReachTest, WhereNoBlockIsParametersReachAllUpToTheNeighbours) {
  allocate(1, base);
  for (std::uint64_t at : {base, base + 512, base + 4096}) EXPECT_TRUE(reach.block_taken(at, 512));
  EXPECT_TRUE(reach.block_given(base + 512, 512));
  look({base + 512});
  EXPECT_EQ(parts, std::vector<Range>({{base + 512, 4096 - 512}}));
  look({base + 8192});
  EXPECT_EQ(parts, std::vector<Range>({{base + 4608, segment - 4608}}));
  EXPECT_TRUE(reach.block_given(base, 512));
  EXPECT_TRUE(reach.block_given(base + 4096, 512));
  look({base + 512});
  EXPECT_EQ(parts, std::vector<Range>({{base, segment}}));
}

TEST_F(ReachTest, WhereNoBlockIsWordsOfStructuresReachTheBlockThatWasThere) {
  allocate(1, base);
  EXPECT_TRUE(reach.block_taken(base, 512));
  EXPECT_TRUE(reach.block_taken(base + 512, 4096));
  look({base + 8192}, false); // there was none
  EXPECT_TRUE(parts.empty() && whole.empty());
  EXPECT_TRUE(reach.block_given(base + 512, 4096));
  look({base + 511, base + 600, base + 4608}, false);
  EXPECT_EQ(parts, std::vector<Range>({{base, 512}, {base + 512, 4096}}));
  // The largest counts, as far as no live one lies there.
  EXPECT_TRUE(reach.block_taken(base + 512, 1024));
  EXPECT_TRUE(reach.block_given(base + 512, 1024));
  EXPECT_TRUE(reach.block_taken(base + 2048, 512));
  look({base + 512, base + 3000}, false);
  EXPECT_EQ(parts, std::vector<Range>({{base + 512, 1536}, {base + 2560, 2048}}));
  // With its memory, that is gone, too.
  reach.freed(1);
  allocate(2, base);
  EXPECT_TRUE(reach.block_taken(base, 512));
  look({base + 512}, false);
  EXPECT_TRUE(parts.empty() && whole.empty());
}

TEST_F(ReachTest, WhereNoBlockIsNoneOfOtherMemoryIsReached) {
  allocate(1, base);
  allocate(2, base + segment);
  allocate(3, base + 2 * segment);
  EXPECT_TRUE(reach.block_taken(base + 2 * segment, 512));
  EXPECT_TRUE(reach.block_taken(base, 512));
  EXPECT_TRUE(reach.block_taken(base + segment, segment));
  EXPECT_TRUE(reach.block_given(base + segment, segment));
  look({base + 1024});
  EXPECT_EQ(parts, std::vector<Range>({{base + 512, segment - 512}}));
  look({base + segment + 5});
  EXPECT_EQ(parts, std::vector<Range>({{base + segment, segment}}));
}

TEST_F(ReachTest, AFormerBlockMayHaveLainInSeveralMappings) {
  for (std::uint32_t i = 0; i < 4; ++i) allocate(i + 1, base + i * segment);
  EXPECT_TRUE(reach.block_taken(base, 512));
  EXPECT_TRUE(reach.block_taken(base + 4096, 2 * segment));
  EXPECT_TRUE(reach.block_given(base + 4096, 2 * segment));
  const Range first = {base + 4096, segment - 4096}, second = {base + segment, segment};
  for (std::uint64_t word : {base + 4096, base + segment, base + 2 * segment + 100}) {
    look({word}, false);
    EXPECT_EQ(parts, std::vector<Range>({first, second, {base + 2 * segment, 4096}}));
    look({word});
    EXPECT_EQ(parts, std::vector<Range>({{base + 512, segment - 512}, second, {base + 2 * segment, segment}}));
  }
  reach.freed(2);
  look({base + 4096});
  EXPECT_EQ(parts, std::vector<Range>({{base + 512, segment - 512}}));
}

TEST_F(ReachTest, WhereNotAllIsToldTheLastWordCounts) {
  allocate(1, base);
  reach.has_gaps();
  EXPECT_TRUE(reach.block_taken(base, 512));
  EXPECT_TRUE(reach.block_taken(base + 256, 512));
  look({base + 300});
  EXPECT_EQ(parts, std::vector<Range>({{base + 256, 512}}));
  EXPECT_TRUE(reach.block_given(base + 1024, 512));
  EXPECT_TRUE(reach.block_given(base + 256, 1024));
  EXPECT_TRUE(reach.block_taken(base + 512, 512));
  look({base + 512});
  EXPECT_EQ(parts, std::vector<Range>({{base + 512, 512}}));
}

// cuMemMap, several mappings one behind the other: a range lies in one allocation.
TEST_F(ReachTest, BlocksMayLieInSeveralMappings) {
  allocate(1, base);
  allocate(2, base + segment);
  allocate(3, base + 2 * segment);
  EXPECT_TRUE(reach.block_taken(base + 4096, 2 * segment));
  look({base + segment + 5});
  EXPECT_EQ(parts,
            std::vector<Range>({{base + 4096, segment - 4096}, {base + segment, segment}, {base + 2 * segment, 4096}}));
  reach.freed(1);
  look({base + 2 * segment});
  EXPECT_EQ(parts, std::vector<Range>({{base + segment, segment}, {base + 2 * segment, segment}}));
}

TEST_F(ReachTest, NothingIsBelievedOnceSomethingMakesNoSense) {
  const auto wrong = [&](auto&& step) {
    reach = Reach();
    allocate(1, base);
    EXPECT_TRUE(reach.block_taken(base + 1024, 1024));
    look({base + 1024});
    EXPECT_EQ(parts.size(), 1u);
    EXPECT_FALSE(step());
    EXPECT_TRUE(reach.block_taken(base, 512));
    look({base + 1024, base});
    EXPECT_EQ(whole, std::vector<std::uint32_t>{1});
    EXPECT_TRUE(parts.empty());
  };
  wrong([&] { return reach.block_taken(base + 1024, 512); });
  wrong([&] { return reach.block_taken(base + 2047, 512); });
  wrong([&] { return reach.block_taken(base + 512, 513); });
  wrong([&] { return reach.block_taken(base, 0); });
  wrong([&] { return reach.block_taken(base, ~std::uint64_t(0)); });
  wrong([&] { return reach.block_given(base + 1024, 512); });
  wrong([&] { return reach.block_given(base + 512, 512); });
}

TEST_F(ReachTest, MemoryThatIsNotKnownSaysNothing) {
  allocate(1, base);
  EXPECT_TRUE(reach.block_taken(base + segment, 512));
  EXPECT_TRUE(reach.block_given(base + segment, 1024));
  EXPECT_TRUE(reach.block_given(base + 512, 512));  // of an allocation without blocks
  look({base});
  EXPECT_EQ(whole, std::vector<std::uint32_t>{1});
}

TEST_F(ReachTest, BlocksEndWithTheirMemory) {
  allocate(1, base);
  EXPECT_TRUE(reach.block_taken(base, 512));
  reach.freed(1);
  allocate(2, base);
  look({base});
  EXPECT_EQ(whole, std::vector<std::uint32_t>{2});
  EXPECT_TRUE(reach.block_taken(base, 1024));
}

}  // namespace
}  // namespace deadheat::cupti
