// A compiled kernel as the cache keeps it: its object file, and what its descriptors say.
//
// Thread-safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/engine/regions.h"

namespace deadheat::engine {

struct KernelImage {
  std::vector<std::uint32_t> frame_bytes, params_offset, cleared_bytes;  // by function that the kernel reaches
  std::string object;
};
struct RegionImage {
  RegionCode code;  // but for addresses
  std::string object;
};

std::string write(const KernelImage& image);
std::string write(const RegionImage& image);
// False when the bytes are not such an image.
bool read(const std::vector<char>& bytes, KernelImage& image);
bool read(const std::vector<char>& bytes, RegionImage& image);

}  // namespace deadheat::engine
