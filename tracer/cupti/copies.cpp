// Copies and sets.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "deadheat/address.h"
#include "deadheat/host_waits.h"
#include "tracer/cupti/activity.h"
#include "tracer/cupti/copy_ends.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/placed.h"
#include "tracer/cupti/window.h"

namespace deadheat::cupti {

namespace {

using Direction = trace::Copy::Direction;

enum class Where : std::uint8_t { pageable, pinned, device };

// Where an address lies, as the tables know it; the driver is asked about memory that they do not know.
Where where(Session& session, std::uint64_t address) {
  if (!address || is_array_memory(address)) return Where::device;
  if (const trace::Allocate* memory = session.allocation_at(address)) {
    return memory->kind == trace::Allocate::Kind::pinned ? Where::pinned : Where::device;
  }
  unsigned type = 0;
  if (driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS) {
    return Where::pageable;
  }
  return type == CU_MEMORYTYPE_HOST ? Where::pinned : Where::device;
}

// `from_host`, `to_host`: -1 where the pointers tell.
trace::Copy describe(Session& session, const trace::MemoryRange& destination, const trace::MemoryRange& source,
                     int to_host, int from_host, const std::string& api) {
  trace::Copy copy;
  copy.destination = destination;
  copy.source = source;
  copy.api = api;
  const Where to = where(session, destination.address), from = where(session, source.address);
  const bool into = to_host < 0 ? to != Where::device : to_host,
             out = from_host < 0 ? from != Where::device : from_host;
  copy.direction = into ? (out ? Direction::h2h : Direction::d2h) : out ? Direction::h2d : Direction::d2d;
  copy.pageable_destination = into && to == Where::pageable;
  copy.pageable_source = out && from == Where::pageable;
  return copy;
}

bool reads_host(const trace::Copy& copy) {
  return copy.direction == Direction::h2d || copy.direction == Direction::h2h;
}
bool writes_host(const trace::Copy& copy) {
  return copy.direction == Direction::d2h || copy.direction == Direction::h2h;
}

// In a window that is open: notes what the copy touches. Returns the bytes that it brings from the host.
trace::Bytes brought(Window& window, const trace::Copy& copy, CUstream handle) {
  trace::Bytes data;
  if (reads_host(copy))
    data = window.bytes_of(copy.source, !copy.pageable_source, handle);
  else
    window.touch(copy.source);
  if (!writes_host(copy)) window.touch(copy.destination);
  return data;
}

// `batch`: the launch that stands for the one that the copy is of; 0: none. `read_before`: its source was.
void submit_one(Call& call, const trace::MemoryRange& destination, const trace::MemoryRange& source, int to_host,
                int from_host, CUstream handle, std::uint32_t batch, bool read_before) {
  if (!destination.width || !destination.height || !destination.depth) return;
  trace::Operation operation;
  operation.graph_launch = batch;
  trace::Copy copy;
  {
    std::lock_guard hold(call.session.lock);
    copy = describe(call.session, destination, source, to_host, from_host, call.api());
    copy.pageable_source |= read_before;
    if (HostWrites* writes = call.session.host_writes(); writes && reads_host(copy)) writes->before(source);
  }
  if (Window* window = call.session.window(); window && window->open()) {
    if (reads_host(copy) && !copy.pageable_source) window->device_reads(source);
    copy.data = brought(*window, copy, handle);
  }
  const bool into_host = writes_host(copy) && !copy.pageable_destination;
  std::lock_guard hold(call.session.lock);
  operation.stream = call.stream(handle);
  operation.what = copy;
  const std::uint32_t stream = operation.stream, id = call.session.submit(std::move(operation));
  if (HostWrites* writes = call.session.host_writes()) {
    writes->brings(copy);
    writes->copied(copy, stream);
  }
  if (Window* window = call.session.window(); window && into_host) {
    window->device_writes(destination, stream, id, call.own_handle(handle));
  }
}

// By an event that the program has not. Under the session's lock.
void comes_before(Session& session, std::uint32_t first, std::uint32_t second) {
  const std::uint32_t event = session.event(nullptr);
  session.record_event(event, first);
  session.wait_event(second, event);
}

// Of calls that return at once.
void submit_copy(Call& call, const trace::MemoryRange& destination, const trace::MemoryRange& source, int to_host,
                 int from_host, CUstream handle) {
  if (!call.done() || call.captured(handle)) return;
  submit_one(call, destination, source, to_host, from_host, handle, 0, false);
}

using Placed = std::shared_ptr<PlacedOperation>; // on the way in; carried to the way out

// The way in of a call that may return long after what it submits. Under the session's lock.
void place(Call& call, CUstream handle, decltype(trace::Operation::what) what, HostWaits waits) {
  Session& session = call.session;
  Window* window = session.window();
  trace::Operation operation;
  operation.id = session.next_operation();
  operation.stream = call.stream(handle);
  operation.host_thread = session.host_thread();
  operation.what = std::move(what);
  HostWrites* writes = session.host_writes();
  const auto* copy = std::get_if<trace::Copy>(&operation.what);
  const auto* set = std::get_if<trace::Set>(&operation.what);
  if (writes && copy && writes_host(*copy) && !copy->pageable_destination) writes->writes_now(copy->destination);
  if (writes && set) writes->writes_now(set->destination);
  if (writes && waits == HostWaits::until_done) writes->looks().waiting.enters();
  if (writes && waits != HostWaits::not_at_all) writes->before_wait(trace::HostWait::Kind::stream, operation.stream);
  auto held = std::make_unique<Placed>(
      std::make_shared<PlacedOperation>(std::move(operation), waits, window && window->open()));
  session.journal().push(Journal::Item(std::shared_ptr<Awaited>(*held)));
  call.carried<Placed>() = held.release();
}

// The way out. `data`: gives the bytes that it brought.
template <typename Data>
void returned(Call& call, const Placed& placed, Data&& data) {
  struct Settled { // or nothing behind it is ever written
    PlacedOperation& operation;
    HostWrites* writes;
    ~Settled() {
      operation.settle(false);
      if (!writes) return;
      writes->writes_no_more();
      writes->looks().waiting.leaves();
    }
  } settled{*placed, call.session.host_writes()};
  if (settled.writes && placed->waits() == HostWaits::until_done) settled.writes->looks().let_functions_run();
  if (!call.done()) {
    if (!placed->settle(false)) call.session.incident("lost", "a copy that failed late is in the trace");
    return;
  }
  trace::Bytes bytes = data();
  std::lock_guard hold(call.session.lock);
  placed->settle(true, std::move(bytes));
  HostWrites* writes = call.session.host_writes();
  if (writes && placed->waits() == HostWaits::until_done)
    writes->wait_ends(trace::HostWait::Kind::stream, placed->stream());
  if (placed->waits() == HostWaits::until_done)
    call.session.host_waited(trace::HostWait::Kind::operation, placed->operation());
  else if (placed->waits() == HostWaits::until_begun)
    call.session.host_waited(trace::HostWait::Kind::stream, placed->stream());
  if (writes && placed->waits() == HostWaits::until_done)
    writes->waited(trace::HostWait::Kind::stream, placed->stream());
}

// Of calls that may return late.
void submit_waiting(Call& call, const trace::MemoryRange& destination, const trace::MemoryRange& source, int to_host,
                    int from_host, CUstream handle) {
  Session& session = call.session;
  Window* window = session.window();
  const bool open = window && window->open();
  if (!call.exit) {
    call.carried<Placed>() = nullptr;
    if (!destination.bytes() || call.captured(handle)) return;
    std::unique_lock hold(session.lock);
    trace::Copy copy = describe(session, destination, source, to_host, from_host, call.api());
    const HostWaits waits = host_waits(copy);
    if (HostWrites* writes = session.host_writes(); writes && writes_host(copy) && !copy.pageable_destination) {
      waits == HostWaits::until_done ? writes->overwritten(destination) : writes->before(destination);
    }
    if (waits == HostWaits::not_at_all && !copy.pageable_source && !copy.pageable_destination) return;
    if (open && !copy.pageable_source && reads_host(copy)) {
      hold.unlock();
      window->device_reads(source);
      hold.lock();
    }
    return place(call, handle, std::move(copy), waits);
  }
  const std::unique_ptr<Placed> held(std::exchange(call.carried<Placed>(), nullptr));
  if (!held) return submit_copy(call, destination, source, to_host, from_host, handle);
  const Placed& placed = *held;
  trace::Copy copy;
  {
    std::lock_guard hold(session.lock);
    copy = describe(session, destination, source, to_host, from_host, call.api());
    if (HostWrites* writes = session.host_writes(); writes && call.done()) writes->brings(copy);
    if (call.done() && session.activity()) session.activity()->submitted(placed->operation(), Activity::Kind::copy);
  }
  returned(call, placed, [&] { return open ? brought(*window, copy, handle) : trace::Bytes(); });
  if (call.done() && window && writes_host(copy) && !copy.pageable_destination) {
    std::lock_guard hold(session.lock);
    window->device_writes(destination, placed->stream(), placed->operation(), call.own_handle(handle));
  }
}

void submit_waiting(Call& call, std::uint64_t destination, std::uint64_t source, std::uint64_t bytes, int to_host,
                    int from_host, CUstream handle = nullptr) {
  submit_waiting(call, line(destination, bytes), line(source, bytes), to_host, from_host, handle);
}

// Copies of which nothing orders one behind another (CUDA driver API, cuMemcpyBatchAsync): nodes of a graph without
// edges, that has no number. A source that may be read out of the stream's order is read by an operation before, in a
// stream of its own; the copy then reads nothing.
class Batch {
 public:
  Batch(Call& call, CUstream handle) : call_(call), handle_(handle), made_(call.done() && !call.captured(handle)) {}
  void copy(const trace::MemoryRange& destination, const trace::MemoryRange& source, int to_host, int from_host,
            CUmemcpySrcAccessOrder order) {
    if (!made_) return;
    const bool early = order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL || order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    if (early && source.address && destination.bytes())
      read_early(destination, source, to_host, from_host, order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
    copies_.push_back({destination, source, to_host, from_host, early});
  }
  void submit() {
    if (!made_) return;
    Session& session = call_.session;
    std::unique_lock hold(session.lock);
    const std::uint32_t launch = session.next_graph_launch();
    session.journal().push(trace::GraphLaunch{launch, 0, call_.stream(handle_), session.host_thread()});
    hold.unlock();
    for (const One& one : copies_)
      submit_one(call_, one.destination, one.source, one.to_host, one.from_host, handle_, launch, one.read_early);
    session.journal().push(trace::GraphEnd{launch});
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

 private:
  void read_early(const trace::MemoryRange& destination, const trace::MemoryRange& source, int to_host, int from_host,
                  bool during_call) {
    Session& session = call_.session;
    std::lock_guard hold(session.lock);
    trace::Copy copy = describe(session, destination, source, to_host, from_host, call_.api());
    if (copy.pageable_source) return;
    copy.direction = reads_host(copy) ? Direction::h2d : Direction::d2d;
    copy.destination.address = 0; // nobody's memory
    copy.pageable_destination = false;
    HostWrites* writes = session.host_writes();
    if (writes) writes->before(source);
    const std::uint32_t stream = call_.stream(handle_);
    trace::Operation operation;
    operation.id = session.next_operation();
    operation.stream = session.own_stream(session.device_of(call_.context));
    operation.what = copy;
    const std::uint32_t id = operation.id, reads = operation.stream;
    using Kind = trace::HostWait::Kind;
    if (during_call) session.journal().push(trace::HostWaitBegin{Kind::operation, id, session.host_thread()});
    session.submit(std::move(operation));
    if (during_call) session.host_waited(Kind::operation, id);
    comes_before(session, reads, stream);
    if (writes && !during_call) writes->copied(copy, stream); // which it comes before
  }
  struct One {
    trace::MemoryRange destination, source;
    int to_host, from_host;
    bool read_early;
  };
  Call& call_;
  CUstream handle_;
  const bool made_; // else it failed, or was captured
  std::vector<One> copies_;
};

void submit_copy(Call& call, std::uint64_t destination, std::uint64_t source, std::uint64_t bytes, int to_host,
                 int from_host, CUstream handle = nullptr) {
  submit_copy(call, line(destination, bytes), line(source, bytes), to_host, from_host, handle);
}

// Around a copy without a stream, which is "serialized with respect [to] all pending and future asynchronous work in to
// the current device, srcDevice, and dstDevice" (Runtime API, cudaMemcpyPeer): behind the default streams of the other
// devices, and before what comes to them.
class BetweenDevices {
 public:
  BetweenDevices(Call& call, CUcontext source, CUcontext destination) : call_(call) {
    if (!call.done() || call.captured(nullptr)) return;
    std::lock_guard hold(call.session.lock);
    const std::uint32_t current = call.session.device_of(call.context);
    for (CUcontext context : {source, destination}) {
      if (!context || call.session.device_of(context) == current) continue;
      others_.push_back(call.session.stream(context, nullptr, false));
      comes_before(call.session, others_.back(), call.stream(nullptr));
    }
  }
  ~BetweenDevices() {
    if (others_.empty()) return;
    try {
      std::lock_guard hold(call_.session.lock);
      for (std::uint32_t other : others_) comes_before(call_.session, call_.stream(nullptr), other);
    } catch (...) {
      call_.session.call_not_recorded();
    }
  }
  BetweenDevices(const BetweenDevices&) = delete;
  BetweenDevices& operator=(const BetweenDevices&) = delete;

 private:
  Call& call_;
  std::vector<std::uint32_t> others_;
};

void plane(Call& call, const CUDA_MEMCPY2D* c, CUstream handle) {
  if (!c) return;
  const Side to{c->dstMemoryType, number(c->dstHost), c->dstDevice, c->dstPitch, 0, c->dstXInBytes, c->dstY, 0,
                c->dstArray};
  const Side from{c->srcMemoryType, number(c->srcHost), c->srcDevice, c->srcPitch, 0, c->srcXInBytes, c->srcY, 0,
                  c->srcArray};
  Session& session = call.session;
  submit_waiting(call, range(session, to, c->WidthInBytes, c->Height, 1),
                 range(session, from, c->WidthInBytes, c->Height, 1), on_host(c->dstMemoryType),
                 on_host(c->srcMemoryType), handle);
}

using Submit = void (*)(Call&, const trace::MemoryRange&, const trace::MemoryRange&, int, int, CUstream);
// Between devices, calls return at once.
template <typename Copy>
void volume(Call& call, const Copy* c, CUstream handle) {
  if (!c) return;
  constexpr auto submit = std::is_same_v<Copy, CUDA_MEMCPY3D> ? Submit(submit_waiting) : Submit(submit_copy);
  Session& session = call.session;
  submit(call, range(session, destination_of(*c), c->WidthInBytes, c->Height, c->Depth),
         range(session, source_of(*c), c->WidthInBytes, c->Height, c->Depth), on_host(c->dstMemoryType),
         on_host(c->srcMemoryType), handle);
}

// CUDA driver API, cuMemcpy3DBatchAsync: rows and layers of memory are as long as those that are copied where it does
// not say.
void volumes(Call& call, const CUDA_MEMCPY3D_BATCH_OP* operations, std::size_t count, CUstream handle) {
  Batch batch(call, handle);
  for (std::size_t i = 0; operations && i < count; ++i) {
    const CUDA_MEMCPY3D_BATCH_OP& o = operations[i];
    const std::uint64_t element = std::max(element_bytes(o.src), element_bytes(o.dst));
    const auto side = [&](const CUmemcpy3DOperand& operand) {
      const bool array = operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
      const auto& memory = operand.op.ptr;
      const auto& at = operand.op.array.offset;
      Side of{CU_MEMORYTYPE_ARRAY, 0, 0, 0, 0, at.x * element, at.y, at.z, operand.op.array.array};
      if (!array)
        of = {CU_MEMORYTYPE_UNIFIED, 0, memory.ptr, memory.rowLength * element, memory.layerHeight, 0, 0, 0, nullptr};
      return range(call.session, of, o.extent.width * element, o.extent.height, o.extent.depth);
    };
    const auto where_to = [](const CUmemcpy3DOperand& operand) {
      return operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? 0 : -1;
    };
    batch.copy(side(o.dst), side(o.src), where_to(o.dst), where_to(o.src), o.srcAccessOrder);
  }
  batch.submit();
}

// P: cuMemcpyBatchAsync_params, of any version: an entry of the attributes holds from its index on.
template <typename P>
void lines(Call& call, const P& p) {
  Batch batch(call, p.hStream);
  std::size_t entry = 0;
  for (std::size_t i = 0; i < p.count; ++i) {
    while (entry + 1 < p.numAttrs && p.attrsIdxs[entry + 1] <= i) ++entry;
    batch.copy(line(p.dsts[i], p.sizes[i]), line(p.srcs[i], p.sizes[i]), -1, -1,
               p.numAttrs ? p.attrs[entry].srcAccessOrder : CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
  }
  batch.submit();
}

void set(Call& call, std::uint64_t address, std::uint64_t pitch, std::uint32_t value, std::uint8_t element,
         std::uint64_t count, std::uint64_t rows, CUstream handle) {
  if (!call.done() || call.captured(handle) || !count || !rows) return;
  Session& session = call.session;
  Journal::MemorySet set;
  set.stream = session.stream_again(call.context, handle, call.per_thread);
  set.address = address;
  set.width = count * element;
  set.pitch = pitch ? pitch : set.width;
  set.rows = rows;
  set.value = value;
  set.element_bytes = element;
  set.function = call.function;
  std::unique_lock hold(session.lock, std::defer_lock);
  if (session.activity() || session.window()) [[unlikely]]
    hold.lock();
  session.number(set);
  session.journal().push(set);
  if (HostWrites* writes = session.host_writes(); writes && writes->maybe_reaches_host(address)) {
    std::lock_guard live(session.lock);
    if (writes->reaches_host(address)) writes->device_writes({address, set.pitch, set.width, rows, 1, 0}, set.stream);
  }
  if (Window* window = session.window()) [[unlikely]] {
    const trace::MemoryRange destination{address, set.pitch, set.width, rows, 1, 0};
    window->touch(destination);
    window->device_writes(destination, set.stream, set.operation, call.own_handle(handle));
  }
}

// By the calls without a stream: page-locked memory has been set when they return (Runtime API, "API synchronization
// behavior").
void set_at_once(Call& call, std::uint64_t address, std::uint64_t pitch, std::uint32_t value, std::uint8_t element,
                 std::uint64_t count, std::uint64_t rows) {
  Session& session = call.session;
  if (!call.exit) {
    call.carried<Placed>() = nullptr;
    if (!count || !rows || call.captured(nullptr)) return;
    std::lock_guard hold(session.lock);
    if (where(session, address) != Where::pinned) return;
    const trace::MemoryRange destination{address, pitch ? pitch : count * element, count * element, rows, 1, 0};
    if (HostWrites* writes = session.host_writes()) writes->overwritten(destination);
    return place(call, nullptr, trace::Set{destination, value, element, call.api()}, HostWaits::until_done);
  }
  const std::unique_ptr<Placed> held(std::exchange(call.carried<Placed>(), nullptr));
  if (!held) return set(call, address, pitch, value, element, count, rows, nullptr);
  returned(call, *held, [] { return trace::Bytes(); });
  if (!call.done()) return;
  std::lock_guard hold(session.lock);
  if (session.activity()) session.activity()->submitted((*held)->operation(), Activity::Kind::set);
  if (Window* window = session.window()) {
    const trace::MemoryRange destination{address, pitch ? pitch : count * element, count * element, rows, 1, 0};
    window->touch(destination);
    window->device_writes(destination, (*held)->stream(), (*held)->operation(), call.own_handle(nullptr));
  }
}

} // namespace

trace::Copy copy_of(Session& session, const CUDA_MEMCPY3D& c, const std::string& api) {
  return describe(session, range(session, destination_of(c), c.WidthInBytes, c.Height, c.Depth),
                  range(session, source_of(c), c.WidthInBytes, c.Height, c.Depth), on_host(c.dstMemoryType),
                  on_host(c.srcMemoryType), api);
}

trace::Set set_of(const CUDA_MEMSET_NODE_PARAMS& s, const std::string& api) {
  trace::Set record;
  record.destination = {s.dst, s.pitch, s.width * s.elementSize, s.height, 1, 0};
  record.value = s.value;
  record.element_bytes = std::uint8_t(s.elementSize);
  record.api = api;
  return record;
}

void copy_any(Call& call, cuMemcpy_params& p) { submit_waiting(call, p.dst, p.src, p.ByteCount, -1, -1); }
void copy_any_async(Call& call, cuMemcpyAsync_params& p) {
  submit_waiting(call, p.dst, p.src, p.ByteCount, -1, -1, p.hStream);
}
void copy_to_device(Call& call, cuMemcpyHtoD_v2_params& p) {
  submit_waiting(call, p.dstDevice, number(p.srcHost), p.ByteCount, 0, 1);
}
void copy_to_device_async(Call& call, cuMemcpyHtoDAsync_v2_params& p) {
  submit_waiting(call, p.dstDevice, number(p.srcHost), p.ByteCount, 0, 1, p.hStream);
}
void copy_to_host(Call& call, cuMemcpyDtoH_v2_params& p) {
  submit_waiting(call, number(p.dstHost), p.srcDevice, p.ByteCount, 1, 0);
}
void copy_to_host_async(Call& call, cuMemcpyDtoHAsync_v2_params& p) {
  submit_waiting(call, number(p.dstHost), p.srcDevice, p.ByteCount, 1, 0, p.hStream);
}
void copy_on_device(Call& call, cuMemcpyDtoD_v2_params& p) {
  submit_copy(call, p.dstDevice, p.srcDevice, p.ByteCount, 0, 0);
}
void copy_on_device_async(Call& call, cuMemcpyDtoDAsync_v2_params& p) {
  submit_copy(call, p.dstDevice, p.srcDevice, p.ByteCount, 0, 0, p.hStream);
}
void copy_peer(Call& call, cuMemcpyPeer_params& p) {
  const BetweenDevices serialized(call, p.srcContext, p.dstContext);
  submit_copy(call, p.dstDevice, p.srcDevice, p.ByteCount, 0, 0);
}
void copy_peer_async(Call& call, cuMemcpyPeerAsync_params& p) {
  submit_copy(call, p.dstDevice, p.srcDevice, p.ByteCount, 0, 0, p.hStream);
}
void copy_plane(Call& call, cuMemcpy2D_v2_params& p) { plane(call, p.pCopy, nullptr); }
void copy_plane_unaligned(Call& call, cuMemcpy2DUnaligned_v2_params& p) { plane(call, p.pCopy, nullptr); }
void copy_plane_async(Call& call, cuMemcpy2DAsync_v2_params& p) { plane(call, p.pCopy, p.hStream); }
void copy_volume(Call& call, cuMemcpy3D_v2_params& p) { volume(call, p.pCopy, nullptr); }
void copy_volume_async(Call& call, cuMemcpy3DAsync_v2_params& p) { volume(call, p.pCopy, p.hStream); }
void copy_peer_volume(Call& call, cuMemcpy3DPeer_params& p) {
  if (!p.pCopy) return;
  const BetweenDevices serialized(call, p.pCopy->srcContext, p.pCopy->dstContext);
  volume(call, p.pCopy, nullptr);
}
void copy_peer_volume_async(Call& call, cuMemcpy3DPeerAsync_params& p) { volume(call, p.pCopy, p.hStream); }
void copy_batch(Call& call, cuMemcpyBatchAsync_v2_params& p) { lines(call, p); }
void copy_batch_first(Call& call, cuMemcpyBatchAsync_params& p) { lines(call, p); }
void copy_volumes(Call& call, cuMemcpy3DBatchAsync_v2_params& p) { volumes(call, p.opList, p.numOps, p.hStream); }
void copy_volumes_first(Call& call, cuMemcpy3DBatchAsync_params& p) { volumes(call, p.opList, p.numOps, p.hStream); }
void copy_array_to_device(Call& call, cuMemcpyAtoD_v2_params& p) {
  submit_copy(call, line(p.dstDevice, p.ByteCount), line(call.session, p.srcArray, p.srcOffset, p.ByteCount), 0, 0,
              nullptr);
}
void copy_device_to_array(Call& call, cuMemcpyDtoA_v2_params& p) {
  submit_copy(call, line(call.session, p.dstArray, p.dstOffset, p.ByteCount), line(p.srcDevice, p.ByteCount), 0, 0,
              nullptr);
}
void copy_array_to_host(Call& call, cuMemcpyAtoH_v2_params& p) {
  submit_waiting(call, line(number(p.dstHost), p.ByteCount), line(call.session, p.srcArray, p.srcOffset, p.ByteCount),
                 1, 0, nullptr);
}
void copy_host_to_array(Call& call, cuMemcpyHtoA_v2_params& p) {
  submit_waiting(call, line(call.session, p.dstArray, p.dstOffset, p.ByteCount), line(number(p.srcHost), p.ByteCount),
                 0, 1, nullptr);
}
void copy_array_to_host_async(Call& call, cuMemcpyAtoHAsync_v2_params& p) {
  submit_waiting(call, line(number(p.dstHost), p.ByteCount), line(call.session, p.srcArray, p.srcOffset, p.ByteCount),
                 1, 0, p.hStream);
}
void copy_host_to_array_async(Call& call, cuMemcpyHtoAAsync_v2_params& p) {
  submit_waiting(call, line(call.session, p.dstArray, p.dstOffset, p.ByteCount), line(number(p.srcHost), p.ByteCount),
                 0, 1, p.hStream);
}
void copy_array(Call& call, cuMemcpyAtoA_v2_params& p) {
  submit_copy(call, line(call.session, p.dstArray, p.dstOffset, p.ByteCount),
              line(call.session, p.srcArray, p.srcOffset, p.ByteCount), 0, 0, nullptr);
}

void set8(Call& call, cuMemsetD8_v2_params& p) { set_at_once(call, p.dstDevice, 0, p.uc, 1, p.N, 1); }
void set16(Call& call, cuMemsetD16_v2_params& p) { set_at_once(call, p.dstDevice, 0, p.us, 2, p.N, 1); }
void set32(Call& call, cuMemsetD32_v2_params& p) { set_at_once(call, p.dstDevice, 0, p.ui, 4, p.N, 1); }
void set8_async(Call& call, cuMemsetD8Async_params& p) { set(call, p.dstDevice, 0, p.uc, 1, p.N, 1, p.hStream); }
void set16_async(Call& call, cuMemsetD16Async_params& p) { set(call, p.dstDevice, 0, p.us, 2, p.N, 1, p.hStream); }
void set32_async(Call& call, cuMemsetD32Async_params& p) { set(call, p.dstDevice, 0, p.ui, 4, p.N, 1, p.hStream); }
void set_plane8(Call& call, cuMemsetD2D8_v2_params& p) {
  set_at_once(call, p.dstDevice, p.dstPitch, p.uc, 1, p.Width, p.Height);
}
void set_plane16(Call& call, cuMemsetD2D16_v2_params& p) {
  set_at_once(call, p.dstDevice, p.dstPitch, p.us, 2, p.Width, p.Height);
}
void set_plane32(Call& call, cuMemsetD2D32_v2_params& p) {
  set_at_once(call, p.dstDevice, p.dstPitch, p.ui, 4, p.Width, p.Height);
}
void set_plane8_async(Call& call, cuMemsetD2D8Async_params& p) {
  set(call, p.dstDevice, p.dstPitch, p.uc, 1, p.Width, p.Height, p.hStream);
}
void set_plane16_async(Call& call, cuMemsetD2D16Async_params& p) {
  set(call, p.dstDevice, p.dstPitch, p.us, 2, p.Width, p.Height, p.hStream);
}
void set_plane32_async(Call& call, cuMemsetD2D32Async_params& p) {
  set(call, p.dstDevice, p.dstPitch, p.ui, 4, p.Width, p.Height, p.hStream);
}

} // namespace deadheat::cupti
