// Allocations, in all their forms.
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

using Kind = trace::Allocate::Kind;

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

void pinned(Call& call, std::uint64_t host, std::uint64_t bytes) {
  std::lock_guard hold(call.session.lock);
  call.session.allocated(Kind::pinned, host, bytes, host);
}

// Stream-ordered allocation: the memory exists for what the stream does later.
void in_stream(Call& call, CUdeviceptr address, std::uint64_t bytes, CUstream handle) {
  if (!address || !bytes) return;
  if (call.captured(handle)) return; // a graph's node
  std::lock_guard hold(call.session.lock);
  trace::Operation operation;
  operation.id = call.session.next_operation();
  operation.stream = call.stream(handle);
  call.session.allocated(Kind::pool, address, bytes, 0, operation.id);
  operation.what = trace::PoolOperation{false, call.session.allocation_at(address)->allocation};
  call.session.submit(std::move(operation));
}

}  // namespace

void allocate(Call& call, cuMemAlloc_v2_params& p) {
  call.retry_with_room([&] { return driver().cuMemAlloc_v2(p.dptr, p.bytesize); });
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  call.session.allocated(Kind::device, *p.dptr, p.bytesize, 0);
}

void allocate_pitched(Call& call, cuMemAllocPitch_v2_params& p) {
  call.retry_with_room(
      [&] { return driver().cuMemAllocPitch_v2(p.dptr, p.pPitch, p.WidthInBytes, p.Height, p.ElementSizeBytes); });
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  call.session.allocated(Kind::device, *p.dptr, *p.pPitch * p.Height, 0);
}

void allocate_managed(Call& call, cuMemAllocManaged_params& p) {
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  call.session.allocated(Kind::managed, *p.dptr, p.bytesize, *p.dptr);
}

void allocate_pinned(Call& call, cuMemAllocHost_v2_params& p) {
  if (call.done()) pinned(call, number(*p.pp), p.bytesize);
}
void allocate_pinned_with(Call& call, cuMemHostAlloc_params& p) {
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  pinned(call, number(*p.pp), p.bytesize);
  HostWrites* writes = call.session.host_writes();
  if (writes && (p.Flags & CU_MEMHOSTALLOC_WRITECOMBINED)) writes->not_to_be_read(number(*p.pp));
}
void register_host(Call& call, cuMemHostRegister_v2_params& p) {
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  pinned(call, number(p.p), p.bytesize);
  Window* window = call.session.window();
  if (window && (p.Flags & CU_MEMHOSTREGISTER_IOMEMORY)) window->of_another_device(number(p.p));
  HostWrites* writes = call.session.host_writes();
  if (writes && (p.Flags & CU_MEMHOSTREGISTER_IOMEMORY)) writes->not_to_be_read(number(p.p));
  if (writes) writes->may_vanish(number(p.p));
}

// What is no memory of the program's yet.
void allocate_physical(Call& call, cuMemCreate_params& p) {
  call.retry_with_room([&] { return driver().cuMemCreate(p.handle, p.size, p.prop, p.flags); });
}

// What would be free without the library: a job may decide by that how much it does at a time.
void free_memory_left(Call& call, cuMemGetInfo_v2_params& p) {
  if (call.done() && p.free) *p.free += call.session.spare_memory(call.context);
}

static void frees(Call& call, std::uint64_t address) {
  Session& session = call.session;
  std::lock_guard hold(session.lock);
  if (call.exit) return session.end_of_free(address, 1, call.done());
  const trace::Allocate* memory = session.allocation_at(address);
  if (!memory || memory->kind == Kind::symbol) return;
  if (Window* window = session.window(); window && memory->kind == Kind::pinned) {
    window->host_memory_freed(memory->address, memory->bytes);
  }
  // cudaFree of stream-ordered memory waits for nothing: the host itself frees it (Runtime API, cudaFree).
  if (memory->kind == Kind::pool)
    session.being_freed_by_host(address, session.device_of(call.context));
  else
    session.being_freed(address);
}
void unregister_host(Call& call, cuMemHostUnregister_params& p) { frees(call, number(p.p)); }
void free_host(Call& call, cuMemFreeHost_params& p) { frees(call, number(p.p)); }
void free_memory(Call& call, cuMemFree_v2_params& p) { frees(call, p.dptr); }

void map_memory(Call& call, cuMemMap_params& p) {
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  call.session.allocated(Kind::device, p.ptr, p.size, 0);
}

void unmap_memory(Call& call, cuMemUnmap_params& p) {
  std::lock_guard hold(call.session.lock);
  if (call.exit) return call.session.end_of_free(p.ptr, p.size, call.done());
  while (const trace::Allocate* memory = call.session.next_allocation(p.ptr)) {
    if (memory->address >= p.ptr + p.size) break;
    call.session.being_freed(memory->address);
  }
}

// Memory of other processes and of what lies outside of CUDA. It is ours from now on as far as operations go.
static void imported(Call& call, Kind kind, const CUdeviceptr* address, std::uint64_t bytes = 0) {
  if (!call.done() || !address || !*address) return;
  std::size_t whole = 0;
  CUdeviceptr base = 0;
  if (!bytes && driver().cuMemGetAddressRange_v2 &&
      driver().cuMemGetAddressRange_v2(&base, &whole, *address) == CUDA_SUCCESS) {
    bytes = whole - (*address - base);
  }
  std::lock_guard hold(call.session.lock);
  if (!call.session.allocation_at(*address)) call.session.allocated(kind, *address, bytes, 0);
}
// Theirs, or given to them.
static void of_others(Call& call) {
  if (!call.done()) return;
  call.session.incident("processes", std::string(call.function) +
                                         " was called: what other processes do to the memory is not in this log");
}
void open_memory(Call& call, cuIpcOpenMemHandle_v2_params& p) {
  of_others(call);
  imported(call, Kind::device, p.pdptr);
}
void open_memory_first(Call& call, cuIpcOpenMemHandle_params& p) {
  of_others(call);
  imported(call, Kind::device, p.pdptr);
}
void share_memory(Call& call, cuIpcGetMemHandle_params&) { of_others(call); }
void import_memory(Call& call, cuMemPoolImportPointer_params& p) { imported(call, Kind::pool, p.ptr_out); }
void map_external_memory(Call& call, cuExternalMemoryGetMappedBuffer_params& p) {
  imported(call, Kind::device, p.devPtr, p.bufferDesc ? p.bufferDesc->size : 0);
}
void close_memory(Call& call, cuIpcCloseMemHandle_params& p) { frees(call, p.dptr); }

void allocate_in_stream(Call& call, cuMemAllocAsync_params& p) {
  call.retry_with_room([&] { return driver().cuMemAllocAsync(p.dptr, p.bytesize, call.own_handle(p.hStream)); });
  if (call.done()) in_stream(call, *p.dptr, p.bytesize, p.hStream);
}
void allocate_from_pool(Call& call, cuMemAllocFromPoolAsync_params& p) {
  call.retry_with_room(
      [&] { return driver().cuMemAllocFromPoolAsync(p.dptr, p.bytesize, p.pool, call.own_handle(p.hStream)); });
  if (call.done()) in_stream(call, *p.dptr, p.bytesize, p.hStream);
}
void free_in_stream(Call& call, cuMemFreeAsync_params& p) {
  if (!call.exit && call.captured(p.hStream)) return;
  std::lock_guard hold(call.session.lock);
  if (call.exit) return call.session.end_of_free(p.dptr, 1, call.done());
  call.session.being_freed(p.dptr, call.stream(p.hStream));
}

// Variables of modules are memory that the program asks for by name.
static void global(Call& call, const void* owner, CUdeviceptr* address, std::size_t* bytes, const char* name) {
  if (!call.done() || !address || !*address || !bytes || !*bytes || !name) return;
  std::lock_guard hold(call.session.lock);
  call.session.modules().symbol(owner, *address, *bytes, name);
}
void library_global(Call& call, cuLibraryGetGlobal_params& p) { global(call, p.library, p.dptr, p.bytes, p.name); }
void library_managed(Call& call, cuLibraryGetManaged_params& p) { global(call, p.library, p.dptr, p.bytes, p.name); }
void module_global(Call& call, cuModuleGetGlobal_v2_params& p) { global(call, p.hmod, p.dptr, p.bytes, p.name); }

}  // namespace deadheat::cupti
