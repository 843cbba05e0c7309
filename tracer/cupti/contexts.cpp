// Contexts that are destroyed, and with them their memory, modules and what the tracer has there (cudaDeviceReset).
#include <memory>
#include <utility>
#include <vector>

#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

// What goes with a context, from the way in to the way out.
struct Going {
  CUcontext context = nullptr;
  std::vector<std::uint64_t> memory; // where allocations begin
  std::vector<CUstream> streams;
};

std::vector<CUstream> streams_of(Session& session, CUcontext context) {
  std::vector<CUstream> streams = session.known_streams();
  std::erase_if(streams, [&](CUstream stream) {
    CUcontext of = nullptr;
    return !driver().cuStreamGetCtx || driver().cuStreamGetCtx(stream, &of) != CUDA_SUCCESS || of != context;
  });
  return streams;
}

// Memory of pools, and memory that is mapped, is the device's, and goes with its primary context.
std::vector<std::uint64_t> memory_of(Session& session, CUcontext context, bool primary) {
  std::vector<std::uint64_t> memory;
  std::lock_guard hold(session.lock);
  for (const auto& [address, allocation] : session.allocations()) {
    CUcontext of = nullptr;
    if (driver().cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, address) != CUDA_SUCCESS) continue;
    if (of == context || (primary && !of)) memory.push_back(address);
  }
  return memory;
}

bool is_active(CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  return driver().cuDevicePrimaryCtxGetState &&
         driver().cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active;
}

CUcontext primary_context(CUdevice device) {
  const Driver& d = driver();
  CUcontext context = nullptr;
  if (!is_active(device) || !d.cuDevicePrimaryCtxRetain || !d.cuDevicePrimaryCtxRelease_v2 ||
      d.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) {
    return nullptr;
  }
  d.cuDevicePrimaryCtxRelease_v2(device);
  return context;
}

// `surely`: whoever calls ends it; else others may have it still, and are not to be held up.
void goes(Call& call, CUcontext context, bool primary, bool surely) {
  call.carried<Going>() = nullptr;
  if (!context) return;
  if (surely) call.session.recorder().let_kernels_end(context, Unfinished::while_loading);
  call.session.recorder().caught_up();
  if (HostWrites* writes = call.session.host_writes()) {
    std::lock_guard hold(call.session.lock);
    writes->before_wait(trace::HostWait::Kind::device, 0);
    writes->all_gone();
  }
  call.carried<Going>() =
      new Going{context, memory_of(call.session, context, primary), streams_of(call.session, context)};
}

void gone(Call& call, bool really) {
  const std::unique_ptr<Going> going(std::exchange(call.carried<Going>(), nullptr));
  if (!going || !really) return;
  if (Window* window = call.session.window()) window->spoil("a context was destroyed in it");
  call.session.recorder().context_gone(going->context);
  call.session.modules().context_gone(going->context);
  Session& session = call.session;
  std::lock_guard hold(session.lock);
  session.journal().push(trace::HostWaitBegin{trace::HostWait::Kind::device, 0, session.host_thread()});
  for (std::uint64_t address : going->memory) session.freed(address);
  for (std::uint32_t array : session.arrays.context_gone(going->context))
    session.journal().push(trace::Free{array, 0, session.host_thread()});
  session.textures.context_gone(going->context);
  session.context_gone(going->streams);
}

} // namespace

void destroy_context(Call& call, cuCtxDestroy_v2_params& p) {
  call.exit ? gone(call, call.done()) : goes(call, p.ctx, false, true);
}
void reset_device(Call& call, cuDevicePrimaryCtxReset_v2_params& p) {
  call.exit ? gone(call, call.done()) : goes(call, primary_context(p.dev), true, true);
}
// The context goes with who retained it last.
void release_device(Call& call, cuDevicePrimaryCtxRelease_v2_params& p) {
  call.exit ? gone(call, call.done() && !is_active(p.dev)) : goes(call, primary_context(p.dev), true, false);
}

} // namespace deadheat::cupti
