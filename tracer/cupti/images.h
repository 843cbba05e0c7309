// The PTX of what a program hands to the driver to load: PTX text, a fat binary's wrapper or container, an ELF file.
//
// Thread-safety: pure functions, but for files of Triton's cache.
#pragma once

#include <string>
#include <string_view>

#include "deadheat/expected.h"
#include "tracer/compilers/made_code.h"

namespace deadheat::cupti {

// `image`: as given to cuModuleLoadData or cuLibraryLoadData, whose bytes tell what it is. `architecture`: of the
// device, 90. Of source files that were compiled apart (nvcc -rdc=true) the PTX of all is linked; an Error where some
// of them has none for the device (but for CUDA's device runtime, which every such program carries), or none that can
// be read.
Expected<DeviceCode> device_code(const void* image, int architecture);
// Of a file that the driver is asked to load: PTX, a fat binary's container, or a cubin, whose PTX is in NAME.ptx
// beside NAME.cubin or in Triton's cache. No text where the file cannot be read.
// Whether code came out of a library of NVIDIA's, which who runs a job has not built: a DeviceCode's origin, or what an
// Error says about one.
bool is_of_cuda_library(std::string_view origin);
Expected<DeviceCode> device_code_of_file(const std::string& path, int architecture);

} // namespace deadheat::cupti
