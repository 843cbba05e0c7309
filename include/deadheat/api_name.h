// Names of CUDA's functions as programs write them.
//
// Thread-safety: pure functions.
#pragma once

#include <cctype>
#include <cstddef>
#include <string>

namespace deadheat {

// "cudaMemcpyAsync" of "cudaMemcpyAsync_ptsz_v7000", "cuMemAlloc" of "cuMemAlloc_v2".
inline std::string plain_api_name(std::string name) {
  for (;;) {
    const std::size_t bar = name.rfind('_');
    if (bar == std::string::npos || bar + 1 >= name.size()) return name;
    const std::string tail = name.substr(bar + 1);
    bool version = tail[0] == 'v' && tail.size() > 1;
    for (std::size_t i = 1; i < tail.size(); ++i) version &= std::isdigit(static_cast<unsigned char>(tail[i])) != 0;
    if (!version && tail != "ptsz" && tail != "ptds") return name;
    name.resize(bar);
  }
}

} // namespace deadheat
