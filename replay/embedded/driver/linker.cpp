// The driver's linker (Driver API, cuLinkCreate and others). What it makes is the text of all PTX that it was given:
// to who loads it, it is an image like others.
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>

#include "replay/embedded/driver/jit.h"
#include "replay/embedded/modules.h"
#include "tracer/ptx/fatbin.h"
#include "tracer/ptx/link.h"

using namespace deadheat::embedded;

namespace {

struct Linker {
  JitOptions options;
  std::vector<std::string> texts;
  std::string result;
};

std::map<CUlinkState, std::unique_ptr<Linker>>& linkers() {
  static auto* all = new std::map<CUlinkState, std::unique_ptr<Linker>>;
  return *all;
}
Linker* linker_of(CUlinkState state) {
  const auto found = linkers().find(state);
  return found == linkers().end() ? nullptr : found->second.get();
}

cudaError_t failed(const Linker& linker, cudaError_t status, const std::string& why) {
  say(why);
  linker.options.finish(why);
  return status;
}

cudaError_t create(CUlinkState* result, const JitOptions& options) {
  if (!result) return cudaErrorInvalidValue;
  auto made = std::make_unique<Linker>();
  made->options = options;
  *result = reinterpret_cast<CUlinkState>(made.get());
  linkers().emplace(*result, std::move(made));
  return cudaSuccess;
}

// Of a fat binary the PTX that the device would take, of machine code that which it was made of.
cudaError_t add(Call& call, Linker& linker, CUjitInputType type, std::string_view bytes, const std::string& name) {
  switch (type) {
    case CU_JIT_INPUT_PTX: linker.texts.emplace_back(bytes.substr(0, bytes.find('\0'))); return cudaSuccess;
    case CU_JIT_INPUT_CUBIN:
    case CU_JIT_INPUT_FATBINARY: {
      FatBinary part;
      part.library = true;
      part.origin = name;
      const std::string text =
          type == CU_JIT_INPUT_CUBIN ? ptx_of_machine_code(bytes.data(), bytes.size()) : std::string();
      part.kind = !text.empty()                ? ImageKind::ptx
                  : type == CU_JIT_INPUT_CUBIN ? ImageKind::machine_code
                                               : ImageKind::fatbin;
      part.image = !text.empty() ? text : std::string(bytes);
      deadheat::Expected<std::string> found = text_of(part, call.device().profile());
      if (!found) return failed(linker, part.failed, found.error().message());
      linker.texts.push_back(std::move(*found));
      return cudaSuccess;
    }
    default: break;
  }
  linker.options.finish("libraries, object files and NVVM are not linked by the embedded device");
  return refuse(call, type == CU_JIT_INPUT_NVVM ? "NVVM IR" : "a library or an object file of the host");
}

cudaError_t add_data(Call& call, CUlinkState state, CUjitInputType type, const void* data, size_t bytes,
                     const char* name) {
  Linker* linker = linker_of(state);
  if (!linker) return cudaErrorInvalidResourceHandle;
  if (!data || bytes == 0) return cudaErrorInvalidValue;
  return add(call, *linker, type, {static_cast<const char*>(data), bytes}, name ? name : "an input of the linker");
}

cudaError_t add_file(Call& call, CUlinkState state, CUjitInputType type, const char* path) {
  Linker* linker = linker_of(state);
  if (!linker) return cudaErrorInvalidResourceHandle;
  if (!path) return cudaErrorInvalidValue;
  const std::string_view file_name = std::string_view(path).substr(std::string_view(path).rfind('/') + 1);
  if (type == CU_JIT_INPUT_LIBRARY && file_name.starts_with("libcudadevrt")) return cudaSuccess; // known anyway
  std::ifstream file(path, std::ios::binary);
  if (!file) return cudaErrorFileNotFound;
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return bytes.empty() ? cudaErrorInvalidKernelImage : add(call, *linker, type, bytes, path);
}

} // namespace

DEADHEAT_DRIVER(cuLinkCreate, context, (unsigned count, CUjit_option* options, void** values, CUlinkState* result),
                (count, options, values, result)) {
  return create(result, {count, options, values});
}
DEADHEAT_DRIVER(cuLinkCreate_v2, context, (unsigned count, CUjit_option* options, void** values, CUlinkState* result),
                (count, options, values, result)) {
  return create(result, {count, options, values});
}

DEADHEAT_DRIVER(cuLinkAddData, context,
                (CUlinkState state, CUjitInputType type, void* data, size_t bytes, const char* name, unsigned count,
                 CUjit_option* options, void** values),
                (state, type, data, bytes, name, count, options, values)) {
  return add_data(call, state, type, data, bytes, name);
}
DEADHEAT_DRIVER(cuLinkAddData_v2, context,
                (CUlinkState state, CUjitInputType type, void* data, size_t bytes, const char* name, unsigned count,
                 CUjit_option* options, void** values),
                (state, type, data, bytes, name, count, options, values)) {
  return add_data(call, state, type, data, bytes, name);
}

DEADHEAT_DRIVER(cuLinkAddFile, context,
                (CUlinkState state, CUjitInputType type, const char* path, unsigned count, CUjit_option* options,
                 void** values),
                (state, type, path, count, options, values)) {
  return add_file(call, state, type, path);
}
DEADHEAT_DRIVER(cuLinkAddFile_v2, context,
                (CUlinkState state, CUjitInputType type, const char* path, unsigned count, CUjit_option* options,
                 void** values),
                (state, type, path, count, options, values)) {
  return add_file(call, state, type, path);
}

// The image is the linker's; it ends with it.
DEADHEAT_DRIVER(cuLinkComplete, context, (CUlinkState state, void** image, size_t* bytes), (state, image, bytes)) {
  Linker* linker = linker_of(state);
  if (!linker) return cudaErrorInvalidResourceHandle;
  if (!image) return cudaErrorInvalidValue;
  if (linker->texts.empty()) return failed(*linker, cudaErrorInvalidKernelImage, "the linker was given nothing");
  deadheat::Expected<std::string> text = linker->texts.size() == 1
                                             ? deadheat::Expected<std::string>(linker->texts.front())
                                             : deadheat::ptx::link(linker->texts, "linked PTX");
  if (!text) return failed(*linker, cudaErrorInvalidPtx, text.error().message());
  linker->result = std::move(*text);
  linker->options.finish("");
  *image = linker->result.data();
  if (bytes) *bytes = linker->result.size() + 1;
  return cudaSuccess;
}

DEADHEAT_DRIVER(cuLinkDestroy, managed, (CUlinkState state), (state)) {
  return linkers().erase(state) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
