// Tensor maps: what the program asks the driver to encode is kept, by what comes of it, so that copies by a map can be
// recorded (device_log/tensor_map.h).
#include <algorithm>

#include "tracer/cupti/handlers.h"

namespace deadheat::cupti {

namespace {

using device_log::TensorMap;

// By CUtensorMapDataType; those after these are packed, and how they lie in memory is not followed.
constexpr std::uint32_t element_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

constexpr std::uint64_t most_box_bytes = 1 << 20;  // more than shared memory has

template <typename P>
bool describe(const P& p, TensorMap& map) {
  if (!p.tensorMap || p.tensorRank == 0 || p.tensorRank > device_log::most_dimensions || !p.globalDim) return false;
  map.address = reinterpret_cast<std::uint64_t>(p.globalAddress);
  map.rank = p.tensorRank;
  if (std::size_t(p.tensorDataType) >= std::size(element_bytes)) return false;
  map.element_bytes = element_bytes[p.tensorDataType];
  map.laid_out = p.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
  for (unsigned d = 0; d < map.rank; ++d) {
    map.size[d] = p.globalDim[d];
    map.stride[d] = d == 0 ? map.element_bytes : p.globalStrides ? p.globalStrides[d - 1] : 0;
    map.step[d] = p.elementStrides && d ? std::max(1u, p.elementStrides[d]) : 1;
  }
  return true;
}

}  // namespace

void encode_tiled(Call& call, cuTensorMapEncodeTiled_params& p) {
  TensorMap map;
  if (!call.done() || !p.boxDim || !describe(p, map)) return;
  std::uint64_t bytes = map.element_bytes;
  for (unsigned d = 0; d < map.rank; ++d) {
    map.box[d] = p.boxDim[d];
    bytes *= (map.box[d] + map.step[d] - 1) / map.step[d];
  }
  if (bytes > most_box_bytes) return;
  map.box_bytes = std::uint32_t(bytes);
  call.session.tensor_maps.made(p.tensorMap, map);
}

// Which pixels a column takes depends on more than the coordinates.
void encode_im2col(Call& call, cuTensorMapEncodeIm2col_params& p) {
  TensorMap map;
  if (!call.done() || !describe(p, map)) return;
  map.laid_out = false;
  map.box_bytes = map.element_bytes * p.channelsPerPixel * p.pixelsPerColumn;
  call.session.tensor_maps.made(p.tensorMap, map);
}

void replace_address(Call& call, cuTensorMapReplaceAddress_params& p) {
  static constinit thread_local std::optional<TensorMap> before;
  if (!call.exit) {
    before.reset();
    if (p.tensorMap) before = call.session.tensor_maps.find(device_log::tensor_digest(p.tensorMap));
  } else if (call.done() && before) {
    before->address = reinterpret_cast<std::uint64_t>(p.globalAddress);
    call.session.tensor_maps.made(p.tensorMap, *before);
  }
}

}  // namespace deadheat::cupti
