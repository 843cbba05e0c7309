// Page-locked memory, and waits, of the stand-in for libcuda.so.1 that does nothing: copies copy nothing, but what is
// downloaded is sevens, at once; host functions run when their stream is waited for, or beside the job, as a driver's
// do.
//
// Thread-safety: as the driver's.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/tracer/callbacks.h"

namespace {

std::mutex lock;
std::map<void*, std::size_t>& sizes = *new std::map<void*, std::size_t>;
std::map<CUstream, std::vector<std::pair<CUhostFn, void*>>>& functions =
    *new std::map<CUstream, std::vector<std::pair<CUhostFn, void*>>>;

// Of functions that run beside the job: by stream, those that have not returned.
std::atomic<bool> beside{false}, slow{false}, late{false}, spins{false}, busy{false};
std::map<CUstream, int>& running = *new std::map<CUstream, int>;
std::condition_variable& ended = *new std::condition_variable;

void run_beside(CUstream stream) {
  pthread_setname_np(pthread_self(), "cuda00001400006"); // as the driver's are called
  for (;;) {
    std::unique_lock hold(lock);
    std::pair<CUhostFn, void*> next;
    auto& queue = functions[stream];
    if (queue.empty()) {
      running[stream] = 0;
      ended.notify_all();
      return;
    }
    next = queue.front();
    queue.erase(queue.begin());
    hold.unlock();
    if (late) std::this_thread::sleep_for(std::chrono::microseconds(500));
    next.first(next.second);
  }
}

void* host_memory(std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::lock_guard hold(lock);
  sizes[at] = bytes;
  return at;
}

} // namespace

void fake::runs_functions(CUstream stream) {
  std::vector<std::pair<CUhostFn, void*>> due;
  {
    std::unique_lock hold(lock);
    while (spins && running[stream]) {
      hold.unlock();
      hold.lock();
    }
    ended.wait(hold, [&] { return running[stream] == 0; });
    due.swap(functions[stream]);
  }
  for (const auto& [function, data] : due) function(data);
}

EXPORT CUresult cuMemHostAlloc(void** at, std::size_t bytes, unsigned flags) {
  cuMemHostAlloc_params p{at, bytes, flags};
  return CALL(cuMemHostAlloc, nullptr, p, {
    *p.pp = host_memory(p.bytesize);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuMemFreeHost(void* at) {
  cuMemFreeHost_params p{at};
  return CALL(cuMemFreeHost, nullptr, p, {
    std::lock_guard hold(lock);
    munmap(p.p, sizes[p.p]);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  cuLaunchHostFunc_params p{stream, function, data};
  return CALL(cuLaunchHostFunc, nullptr, p, {
    std::unique_lock hold(lock);
    functions[p.hStream].push_back({p.fn, p.userData});
    if (beside && !std::exchange(running[p.hStream], 1)) std::thread(run_beside, p.hStream).detach();
    hold.unlock();
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return CUDA_SUCCESS;
  });
}
namespace {
struct Callback {
  CUstream stream = nullptr;
  CUstreamCallback function = nullptr;
  void* data = nullptr;
};
} // namespace
EXPORT CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
  cuStreamAddCallback_params p{stream, callback, data, flags};
  return CALL(cuStreamAddCallback, nullptr, p, {
    const auto call = [](void* of) {
      const std::unique_ptr<Callback> what(static_cast<Callback*>(of));
      what->function(what->stream, CUDA_SUCCESS, what->data);
    };
    std::lock_guard hold(lock);
    functions[p.hStream].push_back({call, new Callback{p.hStream, p.callback, p.userData}});
    if (beside && !std::exchange(running[p.hStream], 1)) std::thread(run_beside, p.hStream).detach();
    return CUDA_SUCCESS;
  });
}
// Functions run beside the job, on a thread for each stream, as soon as they are submitted, or some time later;
// `slowly`: before the call that submits them has returned; `actively`: who waits for a stream does not sleep.
EXPORT void fake_functions_beside(bool slowly, bool later, bool actively) {
  slow = slowly;
  late = later;
  spins = actively;
  beside = true;
}
EXPORT void fake_device_is_busy(bool is) { busy = is; } // says every stream that is asked
EXPORT CUresult cuStreamQuery(CUstream stream) {
  cuStreamQuery_params p{stream};
  return CALL(cuStreamQuery, nullptr, p, { return busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; });
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  cuMemcpyDtoHAsync_v2_params p{to, from, bytes, stream};
  return CALL(cuMemcpyDtoHAsync_v2, nullptr, p, {
    std::memset(p.dstHost, 7, p.ByteCount);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuKernelGetParamInfo(CUkernel, std::size_t, std::size_t*, std::size_t*) {
  return CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuCtxSynchronize() {
  char none = 0;
  return CALL(cuCtxSynchronize, nullptr, none, {
    std::unique_lock hold(lock);
    ended.wait(hold, [] {
      for (const auto& [stream, number] : running) {
        if (number) return false;
      }
      return true;
    });
    return CUDA_SUCCESS;
  });
}

#define NOTHING(name, parameters, ...)                                \
  EXPORT CUresult name parameters {                                   \
    name##_params p{__VA_ARGS__};                                     \
    return CALL(name, nullptr, p, { return (void)p, CUDA_SUCCESS; }); \
  }
NOTHING(cuMemHostRegister_v2, (void* at, std::size_t bytes, unsigned flags), at, bytes, flags)
NOTHING(cuMemHostUnregister, (void* at), at)
NOTHING(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream), to, from, bytes,
        stream)
NOTHING(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D* plane, CUstream stream), plane, stream)
NOTHING(cuEventSynchronize, (CUevent event), event)
NOTHING(cuEventQuery, (CUevent event), event)
