// Where an instruction stands in a module's code: inside which functions, and behind which other instructions. It names
// code that has no lines, or whose inlining nothing tells since it is called.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deadheat/ptx.h"
#include "tracer/ptx/sites.h"

namespace deadheat::ptx {

// Of a function that is called: the functions (demangled) that a thread is in when it is in this one, for each way of
// calls from a kernel; those that were inlined where a call stands are among them, `function` is not. No way twice.
// Nothing of kernels, of functions that no kernel leads to, and where the ways are not known: calls through addresses
// may be of any function whose address is taken, and of more than 256 ways nothing is told.
std::vector<std::vector<std::string>> ways_to(const Module& module, const Function& function);

// The opcodes of the sites that each thread which comes to this one has performed in its function before (those that
// dominate it, without guarded ones; the last most_of_path), in order, and its own at the end, with a blank between
// two. It is followed by "[reserved]" where its address is made of %reserved_smem_offset_*: in the shared memory that
// CUDA's own libraries have to themselves (PTX ISA, "Special Registers").
inline constexpr std::size_t most_of_path = 256;
std::string path_to(const Module& module, const SiteTable& table, std::uint32_t site);

} // namespace deadheat::ptx
