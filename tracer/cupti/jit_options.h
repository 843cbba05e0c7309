// The options of calls that load code, as far as they say how PTX is compiled (CUDA driver API, CUjit_option).
//
// Thread-safety: plain values and pure functions.
#pragma once

#include <cuda.h>

#include <string>
#include <vector>

namespace deadheat::cupti {

struct JitOptions {
  std::vector<std::string> ptxas; // the same for ptxas
  unsigned max_registers = 0; // among them; 0: any number
  bool for_driver_only = false; // ptxas has nothing like one of them
};

// `count` options with a value each. Those that ask for logs or times, or that make no difference to a cubin, are left
// to the call.
JitOptions jit_options(unsigned count, const CUjit_option* options, void* const* values);
// The least, where a fat binary says another (nvcc's -maxrregcount): blocks that fit stay possible. 0: it says none.
void limit_registers(JitOptions& options, unsigned most);

} // namespace deadheat::cupti
