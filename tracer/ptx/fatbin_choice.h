// Which PTX of a fat binary is the code that a device runs.
//
// Where there is machine code for the device the driver takes that, and PTX otherwise (CUDA Compiler Driver NVCC, "GPU
// Compilation"). What machine code was made of may differ from PTX for another virtual architecture beside it
// (__CUDA_ARCH__, __CUDA_ARCH_FEAT_SM90_ALL): code for sm_90a may be one program, and for sm_80 another.
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "tracer/ptx/fatbin.h"

namespace deadheat::ptx {

// The PTX among the entries of a container whose code a device of that compute capability (90) runs; null where it has
// none that it could run. An Error where it runs machine code that none of the PTX there was the source of. `forced`:
// the driver takes PTX in any case (CUDA_FORCE_PTX_JIT).
Expected<const FatbinEntry*> ptx_for_device(const std::vector<FatbinEntry>& entries, int capability, bool forced,
                                            std::string_view origin);

// The virtual architecture that the machine code was compiled for, as its note .note.nv.cuinfo says (90; CUDA 12.8 and
// later write it); 0: it does not say.
unsigned virtual_architecture(std::string_view machine_code);

} // namespace deadheat::ptx
