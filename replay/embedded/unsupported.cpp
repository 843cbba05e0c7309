// Entry points that the embedded device does not have. They are declared without parameters, which the caller passes in
// registers and on a stack that it cleans up itself (System V ABI); so this file must not see CUDA's declarations.
namespace deadheat::embedded {
int not_supported(const char* name) noexcept; // entry.h's way into the runtime
}

#define X(name) \
  extern "C" __attribute__((visibility("default"))) int name() { return deadheat::embedded::not_supported(#name); }
#include "replay/embedded/unsupported.def"
#undef X
