// What a launched handle stands for.
#include <algorithm>
#include <cstring>

#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/reach.h"
#include "tracer/cupti/session.h"

namespace deadheat::cupti {

bool Modules::is_loaded(CUfunction handle, const char* symbol, CUcontext context) {
  std::lock_guard hold(lock_);
  if (known(handle, context)) return true;
  const Code* code = code_of(handle);
  return code && symbol && code->kernel(symbol) &&
         std::find(code->loaded_in.begin(), code->loaded_in.end(), context) != code->loaded_in.end();
}

Kernel* Modules::known(CUfunction handle, CUcontext context) const {
  const auto found = kernels_.find(handle);
  if (found == kernels_.end()) return nullptr;
  for (const InContext& of : found->second) {
    if (of.context == context) return of.kernel.get();
  }
  return nullptr;
}

Code* Modules::code_of(CUfunction handle) const {
  const auto known = owners_.find(handle);
  const auto of = known == owners_.end() ? by_handle_.end() : by_handle_.find(known->second.owner);
  return of == by_handle_.end() ? nullptr : of->second;
}

namespace {

void find_parameters(Kernel& kernel, CUfunction handle, bool library) {
  for (std::size_t i = 0; i < 4096; ++i) {
    Kernel::Parameter p;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (library && driver().cuKernelGetParamInfo) {
      result = driver().cuKernelGetParamInfo(reinterpret_cast<CUkernel>(handle), i, &p.offset, &p.bytes);
    } else if (!library && driver().cuFuncGetParamInfo) {
      result = driver().cuFuncGetParamInfo(handle, i, &p.offset, &p.bytes);
    }
    if (result != CUDA_SUCCESS) break;
    kernel.parameters.push_back(p);
    kernel.arguments_bytes = std::max(kernel.arguments_bytes, p.offset + p.bytes);
  }
}

// The kernel is the original or the clone of an instrumented one.
void use_clone(Kernel& made, Code& code, const ptx::InstrumentedKernel& instrumented) {
  made.is_clone = made.name == instrumented.clone;
  if (made.is_clone && made.parameters.size() > instrumented.parameters) {
    made.parameters.resize(instrumented.parameters); // the program's own
  }
  // The driver tells where they lie on the device, from byte 528 of a bank on (H100): what is aligned to 64 lies
  // elsewhere in the block that PTX describes, which is what the trace has.
  made.arguments_bytes = 0;
  for (std::size_t i = 0; i < made.parameters.size(); ++i) {
    Kernel::Parameter& p = made.parameters[i];
    if (i < instrumented.offsets.size()) p.offset = instrumented.offsets[i];
    made.arguments_bytes = std::max(made.arguments_bytes, p.offset + p.bytes);
  }
  made.name = instrumented.name;
  made.code = &code;
  made.instrumented = &instrumented;
  CUfunction clone = nullptr;
  int threads = 1024, shared = 0;
  CUdevice device = 0;
  driver().cuCtxGetDevice(&device);
  if (code.library) {
    CUkernel kernel = nullptr;
    if (driver().cuLibraryGetKernel(&kernel, code.library, instrumented.clone.c_str()) == CUDA_SUCCESS) {
      clone = reinterpret_cast<CUfunction>(kernel);
      driver().cuKernelGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, device);
      driver().cuKernelGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel, device);
    }
  } else if (driver().cuModuleGetFunction(&clone, code.handle, instrumented.clone.c_str()) == CUDA_SUCCESS) {
    driver().cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, clone);
    driver().cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, clone);
  }
  made.clone = clone;
  made.most_threads = std::uint32_t(threads);
  made.static_shared = std::uint32_t(shared);
}

// Which words of its arguments may be addresses; and whether there are bytes that are none's.
void find_words(Kernel& kernel) {
  std::size_t bytes = 0;
  for (const Kernel::Parameter& p : kernel.parameters) bytes += p.bytes;
  kernel.gaps = bytes != kernel.arguments_bytes;
  if (!kernel.parameters.empty()) kernel.lists = TensorLists::of(kernel.name, kernel.parameters[0].bytes);
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Kernel::Parameter& p = kernel.parameters[i];
    const std::size_t skip = (8 - p.offset % 8) % 8, count = p.bytes < skip ? 0 : (p.bytes - skip) / 8;
    if (!count) continue;
    const bool lists = i == 0 && kernel.lists;
    kernel.words.push_back({std::uint16_t(i), std::uint16_t(skip), std::uint16_t(count), p.bytes == 8, lists});
    kernel.most_words += count;
  }
}

} // namespace

Kernel& Modules::kernel(CUfunction handle, const char* symbol, CUcontext context) {
  Owner owner;
  Code* code = nullptr;
  {
    std::lock_guard hold(lock_);
    if (Kernel* made = known(handle, context)) return *made;
    const auto its = owners_.find(handle);
    if (its != owners_.end()) owner = its->second;
    code = code_of(handle);
  }
  auto made = std::make_unique<Kernel>();
  const char* name = symbol;
  if (!name && !owner.library && (!driver().cuFuncGetName || driver().cuFuncGetName(&name, handle) != CUDA_SUCCESS)) {
    name = nullptr;
    owner.library = !owner.owner; // a graph's node names a CUkernel that was never looked up
  }
  if (!name && owner.library && driver().cuKernelGetName &&
      driver().cuKernelGetName(&name, reinterpret_cast<CUkernel>(handle)) != CUDA_SUCCESS) {
    name = nullptr;
  }
  made->name = name ? name : "unknown kernel";
  if (!code && made->name.rfind(ptx::clone_prefix, 0) == 0) { // a graph's node: its handle was never looked up
    std::lock_guard hold(lock_);
    const auto has_it = [&](const std::unique_ptr<Code>& other) { return other->kernel(made->name) != nullptr; };
    const auto only = std::find_if(codes_.begin(), codes_.end(), has_it);
    if (only != codes_.end() && std::none_of(std::next(only), codes_.end(), has_it)) code = only->get();
  }
  if (owner.owner) made->handle = owner.library ? Kernel::Handle::library_kernel : Kernel::Handle::function;
  find_parameters(*made, handle, owner.library);
  if (const ptx::InstrumentedKernel* instrumented = code ? code->kernel(made->name) : nullptr) {
    use_clone(*made, *code, *instrumented);
  }
  find_words(*made);
  std::lock_guard hold(lock_);
  if (!made->code) made->opaque_module = opaque(owner.owner);
  if (Kernel* by_another = known(handle, context)) return *by_another;
  if (!owners_.count(handle)) unowned_.push_back(handle);
  return *kernels_[handle].emplace_back(InContext{context, std::move(made)}).kernel;
}

void words_of(const Kernel& kernel, std::uint32_t blocks, std::span<const std::uint8_t> arguments,
              std::vector<std::uint64_t>& words) {
  words.clear();
  const std::size_t lists = kernel.lists ? kernel.parameters[0].bytes : 0;
  const auto tensors = lists && arguments.size() >= lists ? kernel.lists->used(arguments.data(), blocks) : std::nullopt;
  for (std::size_t at = 0; at + 8 <= arguments.size(); at += 8) {
    if (tensors && at < lists && !kernel.lists->is_address(at, *tensors)) continue;
    std::uint64_t word;
    std::memcpy(&word, arguments.data() + at, 8);
    const auto& all = kernel.parameters;
    words.push_back(
        Reach::marked(word, all.empty() || std::any_of(all.begin(), all.end(), [&](const Kernel::Parameter& parameter) {
                              return parameter.offset == at && parameter.bytes == 8;
                            })));
  }
}

} // namespace deadheat::cupti
