// Streams that write values into memory, and wait for them: which write a wait counts as having seen says
// stream_values.h.
//
// Such writes are no accesses in the trace: kernels that look at what they wrote wait for it, too.
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

StreamValues::Until until(unsigned flags) {
  switch (flags & ~unsigned(CU_STREAM_WAIT_VALUE_FLUSH)) {
    case CU_STREAM_WAIT_VALUE_EQ: return StreamValues::Until::equal;
    case CU_STREAM_WAIT_VALUE_AND: return StreamValues::Until::a_bit;
    case CU_STREAM_WAIT_VALUE_NOR: return StreamValues::Until::no_bit;
    default: return StreamValues::Until::at_least;
  }
}

// The host may look at the value, or write it. Under the session's lock.
void may_talk(Call& call, CUstream stream, CUdeviceptr address) {
  HostWrites* writes = call.session.host_writes();
  const bool on_device = call.session.allocation_at(address) && !(writes && writes->reaches_host(address));
  if (writes && !on_device) writes->talks(call.stream(stream));
}

void write_value(Call& call, CUstream stream, CUdeviceptr address, std::uint64_t value, unsigned bits, unsigned flags) {
  Session& session = call.session;
  if (Window* window = session.window()) window->spoil("a stream writes a value into memory");
  std::lock_guard hold(session.lock);
  StreamValues::Write write{value, bits, 0};
  if (!(flags & CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)) { // else it tells of nothing before it
    const std::uint32_t event = session.event(Session::event_at(address));
    session.record_event(event, call.stream(stream));
    write.record = session.recorded(event);
  }
  session.values.wrote(address, write);
  may_talk(call, stream, address);
}

void wait_for_value(Call& call, CUstream stream, CUdeviceptr address, std::uint64_t value, unsigned bits,
                    unsigned flags) {
  Session& session = call.session;
  std::lock_guard hold(session.lock);
  may_talk(call, stream, address);
  const StreamValues::Write* seen = session.values.seen(address, value, bits, until(flags));
  if (!seen) {
    return session.incident("lost",
                            "a stream waited for a value in memory that no stream was seen writing: what comes before "
                            "is not known");
  }
  if (seen->record) session.wait_event(call.stream(stream), session.event(Session::event_at(address)), seen->record);
}

// P: of any version.
template <typename P>
void write_value(Call& call, const P& p, unsigned bits) {
  if (call.done() && !call.captured(p.stream)) write_value(call, p.stream, p.addr, p.value, bits, p.flags);
}
template <typename P>
void wait_for_value(Call& call, const P& p, unsigned bits) {
  if (call.done() && !call.captured(p.stream)) wait_for_value(call, p.stream, p.addr, p.value, bits, p.flags);
}
template <typename P>
void values(Call& call, const P& p) {
  if (!call.done() || call.captured(p.stream)) return;
  for (unsigned i = 0; p.paramArray && i < p.count; ++i) {
    const CUstreamBatchMemOpParams& one = p.paramArray[i];
    const auto& write = one.writeValue;
    const auto& wait = one.waitValue;
    switch (one.operation) {
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        write_value(call, p.stream, write.address, write.value, 32, write.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        write_value(call, p.stream, write.address, write.value64, 64, write.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        wait_for_value(call, p.stream, wait.address, wait.value, 32, wait.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        wait_for_value(call, p.stream, wait.address, wait.value64, 64, wait.flags);
        break;
      default: break; // barriers within the stream, which is in order
    }
  }
}

} // namespace

void write_value32(Call& call, cuStreamWriteValue32_params& p) { write_value(call, p, 32); }
void write_value32_v2(Call& call, cuStreamWriteValue32_v2_params& p) { write_value(call, p, 32); }
void write_value64(Call& call, cuStreamWriteValue64_params& p) { write_value(call, p, 64); }
void write_value64_v2(Call& call, cuStreamWriteValue64_v2_params& p) { write_value(call, p, 64); }
void wait_for_value32(Call& call, cuStreamWaitValue32_params& p) { wait_for_value(call, p, 32); }
void wait_for_value32_v2(Call& call, cuStreamWaitValue32_v2_params& p) { wait_for_value(call, p, 32); }
void wait_for_value64(Call& call, cuStreamWaitValue64_params& p) { wait_for_value(call, p, 64); }
void wait_for_value64_v2(Call& call, cuStreamWaitValue64_v2_params& p) { wait_for_value(call, p, 64); }
void stream_values(Call& call, cuStreamBatchMemOp_params& p) { values(call, p); }
void stream_values_v2(Call& call, cuStreamBatchMemOp_v2_params& p) { values(call, p); }

} // namespace deadheat::cupti
