// Textures and surfaces: which instructions they are, and which of their forms are refused.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "deadheat/ptx.h"

namespace deadheat::engine {

// tex, tld4, suld, sust: accesses of memory, texel by texel (texture.h).
bool is_texture_access(const ptx::Instruction& instruction);
// Of these, of txq and of suq: why it cannot run; empty when it can.
std::string texture_refusal(const ptx::Instruction& instruction);

} // namespace deadheat::engine
