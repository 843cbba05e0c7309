// Page-locked memory is kept and compared, as far as there is room and it may be read.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstring>
#include <utility>
#include <vector>

#include "tracer/cupti/locked_memory.h"

namespace deadheat::cupti {
namespace {

constexpr std::uint64_t page = 4096;
using Changes = std::vector<std::pair<std::uint64_t, std::vector<std::uint8_t>>>;

class Pages { // of zeros
 public:
  explicit Pages(std::uint64_t bytes, int kind = MAP_PRIVATE)
      : at_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)), bytes_(bytes) {}
  ~Pages() { munmap(at_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(at_); }
  std::uint8_t& operator[](std::uint64_t i) { return static_cast<std::uint8_t*>(at_)[i]; }

 private:
  void* at_;
  std::uint64_t bytes_;
};

struct LockedMemoryTest : testing::Test {
  LockedMemory memory;
  std::uint64_t left_out = 0;

  Changes changes(const std::vector<trace::Span>& without = {}) {
    Changes all;
    EXPECT_TRUE(memory.compare(without, [&](std::uint64_t address, std::vector<std::uint8_t> now) {
      all.emplace_back(address, std::move(now));
    }));
    return all;
  }
};

TEST_F(LockedMemoryTest, ChangedBytesAndNoOthers) {
  Pages pages(3 * page);
  memory.allocated(pages.address(), 3 * page);
  ASSERT_TRUE(memory.keep({}, left_out));
  pages[1] = 5;
  pages[3] = 6;
  pages[page - 1] = 7;
  pages[page] = 8;
  const std::uint64_t at = pages.address();
  EXPECT_EQ(changes(), (Changes{{at + 1, {5}}, {at + 3, {6}}, {at + page - 1, {7, 8}}}));
  EXPECT_EQ(changes({{at, 2}, {at + page, 1}}), (Changes{{at + 3, {6}}, {at + page - 1, {7}}}));
  EXPECT_EQ(left_out, 0u);
}

TEST_F(LockedMemoryTest, WhatMustNotBeRead) {
  Pages slow(page), shared(page, MAP_SHARED), own(page);
  for (Pages* pages : {&slow, &shared, &own}) memory.allocated(pages->address(), page);
  memory.not_to_be_read(slow.address());
  memory.may_vanish(shared.address());
  memory.may_vanish(own.address());
  ASSERT_TRUE(memory.keep({}, left_out));
  for (Pages* pages : {&slow, &shared, &own}) (*pages)[7] = 1;
  EXPECT_EQ(changes(), (Changes{{own.address() + 7, {1}}}));
}

TEST_F(LockedMemoryTest, MemoryThatIsGone) {
  Pages freed(page), again(page);
  memory.allocated(freed.address(), page);
  memory.allocated(again.address(), page);
  {
    const Pages vanishes(page);
    memory.allocated(vanishes.address(), page);
    memory.may_vanish(vanishes.address());
    ASSERT_TRUE(memory.keep({}, left_out));
  }
  memory.freed(freed.address());
  memory.allocated(again.address(), page); // another one there
  freed[0] = again[0] = 1;
  EXPECT_EQ(changes(), Changes());
}

TEST_F(LockedMemoryTest, MoreThanThereIsRoomFor) {
  const std::uint64_t most = LockedMemory::most_bytes;
  Pages large(2 * most), used_first(most / 2), used_last(most / 2 + page);
  memory.allocated(large.address(), 2 * most);
  memory.allocated(used_first.address(), most / 2);
  memory.allocated(used_last.address(), most / 2 + page);
  memory.used(used_first.address() + 5, 1);
  memory.used(used_last.address() + 5, 2);
  ASSERT_TRUE(memory.keep({{large.address() + most, page}}, left_out));
  large[0] = large[most] = used_first[0] = used_last[0] = 1;
  EXPECT_EQ(changes(), (Changes{{large.address() + most, {1}}, {used_last.address(), {1}}}));
  EXPECT_EQ(left_out, 2 * most - page + most / 2);
  memory.used(used_first.address(), 3);
  ASSERT_TRUE(memory.keep({}, left_out));
  used_first[0] = used_last[0] = 2;
  EXPECT_EQ(changes(), (Changes{{used_first.address(), {2}}}));
}

TEST_F(LockedMemoryTest, TooManyChanges) {
  Pages pages(256 * page);
  memory.allocated(pages.address(), 256 * page);
  ASSERT_TRUE(memory.keep({}, left_out));
  for (std::uint64_t i = 0; i < 2 * LockedMemory::most_changes + 2; i += 2) pages[i] = 1;
  EXPECT_FALSE(memory.compare({}, [](std::uint64_t, const std::vector<std::uint8_t>&) {}));
}

} // namespace
} // namespace deadheat::cupti
