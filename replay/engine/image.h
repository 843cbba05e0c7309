// The executable or library that this code is part of: its identity, and names for addresses in it that hold in every
// process.
//
// Compiled kernels call functions of the image by name ("host.<offset>"), so that their code can be kept on disk.
//
// Thread-safety: all functions may be called at any time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace deadheat::engine {

// The linker's build id, as bytes; empty when the image has none.
std::string image_identity();
// The name of an address inside the image.
std::string image_name(const void* address);
// The address that a name means; nothing when it is not such a name.
std::optional<std::uint64_t> image_address(std::string_view name);

}  // namespace deadheat::engine
