// Functions of CUDA's own that PTX only declares, since the driver has them, or its libcudadevrt: their bodies, in PTX.
//
// Thread-safety: pure function.
#pragma once

#include <string>

#include "deadheat/expected.h"

namespace deadheat::device {

// The module with those that it declares linked in; `origin` names it in errors.
Expected<std::string> link_builtins(std::string ptx_text, const std::string& origin);

} // namespace deadheat::device
