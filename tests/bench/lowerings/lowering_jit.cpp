// Passes and code generation, as replay/engine/jit.cpp has them, and LLVM's own pipelines.
#include "lowering.h"

#include <cstdio>
#include <cstdlib>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#pragma GCC diagnostic pop

namespace lowering {

namespace {

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "lowering_bench: %s\n", why.c_str());
  std::exit(1);
}

template <typename T>
T take(llvm::Expected<T> value) {
  if (!value) fail(llvm::toString(value.takeError()));
  return std::move(*value);
}

llvm::orc::JITTargetMachineBuilder target(Effort effort) {
  llvm::orc::JITTargetMachineBuilder builder{llvm::Triple("x86_64-unknown-linux-gnu")};
  builder.setCPU("x86-64-v3");
  builder.setCodeGenOptLevel(effort == Effort::quick ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default);
  builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return builder;
}

constexpr const char* quick_list = "sroa<modify-cfg>,early-cse,simplifycfg";
constexpr const char* brief_list =
    "sroa<modify-cfg>,early-cse<memssa>,simplifycfg,instcombine<max-iterations=1;no-verify-fixpoint>,"
    "loop-mssa(licm<allowspeculation>),gvn<no-pre;no-load-pre>,dse,instcombine<max-iterations=1;no-verify-fixpoint>,"
    "simplifycfg<switch-range-to-icmp>";

void optimize(llvm::Module& module, Way way, Effort effort, llvm::TargetMachine* machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::ModulePassManager passes;
  if (effort == Effort::o1 || effort == Effort::o2) {
    auto level = effort == Effort::o1 ? llvm::OptimizationLevel::O1 : llvm::OptimizationLevel::O2;
    passes = builder.buildPerModuleDefaultPipeline(level);
  } else {
    std::string list = effort == Effort::quick ? quick_list : brief_list;
    std::string text = "function(" + list + ")";
    if (way == Way::coroutine)  // values must be out of memory before the split, or all of them go to the frame
      text = "coro-early,function(sroa<modify-cfg>,early-cse,simplifycfg),cgscc(coro-split),coro-cleanup," + text;
    if (auto error = builder.parsePassPipeline(passes, text)) fail(llvm::toString(std::move(error)));
  }
  passes.run(module, modules);
}

}  // namespace

Code compile(Unit unit, Way way, Effort effort, bool link) {
  static const bool initialized = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)initialized;
  auto machine = take(target(effort).createTargetMachine());
  if (effort == Effort::quick) machine->setFastISel(true);
  unit.module->setTargetTriple("x86_64-unknown-linux-gnu");
  unit.module->setDataLayout(machine->createDataLayout());
  if (link) {
    std::string broken;
    llvm::raw_string_ostream out(broken);
    if (llvm::verifyModule(*unit.module, &out)) fail("invalid code was generated: " + broken);
  }
  optimize(*unit.module, way, effort, machine.get());
  llvm::orc::SimpleCompiler compiler(*machine);
  auto object = take(compiler(*unit.module));
  Code code{.object_bytes = object->getBufferSize()};
  if (!link) return code;
  static auto jit = take(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(target(Effort::brief)).create());
  static unsigned count = 0;
  auto library = jit->createJITDylib("unit" + std::to_string(++count));
  if (!library) fail(llvm::toString(library.takeError()));
  if (auto error = jit->addObjectFile(*library, std::move(object))) fail(llvm::toString(std::move(error)));
  code.kernel = take(jit->lookup(*library, "kernel")).toPtr<void*>();
  code.nest = take(jit->lookup(*library, "nest")).toPtr<void*>();
  return code;
}

}  // namespace lowering
