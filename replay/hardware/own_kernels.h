// Kernels of our own that replaying on a GPU launches besides the witness's: PTX for sm_70 and later.
//
// Thread-safety: constants.
#pragma once

namespace deadheat::hardware {

// (u64 word, u32 patience, u32 sleep): waits until the word is not 0; gives up after `patience` looks with `sleep` ns
// between them, and says so in the next word.
extern const char* const gate_name;
extern const char* const gate_text;

// (u32 bytes): overwrites that much dynamic shared memory. What a kernel leaves in shared memory is there for the next
// one on the same multiprocessor: without this, a read that comes before the write would see the right value, left over
// from the run before.
extern const char* const wipe_name;
extern const char* const wipe_text;

} // namespace deadheat::hardware
