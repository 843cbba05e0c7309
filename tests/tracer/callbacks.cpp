#define __CUDA_API_VERSION_INTERNAL
#include "tests/tracer/callbacks.h"

EXPORT void fake_subscribe(CUpti_CallbackFunc callback) { fake::subscriber = callback; }
EXPORT void fake_enable(CUpti_CallbackId id, bool on) { fake::enabled[id] = on; }
EXPORT void fake_keep_launches() { fake::keeps_launches = true; }
// Hands out the launch that has waited longest; false: there is none.
EXPORT bool fake_next_launch(std::uint32_t* correlation, std::string* name) {
  std::lock_guard hold(fake::launched_lock);
  static std::size_t next = 0;
  if (next == fake::launched.size()) return false;
  *correlation = fake::launched[next].correlation;
  *name = fake::launched[next++].name;
  return true;
}
