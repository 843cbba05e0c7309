// Fat binaries, kernels and variables that the program registered, and their modules on the device.
//
// Registration happens in the program's constructors and only notes names. A fat binary's PTX is parsed and loaded by
// the device at the first use of one of its kernels or variables.
//
// Thread-safety: none; Runtime::lock. Invariants: handles given to the program (FatBinary, Function) stay valid until
// the end of the process, since kernel handles are cached in the program's static variables.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "replay/device/device.h"

namespace deadheat::embedded {

struct Function;
class Call;

// A managed variable: the program reads its address through a pointer of its own.
struct ManagedVariable {
  void** pointer = nullptr;
  std::string name;
};

// What bytes in memory are, by how they begin. `bytes`: of a fat binary, its length.
enum class ImageKind : std::uint8_t { unknown, ptx, fatbin, wrapper, machine_code };
ImageKind image_kind(const void* image, std::uint64_t* bytes);

// The PTX of machine code that a compiler in this process made of it, or that Triton's cache has beside it; empty: it
// is not known. `bytes` 0: as many as the machine code says itself.
std::string ptx_of_machine_code(const void* image, std::uint64_t bytes);

struct FatBinary {
  const void* wrapper = nullptr;
  bool library = false;            // loaded by the program: what it is follows
  ImageKind kind = ImageKind::wrapper;
  std::string image;               // PTX text or the bytes of a fat binary; of other kinds unused
  std::string origin;              // file of the program or library that holds it
  std::uint32_t module = 0;        // the device's; 0: not loaded
  cudaError_t failed = cudaSuccess; // why it cannot be …
  std::string why;                 // … in words
  bool unregistered = false;
  std::vector<ManagedVariable> managed;
  std::vector<Function*> functions;
};

// A kernel; cudaKernel_t and cudaFunction_t are its address.
struct Function {
  FatBinary* binary = nullptr;
  const void* host = nullptr;      // the host function that stands for it
  std::string name;                // mangled
  int max_dynamic_shared = -1;     // set by cudaFuncSetAttribute
  int carveout = -1;
  bool non_portable_clusters = false; // cudaFuncAttributeNonPortableClusterSizeAllowed
  bool refused = false;            // and the trace says so
};

struct Variable {
  FatBinary* binary = nullptr;
  std::string name;                // in PTX
  std::uint64_t bytes = 0;
  bool managed = false;
};

// A library or module that the program loads. On failure *why says it, if it is not null.
cudaError_t load_library(Call& call, FatBinary** result, ImageKind kind, std::string image, std::string origin,
                         std::string* why = nullptr);
// Of what `code` points to, as cudaLibraryLoadData and cuModuleLoadData are given it; of a file.
cudaError_t load_image(Call& call, FatBinary** result, const void* code, const std::string& origin,
                       std::string* why = nullptr);
cudaError_t load_image_file(Call& call, FatBinary** result, const char* path, std::string* why = nullptr);

// The PTX to run. When there is none, FatBinary::failed says how CUDA calls that.
Expected<std::string> text_of(FatBinary& binary, const Profile& profile);
// The line that says why a kernel cannot run.
std::string refusal(const FatBinary& binary, const engine::KernelInfo& kernel);

class Modules {
 public:
  FatBinary* add(const void* wrapper);
  FatBinary* add_library(ImageKind kind, std::string image, std::string origin); // wrapper: image holds its address
  void add_function(FatBinary* binary, const void* host, std::string name);
  void add_variable(FatBinary* binary, const void* host, std::string name, std::uint64_t bytes);
  void add_managed(FatBinary* binary, void** pointer, std::string name, std::uint64_t bytes);
  void remove(FatBinary* binary);

  Function* function(const void* host) const;   // by host function or by handle; null: unknown
  Function* function(std::uint32_t module, const std::string& name) const; // of a loaded module
  const Variable* variable(const void* host) const;
  bool is_binary(const void* handle) const;

  // Loads the module if it is not there yet. Says on standard error what is wrong with it.
  cudaError_t load(FatBinary& binary, device::Device& device);

 private:
  std::vector<std::unique_ptr<FatBinary>> binaries_;
  std::vector<std::unique_ptr<Function>> functions_;
  std::unordered_map<const void*, Function*> by_host_, by_handle_;
  std::unordered_map<const void*, Variable> variables_;
};

} // namespace deadheat::embedded
