// Room for words that grows, and is not cleared: a vector would set to zero what is about to be written.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

namespace deadheat::detect {

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
  void added(std::uint32_t words) { count_ += words; }

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
