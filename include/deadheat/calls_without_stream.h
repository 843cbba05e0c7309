// Calls that have no stream, and whose work lies in streams of the recorder's own: no user knows their numbers.
//
// Thread-safety: pure functions.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "deadheat/host_waits.h"

namespace deadheat {

// By the call's name, as operations have it. Objects are descriptors (replay/embedded/texture_objects_api.cpp);
// cudaFree is of a pool's memory.
inline bool has_no_stream(std::string_view api) {
  constexpr std::string_view names[] = {"cudaCreateTextureObject", "cudaCreateSurfaceObject", "cudaFree", host_itself};
  return std::find(std::begin(names), std::end(names), api) != std::end(names);
}

} // namespace deadheat
