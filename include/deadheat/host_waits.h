// How far the host waits for a copy: one answer for those who record and those who analyze.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "deadheat/trace.h"

namespace deadheat {

// What the host did itself to page-locked memory while an operation had still to read it is in the trace as a copy by
// this name, in a stream of its own (replay/device/host_writes.cpp, tracer/cupti/host_writes.h).
inline constexpr const char* host_itself = "the host itself";

enum class HostWaits : std::uint8_t {
  not_at_all,
  until_begun, // until what comes before it in its stream is complete, and the bytes are staged
  until_done
};

// By the call's name. What "might" wait (asynchronous copies of pageable memory) counts as not waiting (Runtime API,
// "API synchronization behavior"); so do up to 64 KB from pageable memory, which are asynchronous with respect to the
// host (CUDA C++ Programming Guide, "Asynchronous Concurrent Execution").
inline HostWaits host_waits(const trace::Copy& copy) {
  constexpr std::uint64_t most_asynchronous = 64 * 1024;
  using Direction = trace::Copy::Direction;
  const bool synchronous = !copy.api.empty() && copy.api.find("Async") == std::string::npos;
  if (copy.direction == Direction::h2h) return HostWaits::until_done;
  if (copy.direction == Direction::d2d || !synchronous) return HostWaits::not_at_all;
  if (copy.direction == Direction::d2h || !copy.pageable_source) return HostWaits::until_done;
  return copy.source.bytes() > most_asynchronous ? HostWaits::until_begun : HostWaits::not_at_all;
}

} // namespace deadheat
