// PTX that the user puts in the place of a program's: the option "ptx" names a directory. An image that the program
// loads is written there once, as HASH.ptx, and from then on what that file holds is loaded: to see what a barrier
// more or less does without compiling the program again.
//
// Thread-safety: none.
#pragma once

#include <string>

#include "deadheat/expected.h"

namespace deadheat::embedded {

// What to load for the image `text`. `origin` names the program or library in errors.
Expected<std::string> own_ptx(const std::string& directory, std::string text, const std::string& origin);

} // namespace deadheat::embedded
