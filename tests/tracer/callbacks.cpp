#define __CUDA_API_VERSION_INTERNAL
#include "tests/tracer/callbacks.h"

EXPORT void fake_subscribe(CUpti_CallbackFunc callback) { fake::subscriber = callback; }
EXPORT void fake_enable(CUpti_CallbackId id, bool on) { fake::enabled[id] = on; }
EXPORT void fake_keep_launches() { fake::keeps_launches = true; }
EXPORT bool fake_is_enabled(CUpti_CallbackId id) { return fake::enabled[id]; }
EXPORT std::uint64_t fake_told(CUpti_CallbackId id) { return fake::told[id]; } // callbacks of that call

// As the driver's, where it has the function: the last one of that version, by the kind of stream that stream 0 is.
EXPORT CUresult cuGetProcAddress(const char* name, void** result, int version, cuuint64_t flags) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const std::string plain = name;
  const bool own_streams = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  *result = nullptr;
  for (const char* tail : {"_v2_ptsz", "_ptsz", "_v2", ""}) {
    const bool ptsz = std::string(tail).ends_with("_ptsz");
    const bool second = plain == "cuGetProcAddress" && std::string(tail) == "_v2";
    if (*result || (ptsz && (!own_streams || version < 7000)) || (second && version < 12000)) continue;
    *result = dlsym(library, (plain + tail).c_str());
  }
  return *result ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
EXPORT CUresult cuGetProcAddress_v2(const char* name, void** result, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult* status) {
  const CUresult found = cuGetProcAddress(name, result, version, flags);
  if (status) *status = found == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}

// Hands out the launch that has waited longest; false: there is none.
EXPORT bool fake_next_launch(std::uint32_t* correlation, std::string* name) {
  std::lock_guard hold(fake::launched_lock);
  static std::size_t next = 0;
  if (next == fake::launched.size()) return false;
  *correlation = fake::launched[next].correlation;
  *name = fake::launched[next++].name;
  return true;
}
