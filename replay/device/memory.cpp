#include "replay/device/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "deadheat/own_files.h"
#include "replay/engine/written.h"

namespace deadheat::device {

// ---- free ranges

void FreeRanges::add(std::uint64_t low, std::uint64_t high) {
  by_address_.emplace(low, high);
  by_size_.emplace(high - low, low);
}

void FreeRanges::erase(std::map<std::uint64_t, std::uint64_t>::iterator range) {
  by_size_.erase({range->second - range->first, range->first});
  by_address_.erase(range);
}

void FreeRanges::insert(std::uint64_t low, std::uint64_t high) {
  if (low >= high) return;
  auto next = by_address_.lower_bound(low);
  if (next != by_address_.end() && next->first == high) {
    high = next->second;
    auto gone = next++;
    erase(gone);
  }
  if (next != by_address_.begin()) {
    auto previous = std::prev(next);
    if (previous->second == low) {
      low = previous->first;
      erase(previous);
    }
  }
  add(low, high);
}

std::uint64_t FreeRanges::carve(std::uint64_t low, std::uint64_t high) {
  std::uint64_t removed = 0;
  auto range = by_address_.upper_bound(low);
  if (range != by_address_.begin()) --range;
  while (range != by_address_.end() && range->first < high) {
    const auto [first, last] = *range;
    auto current = range++;
    if (last <= low) continue;
    erase(current);
    if (first < low) add(first, low);
    if (last > high) add(high, last);
    removed += std::min(last, high) - std::max(first, low);
  }
  return removed;
}

std::uint64_t FreeRanges::best_fit(std::uint64_t bytes, std::uint64_t alignment) const {
  for (auto range = by_size_.lower_bound({bytes, 0}); range != by_size_.end(); ++range) {
    const std::uint64_t low = (range->second + alignment - 1) / alignment * alignment;
    if (low - range->second <= range->first - bytes) return low;
  }
  return 0;
}

// ---- the pattern of fresh memory: one segment's worth, kept between devices of the same seed

namespace {

// In memory; -1 where there is none to be had: the program may be allowed no file that long (RLIMIT_FSIZE).
int file_of(std::uint64_t bytes) {
  const NoFileSizeSignal guard;
  const int file = above_standard(memfd_create("deadheat-pattern", MFD_CLOEXEC));
  if (file < 0 || ftruncate(file, off_t(bytes)) == 0) return file;
  guard.take();
  close(file);
  return -1;
}

} // namespace

struct Memory::Pattern {
  std::uint64_t seed = 0;
  int file = -1; // -1: the bytes are copied, where they would be mapped
  std::uint8_t* bytes = nullptr;

  static std::shared_ptr<Pattern> of(std::uint64_t seed) {
    static std::shared_ptr<Pattern> last;
    if (last && last->seed == seed) return last;
    auto made = std::make_shared<Pattern>();
    made->seed = seed;
    made->file = file_of(segment_bytes);
    void* mapped = mmap(nullptr, segment_bytes, PROT_READ | PROT_WRITE,
                        made->file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, made->file, 0);
    if (mapped == MAP_FAILED) return nullptr;
    made->bytes = static_cast<std::uint8_t*>(mapped);
    make_pattern(seed, made->bytes);
    mprotect(mapped, segment_bytes, PROT_READ);
    last = made;
    return made;
  }
  ~Pattern() {
    if (bytes) munmap(bytes, segment_bytes);
    if (file >= 0) close(file);
  }
};

void Memory::make_pattern(std::uint64_t seed, std::uint8_t* segment) {
  std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 0xD1B54A32D192ED03u;
  for (std::uint64_t i = 0; i < segment_bytes; i += 8) { // splitmix64 (Steele, Lea, Flood 2014)
    std::uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    std::memcpy(segment + i, &z, 8);
  }
}

const std::uint8_t* Memory::garbage(std::uint64_t salt) const {
  salt = (salt + 1) * 0x9E3779B97F4A7C15u;
  return pattern_->bytes + ((salt >> 32) % (segment_bytes / 2) & ~std::uint64_t(63));
}

// ---- arenas

namespace {

constexpr std::uint64_t shadow_bytes = device_arena_bytes / 16;

bool reserve(std::uint64_t base, std::uint64_t bytes) {
  void* at = reinterpret_cast<void*>(base);
  void* got = mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == at) return true;
  if (got != MAP_FAILED) munmap(got, bytes);
  return false;
}

} // namespace

Expected<std::unique_ptr<Memory>> Memory::create(std::uint64_t seed, std::uint64_t capacity) {
  std::unique_ptr<Memory> memory(new Memory);
  memory->pattern_ = Pattern::of(seed);
  if (!memory->pattern_)
    return Error{"cannot map the memory pattern", {}, "address space must not be limited (ulimit -v)"};
  memory->capacity_ = std::min(capacity, device_arena_bytes / 2);
  Arena* arenas[] = {&memory->device_, &memory->shared_};
  const std::uint64_t bases[] = {device_arena, pinned_arena}, sizes[] = {device_arena_bytes, pinned_arena_bytes};
  for (int i = 0; i < 2; ++i) {
    if (!reserve(bases[i], sizes[i]))
      return Error{
          "the embedded device's address range is taken",
          {},
          "only one embedded device may exist in a process, and address space must not be limited (ulimit -v)"};
    arenas[i]->base = bases[i];
    arenas[i]->bytes = sizes[i];
    arenas[i]->free.insert(bases[i] + segment_bytes, bases[i] + sizes[i] - segment_bytes);
  }
  void* shadow =
      mmap(nullptr, shadow_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (shadow == MAP_FAILED)
    return Error{"cannot map the memory shadow", {}, "address space must not be limited (ulimit -v)"};
  madvise(shadow, shadow_bytes, MADV_NOHUGEPAGE); // it is sparse
  memory->shadow_ = static_cast<std::uint8_t*>(shadow);
  return memory;
}

Memory::~Memory() {
  for (Arena* arena : {&device_, &shared_})
    if (arena->base) munmap(reinterpret_cast<void*>(arena->base), arena->bytes);
  if (shadow_) munmap(shadow_, shadow_bytes);
}

Expected<void> Memory::commit(Arena& arena, std::uint64_t low, std::uint64_t high) {
  const std::uint64_t first = (low - arena.base) / segment_bytes, last = (high - 1 - arena.base) / segment_bytes;
  if (arena.users.size() <= last) arena.users.resize(last + 1, 0);
  for (std::uint64_t i = first; i <= last;) {
    if (arena.users[i]++) {
      ++i;
      continue;
    }
    const std::uint64_t begin = i++;
    while (i <= last && !arena.users[i]) ++arena.users[i++];
    if (mprotect(reinterpret_cast<void*>(arena.base + begin * segment_bytes), (i - begin) * segment_bytes,
                 PROT_READ | PROT_WRITE) != 0) {
      for (std::uint64_t j = first; j < i; ++j) --arena.users[j];
      return Error{"the host has no memory for the embedded device"};
    }
  }
  return {};
}

void Memory::decommit(Arena& arena, std::uint64_t low, std::uint64_t high) {
  const std::uint64_t first = (low - arena.base) / segment_bytes, last = (high - 1 - arena.base) / segment_bytes;
  for (std::uint64_t i = first; i <= last;) {
    if (--arena.users[i]) {
      ++i;
      continue;
    }
    const std::uint64_t begin = i++;
    while (i <= last && arena.users[i] == 1) --arena.users[i++];
    void* at = reinterpret_cast<void*>(arena.base + begin * segment_bytes);
    void* got = mmap(at, (i - begin) * segment_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    DEADHEAT_CHECK(got == at);
  }
}

bool Memory::take_exactly(Arena& arena, std::uint64_t low, std::uint64_t high) {
  // What is taken may be free already, or wait for a free that has been submitted but has not run yet.
  std::uint64_t taken = arena.free.carve(low, high);
  std::vector<Pending> rest;
  for (const Pending& p : pending_) {
    if (p.high <= low || p.low >= high) {
      rest.push_back(p);
      continue;
    }
    if (p.low < low) rest.push_back({p.low, low, p.stream, p.operation});
    if (p.high > high) rest.push_back({high, p.high, p.stream, p.operation});
    taken += std::min(p.high, high) - std::max(p.low, low);
  }
  pending_ = std::move(rest);
  return taken == high - low;
}

std::uint64_t Memory::take_pending(std::uint64_t bytes, const Reusable& reusable) {
  Pending* best = nullptr;
  for (Pending& p : pending_)
    if (p.high - p.low >= bytes && reusable(p.stream, p.operation) &&
        (!best || p.high - p.low < best->high - best->low ||
         (p.high - p.low == best->high - best->low && p.low < best->low)))
      best = &p;
  if (!best) return 0;
  const std::uint64_t low = best->low;
  best->low += bytes;
  if (best->low == best->high) pending_.erase(pending_.begin() + (best - pending_.data()));
  return low;
}

Expected<std::uint64_t> Memory::place(bool shared_with_host, std::uint64_t bytes, std::uint64_t at,
                                      const Reusable& reusable) {
  Arena& arena = shared_with_host ? shared_ : device_;
  const Error full{"out of device memory", {}, "the embedded device's profile says how much it has"};
  if (bytes > arena.bytes / 2) return full;
  const std::uint64_t room = reserved(bytes);
  if (!shared_with_host && in_use_ + room > capacity_) return full;
  std::uint64_t low = at;
  if (at) {
    if (at % granularity || at < arena.base + segment_bytes || at + room > arena.base + arena.bytes - segment_bytes)
      return Error{"the recorded address lies outside the embedded device's memory"};
    if (!take_exactly(arena, at, at + room)) return Error{"the recorded address is in use", {}, "the trace is damaged"};
  } else {
    if (reusable && !shared_with_host) low = take_pending(room, reusable);
    if (!low) {
      const bool whole_pages = !shared_with_host && bytes > segment_bytes / 2;
      low = arena.free.best_fit(room, whole_pages ? segment_bytes : granularity);
      if (!low) return full;
      arena.free.carve(low, low + room);
    }
  }
  if (Expected<void> committed = commit(arena, low, low + room); !committed) {
    arena.free.insert(low, low + room);
    return committed.error();
  }
  if (!shared_with_host) in_use_ += room;
  return low;
}

void Memory::release(std::uint64_t host, std::uint64_t bytes) {
  Arena& arena = arena_of(host);
  const std::uint64_t room = reserved(bytes);
  invalidate(host, bytes);
  decommit(arena, host, host + room);
  arena.free.insert(host, host + room);
  if (&arena == &device_) in_use_ -= room;
}

void Memory::release_later(std::uint64_t host, std::uint64_t bytes, std::uint32_t stream, std::uint32_t operation) {
  // Pages stay committed until the free has run: work before it may still touch them.
  const std::uint64_t room = reserved(bytes);
  pending_.push_back({host, host + room, stream, operation});
  in_use_ -= room;
  unfinished_.push_back({host, host + room, stream, operation});
}

void Memory::complete_release(std::uint32_t operation) {
  for (std::size_t i = 0; i < pending_.size();) {
    if (pending_[i].operation != operation) {
      ++i;
      continue;
    }
    device_.free.insert(pending_[i].low, pending_[i].high);
    pending_.erase(pending_.begin() + i);
  }
  for (std::size_t i = 0; i < unfinished_.size();) {
    if (unfinished_[i].operation != operation) {
      ++i;
      continue;
    }
    decommit(device_, unfinished_[i].low, unfinished_[i].high);
    unfinished_.erase(unfinished_.begin() + i);
  }
}

// ---- contents and validity

void Memory::fill(std::uint64_t host, std::uint64_t bytes) {
  Arena& arena = arena_of(host);
  std::uint64_t at = host;
  const std::uint64_t end = host + bytes;
  while (at < end) {
    const std::uint64_t offset = at % segment_bytes, n = std::min(segment_bytes - offset, end - at);
    const bool whole = pattern_->file >= 0 && n == segment_bytes && bytes >= 4 * segment_bytes &&
                       arena.users[(at - arena.base) / segment_bytes] == 1;
    if (!whole || mmap(reinterpret_cast<void*>(at), n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                       pattern_->file, 0) == MAP_FAILED)
      std::memcpy(reinterpret_cast<void*>(at), pattern_->bytes + offset, n);
    at += n;
  }
  unwritten(host, bytes);
}

bool Memory::track_written() { return tracking_ = engine::map_written_shadow(); }

void Memory::written(std::uint64_t host, std::uint64_t bytes) {
  if (tracking_ && in_device_arena(host)) std::memset(engine::written_shadow_of(host), 0xff, bytes);
}

void Memory::unwritten(std::uint64_t host, std::uint64_t bytes) {
  if (!tracking_ || !in_device_arena(host)) return;
  constexpr std::uint64_t page = 4096;
  const std::uint64_t begin = std::uint64_t(engine::written_shadow_of(host)), end = begin + bytes;
  const std::uint64_t first = (begin + page - 1) / page * page, last = end / page * page;
  if (bytes < 64 * page) {
    std::memset(reinterpret_cast<void*>(begin), 0, bytes);
    return;
  }
  std::memset(reinterpret_cast<void*>(begin), 0, first - begin);
  madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED); // reads as zeros
  std::memset(reinterpret_cast<void*>(last), 0, end - last);
}

void Memory::copy_written(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  if (!tracking_ || !in_device_arena(to)) return;
  if (in_device_arena(from))
    std::memmove(engine::written_shadow_of(to), engine::written_shadow_of(from), bytes);
  else
    written(to, bytes);
}

bool Memory::any_written(std::uint64_t host, std::uint64_t bytes) const {
  if (!tracking_ || !in_device_arena(host)) return true;
  const std::uint8_t* shadow = engine::written_shadow_of(host);
  return std::any_of(shadow, shadow + bytes, [](std::uint8_t byte) { return byte != 0; });
}

void Memory::validate(std::uint64_t host, std::uint64_t bytes) {
  if (!in_device_arena(host)) return;
  ++changes_;
  std::uint8_t* at = shadow_ + ((host - device_arena) >> 4);
  std::memset(at, 16, bytes >> 4);
  if (bytes & 15) at[bytes >> 4] = bytes & 15;
}

void Memory::invalidate(std::uint64_t host, std::uint64_t bytes) {
  if (!in_device_arena(host)) return;
  ++changes_;
  std::memset(shadow_ + ((host - device_arena) >> 4), 0, (bytes + 15) >> 4);
}

bool Memory::valid(std::uint64_t host, std::uint64_t bytes) const {
  if (!in_device_arena(host) || bytes > device_arena_bytes - (host - device_arena)) return false;
  if (bytes == 0) return true;
  const std::uint8_t* at = shadow_ + ((host - device_arena) >> 4);
  const std::uint8_t* last = shadow_ + ((host + bytes - 1 - device_arena) >> 4);
  if (*last <= ((host + bytes - 1) & 15)) return false;
  const std::uint64_t full = 0x1010101010101010u;
  for (; last - at >= 8; at += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, at, 8);
    if (eight != full) return false;
  }
  for (; at < last; ++at)
    if (*at != 16) return false;
  return true;
}

} // namespace deadheat::device
