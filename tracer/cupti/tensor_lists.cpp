#include "tracer/cupti/tensor_lists.h"

#include <algorithm>
#include <iterator>

namespace deadheat::cupti {

namespace {

constexpr std::uint32_t deepest = 5;
constexpr std::uint32_t most_tensors[deepest] = {110, 64, 48, 36, 30};
constexpr std::uint32_t most_with_scalars[deepest] = {96, 64, 48, 36, 30};
constexpr std::uint32_t most_with_complex_doubles[2] = {72, 60};

// N of "…Metadata<N>" or "…Metadata<scalar, N>"; 0: it is not there.
std::uint32_t depth_after(std::string_view mangled, std::string_view type) {
  const std::size_t at = mangled.find(type);
  const std::size_t number = at == std::string_view::npos ? at : mangled.find("Li", at + type.size());
  if (number == std::string_view::npos || number + 3 >= mangled.size() || mangled[number + 3] != 'E') return 0;
  const char digit = mangled[number + 2];
  return digit >= '1' && digit < char('1' + deepest) ? std::uint32_t(digit - '0') : 0;
}

std::size_t up_to(std::size_t bytes, std::size_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

} // namespace

std::optional<TensorLists> TensorLists::of(std::string_view mangled, std::size_t bytes) {
  if (mangled.find("25multi_tensor_apply_kernelI") == std::string_view::npos) return std::nullopt;
  // What follows the list of sizes: more addresses or scalars, of a tensor each; then, of each block, its tensor (a
  // byte), its part of it (int), and perhaps an int.
  const auto fits = [&](std::size_t end_of_tensors, bool int_at_end, std::size_t alignment) {
    const std::size_t end = up_to(end_of_tensors + most_blocks, 4) + most_blocks * 4;
    return up_to(end + (int_at_end ? 4 : 0), alignment) == bytes;
  };
  TensorLists found;
  const auto sizes_end = [&] { return std::size_t(found.depth_ + 1) * found.most_ * 8; };
  if ((found.depth_ = depth_after(mangled, "18TensorListMetadataI"))) {
    found.most_ = most_tensors[found.depth_ - 1];
    found.tensor_of_block_ = sizes_end();
    if (fits(found.tensor_of_block_, true, 8)) return found;
  } else if ((found.depth_ = depth_after(mangled, "32FusedOptimizerTensorListMetadataI"))) {
    found.most_ = most_tensors[found.depth_ - 1];
    found.states_ = sizes_end();
    found.tensor_of_block_ = found.states_ + std::size_t(most_with_scalars[found.depth_ - 1]) * 8;
    if (fits(found.tensor_of_block_, true, 8)) return found;
  } else if ((found.depth_ = depth_after(mangled, "28TensorListScalarListMetadataI"))) {
    const bool wide = mangled.find("28TensorListScalarListMetadataIN3c107complexIdE") != std::string_view::npos;
    const bool fewer = wide && found.depth_ <= std::size(most_with_complex_doubles);
    found.most_ = (fewer ? most_with_complex_doubles : most_with_scalars)[found.depth_ - 1];
    for (const std::size_t scalar : {1, 2, 4, 8, 16}) {
      found.tensor_of_block_ = sizes_end() + found.most_ * scalar;
      if (fits(found.tensor_of_block_, false, std::max<std::size_t>(scalar, 8))) return found;
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> TensorLists::used(const std::uint8_t* lists, std::uint32_t blocks) const {
  if (!blocks || blocks > most_blocks) return std::nullopt;
  const std::uint8_t* tensors = lists + tensor_of_block_;
  const std::uint32_t last = *std::max_element(tensors, tensors + blocks);
  if (last >= most_) return std::nullopt;
  return last + 1;
}

bool TensorLists::is_address(std::size_t offset, std::uint32_t used) const {
  const std::size_t word = offset / 8;
  if (word < std::size_t(depth_) * most_) return word % most_ < used;
  return states_ && offset >= states_ && (offset - states_) / 8 < used;
}

} // namespace deadheat::cupti
