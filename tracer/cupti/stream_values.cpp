// What streams write into memory to tell each other, and wait for (CUDA driver API, "Stream Memory Operations").
//
// Nothing tells which write a wait has seen: it counts as the last that was submitted before it, to that address. Such
// writes are no accesses in the trace: kernels that look at what they wrote wait for it, too.
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

// Words in memory are events by their address, which no event's handle has.
CUevent event_at(CUdeviceptr address) { return reinterpret_cast<CUevent>(address); }

void write_value(Call& call, CUstream stream, CUdeviceptr address, unsigned flags) {
  if (Window* window = call.session.window()) window->spoil("a stream writes a value into memory");
  if (flags & CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) return; // it tells of nothing before it
  std::lock_guard hold(call.session.lock);
  call.session.record_event(call.session.event(event_at(address)), call.stream(stream));
}

void wait_for_value(Call& call, CUstream stream, CUdeviceptr address) {
  std::lock_guard hold(call.session.lock);
  const std::uint32_t event = call.session.event(event_at(address));
  if (!call.session.recorded(event)) {
    return call.session.incident(
        "lost",
        "a stream waited for a value in memory that no stream was seen writing: what comes before is not known");
  }
  call.session.wait_event(call.stream(stream), event);
}

// P: of 32 or 64 bits, of any version.
template <typename P>
void write_value(Call& call, const P& p) {
  if (call.done() && !call.captured(p.stream)) write_value(call, p.stream, p.addr, p.flags);
}
template <typename P>
void wait_for_value(Call& call, const P& p) {
  if (call.done() && !call.captured(p.stream)) wait_for_value(call, p.stream, p.addr);
}
template <typename P>
void values(Call& call, const P& p) {
  if (!call.done() || call.captured(p.stream)) return;
  for (unsigned i = 0; p.paramArray && i < p.count; ++i) {
    const CUstreamBatchMemOpParams& one = p.paramArray[i];
    switch (one.operation) {
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        write_value(call, p.stream, one.writeValue.address, one.writeValue.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64: wait_for_value(call, p.stream, one.waitValue.address); break;
      default: break; // barriers within the stream, which is in order
    }
  }
}

} // namespace

void write_value32(Call& call, cuStreamWriteValue32_params& p) { write_value(call, p); }
void write_value32_v2(Call& call, cuStreamWriteValue32_v2_params& p) { write_value(call, p); }
void write_value64(Call& call, cuStreamWriteValue64_params& p) { write_value(call, p); }
void write_value64_v2(Call& call, cuStreamWriteValue64_v2_params& p) { write_value(call, p); }
void wait_for_value32(Call& call, cuStreamWaitValue32_params& p) { wait_for_value(call, p); }
void wait_for_value32_v2(Call& call, cuStreamWaitValue32_v2_params& p) { wait_for_value(call, p); }
void wait_for_value64(Call& call, cuStreamWaitValue64_params& p) { wait_for_value(call, p); }
void wait_for_value64_v2(Call& call, cuStreamWaitValue64_v2_params& p) { wait_for_value(call, p); }
void stream_values(Call& call, cuStreamBatchMemOp_params& p) { values(call, p); }
void stream_values_v2(Call& call, cuStreamBatchMemOp_v2_params& p) { values(call, p); }

} // namespace deadheat::cupti
