// Tensor maps: what the program asks the driver to encode is kept, by what comes of it, so that copies by a map can be
// recorded (device_log/tensor_map.h).
#include <algorithm>

#include "tracer/cupti/handlers.h"

namespace deadheat::cupti {

namespace {

using ptx::TensorMap;

template <typename P>
bool describe(const P& p, TensorMap& map) {
  if (!p.tensorMap || p.tensorRank == 0 || p.tensorRank > ptx::most_dimensions || !p.globalDim) return false;
  // Types after these are packed, and swizzles after these are not of this architecture: how they lie is not followed.
  if (std::size_t(p.tensorDataType) >= ptx::tensor_types || std::size_t(p.swizzle) > CU_TENSOR_MAP_SWIZZLE_128B)
    return false;
  map.address = reinterpret_cast<std::uint64_t>(p.globalAddress);
  map.rank = std::uint8_t(p.tensorRank);
  map.type = ptx::TensorType(p.tensorDataType);
  map.interleave = ptx::Interleave(p.interleave);
  map.swizzle = ptx::Swizzle(p.swizzle);
  map.fills_nan = p.oobFill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  for (unsigned d = 0; d < map.rank; ++d) {
    map.size[d] = p.globalDim[d];
    map.stride[d] = d == 0 ? map.element_bytes() : p.globalStrides ? p.globalStrides[d - 1] : 0;
    map.step[d] = p.elementStrides ? std::max(1u, p.elementStrides[d]) : 1;
  }
  return true;
}

// A run of a window on another device has to know what these bytes mean, whenever they were made.
void keep(Session& session, const CUtensorMap* encoded, const TensorMap& map) {
  if (!session.tensor_maps.made(encoded, map) || !session.window()) return;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(encoded);
  const ptx::TensorMapBytes described = ptx::encoded(map);
  session.journal().push(trace::TensorMap{{bytes, bytes + sizeof *encoded}, {described.begin(), described.end()}});
}

} // namespace

void encode_tiled(Call& call, cuTensorMapEncodeTiled_params& p) {
  TensorMap map;
  if (!call.done() || !p.boxDim || !describe(p, map)) return;
  for (unsigned d = 0; d < map.rank; ++d) map.box[d] = p.boxDim[d];
  keep(call.session, p.tensorMap, map);
}

void encode_im2col(Call& call, cuTensorMapEncodeIm2col_params& p) {
  TensorMap map;
  if (!call.done() || !p.pixelBoxLowerCorner || !p.pixelBoxUpperCorner || p.tensorRank < 3 || !describe(p, map)) return;
  map.im2col = true;
  for (unsigned n = 0; n + 2 < map.rank; ++n) {
    map.lower[n] = p.pixelBoxLowerCorner[n];
    map.upper[n] = p.pixelBoxUpperCorner[n];
  }
  map.channels = p.channelsPerPixel;
  map.pixels = p.pixelsPerColumn;
  keep(call.session, p.tensorMap, map);
}

void replace_address(Call& call, cuTensorMapReplaceAddress_params& p) {
  static constinit thread_local std::optional<TensorMap> before;
  if (!call.exit) {
    before.reset();
    if (p.tensorMap) before = call.session.tensor_maps.find(device_log::tensor_digest(p.tensorMap));
  } else if (call.done() && before) {
    before->address = reinterpret_cast<std::uint64_t>(p.globalAddress);
    keep(call.session, p.tensorMap, *before);
  }
}

} // namespace deadheat::cupti
