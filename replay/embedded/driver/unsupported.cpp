// Entry points of the driver that the embedded device does not have, declared without parameters (as those of the
// runtime are, replay/embedded/unsupported.cpp).
namespace deadheat::embedded {
int driver_not_supported(const char* name) noexcept;
}

#define X(name)                                                  \
  extern "C" __attribute__((visibility("default"))) int name() { \
    return deadheat::embedded::driver_not_supported(#name);      \
  }
#include "replay/embedded/driver/unsupported.def"
#undef X
