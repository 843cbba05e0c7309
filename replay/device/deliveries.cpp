#include "replay/device/deliveries.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <set>
#include <unordered_map>
#include <utility>

namespace deadheat::device {

// The host's memory as some writes leave it, one after the other.
class Deliveries::Image {
 public:
  void write(const Write& write) {
    std::uint64_t at = 0;
    rows(write.destination, [&](std::uint64_t address, std::uint64_t bytes) {
      each(address, bytes, [&](std::uint8_t* place, std::uint64_t n) {
        std::memcpy(place, write.bytes.data() + at, n);
        at += n;
      });
    });
  }
  // Of a range all of which was written.
  std::vector<std::uint8_t> read(const trace::MemoryRange& range) const {
    std::vector<std::uint8_t> bytes;
    bytes.reserve(range.bytes());
    rows(range, [&](std::uint64_t address, std::uint64_t width) {
      const_cast<Image*>(this)->each(address, width, [&](const std::uint8_t* place, std::uint64_t n) {
        bytes.insert(bytes.end(), place, place + n);
      });
    });
    return bytes;
  }

  template <typename Do>
  static void rows(const trace::MemoryRange& range, Do&& row) {
    for (std::uint64_t r = 0; r < range.rows(); ++r) row(range.row(r), range.width);
  }

 private:
  static constexpr std::uint64_t page = 4096;
  template <typename Do>
  void each(std::uint64_t address, std::uint64_t bytes, Do&& piece) {
    while (bytes) {
      const std::uint64_t offset = address % page, n = std::min(bytes, page - offset);
      piece(pages_[address / page].data() + offset, n);
      address += n;
      bytes -= n;
    }
  }
  std::unordered_map<std::uint64_t, std::array<std::uint8_t, page>> pages_;
};

void Deliveries::submitted(std::uint32_t operation, const std::vector<std::uint32_t>& after) {
  Operation& submitted = unknown_[operation];
  std::copy_if(after.begin(), after.end(), std::back_inserter(submitted.after),
               [&](std::uint32_t id) { return id != operation && unknown_.count(id); });
  if (unknown_.size() > limits_.operations) drop_oldest();
}

// No operation that is kept comes after another only by way of this one.
void Deliveries::drop_oldest() {
  const auto [id, oldest] = *unknown_.begin();
  unknown_.erase(unknown_.begin());
  if (!oldest.wrote) return;
  for (Write& write : writes_) {
    if (write.operation != id) continue;
    find(write, nullptr);
    write.known = true;
  }
  forget_known();
}

void Deliveries::brought(std::uint32_t operation, std::uint64_t source, const trace::MemoryRange& destination,
                         std::vector<std::uint8_t> bytes) {
  const bool lies_nowhere = destination.address == 0; // of a window: the host's memory is not known
  if (lies_nowhere || !unknown_.count(operation)) return found_(operation, source, bytes);
  add({operation, source, destination, std::move(bytes), true, false});
}

bool Deliveries::meets(const trace::MemoryRange& range) const {
  const std::uint64_t end = range.address + range.extent();
  return std::any_of(writes_.begin(), writes_.end(), [&](const Write& write) {
    const trace::MemoryRange& other = write.destination;
    return write.to_find && other.address < end && range.address < other.address + other.extent();
  });
}

void Deliveries::wrote(std::uint32_t operation, const trace::MemoryRange& destination,
                       const std::function<std::vector<std::uint8_t>()>& bytes) {
  if (!meets(destination)) return;
  add({operation, 0, destination, bytes(), false, false});
}

void Deliveries::may_have_written(std::uint32_t operation, const std::function<bool(std::uint64_t)>& is_there) {
  auto looked_at = [&](const Write& write) { return write.to_find && is_there(write.destination.address); };
  if (bytes_ > limits_.compared || std::none_of(writes_.begin(), writes_.end(), looked_at)) return;
  Image image;
  for (const Write& write : writes_) image.write(write);
  std::vector<Write> found;
  auto compare = [&](std::uint64_t address, const std::uint8_t* written, std::uint64_t bytes) {
    const auto* now = reinterpret_cast<const std::uint8_t*>(address);
    for (std::uint64_t at = 0; at < bytes;) {
      const std::uint64_t begin = std::uint64_t(std::mismatch(now + at, now + bytes, written + at).first - now);
      std::uint64_t end = begin;
      while (end < bytes && now[end] != written[end]) ++end;
      if (begin < end)
        found.push_back({operation, 0, {address + begin, end - begin, end - begin}, {now + begin, now + end}});
      at = end;
    }
  };
  for (const Write& write : writes_) {
    if (!looked_at(write)) continue;
    const std::vector<std::uint8_t> known = image.read(write.destination);
    std::uint64_t at = 0;
    Image::rows(write.destination, [&](std::uint64_t address, std::uint64_t bytes) {
      compare(address, known.data() + at, bytes);
      at += bytes;
    });
  }
  for (Write& write : found) add(std::move(write));
}

void Deliveries::add(Write write) {
  if (const auto operation = unknown_.find(write.operation); operation != unknown_.end())
    operation->second.wrote = true;
  bytes_ += write.bytes.size();
  writes_.push_back(std::move(write));
  while (bytes_ > limits_.bytes) {
    find(writes_.front(), nullptr);
    writes_.front().known = true;
    forget_known();
  }
}

void Deliveries::find(Write& write, const Image* image) {
  if (!write.to_find) return;
  write.to_find = false;
  found_(write.operation, write.source, image ? image->read(write.destination) : write.bytes);
}

void Deliveries::waited_for(const std::vector<std::uint32_t>& operations) {
  std::vector<std::uint32_t> todo = operations;
  std::set<std::uint32_t> known;
  while (!todo.empty()) {
    const auto operation = unknown_.find(todo.back());
    todo.pop_back();
    if (operation == unknown_.end()) continue;
    todo.insert(todo.end(), operation->second.after.begin(), operation->second.after.end());
    known.insert(operation->first);
    unknown_.erase(operation);
  }
  if (known.empty()) return;
  std::size_t of_known = 0;
  for (Write& write : writes_) of_known += write.known |= known.count(write.operation) != 0;
  if (!of_known) return;
  std::optional<Image> image;
  if (of_known > 1) image.emplace();
  for (const Write& write : writes_)
    if (image && write.known) image->write(write);
  for (Write& write : writes_)
    if (write.known) find(write, image ? &*image : nullptr);
  forget_known();
}

void Deliveries::begun(std::uint32_t operation) {
  const auto function = unknown_.find(operation);
  if (function != unknown_.end()) waited_for(std::vector<std::uint32_t>(function->second.after));
}

// What was performed before others that the host has still to look at does not matter to these.
void Deliveries::forget_known() {
  while (!writes_.empty() && (writes_.front().known || !writes_.front().to_find)) {
    bytes_ -= writes_.front().bytes.size();
    writes_.pop_front();
  }
}

void Deliveries::end() {
  std::vector<std::uint32_t> all;
  for (const auto& [id, operation] : unknown_) all.push_back(id);
  waited_for(all);
}

} // namespace deadheat::device
