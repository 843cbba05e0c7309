// A visible operation as a watched run performed it (watch.h), or an end of an asynchronous copy.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>

#include "deadheat/memory_model.h"

namespace deadheat::device {

struct Performed {
  // What an asynchronous copy does itself, whenever it comes to it; `thread` issued it, and `nth` counts the thread's
  // copies.
  enum class Copy : std::uint8_t { none, reads, writes };
  std::uint64_t step = 0; // number of the decision that let it go on
  std::uint32_t operation = 0, launch = 0, block = 0, thread = 0;
  std::uint32_t module = 0, site = 0;
  std::uint64_t nth = 0; // visible operations of the thread before it
  Space space = Space::global; // global or shared
  AccessKind access = AccessKind::read;
  Copy copy = Copy::none;
  bool fence = false, wrote = false;
  std::uint32_t age = 0; // of what it read; 0: the newest
  std::uint32_t bytes = 0;
  std::uint32_t owner = 0; // the block whose shared memory it is
  std::uint64_t address = 0; // of shared memory: the offset
  std::uint64_t read = 0, written = 0; // the first 8 bytes
  // Of a copy: of all that it read or wrote; which of the thread's instructions that issue copies it is of. A box of a
  // tensor is several copies of one instruction, and so is a copy to several blocks.
  std::uint32_t digest = 0, instruction = 0;
};

} // namespace deadheat::device
