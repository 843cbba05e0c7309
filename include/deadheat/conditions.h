// Conditions of graphs in a trace: memory of the device that kernels set by cudaGraphSetConditional and that a
// conditional node reads (CUDA Runtime API, cudaConditionalNodeParams). The read is a copy to the host by the name
// below, since something beside the device's kernels decides by it what runs from there on: to a replay it is an
// output like what the program's copies bring.
//
// Thread-safety: constants.
#pragma once

namespace deadheat {

inline constexpr const char* conditions_memory = "conditions of graphs"; // name of the allocations
inline constexpr const char* condition_read = "cudaGraphLaunch (condition)";
inline constexpr const char* condition_default = "cudaGraphLaunch (default value of a condition)";

} // namespace deadheat
