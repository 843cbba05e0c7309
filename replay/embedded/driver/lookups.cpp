#include "replay/embedded/driver/lookups.h"

#include "replay/embedded/driver/driver.h"
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

// Undocumented: a statically linked runtime works by these tables.
DEADHEAT_DRIVER(cuGetExportTable, nothing, (const void** table, const CUuuid* id), (table, id)) {
  say_once(
      "cuGetExportTable: the embedded device has no undocumented tables of the driver's, which a statically linked "
      "CUDA "
      "runtime needs: build with NVCC_APPEND_FLAGS='-cudart shared'");
  return cudaErrorNotSupported;
}
