// Modules, libraries and kernels (Driver API, "Module Management", "Library Management", "Execution Control"). A
// CUmodule and a CUlibrary are a FatBinary, a CUfunction and a CUkernel a Function.
#include <algorithm>
#include <cstring>

#include "replay/embedded/driver/jit.h"
#include "replay/embedded/launch.h"

namespace deadheat::embedded {

JitOptions::JitOptions(unsigned count, const CUjit_option* options, void** values)
    : count_(options && values ? count : 0), options_(options), values_(values) {}

void JitOptions::write(CUjit_option buffer, CUjit_option size, const std::string& text) const {
  char* to = nullptr;
  void** bytes = nullptr;
  for (unsigned i = 0; i < count_; ++i) {
    if (options_[i] == buffer) to = static_cast<char*>(values_[i]);
    if (options_[i] == size) bytes = &values_[i];
  }
  if (!bytes) return;
  const auto room = std::uint32_t(reinterpret_cast<std::uintptr_t>(*bytes));
  const std::size_t length = to && room ? std::min<std::size_t>(text.size(), room - 1) : 0;
  if (to && room) {
    std::memcpy(to, text.data(), length);
    to[length] = 0;
  }
  *bytes = reinterpret_cast<void*>(length);
}

void JitOptions::finish(const std::string& error) const {
  write(CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, "");
  write(CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, error);
  for (unsigned i = 0; i < count_; ++i) {
    if (options_[i] != CU_JIT_WALL_TIME) continue;
    const float milliseconds =
        std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - begun_).count();
    std::memcpy(&values_[i], &milliseconds, sizeof milliseconds);
  }
}

} // namespace deadheat::embedded

using namespace deadheat::embedded;

DEADHEAT_BODY(cudaFuncGetAttributes, (cudaFuncAttributes * attributes, const void* function));
DEADHEAT_BODY(cudaFuncSetAttribute, (const void* function, cudaFuncAttribute attribute, int value));
DEADHEAT_BODY(cudaFuncGetParamInfo, (const void* function, size_t index, size_t* offset, size_t* bytes));

namespace {

FatBinary* module_of(Call& call, const void* handle) {
  if (!call.runtime.modules.is_binary(handle)) return nullptr;
  auto* binary = static_cast<FatBinary*>(const_cast<void*>(handle));
  return binary->unregistered ? nullptr : binary;
}

CUmodule handle_of(FatBinary* binary) { return reinterpret_cast<CUmodule>(binary); }

cudaError_t load(Call& call, CUmodule* result, const void* image, const JitOptions& options) {
  if (!result || !image) return cudaErrorInvalidValue;
  FatBinary* binary = nullptr;
  std::string why;
  const cudaError_t status = load_image(call, &binary, image, "a module loaded from memory", &why);
  options.finish(why);
  if (status == cudaSuccess) *result = handle_of(binary);
  return status;
}

// A registered binary's module is loaded at its first use.
cudaError_t find_module(Call& call, const void* handle, FatBinary** binary) {
  *binary = module_of(call, handle);
  if (!*binary) return cudaErrorInvalidResourceHandle;
  return call.runtime.modules.load(**binary, call.device());
}

template <class Handle>
cudaError_t find_function(Call& call, const void* module, const char* name, Handle* result) {
  FatBinary* binary = nullptr;
  const cudaError_t status = find_module(call, module, &binary);
  if (status != cudaSuccess) return status;
  if (!result || !name) return cudaErrorInvalidValue;
  for (Function* function : binary->functions) {
    if (function->name != name) continue;
    *result = reinterpret_cast<Handle>(function);
    return cudaSuccess;
  }
  return cudaErrorSymbolNotFound;
}

template <class Handle>
cudaError_t list_functions(Call& call, const void* module, Handle* list, unsigned room) {
  const FatBinary* binary = module_of(call, module);
  if (!binary) return cudaErrorInvalidResourceHandle;
  if (!list) return cudaErrorInvalidValue;
  for (unsigned i = 0; i < room && i < binary->functions.size(); ++i) {
    list[i] = reinterpret_cast<Handle>(binary->functions[i]);
  }
  return cudaSuccess;
}

cudaError_t count_functions(Call& call, const void* module, unsigned* count) {
  const FatBinary* binary = module_of(call, module);
  if (!binary) return cudaErrorInvalidResourceHandle;
  if (!count) return cudaErrorInvalidValue;
  *count = unsigned(binary->functions.size());
  return cudaSuccess;
}

enum class Managed : std::uint8_t { no, yes, either };
cudaError_t find_variable(Call& call, const void* module, const char* name, Managed managed, CUdeviceptr* address,
                          size_t* bytes) {
  FatBinary* binary = nullptr;
  const cudaError_t status = find_module(call, module, &binary);
  if (status != cudaSuccess) return status;
  if (!name) return cudaErrorInvalidValue;
  for (const deadheat::ptx::Variable& v : call.device().module(binary->module)->ptx().variables) {
    if (v.name != name || (managed != Managed::either && v.managed != (managed == Managed::yes))) continue;
    std::uint64_t size = 0;
    const std::uint64_t place = call.device().symbol_address(binary->module, name, &size);
    if (!place) break;
    if (v.managed) call.runtime.watch_host_memory();
    if (address) *address = place;
    if (bytes) *bytes = size;
    return cudaSuccess;
  }
  return cudaErrorSymbolNotFound;
}

cudaError_t get_attribute(Call& call, int* value, CUfunction_attribute attribute, const void* function) {
  if (!value) return cudaErrorInvalidValue;
  cudaFuncAttributes a;
  Kernel kernel;
  cudaError_t status = cudaFuncGetAttributes_body(call, &a, function);
  if (status == cudaSuccess) status = find_kernel(call, function, &kernel);
  if (status != cudaSuccess) return status;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = a.maxThreadsPerBlock; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = int(a.sharedSizeBytes); break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = int(a.constSizeBytes); break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = int(a.localSizeBytes); break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = a.numRegs; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = a.ptxVersion; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = a.binaryVersion; break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = a.maxDynamicSharedSizeBytes; break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = a.preferredShmemCarveout; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: *value = kernel.info->cluster.x != 0; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: *value = int(kernel.info->cluster.x); break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: *value = int(kernel.info->cluster.y); break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: *value = int(kernel.info->cluster.z); break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: *value = kernel.function->non_portable_clusters; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: *value = 0; break;
    default: return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

template <class Handle>
cudaError_t name_of(Call& call, const char** name, Handle handle) {
  const Function* function = call.runtime.modules.function(handle);
  if (!name) return cudaErrorInvalidValue;
  if (!function) return cudaErrorInvalidResourceHandle;
  *name = function->name.c_str();
  return cudaSuccess;
}

template <class Handle>
cudaError_t binary_of(Call& call, Handle* result, const void* handle) {
  const Function* function = call.runtime.modules.function(handle);
  if (!result) return cudaErrorInvalidValue;
  if (!function) return cudaErrorInvalidResourceHandle;
  *result = reinterpret_cast<Handle>(function->binary);
  return cudaSuccess;
}

cudaError_t unload(Call& call, const void* handle) {
  FatBinary* binary = module_of(call, handle);
  if (!binary || !binary->library) return cudaErrorInvalidResourceHandle;
  call.runtime.modules.remove(binary);
  return cudaSuccess;
}

} // namespace

// ---- Modules

DEADHEAT_DRIVER(cuModuleLoad, context, (CUmodule * result, const char* path), (result, path)) {
  if (!result || !path) return cudaErrorInvalidValue;
  FatBinary* binary = nullptr;
  const cudaError_t status = load_image_file(call, &binary, path);
  if (status == cudaSuccess) *result = handle_of(binary);
  return status;
}
DEADHEAT_DRIVER(cuModuleLoadData, context, (CUmodule * result, const void* image), (result, image)) {
  return load(call, result, image, {});
}
DEADHEAT_DRIVER(cuModuleLoadDataEx, context,
                (CUmodule * result, const void* image, unsigned count, CUjit_option* options, void** values),
                (result, image, count, options, values)) {
  if (count && (!options || !values)) return cudaErrorInvalidValue;
  return load(call, result, image, {count, options, values});
}
DEADHEAT_DRIVER(cuModuleLoadFatBinary, context, (CUmodule * result, const void* image), (result, image)) {
  return load(call, result, image, {});
}
DEADHEAT_DRIVER(cuModuleUnload, managed, (CUmodule module), (module)) { return unload(call, module); }

// Kernels are compiled when they are first launched.
DEADHEAT_DRIVER(cuModuleGetLoadingMode, nothing, (CUmoduleLoadingMode * mode), (mode)) {
  if (!mode) return cudaErrorInvalidValue;
  *mode = CU_MODULE_LAZY_LOADING;
  return cudaSuccess;
}
DEADHEAT_DRIVER(cuModuleGetFunction, context, (CUfunction * result, CUmodule module, const char* name),
                (result, module, name)) {
  return find_function(call, module, name, result);
}
DEADHEAT_DRIVER(cuModuleGetFunctionCount, context, (unsigned* count, CUmodule module), (count, module)) {
  return count_functions(call, module, count);
}
DEADHEAT_DRIVER(cuModuleEnumerateFunctions, context, (CUfunction * list, unsigned room, CUmodule module),
                (list, room, module)) {
  return list_functions(call, module, list, room);
}
DEADHEAT_DRIVER(cuModuleGetGlobal_v2, context,
                (CUdeviceptr * address, size_t* bytes, CUmodule module, const char* name),
                (address, bytes, module, name)) {
  return find_variable(call, module, name, Managed::either, address, bytes);
}

// ---- Libraries: of the device, whatever the context.

static cudaError_t load_library_data(Call& call, CUlibrary* result, const void* code, const JitOptions& options) {
  CUmodule module = nullptr;
  const cudaError_t status = result ? load(call, &module, code, options) : cudaErrorInvalidValue;
  if (status == cudaSuccess) *result = reinterpret_cast<CUlibrary>(module);
  return status;
}

DEADHEAT_DRIVER(cuLibraryLoadData, initialized,
                (CUlibrary * result, const void* code, CUjit_option* options, void** values, unsigned count,
                 CUlibraryOption* library_options, void** library_values, unsigned library_count),
                (result, code, options, values, count, library_options, library_values, library_count)) {
  if ((count && (!options || !values)) || (library_count && !library_options)) return cudaErrorInvalidValue;
  if (call.runtime.sticky != cudaSuccess) return call.runtime.sticky;
  return load_library_data(call, result, code, {count, options, values});
}
DEADHEAT_DRIVER(cuLibraryLoadFromFile, initialized,
                (CUlibrary * result, const char* path, CUjit_option* options, void** values, unsigned count,
                 CUlibraryOption* library_options, void** library_values, unsigned library_count),
                (result, path, options, values, count, library_options, library_values, library_count)) {
  if (!result || !path || (count && (!options || !values)) || (library_count && !library_options)) {
    return cudaErrorInvalidValue;
  }
  if (call.runtime.sticky != cudaSuccess) return call.runtime.sticky;
  const JitOptions log(count, options, values);
  FatBinary* binary = nullptr;
  std::string why;
  const cudaError_t status = load_image_file(call, &binary, path, &why);
  log.finish(why);
  if (status == cudaSuccess) *result = reinterpret_cast<CUlibrary>(binary);
  return status;
}
DEADHEAT_DRIVER(cuLibraryUnload, initialized, (CUlibrary library), (library)) { return unload(call, library); }
DEADHEAT_DRIVER(cuLibraryGetKernel, initialized, (CUkernel * result, CUlibrary library, const char* name),
                (result, library, name)) {
  return find_function(call, library, name, result);
}
DEADHEAT_DRIVER(cuLibraryGetKernelCount, initialized, (unsigned* count, CUlibrary library), (count, library)) {
  return count_functions(call, library, count);
}
DEADHEAT_DRIVER(cuLibraryEnumerateKernels, initialized, (CUkernel * list, unsigned room, CUlibrary library),
                (list, room, library)) {
  return list_functions(call, library, list, room);
}
DEADHEAT_DRIVER(cuLibraryGetModule, context, (CUmodule * result, CUlibrary library), (result, library)) {
  FatBinary* binary = module_of(call, library);
  if (!result) return cudaErrorInvalidValue;
  if (!binary) return cudaErrorInvalidResourceHandle;
  *result = handle_of(binary);
  return cudaSuccess;
}
DEADHEAT_DRIVER(cuLibraryGetGlobal, context,
                (CUdeviceptr * address, size_t* bytes, CUlibrary library, const char* name),
                (address, bytes, library, name)) {
  return find_variable(call, library, name, Managed::no, address, bytes);
}
DEADHEAT_DRIVER(cuLibraryGetManaged, initialized,
                (CUdeviceptr * address, size_t* bytes, CUlibrary library, const char* name),
                (address, bytes, library, name)) {
  return find_variable(call, library, name, Managed::yes, address, bytes);
}

// ---- Kernels and functions

DEADHEAT_DRIVER(cuKernelGetFunction, context, (CUfunction * result, CUkernel kernel), (result, kernel)) {
  Function* function = call.runtime.modules.function(kernel);
  if (!result) return cudaErrorInvalidValue;
  if (!function) return cudaErrorInvalidResourceHandle;
  *result = reinterpret_cast<CUfunction>(function);
  return cudaSuccess;
}
DEADHEAT_DRIVER(cuKernelGetLibrary, initialized, (CUlibrary * result, CUkernel kernel), (result, kernel)) {
  return binary_of(call, result, kernel);
}
DEADHEAT_DRIVER(cuKernelGetName, initialized, (const char** name, CUkernel kernel), (name, kernel)) {
  return name_of(call, name, kernel);
}
DEADHEAT_DRIVER(cuKernelGetParamInfo, initialized, (CUkernel kernel, size_t index, size_t* offset, size_t* bytes),
                (kernel, index, offset, bytes)) {
  return cudaFuncGetParamInfo_body(call, kernel, index, offset, bytes);
}
DEADHEAT_DRIVER(cuKernelGetAttribute, initialized,
                (int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device),
                (value, attribute, kernel, device)) {
  return device == 0 ? get_attribute(call, value, attribute, kernel) : cudaErrorInvalidDevice;
}
DEADHEAT_DRIVER(cuKernelSetAttribute, initialized,
                (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device),
                (attribute, value, kernel, device)) {
  if (device != 0) return cudaErrorInvalidDevice;
  return cudaFuncSetAttribute_body(call, kernel, cudaFuncAttribute(attribute), value);
}
DEADHEAT_DRIVER(cuKernelSetCacheConfig, initialized, (CUkernel kernel, CUfunc_cache config, CUdevice device),
                (kernel, config, device)) {
  if (device != 0) return cudaErrorInvalidDevice;
  return call.runtime.modules.function(kernel) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

DEADHEAT_DRIVER(cuFuncGetAttribute, context, (int* value, CUfunction_attribute attribute, CUfunction function),
                (value, attribute, function)) {
  return get_attribute(call, value, attribute, function);
}
// Attributes have the runtime's numbers where both have them (cudaFuncAttribute).
DEADHEAT_DRIVER(cuFuncSetAttribute, context, (CUfunction function, CUfunction_attribute attribute, int value),
                (function, attribute, value)) {
  return cudaFuncSetAttribute_body(call, function, cudaFuncAttribute(attribute), value);
}
DEADHEAT_DRIVER(cuFuncSetCacheConfig, context, (CUfunction function, CUfunc_cache config), (function, config)) {
  return call.runtime.modules.function(function) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
DEADHEAT_DRIVER(cuFuncSetSharedMemConfig, context, (CUfunction function, CUsharedconfig config), (function, config)) {
  return call.runtime.modules.function(function) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
DEADHEAT_DRIVER(cuFuncGetModule, context, (CUmodule * result, CUfunction function), (result, function)) {
  return binary_of(call, result, function);
}
DEADHEAT_DRIVER(cuFuncGetName, initialized, (const char** name, CUfunction function), (name, function)) {
  return name_of(call, name, function);
}
DEADHEAT_DRIVER(cuFuncGetParamInfo, initialized, (CUfunction function, size_t index, size_t* offset, size_t* bytes),
                (function, index, offset, bytes)) {
  return cudaFuncGetParamInfo_body(call, function, index, offset, bytes);
}
DEADHEAT_DRIVER(cuFuncIsLoaded, context, (CUfunctionLoadingState * state, CUfunction function), (state, function)) {
  if (!state) return cudaErrorInvalidValue;
  if (!call.runtime.modules.function(function)) return cudaErrorInvalidResourceHandle;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return cudaSuccess;
}
DEADHEAT_DRIVER(cuFuncLoad, context, (CUfunction function), (function)) {
  Kernel kernel;
  return find_kernel(call, function, &kernel);
}
