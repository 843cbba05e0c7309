// Libraries of kernels that the program loads itself: PTX text from NVRTC, fat binaries, files of either (Runtime API,
// "Library Management"). A library is a fat binary like the registered ones, but for where its image comes from.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "replay/embedded/launch.h"

using namespace deadheat::embedded;

namespace {

FatBinary* library_of(Call& call, cudaLibrary_t handle) {
  if (!call.runtime.modules.is_binary(handle)) return nullptr;
  auto* library = reinterpret_cast<FatBinary*>(handle);
  return library->library && !library->unregistered ? library : nullptr;
}

} // namespace

cudaError_t deadheat::embedded::load_library(Call& call, FatBinary** result, ImageKind kind, std::string image,
                                             std::string origin, std::string* why) {
  FatBinary* library = call.runtime.modules.add_library(kind, std::move(image), std::move(origin));
  const cudaError_t status = call.runtime.modules.load(*library, call.device());
  if (status != cudaSuccess) {
    library->unregistered = true;
    if (status == cudaErrorNoKernelImageForDevice) call.refused();
    if (why) *why = library->why;
    return status;
  }
  for (const std::string& name : call.device().module(library->module)->kernel_names()) {
    call.runtime.modules.add_function(library, nullptr, name);
  }
  *result = library;
  return cudaSuccess;
}

cudaError_t deadheat::embedded::load_image(Call& call, FatBinary** result, const void* code, const std::string& origin,
                                           std::string* why) {
  std::uint64_t bytes = 0;
  ImageKind kind = image_kind(code, &bytes);
  if (kind == ImageKind::unknown) return cudaErrorInvalidKernelImage;
  std::string image;
  if (kind == ImageKind::machine_code) {
    image = ptx_of_machine_code(code, 0);
    if (!image.empty()) kind = ImageKind::ptx;
  } else if (kind == ImageKind::ptx) {
    image = static_cast<const char*>(code);
  }
  if (kind == ImageKind::fatbin) image.assign(static_cast<const char*>(code), bytes);
  if (kind == ImageKind::wrapper) image.assign(reinterpret_cast<const char*>(&code), sizeof code);
  return load_library(call, result, kind, std::move(image), origin, why);
}

cudaError_t deadheat::embedded::load_image_file(Call& call, FatBinary** result, const char* path, std::string* why) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return cudaErrorFileNotFound;
  std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t length = image.size();
  image.resize(std::max<std::size_t>(length, 32)); // what tells the kind of an image is there, or zeros
  std::uint64_t bytes = 0;
  ImageKind kind = image_kind(image.data(), &bytes);
  if (kind != ImageKind::ptx && kind != ImageKind::fatbin && kind != ImageKind::machine_code) {
    return cudaErrorInvalidKernelImage;
  }
  if (kind == ImageKind::machine_code) {
    std::string text = ptx_of_machine_code(image.data(), length);
    if (!text.empty()) {
      image = std::move(text);
      kind = ImageKind::ptx;
    }
  }
  if (kind == ImageKind::ptx) image.resize(std::strlen(image.c_str()));
  return load_library(call, result, kind, std::move(image), path, why);
}

// Options: of the compiler, which has no meaning for them here, and of the library (host-side data stays the program's
// by our copy; every kernel is compiled when it is first launched).
DEADHEAT_API(cudaLibraryLoadData, device,
             (cudaLibrary_t * result, const void* code, cudaJitOption* options, void** values, unsigned count,
              cudaLibraryOption* library_options, void** library_values, unsigned library_count),
             (result, code, options, values, count, library_options, library_values, library_count)) {
  if (!result || !code || (count && (!options || !values)) || (library_count && !library_options)) {
    return cudaErrorInvalidValue;
  }
  FatBinary* library = nullptr;
  const cudaError_t status = load_image(call, &library, code, "a library loaded from memory");
  if (status == cudaSuccess) *result = reinterpret_cast<cudaLibrary_t>(library);
  return status;
}

DEADHEAT_API(cudaLibraryLoadFromFile, device,
             (cudaLibrary_t * result, const char* path, cudaJitOption* options, void** values, unsigned count,
              cudaLibraryOption* library_options, void** library_values, unsigned library_count),
             (result, path, options, values, count, library_options, library_values, library_count)) {
  if (!result || !path || (count && (!options || !values)) || (library_count && !library_options)) {
    return cudaErrorInvalidValue;
  }
  FatBinary* library = nullptr;
  const cudaError_t status = load_image_file(call, &library, path);
  if (status == cudaSuccess) *result = reinterpret_cast<cudaLibrary_t>(library);
  return status;
}

// The kernels' handles end with it; memory of its variables stays, for work that is still queued.
DEADHEAT_API(cudaLibraryUnload, device, (cudaLibrary_t handle), (handle)) {
  FatBinary* library = library_of(call, handle);
  if (!library) return cudaErrorInvalidResourceHandle;
  call.runtime.modules.remove(library);
  return cudaSuccess;
}

DEADHEAT_API(cudaLibraryGetKernel, device, (cudaKernel_t * kernel, cudaLibrary_t handle, const char* name),
             (kernel, handle, name)) {
  const FatBinary* library = library_of(call, handle);
  if (!library) return cudaErrorInvalidResourceHandle;
  if (!kernel || !name) return cudaErrorInvalidValue;
  for (Function* function : library->functions) {
    if (function->name != name) continue;
    *kernel = reinterpret_cast<cudaKernel_t>(function);
    return cudaSuccess;
  }
  return cudaErrorSymbolNotFound;
}

DEADHEAT_API(cudaLibraryGetKernelCount, device, (unsigned* count, cudaLibrary_t handle), (count, handle)) {
  const FatBinary* library = library_of(call, handle);
  if (!library) return cudaErrorInvalidResourceHandle;
  if (!count) return cudaErrorInvalidValue;
  *count = unsigned(library->functions.size());
  return cudaSuccess;
}

DEADHEAT_API(cudaLibraryEnumerateKernels, device, (cudaKernel_t * kernels, unsigned count, cudaLibrary_t handle),
             (kernels, count, handle)) {
  const FatBinary* library = library_of(call, handle);
  if (!library) return cudaErrorInvalidResourceHandle;
  if (!kernels) return cudaErrorInvalidValue;
  for (unsigned i = 0; i < count && i < library->functions.size(); ++i) {
    kernels[i] = reinterpret_cast<cudaKernel_t>(library->functions[i]);
  }
  return cudaSuccess;
}

static cudaError_t variable(Call& call, void** pointer, size_t* bytes, cudaLibrary_t handle, const char* name,
                            bool managed) {
  const FatBinary* library = library_of(call, handle);
  if (!library) return cudaErrorInvalidResourceHandle;
  if (!name) return cudaErrorInvalidValue;
  for (const deadheat::ptx::Variable& v : call.device().module(library->module)->ptx().variables) {
    if (v.name != name || v.managed != managed) continue;
    std::uint64_t size = 0;
    const std::uint64_t address = call.device().symbol_address(library->module, name, &size);
    if (!address) break;
    if (managed) call.runtime.watch_host_memory();
    if (pointer) *pointer = reinterpret_cast<void*>(address);
    if (bytes) *bytes = size;
    return cudaSuccess;
  }
  return cudaErrorSymbolNotFound;
}

DEADHEAT_API(cudaLibraryGetGlobal, device, (void** pointer, size_t* bytes, cudaLibrary_t library, const char* name),
             (pointer, bytes, library, name)) {
  return variable(call, pointer, bytes, library, name, false);
}

DEADHEAT_API(cudaLibraryGetManaged, device, (void** pointer, size_t* bytes, cudaLibrary_t library, const char* name),
             (pointer, bytes, library, name)) {
  return variable(call, pointer, bytes, library, name, true);
}
