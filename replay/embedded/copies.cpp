#include "replay/embedded/copies.h"

#include <algorithm>

#include "deadheat/address.h"
#include "replay/embedded/arrays.h"
#include "replay/embedded/call_site.h"
#include "replay/embedded/graph.h"

namespace deadheat::embedded {

std::uint64_t registered_place(const Runtime& runtime, std::uint64_t address) {
  auto found = runtime.registered.upper_bound(address);
  if (found == runtime.registered.begin()) return address;
  --found;
  const std::uint64_t offset = address - found->first;
  return offset < found->second.bytes ? found->second.place + offset : address;
}

Place place_of(Call& call, const void* pointer) {
  const std::uint64_t address = registered_place(call.runtime, reinterpret_cast<std::uint64_t>(pointer));
  const bool pinned_arena_holds = address - pinned_arena < pinned_arena_bytes;
  if (!(address & device_bit) && !pinned_arena_holds) return {Place::Kind::host, nullptr, address};
  const trace::Allocate* allocation = call.device().find_allocation(address);
  if (!allocation) return {Place::Kind::bad, nullptr, address};
  if (!pinned_arena_holds) return {Place::Kind::device, allocation, address};
  const bool pinned = allocation->kind == trace::Allocate::Kind::pinned;
  return {pinned ? Place::Kind::pinned : Place::Kind::managed, allocation, address};
}

CopyShape line(void* destination, const void* source, std::uint64_t bytes, cudaMemcpyKind kind) {
  CopyShape shape;
  shape.destination = destination;
  shape.source = source;
  shape.width = bytes;
  shape.destination_pitch = shape.source_pitch = shape.destination_slice = shape.source_slice = bytes;
  shape.kind = kind;
  return shape;
}

CopyShape plane(void* destination, std::uint64_t destination_pitch, const void* source, std::uint64_t source_pitch,
                std::uint64_t width, std::uint64_t rows, cudaMemcpyKind kind) {
  CopyShape shape = line(destination, source, width, kind);
  shape.rows = rows;
  shape.destination_pitch = destination_pitch;
  shape.source_pitch = source_pitch;
  shape.destination_slice = destination_pitch * rows;
  shape.source_slice = source_pitch * rows;
  return shape;
}

namespace {

// One side of a copy of a volume: an array, or a pointer.
struct Side {
  const Array* array = nullptr;
  ArrayPart part;
};

cudaError_t side_of(cudaArray_const_t handle, const cudaPos& at, const cudaPitchedPtr& pointer,
                    const cudaExtent& extent, Side* side) {
  if (handle && pointer.ptr) return cudaErrorInvalidValue;
  if (handle) {
    side->array = array_of(handle);
    return side->array ? part_of(*side->array, at, extent, &side->part) : cudaErrorInvalidValue;
  }
  side->part.pitch = pointer.pitch;
  side->part.slice = pointer.pitch * pointer.ysize;
  side->part.address = static_cast<char*>(pointer.ptr) + at.z * side->part.slice + at.y * pointer.pitch + at.x;
  return cudaSuccess;
}

} // namespace

// Extents count the elements of the array that takes part, else bytes (cudaMemcpy3D).
cudaError_t volume(const cudaMemcpy3DParms* parameters, CopyShape* shape) {
  if (!parameters) return cudaErrorInvalidValue;
  const cudaMemcpy3DParms& p = *parameters;
  Side to, from;
  cudaError_t status = side_of(p.dstArray, p.dstPos, p.dstPtr, p.extent, &to);
  if (status == cudaSuccess) status = side_of(p.srcArray, p.srcPos, p.srcPtr, p.extent, &from);
  if (status != cudaSuccess) return status;
  const auto element = [](const Side& side) { return side.array ? side.array->layout.format.bytes() : 1u; };
  if (to.array && from.array && element(to) != element(from)) return cudaErrorInvalidValue;
  shape->width = p.extent.width * std::max(element(to), element(from));
  shape->rows = p.extent.height;
  shape->slices = p.extent.depth;
  shape->kind = p.kind;
  shape->destination = to.part.address;
  shape->source = from.part.address;
  shape->destination_pitch = to.part.pitch;
  shape->source_pitch = from.part.pitch;
  shape->destination_slice = to.part.slice;
  shape->source_slice = from.part.slice;
  return cudaSuccess;
}

static bool inside(const Place& place, const trace::MemoryRange& range) {
  if (!place.allocation) return place.kind == Place::Kind::host;
  const trace::Allocate& allocation = *place.allocation;
  return range.extent() <= allocation.address + allocation.bytes - range.address;
}

cudaError_t make_copy(Call& call, const CopyShape& shape, trace::Copy* copy) {
  if (unsigned(shape.kind) > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (shape.rows > 1 && (shape.width > shape.destination_pitch || shape.width > shape.source_pitch)) {
    return cudaErrorInvalidPitchValue;
  }
  copy->api = call.api;
  copy->destination = {reinterpret_cast<std::uint64_t>(shape.destination),
                       shape.destination_pitch,
                       shape.width,
                       shape.rows,
                       shape.slices,
                       shape.destination_slice};
  copy->source = {reinterpret_cast<std::uint64_t>(shape.source),
                  shape.source_pitch,
                  shape.width,
                  shape.rows,
                  shape.slices,
                  shape.source_slice};
  if (shape.width == 0 || shape.rows == 0 || shape.slices == 0) return cudaSuccess;
  if (!shape.destination || !shape.source) return cudaErrorInvalidValue;
  const Place destination = place_of(call, shape.destination), source = place_of(call, shape.source);
  copy->destination.address = destination.address;
  copy->source.address = source.address;
  if (!inside(destination, copy->destination) || !inside(source, copy->source)) return cudaErrorInvalidValue;
  // A host pointer where the direction wants a device pointer is an error; the other way round unified addressing
  // makes the pointers decide. Managed memory is on the side that the direction says, by default the device's.
  const bool wants_device_destination = shape.kind == cudaMemcpyHostToDevice || shape.kind == cudaMemcpyDeviceToDevice;
  const bool wants_device_source = shape.kind == cudaMemcpyDeviceToHost || shape.kind == cudaMemcpyDeviceToDevice;
  if (wants_device_destination && destination.kind == Place::Kind::host) return cudaErrorInvalidValue;
  if (wants_device_source && source.kind == Place::Kind::host) return cudaErrorInvalidValue;
  auto on_host = [&](const Place& place, bool wants_device) {
    if (place.kind == Place::Kind::managed) return shape.kind != cudaMemcpyDefault && !wants_device;
    return place.on_host() && !(wants_device && place.kind == Place::Kind::pinned);
  };
  const bool to_host = on_host(destination, wants_device_destination), from_host = on_host(source, wants_device_source);
  using Direction = trace::Copy::Direction;
  copy->direction =
      to_host ? (from_host ? Direction::h2h : Direction::d2h) : (from_host ? Direction::h2d : Direction::d2d);
  copy->pageable_destination = destination.kind == Place::Kind::host;
  copy->pageable_source = source.kind == Place::Kind::host;
  return cudaSuccess;
}

static bool empty(const CopyShape& shape) { return shape.width == 0 || shape.rows == 0 || shape.slices == 0; }

cudaError_t copy_now(Call& call, const CopyShape& shape) {
  constexpr std::uint64_t staged_at_once = 64 * 1024;
  using Direction = trace::Copy::Direction;
  trace::Copy copy;
  cudaError_t status = make_copy(call, shape, &copy);
  if (status != cudaSuccess || empty(shape)) return status;
  Stream& stream = *call.stream(nullptr);
  const Direction direction = copy.direction;
  const bool staged = direction == Direction::h2d && copy.pageable_source;
  if (stream.capture) return submit(call, stream, {std::move(copy)}); // cannot be captured: says why
  if (staged && shape.width * shape.rows * shape.slices > staged_at_once) {
    status = call.wait(trace::HostWait::Kind::stream, stream.id);
    if (status != cudaSuccess) return status;
  }
  // It has its place where it was submitted: what other host threads do while this one waits is unordered with it.
  const bool waits = !staged && direction != Direction::d2d;
  if (waits) call.device().next_is_waited_for();
  std::uint32_t operation = 0;
  status = submit(call, stream, {std::move(copy)}, &operation);
  return status == cudaSuccess && waits ? call.wait_operation(operation) : status;
}

// Asynchronous copies: between host memory they have been made when the call returns; those to pageable memory have,
// but only "might" (Runtime API, "API synchronization behavior").
enum class OnReturn : std::uint8_t { underway, perhaps_made, made };
static OnReturn on_return(const trace::Copy& copy) {
  using Direction = trace::Copy::Direction;
  if (copy.direction == Direction::h2h) return OnReturn::made;
  return copy.direction == Direction::d2h && copy.pageable_destination ? OnReturn::perhaps_made : OnReturn::underway;
}
static cudaError_t bring_about(Call& call, OnReturn state, std::uint32_t operation) {
  if (!operation || state == OnReturn::underway) return cudaSuccess;
  return state == OnReturn::made ? call.wait_operation(operation) : call.complete(operation);
}

cudaError_t copy_async(Call& call, const CopyShape& shape, cudaStream_t handle) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  trace::Copy copy;
  cudaError_t status = make_copy(call, shape, &copy);
  if (status != cudaSuccess || empty(shape)) return status;
  const OnReturn state = on_return(copy);
  if (state == OnReturn::made && !stream->capture) call.device().next_is_waited_for();
  std::uint32_t operation = 0;
  status = submit(call, *stream, {std::move(copy)}, &operation);
  return status == cudaSuccess ? bring_about(call, state, operation) : status;
}

namespace {

// Sources of a batch that are read out of its stream's order, before the copies are made.
class EarlyReads {
 public:
  EarlyReads(Call& call, std::uint32_t stream) : call_(call), stream_(stream) {}
  ~EarlyReads() { // behind the batch
    for (std::uint64_t place : places_) (void)call_.device().release(place, call_.thread.number, stream_);
  }
  EarlyReads(const EarlyReads&) = delete;
  EarlyReads& operator=(const EarlyReads&) = delete;

  // Makes of the copy one out of memory that its source is read into. Pageable memory is read when the copy is
  // submitted.
  cudaError_t read(trace::Copy& copy, cudaMemcpySrcAccessOrder order, const std::string& site) {
    const bool early = order == cudaMemcpySrcAccessOrderDuringApiCall || order == cudaMemcpySrcAccessOrderAny;
    if (!early || copy.pageable_source) return cudaSuccess;
    using Direction = trace::Copy::Direction;
    device::Device& device = call_.device();
    const std::uint32_t reads = device.create_stream(trace::StreamCreate::Kind::non_blocking, 0, call_.thread.number);
    const std::uint64_t bytes = copy.source.bytes(), width = copy.source.width, height = copy.source.height;
    Expected<trace::Allocate> made = device.allocate(trace::Allocate::Kind::pool, bytes, call_.thread.number, reads);
    if (!made) return cudaErrorMemoryAllocation;
    places_.push_back(made->address);
    const trace::MemoryRange place{made->address, width, width, height, copy.source.depth, width * height};
    const bool from_host = copy.direction == Direction::h2d || copy.direction == Direction::h2h;
    const bool to_host = copy.direction == Direction::d2h || copy.direction == Direction::h2h;
    trace::Copy read = copy;
    read.destination = place;
    read.pageable_destination = false;
    read.direction = from_host ? Direction::h2d : Direction::d2d;
    copy.source = place;
    copy.direction = to_host ? Direction::d2h : Direction::d2d;
    const bool during_call = order == cudaMemcpySrcAccessOrderDuringApiCall;
    if (during_call) device.next_is_waited_for();
    std::uint32_t operation = 0;
    Work work{std::move(read)};
    work.call_site = site;
    cudaError_t status = submit_now(call_, reads, work, {}, &operation);
    const std::uint32_t event = device.create_event();
    device.record_event(event, reads, call_.thread.number);
    device.stream_wait(stream_, event, call_.thread.number);
    device.destroy_stream(reads, call_.thread.number);
    if (status == cudaSuccess && during_call) status = call_.wait_operation(operation);
    return status;
  }

 private:
  Call& call_;
  const std::uint32_t stream_;
  std::vector<std::uint64_t> places_;
};

} // namespace

cudaError_t copy_batch(Call& call, const std::vector<CopyShape>& shapes, cudaStream_t handle) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->capture) return refuse_capture(call, *stream, nullptr); // there is no such node
  std::vector<Work> copies;
  std::vector<cudaMemcpySrcAccessOrder> orders;
  for (const CopyShape& shape : shapes) {
    trace::Copy copy;
    if (const cudaError_t status = make_copy(call, shape, &copy); status != cudaSuccess) return status;
    if (empty(shape)) continue;
    copies.push_back({std::move(copy)});
    orders.push_back(shape.source_order);
  }
  const std::string site = call.runtime.options.output.empty() ? std::string() : call_site();
  EarlyReads early(call, stream->id);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const cudaError_t read = early.read(std::get<trace::Copy>(copies[i].what), orders[i], site);
    if (read != cudaSuccess) return read;
  }
  trace::Operation place;
  place.graph_launch = call.device().begin_graph(0, stream->id, call.thread.number);
  std::vector<std::pair<OnReturn, std::uint32_t>> submitted;
  cudaError_t status = cudaSuccess;
  for (std::size_t i = 0; i < copies.size() && status == cudaSuccess; ++i) {
    copies[i].call_site = site;
    place.graph_node = std::uint32_t(i);
    std::uint32_t operation = 0;
    status = submit_now(call, stream->id, copies[i], place, &operation);
    submitted.emplace_back(on_return(std::get<trace::Copy>(copies[i].what)), operation);
  }
  call.device().end_graph(place.graph_launch);
  for (const auto& [state, operation] : submitted) {
    if (status == cudaSuccess) status = bring_about(call, state, operation);
  }
  return status;
}

cudaError_t make_set(Call& call, const SetShape& shape, trace::Set* set) {
  if (shape.rows > 1 && shape.width > shape.pitch) return cudaErrorInvalidValue;
  set->destination = {reinterpret_cast<std::uint64_t>(shape.destination),
                      shape.pitch,
                      shape.width,
                      shape.rows,
                      shape.slices,
                      shape.slice};
  set->value = shape.value;
  set->element_bytes = shape.element_bytes;
  set->api = call.api;
  if (shape.width == 0 || shape.rows == 0 || shape.slices == 0) return cudaSuccess;
  const Place place = place_of(call, shape.destination);
  set->destination.address = place.address;
  return place.kind != Place::Kind::host && inside(place, set->destination) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t find_symbol(Call& call, const void* symbol, std::uint64_t* address, std::uint64_t* bytes) {
  const Variable* variable = call.runtime.modules.variable(symbol);
  if (!variable) return cudaErrorInvalidSymbol;
  const cudaError_t status = call.runtime.modules.load(*variable->binary, call.device());
  if (status != cudaSuccess) return status;
  *address = call.device().symbol_address(variable->binary->module, variable->name, bytes);
  return *address ? cudaSuccess : cudaErrorInvalidSymbol;
}

} // namespace deadheat::embedded
