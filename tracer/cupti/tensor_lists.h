// The lists of tensors that PyTorch's kernels over many tensors are handed (ATen's multi_tensor_apply_kernel: those of
// optimizers, of clipping gradients, of torch._foreach_*, the copies of FSDP). They come by value, in arrays of a fixed
// size of which only as much is filled as there are tensors: what lies behind are pointers of earlier launches, as the
// host's stack happened to have them, to tensors that this launch has no business with.
//
// Their layouts (ATen/native/cuda/MultiTensorApply.cuh, seen in PyTorch 2.11) are known by the types' names, and
// believed where the parameter has their size.
//
// Thread-safety: immutable values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace deadheat::cupti {

class TensorLists {
 public:
  // What the first parameter of the kernel, of so many bytes, holds; none where it is no such list.
  static std::optional<TensorLists> of(std::string_view mangled, std::size_t bytes);

  // How many tensors of each list a launch of so many blocks touches; none where that makes no sense.
  std::optional<std::uint32_t> used(const std::uint8_t* lists, std::uint32_t blocks) const;
  // Is the eight bytes' word at that offset the address of one of the first `used` tensors?
  bool is_address(std::size_t offset, std::uint32_t used) const;

 private:
  static constexpr std::uint32_t most_blocks = 320;
  std::uint32_t depth_ = 0; // lists
  std::uint32_t most_ = 0; // tensors of each
  std::size_t states_ = 0; // offset of one more list; 0: there is none
  std::size_t tensor_of_block_ = 0; // offset of an array of bytes
};

} // namespace deadheat::cupti
