// What the host writes into page-locked memory, told from what the device writes there.
//
// Nobody says when the host writes. So memory is compared with a copy of it whenever an operation is submitted that may
// read it: what has changed since was written by the host, before the operation. What an operation may be writing at
// that time is left out, until the host is known to have waited for it: from then on it is what the operation left.
// Bytes that were never looked at are not known, and count as written. Copies are made of pages that matter.
//
// Thread-safety: none. The memory itself is read while the program may write it: what is torn is the program's race.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace deadheat::cupti {

class HostMemory {
 public:
  static constexpr std::uint64_t page_bytes = 4096;
  static constexpr std::uint64_t cost = 2 * page_bytes; // of a page, in bytes
  using Room = std::function<bool(std::uint64_t bytes)>;
  // Of a stretch that the host wrote; false ends the search.
  using Wrote = std::function<bool(std::uint64_t address, const std::uint8_t* data, std::uint64_t bytes)>;

  struct Writer { // an operation that may be writing
    std::uint64_t address = 0, bytes = 0;
    std::uint32_t stream = 0;
    std::uint32_t operation = 0; // not_submitted: it has no number yet
    void* handle = nullptr; // of the stream
  };
  static constexpr std::uint32_t not_submitted = ~0u;

  // False: there is no room, or `wrote` said so.
  bool device_reads(std::uint64_t address, std::uint64_t bytes, const Room& room, const Wrote& wrote);
  bool device_writes(const Writer& writer, const Room& room);
  void submitted(const Writer& writer); // has its number now
  void withdraw(std::uint64_t address, void* handle); // the call failed: nothing writes there
  // Those that `over` says have come to an end.
  template <typename Over>
  void completed(Over&& over) {
    std::vector<Writer> ended;
    std::erase_if(writers_, [&](const Writer& writer) {
      const bool is = over(writer);
      if (is) ended.push_back(writer);
      return is;
    });
    for (const Writer& writer : ended) settle(writer.address, writer.bytes);
  }
  bool anybody_writes() const { return !writers_.empty(); }
  void device_wrote(std::uint64_t address, std::uint64_t bytes); // and has ended; of pages that are followed
  void forget(std::uint64_t address, std::uint64_t bytes); // the memory is gone
  void clear();

 private:
  enum class Byte : std::uint8_t { unknown, known, devices };
  struct Page {
    std::array<std::uint8_t, page_bytes> copy{};
    std::array<Byte, page_bytes> state{};
  };

  Page* page(std::uint64_t number, const Room& room); // null: no room
  void settle(std::uint64_t address, std::uint64_t bytes);
  template <typename Each>
  static void each_page(std::uint64_t address, std::uint64_t bytes, Each&& each);

  std::map<std::uint64_t, std::unique_ptr<Page>> pages_; // by number
  std::vector<Writer> writers_;
};

} // namespace deadheat::cupti
