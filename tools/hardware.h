// `replay --device gpu`: a witness's two orders on the GPU of this machine, in text and JSON.
#pragma once

#include <optional>

#include "tools/command.h"

namespace deadheat::tools {

// The exit status, if the arguments of `replay` ask for a GPU; nothing else is done otherwise.
std::optional<int> replay_on_gpu(const Arguments& arguments);

} // namespace deadheat::tools
