// Records to the raw bytes of a chunk.
//
// An Encoder gathers the records of one chunk; take them with payload(), then clear() starts the next chunk with fresh
// delta state. Framed records can be large: the buffer grows for them and std::bad_alloc or std::length_error may be
// thrown, after which the encoder is as it was before the record. Compact records and accesses never throw once
// reserve() has succeeded.
//
// Thread-safety: none; TraceWriter serialises.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "deadheat/trace.h"
#include "deadheat/trace_format.h"
#include "tracer/recorder/access_view.h"
#include "tracer/recorder/codec.h"

namespace deadheat::trace {

class Encoder {
 public:
  // Room for a chunk of `target` bytes and one more compact record; throws std::bad_alloc.
  void reserve(std::size_t target);

  // Any record but an access; accesses go through access().
  template <class T> void record(const T& r);
  void access(const AccessView& view); // an empty mask writes nothing

  std::size_t size() const { return std::size_t(at_ - begin_.get()); }
  std::span<const std::uint8_t> payload() const { return {begin_.get(), size()}; }
  std::uint32_t records() const { return records_; }
  std::uint32_t accesses() const { return accesses_; } // lane accesses
  void clear();

 private:
  friend struct FieldWriter;
  void make_room(std::size_t bytes); // after at_, record_slack included
  void go_to(const Warp& warp, std::uint32_t module);

  std::unique_ptr<std::uint8_t[]> begin_;
  std::uint8_t* at_ = nullptr;
  std::size_t capacity_ = 0;
  std::uint32_t records_ = 0, accesses_ = 0;
  DeltaState state_;
  std::unordered_map<std::string_view, std::uint32_t> interned_; // of the record being written
  std::size_t string_bytes_ = 0;
};

} // namespace deadheat::trace
