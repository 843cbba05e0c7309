// Kernel launches: from the caller's function, configuration and argument pointers to a trace::Launch, with the checks
// that CUDA makes.
//
// Thread-safety: none; Runtime::lock.
#pragma once

#include "replay/embedded/entry.h"
#include "replay/embedded/work.h"

namespace deadheat::embedded {

struct LaunchAttributes {
  bool cooperative = false, programmatic = false;
  dim3 cluster = {0, 0, 0};  // 0: as the kernel says
  cudaEvent_t begun = nullptr; // recorded when all blocks have begun
};

// A kernel that can be launched, its module loaded.
struct Kernel {
  Function* function = nullptr;
  const engine::KernelInfo* info = nullptr;
};
// By host function or handle.
cudaError_t find_kernel(Call& call, const void* function, Kernel* kernel);

// Blocks of the kernel that fit on one multiprocessor; 0: none does.
std::uint32_t blocks_per_multiprocessor(const Profile& profile, const Kernel& kernel, std::uint32_t threads,
                                        std::uint64_t dynamic_shared);
// Largest dynamic shared memory that the kernel may be given now.
std::uint64_t dynamic_shared_limit(const Profile& profile, const Kernel& kernel);

// Checks everything and lays out the parameter block.
cudaError_t make_launch(Call& call, const Kernel& kernel, const LaunchConfiguration& configuration,
                        const LaunchAttributes& attributes, void** arguments, trace::Launch* launch);
// `extra`: CU_LAUNCH_PARAM_BUFFER_POINTER and its like, as cuLaunchKernel has them. `arguments` point into the buffer.
cudaError_t find_arguments(Call& call, const void* function, void** extra, std::vector<void*>* arguments);
cudaError_t launch_kernel(Call& call, const void* function, const LaunchConfiguration& configuration,
                          const LaunchAttributes& attributes, void** arguments);

} // namespace deadheat::embedded
