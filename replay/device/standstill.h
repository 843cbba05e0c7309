// Tells that nothing can change any more: every thread that has not ended waits, or spins, for what nobody will do.
//
// Nobody can go on, and those who spin have looked again, each of them. Suppose that in such a round each came back to
// where it stood with the same registers and local memory, and that none changed anything that is not its own (and no
// copy or operation did). What a look does depends on nothing but the thread and memory, so the next look does the
// same, whoever looks first and however often: no schedule lets anybody go on. A wait that counts its looks and gives
// up is told by its counter. One that gives up by the clock, by time: where nothing but the clock has moved, it is put
// forward, twice as far each round, and only when it has been moved through all its bits is nothing left to happen.
//
// The memory model allows a thread to read an older value than memory holds, never one older than what it has read
// there (PTX ISA 8.10.5, coherence): looks that were shown older values count as changes, others have read the newest.
//
// Code that does not count its changes (ExecContext::changes: all but that of mode control) is not judged, nor is a
// live process, whose host may write into memory that both see.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <optional>

#include "replay/device/machine.h"

namespace deadheat::device {

class Standstill {
 public:
  void moved() { *this = {}; } // somebody could go on, or was let go

  // Nobody can go on, and since the last call all who spin have looked. `seen`: Holds::seen. True: nobody ever will.
  bool reached(Machine& machine, std::uint64_t seen);

 private:
  struct State {
    Machine::SpinState spin;
    std::uint64_t progress = 0, seen = 0;
  };
  std::uint64_t round_ = 0;
  unsigned passed_ = 0; // bits of the clock that it was moved through
  std::optional<State> before_; // of the last round
};

} // namespace deadheat::device
