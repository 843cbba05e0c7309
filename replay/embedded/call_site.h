// Where in the program the present CUDA call was made: "file.cu:12" where the program has line information (-g),
// "program+0x381c (function())" where it has not. Code that nvcc generates between a <<<>>> and the runtime is passed
// over.
//
// Thread-safety: none; Runtime::lock.
#pragma once

#include <string>

namespace deadheat::embedded {

// Of the innermost frame on the calling thread's stack that is neither ours nor generated; empty when there is none.
// `kernel`: of a launch, its mangled name. The host function of that name is generated too, though its line is not.
std::string call_site(const std::string& kernel = {});

} // namespace deadheat::embedded
