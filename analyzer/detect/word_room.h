// Room for words that grows, and is not cleared: a vector would set to zero what is about to be written.
//
// What is written here another core has read, or is about to read: its lines are fetched for writing some time before.
// Else whatever is stored behind them waits for one after the other, and so do loads of what was stored in parts.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

namespace deadheat::detect {

// For writing, and not to share: __builtin_prefetch() means the same only where the compiler may use this instruction,
// which older processors take for none at all.
inline void fetch_for_writing(const void* at) { asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at))); }

class WordRoom {
 public:
  std::uint32_t count() const { return count_; }
  const std::uint64_t* data() const { return room_.get(); }
  std::uint64_t bytes() const { return room_count_ * sizeof(std::uint64_t); }
  void clear() { count_ = 0; } // keeps the memory
  // The end, behind which there is room for so many more.
  std::uint64_t* room(std::uint32_t more) {
    if (room_count_ - count_ < more) [[unlikely]]
      grow(more);
    return room_.get() + count_;
  }
  // Behind it; `usual`: about how many words are added at once.
  void added(std::uint32_t words, std::uint32_t usual) {
    constexpr std::uint32_t ahead = 128;
    for (std::uint32_t i = 0; i < usual; i += 8) fetch_for_writing(room_.get() + count_ + ahead + i);
    count_ += words;
  }

 private:
  void grow(std::uint32_t more) {
    const std::uint64_t wanted = std::max<std::uint64_t>({2 * room_count_, std::uint64_t(count_) + more, 4096});
    auto larger = std::make_unique_for_overwrite<std::uint64_t[]>(wanted);
    if (count_) std::memcpy(larger.get(), room_.get(), count_ * sizeof(std::uint64_t));
    room_ = std::move(larger);
    room_count_ = wanted;
  }
  std::unique_ptr<std::uint64_t[]> room_;
  std::uint64_t room_count_ = 0;
  std::uint32_t count_ = 0;
};

} // namespace deadheat::detect
