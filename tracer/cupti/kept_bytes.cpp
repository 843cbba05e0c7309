#include "tracer/cupti/kept_bytes.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace deadheat::cupti {

namespace {

const std::uint8_t* memory_at(std::uint64_t address) { return reinterpret_cast<const std::uint8_t*>(address); }

trace::MemoryRange without_gaps(trace::MemoryRange range) {
  if (range.depth > 1 && range.slice_pitch() == range.row_pitch() * range.height) {
    range.height *= range.depth;
    range.depth = 1;
  }
  if (range.depth == 1 && (range.height == 1 || range.row_pitch() == range.width)) {
    const std::uint64_t bytes = range.width * range.height;
    return {range.address, bytes, bytes, 1, 1, bytes};
  }
  return range;
}

bool is_mapped(std::uint64_t address) {
  static const auto page = std::uint64_t(sysconf(_SC_PAGESIZE));
  unsigned char resident;
  return mincore(reinterpret_cast<void*>(address / page * page), 1, &resident) == 0;
}

// Stretches out of bytes that differ, told as they end.
class Stretches {
 public:
  explicit Stretches(const KeptBytes::Differs& differs) : differs_(differs) {}
  // The bytes from `address` on, as they were and as they are. False: enough has been told.
  bool look(std::uint64_t address, const std::uint8_t* before, const std::uint8_t* now, std::uint64_t bytes) {
    if (address != next_) last_ = 0; // the last stretch cannot go on
    for (std::uint64_t i = 0; i < bytes; ++i) {
      if (before[i] == now[i]) continue;
      const std::uint64_t at = address + i;
      if (!told_.empty() && (!last_ || at - last_ > KeptBytes::gap) && !tell()) return false;
      if (told_.empty()) begin_ = at;
      // Of bytes between that lie in the piece before, what was there then is what is there now.
      while (begin_ + told_.size() < at) {
        const std::uint64_t between = begin_ + told_.size();
        told_.push_back(between < address ? tail_[between % KeptBytes::piece_bytes] : now[between - address]);
      }
      told_.push_back(now[i]);
      last_ = at;
    }
    next_ = address + bytes;
    for (std::uint64_t at = next_ - std::min(bytes, KeptBytes::gap); at < next_; ++at)
      tail_[at % KeptBytes::piece_bytes] = now[at - address];
    return true;
  }
  bool tell() {
    const bool go_on = told_.empty() || differs_(begin_, told_);
    told_.clear();
    return go_on;
  }

 private:
  const KeptBytes::Differs& differs_;
  std::uint64_t begin_ = 0, last_ = 0, next_ = 0; // last_: the last byte that differs
  std::vector<std::uint8_t> told_;
  std::uint8_t tail_[KeptBytes::piece_bytes] = {}; // the last bytes that were looked at, by address
};

} // namespace

KeptBytes::Piece KeptBytes::piece(std::uint64_t number) const {
  const std::uint64_t in_row = (range_.width + piece_bytes - 1) / piece_bytes, all = in_row * range_.rows();
  const std::uint64_t which = pieces_ == all ? number : number * (all - 1) / (pieces_ - 1);
  const std::uint64_t from = which % in_row * piece_bytes;
  return {range_.row(which / in_row) + from, std::min(piece_bytes, range_.width - from)};
}

bool KeptBytes::read(std::vector<std::uint8_t>& to) const {
  std::vector<iovec> from(pieces_);
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < pieces_; ++i) {
    const Piece at = piece(i);
    from[i] = {reinterpret_cast<void*>(at.address), at.bytes};
    bytes += at.bytes;
  }
  to.resize(bytes);
  const iovec whole{to.data(), bytes};
  return process_vm_readv(getpid(), &whole, 1, from.data(), from.size(), 0) == ssize_t(bytes);
}

bool KeptBytes::take(const trace::MemoryRange& range, bool registered, std::vector<std::uint8_t> room) {
  range_ = without_gaps(range);
  registered_ = registered;
  before_ = std::move(room);
  before_.clear();
  if (!range_.bytes()) return false;
  const std::uint64_t all = (range_.width + piece_bytes - 1) / piece_bytes * range_.rows();
  const std::uint64_t most =
      range_.bytes() <= most_bytes ? most_pieces : most_bytes / std::min(piece_bytes, range_.width);
  pieces_ = std::min({all, most, most_pieces});
  if (registered_) return read(before_);
  for (std::uint64_t i = 0; i < pieces_; ++i) {
    const Piece at = piece(i);
    before_.insert(before_.end(), memory_at(at.address), memory_at(at.address) + at.bytes);
  }
  return true;
}

void KeptBytes::take_in(std::uint64_t address, std::uint64_t bytes) {
  std::vector<std::uint8_t> read_now;
  if (before_.empty() || (registered_ ? !read(read_now) : !is_mapped(range_.address))) return;
  std::uint64_t offset = 0;
  for (std::uint64_t i = 0; i < pieces_; ++i) {
    const Piece at = piece(i);
    const std::uint64_t from = std::max(address, at.address), to = std::min(address + bytes, at.address + at.bytes);
    const std::uint8_t* const now = registered_ ? read_now.data() + offset : memory_at(at.address);
    if (from < to) std::memcpy(before_.data() + offset + (from - at.address), now + (from - at.address), to - from);
    offset += at.bytes;
  }
}

bool KeptBytes::compare(const Differs& differs) const {
  std::vector<std::uint8_t> read_now;
  if (before_.empty()) return false; // it was moved away
  if (registered_ ? !read(read_now) : !is_mapped(range_.address)) return false;
  Stretches stretches(differs);
  std::uint64_t offset = 0;
  std::uint8_t copy[piece_bytes]; // what is looked at twice must not change in between
  for (std::uint64_t i = 0; i < pieces_; ++i) {
    const Piece at = piece(i);
    const std::uint8_t* now = registered_ ? read_now.data() + offset : memory_at(at.address);
    const std::uint8_t* const before = before_.data() + offset;
    offset += at.bytes;
    if (std::memcmp(now, before, at.bytes) == 0) continue;
    if (!registered_) now = static_cast<std::uint8_t*>(std::memcpy(copy, now, at.bytes));
    if (!stretches.look(at.address, before, now, at.bytes)) return true;
  }
  stretches.tell();
  return true;
}

} // namespace deadheat::cupti
