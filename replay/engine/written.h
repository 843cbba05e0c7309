// Which bits of memory were ever written.
//
// Code compiled with Mode::written keeps a shadow byte for each byte of the device arena, at a fixed distance from it,
// and for each byte of a block's shared memory, behind it. A set bit: written, or copied from a written one; a bit that
// is not set has been undefined since the memory was handed out, or discarded. What else changes memory while such code
// runs must keep the shadow too (device/memory.h, Machine::shared_written). Host memory is the host's to write at any
// time: it counts as written. A thread's stack, where its local memory lies, has its shadow behind it.
//
// What is reported: undefined.h.
//
// Thread-safety: pure functions; map_written_shadow may be called from any thread.
#pragma once

#include "deadheat/address.h"

namespace deadheat::engine {

// What addresses without a shadow have for one: reads see ones, and writes go where nobody looks.
inline constexpr std::uint64_t written_anywhere = written_shadow - (1 << 16), written_nowhere = written_anywhere + 4096;
// Maps the shadow once a process; false: the address range is taken.
bool map_written_shadow();

inline std::uint8_t* written_shadow_of(std::uint64_t host) {
  return reinterpret_cast<std::uint8_t*>(written_shadow + (host - device_arena));
}
// Where the shadow of a block's shared memory begins, from the beginning of that memory.
inline constexpr std::uint64_t shared_shadow(std::uint64_t total_shared) { return (total_shared + 63) / 64 * 64; }

// What undefined bits came to decide (Services::undefined).
enum class UndefinedUse : std::uint32_t {
  address = 0, // of an access
  branch = 1, // which way a thread goes, or whether it does something
  operand = 2, // what an atomic writes or compares with
  atomic = 3, // an atomic computes with what its memory held
  result = 4, // a store of a result; not reported yet, unless the host can see it
  discard = 5 // nothing: the memory is undefined from here on, whatever was known of it
};

} // namespace deadheat::engine
