#include "tracer/cupti/modules.h"

#include <algorithm>
#include <utility>

#include "tracer/cupti/hot.h"
#include "tracer/cupti/images.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/relaxed.h"
#include "tracer/cupti/session.h"
#include "tracer/ptx/demangle.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/sites.h"

namespace deadheat::cupti {

const ptx::InstrumentedKernel* Code::kernel(const std::string& name) const {
  for (const ptx::InstrumentedKernel& k : instrumentation.kernels) {
    if (k.name == name || k.clone == name) return &k;
  }
  return nullptr;
}

namespace {

// What assembling takes is estimated.
std::chrono::seconds give_up_after(std::uint64_t allowed) {
  return allowed ? std::chrono::seconds(5 * std::max<std::uint64_t>(allowed, 12)) : std::chrono::hours(1);
}

// cuFFT's PTX, by the variables that lead to its tables: cuFFT 12 asks the driver, in a way that CUPTI does not tell
// of, for the one kernel of a module, and where that has two it takes another algorithm, whose results differ in the
// last bits.
bool counts_its_functions(const ptx::Module& module) {
  const auto has = [&](const char* name) {
    return std::any_of(module.variables.begin(), module.variables.end(),
                       [&](const ptx::Variable& variable) { return variable.name == name; });
  };
  return has("lut_sp") && has("lut_dp");
}

} // namespace

Modules::Modules(Session& session)
    : session_(session),
      assembler_([this](const std::string& cubin) { return driver_takes(cubin); },
                 give_up_after(session.options().assemble), ptx::CodeCache(ptx::code_cache_directory())) {}

void Modules::left_opaque(const std::string& line, std::string_view origin) {
  if (!is_of_cuda_library(origin)) say_once(line);
  session_.incident("opaque", line);
}

std::unique_ptr<Code> Modules::prepare(std::string text, const std::string& origin, const JitOptions& jit,
                                       int architecture) {
  auto code = std::make_unique<Code>();
  code->origin = origin;
  Expected<ptx::Module> module = ptx::parse(text, origin);
  if (!module) {
    say_once("PTX is not understood, its kernels are opaque: " + module.error().message());
    return nullptr;
  }
  if (counts_its_functions(*module)) {
    session_.incident("opaque", "cuFFT wants a module to have one kernel: its modules are left as they are");
    return nullptr;
  }
  const ptx::SiteTable table = ptx::site_table(*module);
  std::string wait;
  const std::set<std::string> kernels = worthwhile(*module, table, origin, wait);
  if (kernels.empty()) return nullptr;
  const ptx::InstrumentOptions options{.kernels = &kernels};
  Expected<ptx::Instrumentation> made = ptx::instrument(*module, table, options);
  if (!made) {  // old PTX of some library: the trace says so
    session_.incident("opaque", "PTX cannot be instrumented: " + made.error().message());
    return nullptr;
  }
  code->instrumentation = std::move(*made);
  code->sites = table.sites;
  for (const std::string& note : code->instrumentation.notes) left_opaque(note);
  for (const ptx::InstrumentedKernel& kernel : code->instrumentation.kernels) {
    if (!kernel.left_out) continue;
    const std::string line = "kernel " + ptx::brief_name(kernel.name) + ": the accesses of " +
                             std::to_string(kernel.left_out) +
                             (kernel.left_out == 1 ? " instruction is" : " instructions are") +
                             " not recorded (wgmma and tcgen05, tensor maps, forms of textures, "
                             "asynchronous stores, calls by address)";
    say_once(line);
    session_.incident("left-out", line);
  }
  if (code->instrumentation.kernels.empty()) return nullptr;
  if (const std::string why = assemble(*module, table, options, jit, architecture, wait, *code); !why.empty()) {
    left_opaque(origin + ": instrumented PTX does not assemble, its kernels are opaque: " + why, origin);
    return nullptr;
  }
  std::string().swap(code->instrumentation.text);
  forgo_contracted(*module, *code);
  if (code->instrumentation.kernels.empty()) return nullptr;
  trace::Module record;
  {
    std::lock_guard hold(lock_);
    record.id = code->module = next_module_++;
  }
  record.image = session_.writer().add_blob({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  record.origin = origin;
  record.sites = code->sites;
  session_.journal().push(std::move(record));
  return code;
}

namespace {

int architecture_of(CUdevice device) { // 90
  int major = 0, minor = 0;
  driver().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  driver().cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  return major * 10 + minor;
}

int current_architecture() { // 0: no context is current
  CUdevice device = 0;
  CUcontext context = nullptr;
  if (driver().cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context) return 0;
  return driver().cuCtxGetDevice(&device) == CUDA_SUCCESS ? architecture_of(device) : 0;
}

bool devices_are_alike() {
  const Driver& d = driver();
  int count = 0;
  if (!d.cuDeviceGetCount || !d.cuDeviceGet || d.cuDeviceGetCount(&count) != CUDA_SUCCESS) return true;
  std::set<int> architectures;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    if (d.cuDeviceGet(&device, i) == CUDA_SUCCESS) architectures.insert(architecture_of(device));
  }
  return architectures.size() < 2;
}

} // namespace

// Instrumented code is for one architecture. A module is one context's; a library serves every device, and would lack
// what it has for the others.
bool Modules::can_replace(const void* what, bool anywhere) {
  if (!what || !session_.options().accesses) return false;
  if (!anywhere || devices_are_alike()) return true;
  left_opaque(
      "kernels of libraries are not recorded where a process sees GPUs of several architectures "
      "(CUDA_VISIBLE_DEVICES can leave one)");
  return false;
}

Code* Modules::replacement(const void* image, const JitOptions& jit, bool anywhere) {
  const int architecture = can_replace(image, anywhere) ? current_architecture() : 0;
  return architecture ? made_of(device_code(image, architecture), jit, architecture) : nullptr;
}

Code* Modules::replacement_of_file(const char* path, const JitOptions& jit, bool anywhere) {
  const int architecture = can_replace(path, anywhere) ? current_architecture() : 0;
  return architecture ? made_of(device_code_of_file(path, architecture), jit, architecture) : nullptr;
}

Code* Modules::made_of(Expected<DeviceCode> found, JitOptions jit, int architecture) {
  if (!found) {
    left_opaque("kernels are not recorded, " + found.error().message(), found.error().where);
    return nullptr;
  }
  if (found->text.empty()) return nullptr;
  limit_registers(jit, found->max_registers);
  std::unique_ptr<Code> code = prepare(std::move(found->text), found->origin, jit, architecture);
  if (!code) return nullptr;
  std::lock_guard hold(lock_);
  codes_.push_back(std::move(code));
  return codes_.back().get();
}

// Of whoever assembled it nothing is wrong where there was no memory for it.
void Modules::not_loaded(Code& code, CUresult why) {
  const bool distrust = code.apart && why != CUDA_ERROR_OUT_OF_MEMORY;
  if (distrust) assembler_.distrust();
  left_opaque(code.origin + ": the driver did not load its instrumented code (error " + std::to_string(int(why)) +
              "), but the program's own: its kernels are opaque" +
              (distrust ? "; from now on the driver assembles such code itself" : ""));
  std::string().swap(code.image);
}

CUresult Modules::loaded(CUlibrary library, Code* code) {
  {
    std::lock_guard hold(lock_);
    code->library = library;
    by_handle_[library] = code;
  }
  return load_what_it_has(*code);
}

CUresult Modules::loaded(CUmodule module, Code* code) {
  {
    std::lock_guard hold(lock_);
    code->handle = module;
    by_handle_[module] = code;
  }
  return load_what_it_has(*code);
}

CUresult Modules::load_what_it_has(Code& code) {
  const Relaxed relaxed; // a library may be loaded, when it is needed first, while a stream is captured
  const CUresult result = load_kernels(code);
  if (result == CUDA_SUCCESS) find_symbols(code);
  return result;
}

void Modules::forget(CUfunction handle) {
  const auto found = kernels_.find(handle);
  if (found == kernels_.end()) return;
  for (InContext& of : found->second) retired_.push_back(std::move(of.kernel));
  kernels_.erase(found);
  hot.known_kernels.fetch_add(1, std::memory_order_release);
}

void Modules::unloaded(const void* handle) {
  {
    std::lock_guard hold(session_.lock);
    if (auto symbols = symbols_.extract(handle)) session_.freed_symbols(symbols.mapped());
  }
  std::lock_guard hold(lock_);
  if (const auto code = by_handle_.extract(handle)) unloading_[handle] = code.mapped();
  opaque_.erase(handle);
  if (const auto its = owned_.extract(handle)) {
    for (const CUfunction function : its.mapped()) {
      const auto owner = owners_.find(function);
      if (owner == owners_.end() || owner->second.owner != handle) continue; // another's by now
      owners_.erase(owner);
      forget(function);
    }
  }
  for (const CUfunction function : std::exchange(unowned_, {})) { // they may have been its
    if (!owners_.count(function)) forget(function);
  }
}

void Modules::not_needed(const void* handle, bool any_more) {
  std::lock_guard hold(lock_);
  const auto code = unloading_.extract(handle);
  if (code && !any_more) std::string().swap(code.mapped()->image);
}

void Modules::context_gone(CUcontext context) {
  std::lock_guard hold(lock_);
  for (const std::unique_ptr<Code>& code : codes_) std::erase(code->loaded_in, context);
  for (auto& [handle, all] : kernels_) {
    std::erase_if(all, [&](InContext& of) {
      if (of.context != context) return false;
      retired_.push_back(std::move(of.kernel));
      return true;
    });
  }
  hot.known_kernels.fetch_add(1, std::memory_order_release);
}

void Modules::owned(CUfunction function, Owner owner) {
  Owner& known = owners_[function];
  if (known.owner != owner.owner) {
    owned_[owner.owner].push_back(function);
    forget(function);
  }
  known = owner;
}

void Modules::found(const void* function, const void* owner, bool library) {
  std::lock_guard hold(lock_);
  owned(static_cast<CUfunction>(const_cast<void*>(function)), {owner, library});
}

void Modules::same(const void* function, const void* kernel) {
  std::lock_guard hold(lock_);
  auto at = owners_.find(static_cast<CUfunction>(const_cast<void*>(kernel)));
  if (at != owners_.end()) owned(static_cast<CUfunction>(const_cast<void*>(function)), {at->second.owner, false});
}

std::uint32_t Modules::opaque(const void* owner) {
  std::uint32_t& id = opaque_[owner];
  if (!id) {
    id = next_module_++;
    trace::Module record;
    record.id = id;
    record.kind = trace::Module::Kind::cubin;
    record.origin = "machine code";
    session_.journal().push(std::move(record));
  }
  return id;
}

// Kernels and clones, which the driver would load when they are needed first, and then perhaps wait until the kernels
// that run have ended (CUDA Programming Guide, "Lazy Loading").
CUresult Modules::load_kernels(Code& code) {
  CUcontext context = nullptr;
  if (!driver().cuFuncLoad || driver().cuCtxGetCurrent(&context) != CUDA_SUCCESS) return CUDA_SUCCESS;
  session_.recorder().let_kernels_end(context, Unfinished::while_loading);
  const void* owner = code.library ? static_cast<const void*>(code.library) : code.handle;
  const auto load = [&](const std::string& name) {
    CUfunction function = nullptr;
    CUkernel kernel = nullptr;
    CUresult result = CUDA_SUCCESS;
    if (code.library) {
      result = driver().cuLibraryGetKernel(&kernel, code.library, name.c_str());
      if (result == CUDA_SUCCESS) result = driver().cuKernelGetFunction(&function, kernel);
    } else {
      result = driver().cuModuleGetFunction(&function, code.handle, name.c_str());
    }
    if (result == CUDA_SUCCESS) result = driver().cuFuncLoad(function);
    if (result != CUDA_SUCCESS) return result;
    // Nodes of graphs have the clones' handles, and other modules may have their names.
    if (kernel) found(kernel, owner, true);
    found(function, owner, false);
    return result;
  };
  std::vector<ptx::InstrumentedKernel>& kernels = code.instrumentation.kernels;
  for (const ptx::InstrumentedKernel& made : kernels) {
    if (const CUresult result = load(made.name); result != CUDA_SUCCESS) return result;
  }
  std::erase_if(kernels, [&](const ptx::InstrumentedKernel& made) {
    const CUresult result = load(made.clone);
    if (result == CUDA_SUCCESS) return false;
    left_opaque("kernel " + ptx::brief_name(made.name) +
                " is not recorded: the driver did not load it instrumented (error " + std::to_string(int(result)) +
                ")");
    return true;
  });
  std::lock_guard hold(lock_);
  code.loaded_in.push_back(context);
  return CUDA_SUCCESS;
}

// The module's variables are memory that kernels touch.
void Modules::find_symbols(Code& code) {
  for (const std::string& name : code.instrumentation.variables) {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    const CUresult result = code.library ? driver().cuLibraryGetGlobal(&address, &bytes, code.library, name.c_str())
                                         : driver().cuModuleGetGlobal_v2(&address, &bytes, code.handle, name.c_str());
    if (result != CUDA_SUCCESS || !address || !bytes) continue;
    std::lock_guard hold(session_.lock);
    const void* owner = code.library ? static_cast<const void*>(code.library) : code.handle;
    const trace::Allocate& memory = symbol(owner, address, bytes, name);
    session_.journal().push(trace::Symbol{code.module, name, memory.allocation});
  }
}

const trace::Allocate& Modules::symbol(const void* owner, std::uint64_t address, std::uint64_t bytes,
                                       const std::string& name) {
  if (!session_.allocation_at(address)) {
    session_.allocated(trace::Allocate::Kind::symbol, address, bytes, 0, 0, name);
    symbols_[owner].push_back(session_.allocation_at(address)->allocation);
  }
  return *session_.allocation_at(address);
}

} // namespace deadheat::cupti
