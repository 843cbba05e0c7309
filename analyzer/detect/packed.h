// Records with a value a lane, packed: most have one value for all lanes, or values that lie side by side, and a core
// that looks at a batch which another one filled waits for each of its lines.
//
// What lanes outside of the record's mask have is lost.
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "deadheat/lanes.h"
#include "tracer/recorder/fields.h"

namespace deadheat::detect {

template <typename T>
constexpr bool has_lanes =
    std::is_same_v<T, trace::AsyncCopy> || std::is_same_v<T, trace::BulkCopy> || std::is_same_v<T, trace::Mbarrier>;

enum class Lanes : std::uint8_t { alike, side_by_side, anyhow };

// How the values of the mask's lanes lie: all alike, each as far from the last as the second from the first, or anyhow.
template <typename Value>
Lanes how_lanes_lie(const std::array<Value, 32>& values, std::uint32_t mask) {
  const unsigned first = unsigned(std::countr_zero(mask)) % 32;
  const Value step = mask >> first & 2 ? values[first + 1] - values[first] : 0;
  Value other = 0; // bits in which one is another
  if (mask == ~0u) { // the usual case, without a branch for each lane
    for (unsigned lane = 0; lane < 32; ++lane) other |= Value(values[0] + step * Value(lane)) ^ values[lane];
  } else {
    each_lane(mask, [&](unsigned lane) { other |= Value(values[first] + step * Value(lane - first)) ^ values[lane]; });
  }
  return other ? Lanes::anyhow : step ? Lanes::side_by_side : Lanes::alike;
}

// Walks a record's fields() and writes them one behind the other.
class Packer {
 public:
  explicit Packer(std::byte* to) : to_(to) {}
  std::byte* end() const { return to_; }

  template <typename... Number>
  void operator()(const Number&... numbers) {
    (put(numbers), ...);
  }
  void site(std::uint32_t number) { put(number); }
  void mask(std::uint32_t mask) { put(mask); }
  template <typename Value>
  void column(const std::array<Value, 32>& values, std::uint32_t mask) {
    const Lanes lie = how_lanes_lie(values, mask);
    const unsigned first = unsigned(std::countr_zero(mask)) % 32;
    put(lie);
    if (lie == Lanes::anyhow) return put(values);
    const Value step = lie == Lanes::alike ? 0 : values[first + 1] - values[first];
    put(Value(values[first] - step * Value(first))); // lane 0's
    if (step) put(step);
  }

 private:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(to_, &value, sizeof value);
    to_ += sizeof value;
  }
  std::byte* to_;
};

class Unpacker {
 public:
  Unpacker(const std::byte* from, bool columns) : from_(from), columns_(columns) {}

  template <typename... Number>
  void operator()(Number&... numbers) {
    (get(numbers), ...);
  }
  void site(std::uint32_t& number) { get(number); }
  void mask(std::uint32_t& mask) { get(mask); }
  template <typename Value>
  void column(std::array<Value, 32>& values, std::uint32_t mask) {
    if (!columns_) return;
    Lanes lie;
    get(lie);
    if (lie == Lanes::anyhow) return get(values);
    Value value, step = 0; // lane 0's, and from one to the next
    get(value);
    if (lie == Lanes::side_by_side) get(step);
    if (mask != ~0u) {
      const unsigned end = 32 - unsigned(std::countl_zero(mask));
      for (unsigned lane = 0; lane < end; ++lane, value += step) values[lane] = value;
    } else if (step) {
      for (Value& of_lane : values) of_lane = value, value += step;
    } else {
      values.fill(value);
    }
  }

 private:
  template <typename T>
  void get(T& value) {
    std::memcpy(&value, from_, sizeof value);
    from_ += sizeof value;
  }
  const std::byte* from_;
  bool columns_;
};

// The record behind what is in `to`, which consists of whole words.
template <typename T>
void pack(T& record, std::vector<std::uint64_t>& to) {
  std::array<std::uint64_t, sizeof(T) / 8 + 4> packed; // columns begin with a byte each
  Packer packer(reinterpret_cast<std::byte*>(packed.data()));
  packer(record.warp, record.module);
  fields(packer, record);
  const std::size_t bytes = std::size_t(packer.end() - reinterpret_cast<std::byte*>(packed.data()));
  to.insert(to.end(), packed.begin(), packed.begin() + std::ptrdiff_t((bytes + 7) / 8));
}

// `columns`: with them. They must be the last fields where they are left out.
template <typename T>
void unpack(const std::uint64_t* from, T& record, bool columns = true) {
  Unpacker unpacker(reinterpret_cast<const std::byte*>(from), columns);
  unpacker(record.warp, record.module);
  fields(unpacker, record);
}

} // namespace deadheat::detect
