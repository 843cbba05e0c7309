// A job that launches by functions of the driver which it came by in some way: lookups_job WAY THREADS [THEN]
//
// WAY: linked, handle (dlsym of the driver's library), default (dlsym with RTLD_DEFAULT), secret (the driver hands it
// out itself), first, second (cuGetProcAddress, its first and second form), again (cuGetProcAddress by
// cuGetProcAddress), own_streams (the per-thread default stream's form), to_come (of a version of CUDA that does not
// exist yet). Each thread launches in bursts for two seconds, every tenth launch in vain. THEN: library (one is loaded,
// and threads launch for another 0.4 seconds), secret (the same; then they launch the secret way), detach (CUPTI leaves
// for a while), errors (instead of all that: what dlerror says about lookups). Prints how many launches succeeded while
// the library looked, how many callbacks CUPTI made for them, whether it was still to make them after two seconds, and
// at the end; and "done".
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cupti_driver_cbid.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

extern "C" bool fake_is_enabled(unsigned id);
extern "C" decltype(&cuLaunchKernel) fake_launch();
extern "C" std::uint64_t fake_told(unsigned id);

namespace {

using Launch = decltype(&cuLaunchKernel);
using GetFirst = CUresult (*)(const char*, void**, int, cuuint64_t);
using GetSecond = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
std::atomic<unsigned> launched{0};

Launch launch_by(const std::string& way) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  const auto first = reinterpret_cast<GetFirst>(dlsym(library, "cuGetProcAddress"));
  const auto second = reinterpret_cast<GetSecond>(dlsym(library, "cuGetProcAddress_v2"));
  void *found = nullptr, *again = nullptr;
  CUdriverProcAddressQueryResult status{};
  if (way == "linked") return &cuLaunchKernel;
  if (way == "secret") return fake_launch();
  if (way == "handle") found = dlsym(library, "cuLaunchKernel");
  if (way == "default") found = dlsym(RTLD_DEFAULT, "cuLaunchKernel");
  if (way == "first") first("cuLaunchKernel", &found, 4000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
  if (way == "second") second("cuLaunchKernel", &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status);
  if (way == "own_streams") {
    second("cuLaunchKernel", &found, 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status);
  }
  if (way == "to_come") second("cuLaunchKernel", &found, 99000, 0, nullptr);
  if (way == "again") {
    first("cuGetProcAddress", &again, 12000, 0);
    reinterpret_cast<GetSecond>(again)("cuGetProcAddress", &again, 11030, 0, nullptr);
    reinterpret_cast<GetFirst>(again)("cuLaunchKernel", &found, 4000, 0);
  }
  return reinterpret_cast<Launch>(found);
}

void work(Launch launch, double seconds) {
  CUdeviceptr memory = 0;
  cuMemAlloc_v2(&memory, 4096);
  int number = 0;
  void* parameters[] = {&memory, &number};
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (unsigned i = 0; std::chrono::steady_clock::now() < end || i % 10; ++i) {
    const auto kernel = reinterpret_cast<CUfunction>(std::uintptr_t(0x100 + 16 * (i % 7)));
    launched += launch(kernel, i % 10 == 9 ? 0 : 4, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr) == CUDA_SUCCESS;
    if (i % 10 == 9) usleep(2000);
  }
}

void in_threads(int count, Launch launch, double seconds) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, launch, seconds);
  for (std::thread& thread : threads) thread.join();
}

void* address(const char* name) { return dlsym(RTLD_DEFAULT, name); }

void errors() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const mathematics = dlopen("libm.so.6", RTLD_NOW);
  const auto said = [](const void* found) {
    const char* const error = dlerror();
    std::printf("%s %s\n", found ? "found" : "none", error ? error : "");
  };
  said(dlsym(library, "cuNoSuchFunction"));
  said(dlsym(library, "cuLaunchKernelEx_ptsz"));
  said(dlsym(library, "cuLaunchKernel"));
  said(dlsym(mathematics, "cuLaunchKernel"));
  said(dlsym(mathematics, "cos"));
  said(dlsym(RTLD_NEXT, "cuMemsetD32Async"));
  said(dlsym(RTLD_NEXT, "main"));
  dlsym(mathematics, "no_such_function");
  said(dlsym(library, "cuLaunchKernel"));
  std::printf("%d\n", address("cos") == dlsym(mathematics, "cos"));
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string way = argv[1], then = argc > 3 ? argv[3] : "";
  const int threads = std::atoi(argv[2]);
  if (then == "errors") return errors(), std::puts("done"), 0;
  const Launch launch = launch_by(way); // before there is a driver to speak of
  if (!launch) return 1;
  cuInit(0);
  const unsigned id =
      way == "own_streams" ? CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz : CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
  in_threads(threads, launch, 2);
  const bool off = !fake_is_enabled(id);
  if (then == "library" || then == "secret") {
    dlopen("libc10.so", RTLD_NOW);
    in_threads(threads, launch, 0.4);
  }
  if (then == "secret") in_threads(threads, fake_launch(), 0.4);
  if (then == "detach") {
    reinterpret_cast<void (*)()>(address("deadheat_detach"))();
    const unsigned before = launched;
    in_threads(threads, launch, 0.1);
    launched = before;
    reinterpret_cast<void (*)(unsigned)>(address("deadheat_layers"))(7);
    in_threads(threads, launch, 0.1);
  }
  const auto between = reinterpret_cast<unsigned (*)()>(address("calls_between"));
  std::printf("%u %llu %d %d %u\n", launched.load(), static_cast<unsigned long long>(fake_told(id)), off,
              fake_is_enabled(id), between ? between() : 0);
  std::puts("done");
  return 3;
}
