// The texels of fetches and of accesses to surfaces: each an access of its own, in the order in which the instruction
// has them.
#include <algorithm>
#include <array>

#include "deadheat/digest.h"
#include "tracer/device_log/launch_log.h"
#include "tracer/device_log/slots.h"
#include "tracer/device_log/texture_objects.h"

namespace deadheat::device_log {

namespace {

using ptx::TextureOp;

bool of_surface(TextureOp op) { return op != TextureOp::fetch && op != TextureOp::gather; }
bool stores(TextureOp op) { return op == TextureOp::store || op == TextureOp::store_formatted; }

struct LaneTexels {
  std::uint32_t count = 0, bytes = 0, digest = 0;
  std::array<std::uint64_t, ptx::most_texels> address;
};

// What the lane gave the instruction; `values`: of a formatted store.
ptx::TextureOperands given_by(const ptx::Slot& slot, const std::uint8_t* bytes, unsigned lane,
                              std::uint32_t (&values)[4]) {
  std::uint32_t at = slot.coordinates;
  const auto next = [&] {
    const std::uint32_t word = u32_at(bytes, at, lane);
    at += 128;
    return word;
  };
  ptx::TextureOperands given;
  given.form = slot.form;
  if (slot.layered) given.layer = next();
  for (unsigned d = 0; d < slot.dimensions; ++d) given.coordinate[d] = next();
  if (slot.form.level == ptx::LevelOperand::level) given.level = next();
  for (unsigned n = 0; slot.form.level == ptx::LevelOperand::gradient && n < 2; ++n)
    for (unsigned d = 0; d < slot.dimensions; ++d) given.gradient[n][d] = next();
  for (unsigned d = 0; d < slot.offsets; ++d) given.offset[d] = std::int32_t(next());
  for (unsigned n = 0; n < slot.values; ++n) values[n] = next();
  return given;
}

LaneTexels texels_of(const ptx::Slot& slot, const std::uint8_t* bytes, unsigned lane,
                     const ptx::TextureDescriptor& object) {
  std::uint32_t values[4] = {};
  const ptx::TextureOperands given = given_by(slot, bytes, lane, values);
  LaneTexels found;
  if (of_surface(slot.form.op)) {
    const ptx::SurfaceTexel texel = ptx::surface_texel(object, given);
    if (texel.what != ptx::SurfaceTexel::What::there) return found; // where it traps, the device says so
    found.count = 1;
    found.bytes = texel.bytes;
    found.address[0] = texel.address;
    if (slot.digest) found.digest = u32_at(bytes, slot.digest, lane);
    if (!slot.values) return found;
    std::uint32_t stored[4];
    ptx::format_texel(object.format, values, stored);
    found.digest = deadheat::digest(stored, texel.bytes);
    return found;
  }
  const ptx::Texels texels =
      slot.form.op == TextureOp::gather ? ptx::gathered_texels(object, given) : ptx::fetched_texels(object, given);
  found.count = texels.count;
  found.bytes = texels.bytes;
  for (unsigned n = 0; n < texels.count; ++n) found.address[n] = texels.at[n].address;
  return found;
}

} // namespace

void LaunchLog::texels(const Warp& warp, const ptx::Slot& slot, const std::uint8_t* bytes) {
  std::array<LaneTexels, 32> lanes;
  std::uint32_t most = 0, here = 0;
  each_lane(header_of(bytes).mask, [&](unsigned lane) {
    const std::uint64_t handle = u64_at(bytes, slot.address, lane);
    if (slot.guarded && handle == ~std::uint64_t(0)) return;
    const ptx::TextureDescriptor* object =
        shape_.textures ? shape_.textures->find(handle, of_surface(slot.form.op)) : nullptr;
    if (!object) {
      ++unknown_objects_;
      return;
    }
    lanes[lane] = texels_of(slot, bytes, lane, *object);
    most = std::max(most, lanes[lane].count);
    if (lanes[lane].count) here |= 1u << lane;
  });
  trace::AccessView view;
  view.warp = {shape_.launch, warp.block, warp.number};
  view.module = shape_.module;
  view.space = Space::global;
  std::uint64_t address[32];
  std::uint32_t digests[32];
  view.address = address;
  view.digest = stores(slot.form.op) ? digests : nullptr;
  for (std::uint32_t n = 0; n < most; ++n) {
    // Lanes may have objects of other sizes.
    for (unsigned size = 0; size < ptx::SiteTable::texel_sizes; ++size) {
      view.mask = 0;
      each_lane(here, [&](unsigned lane) {
        const LaneTexels& texel = lanes[lane];
        if (n >= texel.count || !texel.address[n] || texel.bytes != 1u << size) return;
        view.mask |= 1u << lane;
        address[lane] = texel.address[n];
        digests[lane] = texel.digest;
      });
      view.site = slot.texel_site + size;
      if (view.mask) output_.access(view);
    }
  }
}

} // namespace deadheat::device_log
