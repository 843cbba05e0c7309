// Texts for error lines.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "deadheat/trace.h"
#include "replay/embedded/recording.h"
#include "replay/engine/compiler.h"

namespace deadheat::embedded {

// "out of bounds: kernel k(float*) at a.cu:12, block (0,0,0), thread (5,0,0): write of 4 bytes at 0x…"
std::string describe_fault(const trace::MemoryError& fault, const LaunchNote* launch, engine::LoadedModule* module);
// That what was linked with the CUDA runtime statically cannot run.
std::string static_runtime_line(const std::string& file);
// The file that holds an address: the program or a library.
std::string file_of(const void* address);

} // namespace deadheat::embedded
