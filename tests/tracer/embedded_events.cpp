// Events of the stand-in for libcuda.so.1 on the embedded device, and streams that come and go. What lies behind a
// graph that runs in a thread of its own (embedded_graphs.cpp) is complete when that has ended.
//
// Thread-safety: embedded_cuda.h.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <chrono>
#include <future>
#include <map>

#include "tests/tracer/callbacks.h"
#include "tests/tracer/embedded_cuda.h"

namespace {

using namespace deadheat;
using embedded::lock;
using embedded::the_device;

using Ran = std::shared_future<void>;
std::map<CUevent, Ran>& late_events = *new std::map<CUevent, Ran>;

std::uint32_t number_of(CUevent event) { return std::uint32_t(reinterpret_cast<std::uint64_t>(event) / 16); }

} // namespace

Ran& embedded::late_graph(CUstream stream) {
  static auto& late = *new std::map<CUstream, Ran>;
  return late[stream];
}

void embedded::late_graphs(CUstream stream) {
  Ran last;
  {
    std::lock_guard hold(lock);
    last = late_graph(stream);
  }
  if (last.valid()) last.wait();
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  cuStreamDestroy_v2_params p{stream};
  return CALL(cuStreamDestroy_v2, nullptr, p, {
    std::lock_guard hold(lock);
    the_device->destroy_stream(embedded::stream_of(p.hStream), 0);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) {
  cuEventCreate_params p{event, flags};
  return CALL(cuEventCreate, nullptr, p, {
    std::lock_guard hold(lock);
    *p.phEvent = reinterpret_cast<CUevent>(std::uint64_t(the_device->create_event()) * 16);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuEventDestroy_v2(CUevent) { return CUDA_SUCCESS; }
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  cuEventRecord_params p{event, stream};
  return CALL(cuEventRecord, nullptr, p, {
    if (embedded::refuses("events")) return CUDA_ERROR_NOT_SUPPORTED;
    std::lock_guard hold(lock);
    late_events[p.hEvent] = embedded::late_graph(p.hStream);
    the_device->record_event(number_of(p.hEvent), embedded::stream_of(p.hStream), 0);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuEventQuery(CUevent event) {
  cuEventQuery_params p{event};
  return CALL(cuEventQuery, nullptr, p, {
    std::lock_guard hold(lock);
    const Ran& last = late_events[p.hEvent];
    if (last.valid() && last.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      return CUDA_ERROR_NOT_READY;
    const device::Progress progress =
        the_device->query({trace::HostWait::Kind::event, number_of(p.hEvent), 0, true, 0});
    return progress == device::Progress::done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  cuStreamWaitEvent_params p{stream, event, flags};
  return CALL(cuStreamWaitEvent, nullptr, p, {
    std::lock_guard hold(lock);
    the_device->stream_wait(embedded::stream_of(p.hStream), number_of(p.hEvent), 0);
    return CUDA_SUCCESS;
  });
}
