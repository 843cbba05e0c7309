// Linking PTX modules that were compiled apart (nvcc -rdc=true) into one, as the driver's linker does with their code.
//
// What a module defines for others (.visible, .weak, .common, entries) keeps its name, and takes the place of their
// .extern declarations; of several definitions a strong one is taken before a weak one, else the first. Names that
// are a module's own (no linkage directive) get a suffix where another module has them too. Source files are numbered
// anew, so that every .loc means the file it meant (PTX ISA 11.5, "Linking directives" 11.6).
//
// Thread-safety: pure function.
#pragma once

#include <string>
#include <vector>

#include "deadheat/expected.h"

namespace deadheat::ptx {

// `origin` names the modules in errors. One module comes back as it is.
Expected<std::string> link(const std::vector<std::string>& modules, const std::string& origin);

} // namespace deadheat::ptx
