#include "replay/embedded/driver/lookups.h"

#include "replay/embedded/driver/driver.h"
#include "replay/embedded/names.h"
#undef cuGetProcAddress // cuda.h means its second version

using namespace deadheat::embedded;

static CUresult get_proc_address(const char* symbol, void** function, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult* status) {
  if (!symbol || !function || version > CUDA_VERSION) return CUDA_ERROR_INVALID_VALUE;
  if (flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const Lookup result = driver_entry_point(symbol, version, per_thread, function);
  if (status) {
    *status = result == Lookup::found     ? CU_GET_PROC_ADDRESS_SUCCESS
              : result == Lookup::unknown ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
                                          : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  }
  return CUDA_SUCCESS;
}

extern "C" {

DEADHEAT_VISIBLE CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return get_proc_address(symbol, function, version, flags, nullptr);
}
DEADHEAT_VISIBLE CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                                      cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  return get_proc_address(symbol, function, version, flags, status);
}

} // extern "C"

// Undocumented tables, which a statically linked runtime works by: without them none of its calls does anything. NVRTC
// and nvJitLink have one, and do without; that of cuda.bindings is asked for versions alone by most: it is told of at
// the end, where nothing else was done.
extern "C" DEADHEAT_VISIBLE CUresult CUDAAPI cuGetExportTable(const void** table, const CUuuid* id) {
  const std::string asks = file_of(__builtin_return_address(0));
  return enter_driver("cuGetExportTable", DefaultStream::legacy, DriverNeed::nothing, [&](Call& call) {
    const auto of = [&](const char* part) { return asks.find(part) != std::string::npos; };
    const bool of_compiler = of("/libnvrtc") || of("/libnvJitLink"), for_versions = of("/cuda/bindings/");
    call.refusal_noted = of_compiler || for_versions;
    if (for_versions) call.runtime.static_runtime = asks;
    if (!call.refusal_noted) say_once(static_runtime_line(asks));
    return cudaErrorNotSupported;
  });
}
