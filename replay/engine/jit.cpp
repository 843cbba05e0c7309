#include "replay/engine/jit.h"

#include <cstdlib>
#include <mutex>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/DeadStoreElimination.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/InductiveRangeCheckElimination.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimpleLoopUnswitch.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Vectorize/LoopVectorize.h>
#pragma GCC diagnostic pop

#include "replay/engine/image.h"

namespace deadheat::engine {

namespace {

// Where values may meet in very many blocks, making them registers takes longer than all the rest of quick compilation.
constexpr unsigned most_quick_passes = 100000; // instructions

std::string text(llvm::Error error) { return llvm::toString(std::move(error)); }

class OrcJit final : public Jit {
 public:
  Expected<void> start() {
    static std::once_flag once;
    std::call_once(once, [] {
      llvm::InitializeNativeTarget();
      llvm::InitializeNativeTargetAsmPrinter();
      // Range checks of kernels carry no profile; LLVM has no other way to say that they are worth it.
      auto& options = llvm::cl::getRegisteredOptions();
      if (auto found = options.find("irce-skip-profitability-checks"); found != options.end())
        static_cast<llvm::cl::opt<bool>*>(found->second)->setValue(true);
    });
    for (Effort effort : {Effort::full, Effort::minimal, Effort::loops}) {
      llvm::orc::JITTargetMachineBuilder builder{llvm::Triple("x86_64-unknown-linux-gnu")};
      builder.setCPU("x86-64-v3");
      builder.setCodeGenOptLevel(effort == Effort::minimal ? llvm::CodeGenOptLevel::None
                                                           : llvm::CodeGenOptLevel::Default);
      llvm::TargetOptions& options = builder.getOptions();
      options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
      options.UnsafeFPMath = false;
      auto machine = builder.createTargetMachine();
      if (!machine) return Error{.what = "no code generator for x86-64: " + text(machine.takeError())};
      (*machine)->setFastISel(effort == Effort::minimal);
      machines_.push_back(std::move(*machine));
    }
    llvm::orc::LLJITBuilder builder;
    llvm::orc::JITTargetMachineBuilder target{llvm::Triple("x86_64-unknown-linux-gnu")};
    target.setCPU("x86-64-v3");
    builder.setJITTargetMachineBuilder(target);
    auto jit = builder.create();
    if (!jit) return Error{.what = "cannot start the code generator: " + text(jit.takeError())};
    jit_ = std::move(*jit);
    return {};
  }

  void set_target(llvm::Module& module) override {
    module.setTargetTriple("x86_64-unknown-linux-gnu");
    module.setDataLayout(machines_[0]->createDataLayout());
  }

  Expected<std::string> compile(std::unique_ptr<llvm::LLVMContext> context, std::unique_ptr<llvm::Module> module,
                                Effort effort) override {
    const char* dump = std::getenv("DEADHEAT_DUMP_IR"); // for work on the code generator
    if (dump) module->print(llvm::errs(), nullptr);
#ifndef NDEBUG
    std::string broken;
    llvm::raw_string_ostream out(broken);
    if (llvm::verifyModule(*module, &out)) return Error{.what = "invalid code was generated: " + broken};
#endif
    optimize(*module, effort);
    if (dump) module->print(llvm::errs(), nullptr);
    llvm::orc::SimpleCompiler compiler(*machines_[std::size_t(effort)]);
    auto object = compiler(*module);
    if (!object) return Error{.what = "code generation failed: " + text(object.takeError())};
    module.reset();
    context.reset();
    return (*object)->getBuffer().str();
  }

  Expected<std::vector<void*>> link(std::string_view object, const std::vector<std::string>& names) override {
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()), "kernel");
    auto parsed = llvm::object::ObjectFile::createObjectFile(buffer->getMemBufferRef());
    if (!parsed) return Error{.what = text(parsed.takeError())};
    llvm::orc::SymbolMap host;
    for (const llvm::object::SymbolRef& symbol : (*parsed)->symbols()) {
      auto flags = symbol.getFlags();
      auto name = symbol.getName();
      if (!flags || !name) return Error{.what = text(!flags ? flags.takeError() : name.takeError())};
      if (!(*flags & llvm::object::SymbolRef::SF_Undefined)) continue;
      if (auto address = image_address(std::string_view(name->data(), name->size())))
        host[jit_->mangleAndIntern(*name)] = {llvm::orc::ExecutorAddr(*address), llvm::JITSymbolFlags::Exported};
    }
    // One dylib a compilation, so that names never clash.
    auto library = jit_->createJITDylib("unit" + std::to_string(++count_));
    if (!library) return Error{.what = text(library.takeError())};
    if (!host.empty())
      if (auto error = library->define(llvm::orc::absoluteSymbols(std::move(host))))
        return Error{.what = text(std::move(error))};
    if (auto error = jit_->addObjectFile(*library, std::move(buffer))) return Error{.what = text(std::move(error))};
    std::vector<void*> found;
    for (const std::string& name : names) {
      auto address = jit_->lookup(*library, name);
      if (!address) return Error{.what = text(address.takeError())};
      found.push_back(address->toPtr<void*>());
    }
    return found;
  }

 private:
  void optimize(llvm::Module& module, Effort effort) {
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager sccs;
    llvm::ModuleAnalysisManager modules;
    llvm::PassBuilder builder(machines_[std::size_t(effort)].get());
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);

    llvm::FunctionPassManager passes;
    passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    if (effort == Effort::minimal) {
      passes.addPass(llvm::EarlyCSEPass());
      passes.addPass(llvm::SimplifyCFGPass());
    } else {
      passes.addPass(llvm::EarlyCSEPass(true));
      passes.addPass(llvm::SimplifyCFGPass());
      if (effort == Effort::loops) { // before anything that sinks what the entry of the inlined function loads
        llvm::LoopPassManager first;
        first.addPass(llvm::LICMPass(llvm::LICMOptions()));
        passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(first), true));
      }
      passes.addPass(llvm::InstCombinePass(llvm::InstCombineOptions().setMaxIterations(1).setVerifyFixpoint(false)));
      llvm::LoopPassManager loop;
      loop.addPass(llvm::LICMPass(llvm::LICMOptions()));
      passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loop), true));
      if (effort == Effort::loops) {
        llvm::LoopPassManager unswitch;
        unswitch.addPass(llvm::SimpleLoopUnswitchPass(true));
        passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(unswitch), true));
        passes.addPass(llvm::SimplifyCFGPass());
      }
      passes.addPass(llvm::GVNPass(llvm::GVNOptions().setPRE(false).setLoadPRE(false)));
      passes.addPass(llvm::DSEPass());
      passes.addPass(llvm::InstCombinePass(llvm::InstCombineOptions().setMaxIterations(1).setVerifyFixpoint(false)));
      passes.addPass(llvm::SimplifyCFGPass(llvm::SimplifyCFGOptions().convertSwitchRangeToICmp(true)));
      if (effort == Effort::loops) {
        // "if (index < n)": one loop where it holds for every thread, another for the rest.
        passes.addPass(llvm::IRCEPass());
        passes.addPass(llvm::SimplifyCFGPass());
        llvm::LoopPassManager again;
        again.addPass(llvm::LICMPass(llvm::LICMOptions()));
        passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(again), true));
        passes.addPass(llvm::InstCombinePass(llvm::InstCombineOptions().setMaxIterations(1).setVerifyFixpoint(false)));
        passes.addPass(llvm::LoopVectorizePass());
        passes.addPass(llvm::InstCombinePass(llvm::InstCombineOptions().setMaxIterations(1).setVerifyFixpoint(false)));
        passes.addPass(llvm::EarlyCSEPass());
        llvm::LoopPassManager hoist;
        hoist.addPass(llvm::LICMPass(llvm::LICMOptions()));
        passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(hoist), true));
        passes.addPass(llvm::SimplifyCFGPass());
      }
    }
    for (llvm::Function& f : module)
      if (!f.isDeclaration() && (effort != Effort::minimal || f.getInstructionCount() < most_quick_passes))
        passes.run(f, functions);
  }

  std::vector<std::unique_ptr<llvm::TargetMachine>> machines_;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  unsigned count_ = 0;
};

} // namespace

Expected<std::unique_ptr<Jit>> Jit::create() {
  auto jit = std::make_unique<OrcJit>();
  auto started = jit->start();
  if (!started) return started.error();
  return std::unique_ptr<Jit>(std::move(jit));
}

} // namespace deadheat::engine
