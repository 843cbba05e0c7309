// How instrumented PTX becomes code that the driver loads in place of the program's: by ptxas where there is one
// (ptxas.h), else by the driver, in this process. Assembled before it is handed over, so that a failure costs nothing:
// the driver is then given the original.
#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "tracer/cupti/assembly_plan.h"
#include "tracer/cupti/libraries.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/relaxed.h"
#include "tracer/cupti/session.h"
#include "tracer/ptx/contractions.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::cupti {

namespace {

using How = Assembler::Result::How;

constexpr std::size_t parallel_from = std::size_t(1) << 20; // bytes of text: some seconds

// The driver's linker takes parts of programs. In a part, ptxas leaves out setmaxnreg (C7504) and has one wgmma wait
// for the other (C7509), in kernels that are not recorded as well: they would be slower than they are.
bool wants_whole_program(const std::string& text) {
  return text.find("setmaxnreg.") != std::string::npos || text.find("wgmma.") != std::string::npos;
}

// Loads the code, which assembles it, and unloads it again. What comes next assembles it once more, or finds it in the
// driver's cache.
CUresult try_to_load(const ptx::Instrumentation& code, unsigned count, CUjit_option* options, void** values) {
  CUmodule module = nullptr;
  CUresult result = driver().cuModuleLoadDataEx(&module, code.text.c_str(), count, options, values);
  if (result != CUDA_SUCCESS) return result;
  for (const ptx::InstrumentedKernel& kernel : code.kernels) { // where loading is lazy, it comes with the first
    CUfunction clone = nullptr;
    if (result == CUDA_SUCCESS) result = driver().cuModuleGetFunction(&clone, module, kernel.clone.c_str());
    if (result == CUDA_SUCCESS && driver().cuFuncLoad) result = driver().cuFuncLoad(clone);
  }
  driver().cuModuleUnload(module);
  return result;
}

// In this process. Why it does not assemble; empty: it does.
std::string assemble_by_driver(const ptx::Instrumentation& code, const JitOptions& jit, std::string& image) {
  char errors[4096] = {};
  // Never with CU_JIT_SPLIT_COMPILE: driver 580 aborts the process over large modules then.
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_GENERATE_LINE_INFO,
                            CU_JIT_MAX_REGISTERS};
  void* values[] = {errors, reinterpret_cast<void*>(std::uintptr_t(sizeof errors - 1)), reinterpret_cast<void*>(1),
                    reinterpret_cast<void*>(std::uintptr_t(jit.max_registers))};
  const unsigned count = jit.max_registers ? 4 : 3;
  const auto said = [&](CUresult result) {
    std::string why = errors;
    why.resize(std::min(why.find('\n'), why.size()));
    return why.empty() ? "error " + std::to_string(int(result)) : why;
  };
  if (wants_whole_program(code.text)) {
    const CUresult result = try_to_load(code, count, options, values);
    if (result != CUDA_SUCCESS) return said(result);
    image = code.text;
    return "";
  }
  CUlinkState link = nullptr;
  if (driver().cuLinkCreate_v2(count, options, values, &link) != CUDA_SUCCESS) return "the linker cannot be had";
  CUresult result = driver().cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, const_cast<char*>(code.text.c_str()),
                                              code.text.size() + 1, "deadheat", 0, nullptr, nullptr);
  void* cubin = nullptr;
  std::size_t bytes = 0;
  if (result == CUDA_SUCCESS) result = driver().cuLinkComplete(link, &cubin, &bytes);
  const bool assembled = result == CUDA_SUCCESS && bytes;
  if (assembled) image.assign(static_cast<const char*>(cubin), bytes);
  driver().cuLinkDestroy(link);
  return assembled ? "" : said(result);
}

// For looking at what was made: the file's name without its extension; empty where nobody wants it.
std::string keep(const std::string& text) {
  const char* folder = std::getenv("DEADHEAT_KEEP_PTX");
  if (!folder) return {};
  static std::atomic<int> number{0};
  std::string name = std::string(folder) + "/instrumented-" + std::to_string(++number);
  std::ofstream(name + ".ptx") << text;
  return name;
}

unsigned processors() {
  cpu_set_t set;
  const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  return count > 0 ? unsigned(count) : 1;
}

std::string rounded(double seconds) { return std::to_string(std::uint64_t(seconds + 0.5)) + " s"; }

// "a, b and 14 more"
std::string listed(const std::vector<std::string>& kernels) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(kernels.size(), 2); ++i) {
    text += (i ? ", " : "") + ptx::brief_name(kernels[i]);
  }
  return kernels.size() > 2 ? text + " and " + std::to_string(kernels.size() - 2) + " more" : text;
}

} // namespace

std::set<std::string> Modules::worthwhile(const ptx::Module& module, const ptx::SiteTable& sites,
                                          const std::string& origin, std::string& wait) {
  constexpr double worth_a_line = 10; // seconds
  std::vector<ptx::KernelSites> kernels = ptx::sites_of_kernels(module, sites);
  std::erase_if(kernels, [&](const ptx::KernelSites& kernel) { return !session_.recorder().asked_for(kernel.name); });
  AssemblyPlan plan = plan_assembly(std::move(kernels), processors(), double(session_.options().assemble));
  if (!plan.left_out.empty()) {
    left_opaque(origin + ": not recorded, since assembling their instrumented code would take some " +
                    rounded(plan.seconds_left_out) +
                    " (--assemble, or assemble=, SECONDS allows it): " + listed(plan.left_out),
                origin);
  }
  if (plan.seconds >= worth_a_line) {
    wait = origin + ": assembling the instrumented code of " + std::to_string(plan.kernels.size()) +
           " kernels takes some " + rounded(plan.seconds);
  }
  return std::move(plan.kernels);
}

// Kernels that would not compute what they compute alone, to the last bit.
void Modules::forgo_contracted(const ptx::Module& module, Code& code) {
  for (const std::string& function : ptx::contracted_differently(code.image)) {
    const std::set<std::string> kernels = ptx::kernels_that_reach(module, function);
    std::erase_if(code.instrumentation.kernels, [&](const ptx::InstrumentedKernel& kernel) {
      if (!kernels.count(kernel.name)) return false;
      left_opaque("kernel " + ptx::brief_name(kernel.name) +
                  " is not recorded: instrumented, other multiplications and additions of its are fused");
      return true;
    });
  }
}

// A module of one empty kernel, which stays: to unload it the driver would wait until the kernels that run have ended.
// So it may to load it.
std::optional<bool> Modules::driver_takes(const std::string& cubin) {
  CUcontext context = nullptr;
  if (!driver().cuModuleLoadData) return false;
  if (driver().cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context) return std::nullopt;
  session_.recorder().let_kernels_end(context, Unfinished::while_loading);
  CUmodule module = nullptr;
  return driver().cuModuleLoadData(&module, cubin.data()) == CUDA_SUCCESS;
}

Assembler::Result Modules::assemble_apart(const ptx::Module& module, const ptx::Instrumentation& code,
                                          const JitOptions& jit, int architecture, const std::string& wait) {
  const std::string kept = keep(code.text);
  if (jit.for_driver_only) return {};
  Assembler::Module asked{code.text, module.version, module.target, architecture, jit.ptxas, {}};
  for (const ptx::InstrumentedKernel& kernel : code.kernels) asked.functions.push_back(kernel.clone);
  asked.in_parallel = asked.functions.size() > 1 && code.text.size() > parallel_from;
  asked.begins = [&wait] {
    if (!wait.empty()) say_once(wait);
  };
  Assembler::Result result = assembler_.assemble(asked);
  if (!kept.empty() && !result.cubin.empty()) std::ofstream(kept + ".cubin", std::ios::binary) << result.cubin;
  return result;
}

// Successive votes may be more than ptxas can assemble (ptx::InstrumentOptions): the second way parts them.
std::string Modules::assemble(const ptx::Module& module, const ptx::SiteTable& sites,
                              const ptx::InstrumentOptions& options, const JitOptions& jit, int architecture,
                              const std::string& wait, Code& code) {
  const Relaxed relaxed; // the driver may be asked to load code
  std::optional<ptx::Instrumentation> parted;
  const auto part = [&] {
    ptx::InstrumentOptions parting = options;
    parting.part_votes = true;
    Expected<ptx::Instrumentation> made = ptx::instrument(module, sites, parting);
    if (made) parted = std::move(*made);
    return parted.has_value();
  };
  Assembler::Result apart = assemble_apart(module, code.instrumentation, jit, architecture, wait);
  if (apart.how == How::refused && part()) {
    apart = assemble_apart(module, *parted, jit, architecture, wait);
    if (apart.how == How::assembled) code.instrumentation = std::move(*parted);
  }
  if (apart.how == How::crashed) return apart.why;
  if (apart.how == How::assembled) {
    code.image = std::move(apart.cubin);
    code.apart = true;
    return "";
  }
  if (!wait.empty()) say_once(wait);
  const std::string why = assemble_by_driver(code.instrumentation, jit, code.image);
  if (why.empty() || !(parted || part())) return why;
  code.instrumentation = std::move(*parted);
  return assemble_by_driver(code.instrumentation, jit, code.image).empty() ? "" : why;
}

} // namespace deadheat::cupti
