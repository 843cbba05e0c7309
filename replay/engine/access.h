// What every memory operation does besides touching memory: stops before it, checks its address, logs it, reports it.
//
// Use, in order: before_access; then evaluate address and operands again (a stop leaves only registers); check_access;
// the operation; log_read/log_write or report_strong; after_strong.
//
// Thread-safety: see builder.h.
#pragma once

#include "replay/engine/builder.h"
#include "tracer/ptx/sites.h"

namespace deadheat::engine {

struct Access {
  Builder::Place place;
  unsigned bytes = 0;  // of the whole access
  unsigned elements = 1, element_bytes = 0;
  bool is_write = false, is_atomic = false;
  bool strong = false;  // strong or atomic, and possibly visible
  std::uint8_t commutes = 0; // of atomics whose order among themselves nobody can tell: which (RegionRange::operation)
};

// What the address of an access must be a multiple of (PTX ISA 9.0, 5.4.2, 9.7.9.17).
inline unsigned alignment(unsigned bytes) {
  unsigned natural = 1;
  while (natural < bytes && natural < ptx::discarded_bytes) natural *= 2;
  return natural;
}

// Whether accesses to the space are visible operations at all (local and param ones are not). Constants are memory of
// the device that copies write while other kernels may read it.
inline bool may_be_visible(Space s) { return s != Space::local && s != Space::param; }

// Stops before a visible operation: in control mode when the quantum is used up or the site marked; in record mode
// before strong ones.
void before_access(Builder& b, const ptx::Operand& address, Space space, bool strong);
// Of an address that is computed: `place` makes it, anew wherever it is needed.
void before_access(Builder& b, const std::function<Builder::Place()>& place, bool strong);
// The same for fences, which have no address.
void before_fence(Builder& b);

// Checks the address in check mode; returns Step::fault from the function when it is not legal.
void check_access(Builder& b, const Access& access);

// Record mode, weak accesses: one entry. `elements`: values written, empty for reads.
void log_access(Builder& b, const Access& access, llvm::ArrayRef<llvm::Value*> written);
// Record mode, strong accesses: per element. Values are 64 bits.
void report_strong(Builder& b, const Access& access, llvm::ArrayRef<llvm::Value*> read,
                   llvm::ArrayRef<llvm::Value*> written, llvm::Value* wrote);
// In loops: stops with Step::spin when a strong operation read what it read the last time and wrote nothing, or when
// the quantum is used up. `read`: its elements; none of stores and fences. Only registers survive.
void after_strong(Builder& b, const Access* access, llvm::ArrayRef<llvm::Value*> read, llvm::Value* wrote);

// Stops with Step::spin when the quantum, which it decrements, is used up.
void stop_when_used_up(Builder& b);

// A 32-bit mix of the bytes written: the value itself up to 4 bytes. The same as digest() in deadheat/digest.h.
llvm::Value* digest(Builder& b, llvm::ArrayRef<llvm::Value*> written);

} // namespace deadheat::engine
