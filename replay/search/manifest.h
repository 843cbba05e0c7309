// The manifest of a witness: a Witness as JSON text and back.
#pragma once

#include <string>

#include "replay/search/witness.h"

namespace deadheat::search {

std::string to_manifest(const Witness& witness);
Expected<Witness> from_manifest(const std::string& text, const std::string& file); // `file` for errors

} // namespace deadheat::search
