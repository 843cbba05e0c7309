#include "tracer/cupti/rings.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tracer/cupti/libraries.h"
#include "tracer/cupti/relaxed.h"

namespace deadheat::cupti {

using device_log::Head;
using device_log::RingState;

namespace {

constexpr std::uint32_t most_rings = 128;
constexpr std::uint64_t least_bytes = std::uint64_t(64) << 20, staging_bytes = std::uint64_t(64) << 20;
constexpr std::uint64_t small_ring = device_log::slack_bytes; // a segment fits

std::uint64_t head_bytes(std::uint32_t rings) { return sizeof(Head) + rings * sizeof(RingState); }

// DEADHEAT_RINGS=COUNTxKIB, both powers of two: how many and how large, for tests, whose logs are small.
bool chosen_sizes(std::uint32_t& count, std::uint64_t& bytes) {
  const char* text = std::getenv("DEADHEAT_RINGS");
  unsigned rings = 0, kibibytes = 0;
  if (!text || std::sscanf(text, "%ux%u", &rings, &kibibytes) != 2) return false;
  count = std::bit_floor(std::clamp(rings, 1u, most_rings));
  bytes = std::max<std::uint64_t>(std::bit_floor(std::uint64_t(kibibytes) << 10), device_log::slack_bytes);
  return true;
}

} // namespace

std::unique_ptr<Rings> Rings::make(CUcontext context, std::uint64_t bytes) {
  Relaxed relaxed;
  std::unique_ptr<Rings> made(new Rings);
  made->context_ = context;
  if (made->allocate(bytes)) return made;
  made->give_back(); // the program may need it
  return nullptr;
}

// The rings, and those that take their place, for which there will be no memory when they are needed. Or none.
void Rings::allocate_rings() {
  const Driver& d = driver();
  data_bytes_ = count_ * (ring_bytes_ + device_log::slack_bytes);
  if (d.cuMemAlloc_v2(&data_, data_bytes_) != CUDA_SUCCESS) data_ = 0;
  if (!data_ || ring_bytes_ <= small_ring) return;
  if (d.cuMemAlloc_v2(&small_, count_ * (small_ring + device_log::slack_bytes)) == CUDA_SUCCESS) return;
  d.cuMemFree_v2(data_);
  data_ = small_ = 0;
}

bool Rings::allocate(std::uint64_t bytes) {
  const Driver& d = driver();
  int multiprocessors = 0;
  CUdevice device = 0;
  d.cuCtxGetDevice(&device);
  d.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  count_ = std::min<std::uint32_t>(most_rings, std::bit_floor(std::uint32_t(std::max(multiprocessors, 1))));
  const bool chosen = chosen_sizes(count_, ring_bytes_);
  for (std::uint64_t total = std::max(bytes, least_bytes); !data_ && total >= least_bytes; total /= 2) {
    if (!chosen) ring_bytes_ = std::bit_floor(total / count_);
    allocate_rings();
  }
  auto locked = [&](std::uint8_t*& at, std::uint64_t size) {
    void* place = nullptr;
    if (d.cuMemHostAlloc(&place, size, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS) return false;
    at = static_cast<std::uint8_t*>(place);
    return true;
  };
  if (!data_ || d.cuMemAlloc_v2(&head_, head_bytes(count_)) != CUDA_SUCCESS || !locked(states_, head_bytes(count_)) ||
      !locked(staging_, staging_bytes) ||
      d.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS) {
    return false;
  }
  const Head head;
  std::memcpy(states_, &head, sizeof head);
  for (std::uint32_t i = 0; i < count_; ++i) {
    const RingState state = empty_ring(i, device_log::first_position);
    std::memcpy(states_ + sizeof head + i * sizeof state, &state, sizeof state);
  }
  read_.assign(count_, device_log::first_position);
  told_ = read_;
  return d.cuMemcpyHtoDAsync_v2(head_, states_, head_bytes(count_), stream_) == CUDA_SUCCESS &&
         d.cuStreamSynchronize(stream_) == CUDA_SUCCESS;
}

// Written from that position on.
RingState Rings::empty_ring(std::uint32_t ring, std::uint64_t position) const {
  RingState state;
  state.reserved = position;
  state.limit = position + ring_bytes_;
  state.base = data_ + ring * (ring_bytes_ + device_log::slack_bytes);
  state.mask = ring_bytes_ - 1;
  return state;
}

void Rings::give_back() {
  const Driver& d = driver();
  if (stream_) d.cuStreamDestroy_v2(stream_);
  if (staging_) d.cuMemFreeHost(staging_);
  if (states_) d.cuMemFreeHost(states_);
  if (head_) d.cuMemFree_v2(head_);
  if (data_) d.cuMemFree_v2(data_);
  if (small_) d.cuMemFree_v2(small_);
}

bool Rings::refresh() {
  const Asking asking;
  const Driver& d = driver();
  return d.cuMemcpyDtoHAsync_v2(states_, head_, head_bytes(count_), stream_) == CUDA_SUCCESS &&
         d.cuStreamSynchronize(stream_) == CUDA_SUCCESS;
}

RingState Rings::state(std::uint32_t ring) const {
  RingState state;
  std::memcpy(&state, states_ + sizeof(Head) + ring * sizeof state, sizeof state);
  return state;
}

std::uint64_t Rings::gave_up() const {
  Head head;
  std::memcpy(&head, states_, sizeof head);
  return head.gave_up;
}

std::vector<std::uint64_t> Rings::reserved() const {
  std::vector<std::uint64_t> positions;
  for (std::uint32_t ring = 0; ring < count_; ++ring) positions.push_back(state(ring).reserved);
  return positions;
}

// ---- reading

bool Rings::fetch(const Part& part) {
  fetched_.clear();
  used_ = 0;
  for (std::uint32_t ring = 0; ring < count_; ++ring) {
    if (!fetch_ring(ring, part)) return false;
  }
  return take(part);
}

// Asks for what the ring holds; takes it where staging is full, or where a part ends at the ring's end.
bool Rings::fetch_ring(std::uint32_t ring, const Part& part) {
  const RingState state = this->state(ring);
  const std::uint64_t end = std::min(state.reserved, read_[ring] + ring_bytes_);
  while (read_[ring] < end) {
    const std::uint64_t from = read_[ring], in_ring = from & state.mask;
    // A segment that begins before the ring's end may reach beyond it.
    const std::uint64_t to_end = ring_bytes_ - in_ring;
    std::uint64_t bytes = std::min(end - from, to_end);
    if (bytes == to_end) bytes = std::min<std::uint64_t>(end - from, to_end + device_log::slack_bytes);
    bytes = std::min(bytes, staging_bytes);
    if (used_ + bytes > staging_bytes && !take(part)) return false;
    {
      const Asking asking;
      if (driver().cuMemcpyDtoHAsync_v2(staging_ + used_, state.base + in_ring, bytes, stream_) != CUDA_SUCCESS)
        return false;
    }
    fetched_.push_back({ring, from, bytes, used_});
    used_ += (bytes + 63) & ~std::uint64_t(63);
    if (bytes == end - from) return true; // the last part of this ring
    if (!take(part)) return false;
    if (read_[ring] == from) return true; // the segment there is not finished
  }
  return true;
}

bool Rings::take(const Part& part) {
  if (fetched_.empty()) return true;
  bool good = false;
  {
    const Asking asking;
    good = driver().cuStreamSynchronize(stream_) == CUDA_SUCCESS;
  }
  for (const Fetched& f : fetched_) {
    if (good) read_[f.ring] = part(f.position, staging_ + f.at, f.bytes);
  }
  fetched_.clear();
  used_ = 0;
  return good;
}

// ---- room

bool Rings::set_limit(std::uint32_t ring, std::uint64_t limit) {
  std::uint8_t* at = staging_ + ring * sizeof limit;
  std::memcpy(at, &limit, sizeof limit);
  return driver().cuMemcpyHtoDAsync_v2(head_ + sizeof(Head) + ring * sizeof(RingState) + offsetof(RingState, limit), at,
                                       sizeof limit, stream_) == CUDA_SUCCESS;
}

bool Rings::make_room() {
  const Asking asking;
  bool any = false;
  for (std::uint32_t ring = 0; ring < count_; ++ring) {
    if (read_[ring] == told_[ring]) continue;
    if (!set_limit(ring, read_[ring] + ring_bytes_)) return false;
    told_[ring] = read_[ring];
    any = true;
  }
  return !any || driver().cuStreamSynchronize(stream_) == CUDA_SUCCESS;
}

CUdeviceptr Rings::shrink() {
  if (!small_ || !refresh()) return 0;
  for (std::uint32_t ring = 0; ring < count_; ++ring) {
    if (state(ring).reserved != read_[ring]) return 0; // something is left to read
  }
  const CUdeviceptr before = std::exchange(data_, std::exchange(small_, 0));
  ring_bytes_ = small_ring;
  for (std::uint32_t ring = 0; ring < count_; ++ring) {
    RingState state = empty_ring(ring, read_[ring]);
    state.ticket = this->state(ring).ticket;
    std::memcpy(states_ + sizeof(Head) + ring * sizeof state, &state, sizeof state);
  }
  told_ = read_;
  const Asking asking;
  const Driver& d = driver();
  const bool told = d.cuMemcpyHtoDAsync_v2(head_ + sizeof(Head), states_ + sizeof(Head),
                                           head_bytes(count_) - sizeof(Head), stream_) == CUDA_SUCCESS &&
                    d.cuStreamSynchronize(stream_) == CUDA_SUCCESS;
  return told ? before : 0; // where the driver does not answer, nothing is freed
}

void Rings::release() {
  const Asking asking;
  for (std::uint32_t ring = 0; ring < count_ && set_limit(ring, ~std::uint64_t(0)); ++ring) {
  }
}

} // namespace deadheat::cupti
