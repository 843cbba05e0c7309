#include "tracer/cupti/arrays.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "deadheat/address.h"
#include "tracer/cupti/handlers.h"
#include "tracer/cupti/host_writes.h"
#include "tracer/cupti/libraries.h"

namespace deadheat::cupti {

std::optional<ptx::TexelFormat> texel_format(CUarray_format format, unsigned channels) {
  using Kind = ptx::ChannelKind;
  if (channels != 1 && channels != 2 && channels != 4) return std::nullopt;
  const auto of = [&](unsigned bits, Kind kind) {
    return ptx::TexelFormat{std::uint8_t(channels), std::uint8_t(bits), kind};
  };
  switch (format) {
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_UNSIGNED_INT8: return of(8, Kind::unsigned_);
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_SIGNED_INT8: return of(8, Kind::signed_);
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_UNSIGNED_INT16: return of(16, Kind::unsigned_);
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4:
    case CU_AD_FORMAT_SIGNED_INT16: return of(16, Kind::signed_);
    case CU_AD_FORMAT_UNSIGNED_INT32: return of(32, Kind::unsigned_);
    case CU_AD_FORMAT_SIGNED_INT32: return of(32, Kind::signed_);
    case CU_AD_FORMAT_HALF: return of(16, Kind::float_);
    case CU_AD_FORMAT_FLOAT: return of(32, Kind::float_);
    default: return std::nullopt;
  }
}

// ---- the table

const KnownArray* Arrays::made(const void* handle, CUcontext context, const CUDA_ARRAY3D_DESCRIPTOR& description,
                               unsigned levels, std::uint32_t allocation) {
  constexpr std::uint64_t apart = 512; // arrays begin at multiples of it
  arrays_.erase(handle);
  const std::optional<ptx::TexelFormat> format = texel_format(description.Format, description.NumChannels);
  if (!format) return nullptr;
  KnownArray array;
  array.allocation = allocation;
  array.context = context;
  ptx::TextureDescriptor& l = array.layout;
  l.format = *format;
  l.layered = description.Flags & CUDA_ARRAY3D_LAYERED;
  l.cubemap = description.Flags & CUDA_ARRAY3D_CUBEMAP;
  l.mipmapped = levels > 0;
  ptx::set_extent(l, description.Width, description.Height, description.Depth);
  const auto most_levels = std::uint32_t(32 - __builtin_clz(std::max({l.width, l.height, l.depth, 1u})));
  l.levels = l.shown_levels = std::clamp(levels, 1u, most_levels);
  l.base = array_memory + next_;
  const std::uint64_t bytes = (ptx::array_bytes(l) + apart - 1) / apart * apart;
  if (!bytes || bytes > array_memory_bytes - next_) return nullptr;
  next_ += bytes;
  return &(arrays_[handle] = array);
}

void Arrays::has_level(CUmipmappedArray mipmapped, unsigned level, CUarray handle) {
  const KnownArray* whole = find(mipmapped);
  if (!whole || level >= whole->layout.levels) {
    arrays_.erase(handle); // it may have been another's
    return;
  }
  KnownArray of = *whole;
  of.layout = ptx::array_of_level(whole->layout, level);
  of.whole = mipmapped;
  arrays_[handle] = of;
}

const KnownArray* Arrays::find(const void* handle) const {
  const auto found = arrays_.find(handle);
  return found == arrays_.end() ? nullptr : &found->second;
}

std::optional<KnownArray> Arrays::take(const void* handle) {
  const auto found = arrays_.find(handle);
  if (found == arrays_.end() || found->second.whole) return std::nullopt; // levels go with their array
  const KnownArray array = found->second;
  arrays_.erase(found);
  std::erase_if(arrays_, [&](const auto& entry) { return entry.second.whole == handle; });
  return array;
}

std::vector<std::uint32_t> Arrays::context_gone(CUcontext context) {
  std::vector<std::uint32_t> allocations;
  std::erase_if(arrays_, [&](const auto& entry) {
    const KnownArray& array = entry.second;
    if (array.context == context && !array.whole) allocations.push_back(array.allocation);
    return array.context == context;
  });
  return allocations;
}

trace::MemoryRange range_of(const KnownArray* array, std::uint64_t x, std::uint64_t y, std::uint64_t z,
                            std::uint64_t width, std::uint64_t rows, std::uint64_t slices) {
  trace::MemoryRange range{0, width, width, rows, slices, width * rows};
  if (!array) return range;
  const ptx::LevelLayout l = ptx::level_layout(array->layout, 0);
  const auto fits = [](std::uint64_t from, std::uint64_t count, std::uint64_t size) {
    return from <= size && count <= size - from;
  };
  if (!fits(x, width, std::uint64_t(l.width) * array->layout.format.bytes()) || !fits(y, rows, l.height) ||
      !fits(z, slices, l.slices))
    return range;
  range.address = l.address + z * l.slice + y * l.pitch + x;
  range.pitch = l.pitch;
  range.slice = l.slice;
  return range;
}

// ---- the driver's calls

namespace {

void made(Call& call, const void* handle, const CUDA_ARRAY3D_DESCRIPTOR& description, unsigned levels) {
  Session& session = call.session;
  std::lock_guard hold(session.lock);
  trace::Allocate memory;
  memory.allocation = session.next_allocation();
  const KnownArray* array = session.arrays.made(handle, call.context, description, levels, memory.allocation);
  if (!array) return;
  memory.address = array->layout.base;
  memory.bytes = ptx::array_bytes(array->layout);
  memory.host_thread = session.host_thread();
  session.journal().push(memory);
}

// As memory is freed (Session::being_freed): who destroys an array waits for the device.
void destroys(Call& call, const void* handle) {
  using Wait = trace::HostWait::Kind;
  Session& session = call.session;
  HostWrites* writes = session.host_writes();
  std::lock_guard hold(session.lock);
  if (!call.exit) {
    call.carried<KnownArray>() = nullptr;
    const std::optional<KnownArray> array = session.arrays.take(handle);
    if (!array) return;
    if (writes) writes->before_wait(Wait::device, 0);
    session.journal().push(trace::HostWaitBegin{Wait::device, 0, session.host_thread()});
    call.carried<KnownArray>() = new KnownArray(*array);
    return;
  }
  const std::unique_ptr<KnownArray> array(std::exchange(call.carried<KnownArray>(), nullptr));
  if (!array) return;
  if (!call.done()) return session.arrays.put_back(handle, *array);
  if (writes) writes->wait_ends(Wait::device, 0);
  session.journal().push(trace::Free{array->allocation, 0, session.host_thread()});
  if (writes) writes->waited(Wait::device, 0);
}

} // namespace

void make_array(Call& call, cuArrayCreate_v2_params& p) {
  call.retry_with_room([&] { return driver().cuArrayCreate_v2(p.pHandle, p.pAllocateArray); });
  if (!call.done()) return;
  const CUDA_ARRAY_DESCRIPTOR& d = *p.pAllocateArray;
  made(call, *p.pHandle, {d.Width, d.Height, 0, d.Format, d.NumChannels, 0}, 0);
}
void make_array_3d(Call& call, cuArray3DCreate_v2_params& p) {
  call.retry_with_room([&] { return driver().cuArray3DCreate_v2(p.pHandle, p.pAllocateArray); });
  if (call.done()) made(call, *p.pHandle, *p.pAllocateArray, 0);
}
void make_levels(Call& call, cuMipmappedArrayCreate_params& p) {
  call.retry_with_room(
      [&] { return driver().cuMipmappedArrayCreate(p.pHandle, p.pMipmappedArrayDesc, p.numMipmapLevels); });
  if (call.done()) made(call, *p.pHandle, *p.pMipmappedArrayDesc, std::max(p.numMipmapLevels, 1u));
}
void level_of_array(Call& call, cuMipmappedArrayGetLevel_params& p) {
  if (!call.done()) return;
  std::lock_guard hold(call.session.lock);
  call.session.arrays.has_level(p.hMipmappedArray, p.level, *p.pLevelArray);
}
void destroy_array(Call& call, cuArrayDestroy_params& p) { destroys(call, p.hArray); }
void destroy_levels(Call& call, cuMipmappedArrayDestroy_params& p) { destroys(call, p.hMipmappedArray); }

} // namespace deadheat::cupti
