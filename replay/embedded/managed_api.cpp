// Managed memory beyond its allocation (Runtime API, "Memory Management", "Unified Addressing"). Host and device share
// the pages, at one address: there is nothing to move. Hints are kept, since the program may ask for them; prefetches
// and discards are operations of their stream that do nothing.
#include <map>

#include "replay/embedded/copies.h"
#include "replay/embedded/graph.h"

using namespace deadheat::embedded;

namespace {

struct Hints {
  bool read_mostly = false, accessed_by_device = false, accessed_by_host = false;
  cudaMemLocation preferred = {cudaMemLocationTypeInvalid, cudaInvalidDeviceId};
  cudaMemLocation prefetched = {cudaMemLocationTypeInvalid, cudaInvalidDeviceId};
};

// Of ranges, each from its key to the next. Ranges of memory that was freed are left behind, and set again by the next
// owner's first hint (forget).
struct HintMap {
  std::map<std::uint64_t, Hints> ranges = {{0, {}}};
  std::map<std::uint64_t, std::uint32_t> owners; // by address of allocation: its number when hints were last given

  void split(std::uint64_t at) { ranges.emplace(at, std::prev(ranges.upper_bound(at))->second); }
  template <class Body>
  void each(std::uint64_t low, std::uint64_t high, Body&& body) {
    split(low);
    split(high);
    for (auto range = ranges.find(low); range != ranges.end() && range->first < high; ++range) body(range->second);
  }
  void belongs_to(const deadheat::trace::Allocate& allocation) {
    std::uint32_t& owner = owners[allocation.address];
    if (owner == allocation.allocation) return;
    owner = allocation.allocation;
    each(allocation.address, allocation.address + allocation.bytes, [](Hints& hints) { hints = {}; });
  }
};
HintMap& hints() {
  static auto* map = new HintMap;
  return *map;
}

// Runs `body` for the hints of a range of one managed allocation.
template <class Body>
cudaError_t with_range(Call& call, const void* pointer, size_t bytes, Body&& body) {
  const Place place = place_of(call, pointer);
  if (place.kind != Place::Kind::managed) return cudaErrorInvalidValue;
  const auto begin = reinterpret_cast<std::uint64_t>(pointer);
  if (bytes == 0 || bytes > place.allocation->bytes - (begin - place.allocation->address)) return cudaErrorInvalidValue;
  hints().belongs_to(*place.allocation);
  hints().each(begin, begin + bytes, body);
  return cudaSuccess;
}

cudaError_t check_location(const cudaMemLocation& location) {
  if (location.type == cudaMemLocationTypeDevice) return location.id == 0 ? cudaSuccess : cudaErrorInvalidDevice;
  return location.type >= cudaMemLocationTypeHost && location.type <= cudaMemLocationTypeHostNumaCurrent
             ? cudaSuccess
             : cudaErrorInvalidValue;
}

cudaError_t prefetch(Call& call, const void* pointer, size_t bytes, const cudaMemLocation& location) {
  const cudaError_t status = check_location(location);
  if (status != cudaSuccess) return status;
  return with_range(call, pointer, bytes, [&](Hints& range) { range.prefetched = location; });
}

int ordinal_of(const cudaMemLocation& location) {
  if (location.type == cudaMemLocationTypeInvalid) return cudaInvalidDeviceId;
  return location.type == cudaMemLocationTypeDevice ? location.id : cudaCpuDeviceId;
}

} // namespace

DEADHEAT_API(cudaMemAdvise, device,
             (const void* pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location),
             (pointer, bytes, advice, location)) {
  if (advice < cudaMemAdviseSetReadMostly || advice > cudaMemAdviseUnsetAccessedBy) return cudaErrorInvalidValue;
  const bool located = advice == cudaMemAdviseSetPreferredLocation || advice == cudaMemAdviseSetAccessedBy ||
                       advice == cudaMemAdviseUnsetAccessedBy;
  if (const cudaError_t status = located ? check_location(location) : cudaSuccess; status != cudaSuccess) return status;
  const bool device = location.type == cudaMemLocationTypeDevice;
  return with_range(call, pointer, bytes, [&](Hints& range) {
    switch (advice) {
      case cudaMemAdviseSetReadMostly: range.read_mostly = true; break;
      case cudaMemAdviseUnsetReadMostly: range.read_mostly = false; break;
      case cudaMemAdviseSetPreferredLocation: range.preferred = location; break;
      case cudaMemAdviseUnsetPreferredLocation: range.preferred = Hints().preferred; break;
      case cudaMemAdviseSetAccessedBy:
      case cudaMemAdviseUnsetAccessedBy:
        (device ? range.accessed_by_device : range.accessed_by_host) = advice == cudaMemAdviseSetAccessedBy;
        break;
    }
  });
}

static cudaError_t range_attribute(Call& call, void* data, size_t size, cudaMemRangeAttribute attribute,
                                   const void* pointer, size_t bytes) {
  const bool list = attribute == cudaMemRangeAttributeAccessedBy;
  if (!data || (list ? size == 0 || size % sizeof(int) : size != sizeof(int))) return cudaErrorInvalidValue;
  if (attribute < cudaMemRangeAttributeReadMostly || attribute > cudaMemRangeAttributeLastPrefetchLocationId) {
    return cudaErrorInvalidValue;
  }
  bool first = true, same_preferred = true, same_prefetched = true;
  Hints all;
  all.read_mostly = all.accessed_by_device = all.accessed_by_host = true;
  auto same = [](const cudaMemLocation& a, const cudaMemLocation& b) { return a.type == b.type && a.id == b.id; };
  const cudaError_t status = with_range(call, pointer, bytes, [&](const Hints& range) {
    all.read_mostly &= range.read_mostly;
    all.accessed_by_device &= range.accessed_by_device;
    all.accessed_by_host &= range.accessed_by_host;
    if (first) {
      all.preferred = range.preferred;
      all.prefetched = range.prefetched;
    }
    same_preferred &= same(all.preferred, range.preferred);
    same_prefetched &= same(all.prefetched, range.prefetched);
    first = false;
  });
  if (status != cudaSuccess) return status;
  if (!same_preferred) all.preferred = Hints().preferred;
  if (!same_prefetched) all.prefetched = Hints().prefetched;
  int* values = static_cast<int*>(data);
  switch (attribute) {
    case cudaMemRangeAttributeReadMostly: *values = all.read_mostly; break;
    case cudaMemRangeAttributePreferredLocation: *values = ordinal_of(all.preferred); break;
    case cudaMemRangeAttributeAccessedBy: {
      size_t n = 0;
      const size_t room = size / sizeof(int);
      if (all.accessed_by_device && n < room) values[n++] = 0;
      if (all.accessed_by_host && n < room) values[n++] = cudaCpuDeviceId;
      while (n < room) values[n++] = cudaInvalidDeviceId;
      break;
    }
    case cudaMemRangeAttributeLastPrefetchLocation: *values = ordinal_of(all.prefetched); break;
    case cudaMemRangeAttributePreferredLocationType: *values = all.preferred.type; break;
    case cudaMemRangeAttributePreferredLocationId: *values = all.preferred.id; break;
    case cudaMemRangeAttributeLastPrefetchLocationType: *values = all.prefetched.type; break;
    case cudaMemRangeAttributeLastPrefetchLocationId: *values = all.prefetched.id; break;
  }
  return cudaSuccess;
}

DEADHEAT_API(cudaMemRangeGetAttribute, device,
             (void* data, size_t size, cudaMemRangeAttribute attribute, const void* pointer, size_t bytes),
             (data, size, attribute, pointer, bytes)) {
  return range_attribute(call, data, size, attribute, pointer, bytes);
}

DEADHEAT_API(cudaMemRangeGetAttributes, device,
             (void** data, size_t* sizes, cudaMemRangeAttribute* attributes, size_t count, const void* pointer,
              size_t bytes),
             (data, sizes, attributes, count, pointer, bytes)) {
  if (!data || !sizes || !attributes || count == 0) return cudaErrorInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    const cudaError_t status = range_attribute(call, data[i], sizes[i], attributes[i], pointer, bytes);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

DEADHEAT_STREAM_API(cudaMemPrefetchAsync, _ptsz, device,
                    (const void* pointer, size_t bytes, cudaMemLocation location, unsigned flags, cudaStream_t handle),
                    (pointer, bytes, location, flags, handle)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  const cudaError_t status = prefetch(call, pointer, bytes, location);
  return status == cudaSuccess ? submit(call, *stream, {deadheat::trace::Marker{}}) : status;
}

// `locations` null: a batch of discards.
static cudaError_t batch(Call& call, void** pointers, size_t* sizes, size_t count, cudaMemLocation* locations,
                         size_t* indices, size_t location_count, unsigned long long flags, cudaStream_t handle) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!pointers || !sizes || count == 0 || flags) return cudaErrorInvalidValue;
  if (locations && (!indices || location_count == 0 || location_count > count || indices[0] != 0)) {
    return cudaErrorInvalidValue;
  }
  size_t location = 0; // the ranges from indices[n] on go to locations[n]
  for (size_t i = 0; i < count; ++i) {
    while (locations && location + 1 < location_count && indices[location + 1] <= i) ++location;
    const cudaError_t status = locations ? prefetch(call, pointers[i], sizes[i], locations[location])
                                         : with_range(call, pointers[i], sizes[i], [](Hints&) {});
    if (status != cudaSuccess) return status;
  }
  return submit(call, *stream, {deadheat::trace::Marker{}});
}

DEADHEAT_STREAM_API(cudaMemPrefetchBatchAsync, _ptsz, device,
                    (void** pointers, size_t* sizes, size_t count, cudaMemLocation* locations, size_t* indices,
                     size_t location_count, unsigned long long flags, cudaStream_t stream),
                    (pointers, sizes, count, locations, indices, location_count, flags, stream)) {
  if (!locations) return cudaErrorInvalidValue;
  return batch(call, pointers, sizes, count, locations, indices, location_count, flags, stream);
}

DEADHEAT_STREAM_API(cudaMemDiscardBatchAsync, _ptsz, device,
                    (void** pointers, size_t* sizes, size_t count, unsigned long long flags, cudaStream_t stream),
                    (pointers, sizes, count, flags, stream)) {
  return batch(call, pointers, sizes, count, nullptr, nullptr, 0, flags, stream);
}

DEADHEAT_STREAM_API(cudaMemDiscardAndPrefetchBatchAsync, _ptsz, device,
                    (void** pointers, size_t* sizes, size_t count, cudaMemLocation* locations, size_t* indices,
                     size_t location_count, unsigned long long flags, cudaStream_t stream),
                    (pointers, sizes, count, locations, indices, location_count, flags, stream)) {
  if (!locations) return cudaErrorInvalidValue;
  return batch(call, pointers, sizes, count, locations, indices, location_count, flags, stream);
}

DEADHEAT_STREAM_API(cudaStreamAttachMemAsync, _ptsz, device,
                    (cudaStream_t handle, void* pointer, size_t bytes, unsigned flags),
                    (handle, pointer, bytes, flags)) {
  Stream* stream = call.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost && flags != cudaMemAttachSingle) {
    return cudaErrorInvalidValue;
  }
  if (place_of(call, pointer).kind != Place::Kind::managed) return cudaErrorInvalidValue;
  return submit(call, *stream, {deadheat::trace::Marker{}});
}
