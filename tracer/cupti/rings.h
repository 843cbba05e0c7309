// The ring buffers of a context (device_log/layout.h) as the host sees them: made, read, and given room again.
//
// The device writes while the host reads: what refresh() saw is what one pass goes by.
//
// Thread-safety: none; the recorder drains under a lock.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tracer/device_log/layout.h"

namespace deadheat::cupti {

class Rings {
 public:
  // Of that size together, or as much as there is room for. Null: there is none.
  static std::unique_ptr<Rings> make(CUcontext context, std::uint64_t bytes);

  // Odd while the driver is asked for what follows; another number each time. Of all rings, which one thread reads.
  static std::uint32_t asked() { return asked_.load(std::memory_order_relaxed); }

  CUcontext context() const { return context_; }
  CUdeviceptr head() const { return head_; }
  std::uint32_t count() const { return count_; }

  // What follows is false where the driver does not answer as it should. The context is current.

  bool refresh(); // reads how far the device has come
  std::uint64_t gave_up() const; // segments for which there was no room in time
  std::vector<std::uint64_t> reserved() const; // by ring, positions
  const std::vector<std::uint64_t>& read() const { return read_; } // likewise

  // Fetches what the device had reserved, and gives it to `part` piece by piece: where it lies in its ring, and the
  // bytes. `part` returns the position up to which it took them.
  using Part = std::function<std::uint64_t(std::uint64_t position, const std::uint8_t* bytes, std::uint64_t size)>;
  bool fetch(const Part& part);
  bool make_room(); // what was read may be written over
  // What shrink() would give back; 0: nothing more.
  std::uint64_t spare() const { return small_ ? data_bytes_ : 0; }
  // From here on rings of 256 KiB are written, which lie elsewhere. Returns the memory that they were, for the caller
  // to free, which waits for the device; 0: they stay as they are. Nobody writes meanwhile.
  CUdeviceptr shrink();
  // Nobody will read: no warp waits for room again. This does not wait, for the device may never answer; nothing but
  // destruction follows.
  void release();

 private:
  Rings() = default; // never destroyed with what it has: kernels may still write there when the process ends
  bool allocate(std::uint64_t bytes);
  void allocate_rings();
  void give_back();
  device_log::RingState empty_ring(std::uint32_t ring, std::uint64_t position) const;
  struct Fetched {
    std::uint32_t ring = 0;
    std::uint64_t position = 0, bytes = 0, at = 0; // at: in staging_
  };
  device_log::RingState state(std::uint32_t ring) const; // as of refresh()
  bool fetch_ring(std::uint32_t ring, const Part& part);
  bool take(const Part& part); // what has been asked for
  bool set_limit(std::uint32_t ring, std::uint64_t limit);

  struct Asking {
    Asking() { ++asked_; }
    ~Asking() { ++asked_; }
  };
  static inline std::atomic<std::uint32_t> asked_{0};

  CUcontext context_ = nullptr;
  CUdeviceptr data_ = 0, head_ = 0; // the rings; Head, then the states
  std::uint64_t data_bytes_ = 0;
  CUdeviceptr small_ = 0; // what the rings will be; 0: they are small
  std::uint32_t count_ = 0;
  std::uint64_t ring_bytes_ = 0;
  CUstream stream_ = nullptr;
  std::uint8_t* states_ = nullptr; // page-locked, like staging_
  std::uint8_t* staging_ = nullptr;
  std::vector<std::uint64_t> read_, told_; // by ring: up to where it was read; of that, what the device knows
  std::vector<Fetched> fetched_;
  std::uint64_t used_ = 0; // of staging_
};

} // namespace deadheat::cupti
