#include "replay/engine/compiler.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "replay/engine/builder.h"
#include "replay/engine/footprint.h"
#include "replay/engine/image.h"
#include "replay/engine/jit.h"
#include "replay/engine/kernel_image.h"
#include "replay/engine/lower.h"
#include "replay/engine/region_code.h"
#include "replay/engine/region_plan.h"
#include "replay/engine/region_probe.h"

namespace deadheat::engine {

namespace {

// Function pointers are visible to programs, so they lie at the same addresses in every run.
class PointerArena {
 public:
  FunctionPointer* make() {
    if (used_ == capacity) return nullptr;
    if (!base_) {
      void* wanted = reinterpret_cast<void*>(0x2510'0000'0000ull);
      void* got = mmap(wanted, capacity * sizeof(FunctionPointer), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
      if (got == MAP_FAILED)
        got = mmap(nullptr, capacity * sizeof(FunctionPointer), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (got == MAP_FAILED) return nullptr;
      base_ = static_cast<FunctionPointer*>(got);
    }
    return new (base_ + used_++) FunctionPointer();
  }
  ~PointerArena() {
    if (base_) munmap(base_, capacity * sizeof(FunctionPointer));
  }

 private:
  static constexpr std::size_t capacity = 1 << 16;
  FunctionPointer* base_ = nullptr;
  std::size_t used_ = 0;
};

// How much code a function becomes, in PTX instructions: what watches an access multiplies it.
std::size_t work_of(const FunctionTables& f, Mode mode) {
  std::size_t sites = 0;
  for (std::uint32_t s : f.site) sites += s != no_site;
  std::size_t each = (mode.record ? 6u : 0u) + (mode.control ? 8u : 0u) + (mode.check ? 8u : 0u);
  return f.function->body.size() * (mode.precision ? 4 : 1) + sites * each;
}
struct Shared {  // of one Compiler and its modules
  explicit Shared(const CompilerOptions& o) : options(o), cache(o.cache) {}
  CompilerOptions options;
  ptx::CodeCache cache;
  std::unique_ptr<Jit> jit;
  PointerArena pointers;
};

class Loaded final : public LoadedModule {
 public:
  Loaded(std::shared_ptr<Shared> shared, std::string origin, std::function<std::uint64_t(std::string_view)> address_of)
      : shared_(std::move(shared)), origin_(std::move(origin)), address_of_(std::move(address_of)) {}

  void load(ptx::Module module) {
    fill_tables(tables_, std::move(module));
    for (std::uint32_t n = 0; n < tables_.functions.size(); ++n) {
      const ptx::Function& f = *tables_.functions[n].function;
      if (!f.entry || !f.has_body) continue;
      names_.push_back(f.name);
      auto& k = kernels_.emplace(f.name, kernel_tables(tables_, n)).first->second;
      if (!k.info.refused.empty()) refusals_.push_back("kernel " + f.name + ": " + k.info.refused);
    }
  }

  const ptx::Module& ptx() const override { return tables_.module; }
  const std::vector<Site>& sites() const override { return tables_.sites; }
  const KernelInfo* kernel(std::string_view name) const override {
    auto it = kernels_.find(name);
    return it == kernels_.end() ? nullptr : &it->second.info;
  }
  std::vector<std::string> kernel_names() const override { return names_; }
  const std::vector<std::string>& refusals() const override { return refusals_; }

  Expected<KernelCode*> compile(std::string_view name, Mode mode) override {
    auto it = kernels_.find(name);
    if (it == kernels_.end()) return Error{.what = "no kernel " + std::string(name), .where = origin_};
    KernelTables& kernel = it->second;
    if (!kernel.info.refused.empty())
      return Error{.what = "kernel " + kernel.info.name + ": " + kernel.info.refused, .where = origin_};
    auto key = std::make_pair(kernel.kernel, number(mode));
    if (auto found = compiled_.find(key); found != compiled_.end()) return found->second.get();

    if (shared_->options.translate_only) {
      if (auto made = build(kernel, mode, Effort::minimal); !made) return made.error();
      return static_cast<KernelCode*>(nullptr);
    }
    name_functions(kernel);
    std::size_t work = 0;
    for (std::uint32_t f : kernel.reached) work += work_of(tables_.functions[f], mode);
    const Effort most = work < shared_->options.full_effort ? Effort::full : Effort::minimal;
    const double quick_for = most == Effort::full ? double(work) * shared_->options.quick_for_work : 0;
    std::optional<KernelImage> image = find(kernel, mode, most);
    auto code = std::make_unique<KernelCode>();
    if (!image && quick_for > 0) {
      image = find(kernel, mode, Effort::minimal);
      code->quick_for = quick_for;
      code->improve = [this, &kernel, mode, code = code.get()] { improve(kernel, mode, *code); };
    }
    if (!image) {
      auto made = build(kernel, mode, code->improve ? Effort::minimal : most);
      if (!made) return made.error();
      image = std::move(*made);
    }
    if (auto linked = link(kernel, mode, *image, *code); !linked) return linked.error();
    return (compiled_[key] = std::move(code)).get();
  }

  const RegionCode* regions(std::string_view name, bool check) override {
    auto it = kernels_.find(name);
    if (!shared_->options.regions || it == kernels_.end() || !it->second.info.refused.empty()) return nullptr;
    auto [known, fresh] = regions_.emplace(std::make_pair(it->second.kernel, check), nullptr);
    if (fresh) known->second = compile_regions(it->second, check);
    return known->second.get();
  }

  const FootprintCode* footprint(std::string_view name) override {
    auto it = kernels_.find(name);
    if (it == kernels_.end() || !it->second.info.refused.empty()) return nullptr;
    auto [known, fresh] = footprints_.emplace(it->second.kernel, nullptr);
    if (fresh) known->second = compile_footprint(it->second);
    return known->second.get();
  }

  std::vector<std::uint8_t> initial_bytes(const ptx::Variable& v) override {
    std::vector<std::uint8_t> bytes(v.size, 0);
    std::copy(v.initializer.begin(),
              v.initializer.begin() + std::ptrdiff_t(std::min(v.initializer.size(), bytes.size())), bytes.begin());
    for (const auto& r : v.relocations) {
      std::uint64_t value = std::uint64_t(r.addend);
      auto f = tables_.by_name.find(r.symbol);
      if (!tables_.module.variable(r.symbol) && f != tables_.by_name.end())
        value += reinterpret_cast<std::uint64_t>(pointer_to(f->second));
      else
        value += address_of_(r.symbol);
      value >>= r.mask_shift;
      if (r.bytes <= 8 && r.offset + r.bytes <= bytes.size()) std::memcpy(bytes.data() + r.offset, &value, r.bytes);
    }
    return bytes;
  }

 private:
  Unit unit_for(const KernelTables& kernel, Mode mode, llvm::Module& module) {
    shared_->jit->set_target(module);
    return Unit{.tables = tables_,
                .kernel = kernel,
                .mode = mode,
                .stops = stopping_functions(tables_, mode),
                .module = module,
                .address_of = address_of_,
                .pointer_to = [this](std::uint32_t f) { return pointer_to(f); },
                .frame_bytes = {},
                .params_offset = {},
                .cleared_bytes = {},
                .saves_threshold = shared_->options.saves_in_frame};
  }

  std::string key_of(const KernelTables& kernel, Mode mode, Effort effort) {
    return key_of(kernel, "mode " + std::to_string(number(mode)) + (effort == Effort::minimal ? " quick" : ""));
  }

  // What the cache has.
  std::optional<KernelImage> find(const KernelTables& kernel, Mode mode, Effort effort) {
    KernelImage image;
    auto kept = shared_->cache.find(key_of(kernel, mode, effort));
    if (!kept || !read(*kept, image) || image.frame_bytes.size() != kernel.reached.size()) return std::nullopt;
    return image;
  }

  Expected<void> link(const KernelTables& kernel, Mode mode, const KernelImage& image, KernelCode& code) {
    std::vector<std::string> names;
    for (std::uint32_t f : kernel.reached) names.push_back(tables_.functions[f].function->name);
    auto added = shared_->jit->link(image.object, names);
    if (!added) return Error{.what = "kernel " + kernel.info.name + ": " + added.error().what, .where = origin_};
    for (std::size_t n = 0; n < kernel.reached.size(); ++n) {
      const FunctionDescriptor d{reinterpret_cast<EntryPoint>((*added)[n]), image.frame_bytes[n],
                                 image.params_offset[n], image.cleared_bytes[n]};
      if (n == 0)
        static_cast<FunctionDescriptor&>(code) = d;
      else if (auto p = pointers_.find(kernel.reached[n]); p != pointers_.end())
        p->second->by_mode[number(mode)] = d;
    }
    return {};
  }

  // The best code in place of that which was compiled quickly, which stays where this fails.
  void improve(KernelTables& kernel, Mode mode, KernelCode& code) {
    const std::uint32_t frame_bytes = code.frame_bytes;
    std::optional<KernelImage> better = find(kernel, mode, Effort::full); // of another process by now
    if (!better)
      if (auto made = build(kernel, mode, Effort::full)) better = std::move(*made);
    if (better) (void)link(kernel, mode, *better, code);
    DEADHEAT_CHECK(code.frame_bytes == frame_bytes);
  }

  // Functions whose address the code may hold get theirs in an order that does not depend on what is compiled.
  void name_functions(const KernelTables& kernel) {
    for (std::uint32_t f : kernel.reached)
      for (std::uint32_t taken : tables_.functions[f].taken) pointer_to(taken);
  }

  // All that the code depends on.
  std::string key_of(const KernelTables& kernel, std::string_view what) {
    if (!shared_->cache.enabled() || image_identity().empty()) return {};
    std::string key = image_identity();
    auto add = [&](std::string_view text) {
      key += text;
      key += '\0';
    };
    add(LLVM_VERSION_STRING);
    add(what);
    add(kernel.info.name);
    add(std::to_string(shared_->options.full_effort) + " " + std::to_string(shared_->options.saves_in_frame));
    for (const ptx::Variable& v : tables_.module.variables)
      if (v.space != Space::shared) add(v.name + " " + std::to_string(address_of_(v.name)));
    for (const auto& [function, pointer] : pointers_)
      add(std::to_string(function) + " " + std::to_string(reinterpret_cast<std::uint64_t>(pointer)));
    for (std::uint32_t f : kernel.reached) {
      const auto& sites = tables_.functions[f].site;
      const auto first = std::find_if(sites.begin(), sites.end(), [](std::uint32_t s) { return s != no_site; });
      add(std::to_string(f) + " " +
          std::to_string(first == sites.end() ? no_site : *first));  // those that follow count on
    }
    add_text(kernel, key);
    return key;
  }

  // The module's text without the bodies of functions that the kernel does not reach: who changes one kernel of many
  // waits for that one.
  void add_text(const KernelTables& kernel, std::string& key) const {
    const std::string& text = *tables_.module.text;
    const std::set<std::uint32_t> reached(kernel.reached.begin(), kernel.reached.end());
    const auto place = [&](const std::vector<ptx::Token>& tokens, bool last) -> std::size_t {
      if (tokens.empty()) return std::string::npos;
      const char* at = last ? tokens.back().text.data() : tokens.front().text.data();
      return std::less_equal<>()(text.data(), at) && std::less<>()(at, text.data() + text.size())
                 ? std::size_t(at - text.data())
                 : std::string::npos;
    };
    std::size_t from = 0;
    for (std::uint32_t n = 0; n < tables_.functions.size(); ++n) {
      const ptx::Function& f = *tables_.functions[n].function;
      if (!f.has_body || reached.contains(n)) continue;
      const std::size_t opens = place(f.head, true), closes = place(f.tail, false);
      if (opens == std::string::npos || closes == std::string::npos || opens < from || closes < opens) continue;
      key.append(text, from, opens - from);
      from = closes;
    }
    key.append(text, from);
  }

  Expected<KernelImage> build(KernelTables& kernel, Mode mode, Effort effort) {
    auto context = std::make_unique<llvm::LLVMContext>();
    auto module = std::make_unique<llvm::Module>("kernel", *context);
    Unit unit = unit_for(kernel, mode, *module);
    for (std::uint32_t f : kernel.reached) {
      Builder builder(unit, f);
      std::string refused = builder.build();
      if (refused.empty()) continue;
      kernel.info.refused = refused;
      refusals_.push_back("kernel " + kernel.info.name + ": " + refused);
      return Error{.what = refusals_.back(), .where = origin_};
    }
    if (shared_->options.translate_only) return KernelImage{};
    // Frame sizes are known now.
    KernelImage image;
    for (std::uint32_t f : kernel.reached) {
      image.frame_bytes.push_back(unit.frame_bytes[f]);
      image.params_offset.push_back(unit.params_offset[f]);
      image.cleared_bytes.push_back(unit.cleared_bytes[f]);
      if (llvm::GlobalVariable* bytes = module->getGlobalVariable(frame_bytes_name(f), true)) {
        bytes->setInitializer(llvm::ConstantInt::get(llvm::Type::getInt32Ty(*context), unit.frame_bytes[f]));
        bytes->setConstant(true);
      }
    }
    auto object = shared_->jit->compile(std::move(context), std::move(module), effort);
    if (!object) return Error{.what = "kernel " + kernel.info.name + ": " + object.error().what, .where = origin_};
    image.object = std::move(*object);
    shared_->cache.keep(key_of(kernel, mode, effort), write(image));
    return image;
  }

  std::optional<RegionImage> build_region_image(const KernelTables& kernel, const RegionPlan& plan, bool check) {
    auto context = std::make_unique<llvm::LLVMContext>();
    auto module = std::make_unique<llvm::Module>("regions", *context);
    Unit unit = unit_for(kernel, Mode{.check = check}, *module);
    std::optional<RegionCode> code = build_regions(unit, plan);
    if (!code) return std::nullopt;
    auto object = shared_->jit->compile(std::move(context), std::move(module), Effort::loops);
    if (!object) return std::nullopt;
    return RegionImage{std::move(*code), std::move(*object)};
  }

  std::unique_ptr<RegionCode> compile_regions(const KernelTables& kernel, bool check) {
    std::optional<RegionPlan> plan = plan_regions(tables_, kernel);
    if (!plan) return nullptr;
    name_functions(kernel);
    const std::string key = key_of(kernel, check ? "regions, checked" : "regions");
    RegionImage image;
    auto kept = shared_->cache.find(key);
    if (!kept || !read(*kept, image) || image.code.stops.size() != plan->stops.size()) {
      std::optional<RegionImage> made = build_region_image(kernel, *plan, check);
      if (!made) return nullptr;
      image = std::move(*made);
      shared_->cache.keep(key, write(image));
    }
    RegionCode& code = image.code;
    std::vector<std::string> names{kernel.info.name};
    for (std::size_t n = 0; n <= code.stops.size(); ++n) names.push_back(fast_name(n));
    for (std::size_t n = 0; check && n <= code.stops.size(); ++n) names.push_back(probe_name(n));
    auto added = shared_->jit->link(image.object, names);
    if (!added) return nullptr;  // a thread at a time then
    code.slow = reinterpret_cast<RegionSlow>(added->front());
    const std::size_t resumes = code.stops.size() + 1;
    for (std::size_t n = 1; n <= resumes; ++n) code.fast.push_back(reinterpret_cast<RegionFast>((*added)[n]));
    for (std::size_t n = resumes + 1; n < added->size(); ++n)
      code.probes.push_back(reinterpret_cast<RegionProbe>((*added)[n]));
    return std::make_unique<RegionCode>(std::move(code));
  }

  // Probes of a whole kernel, in this order.
  std::optional<std::pair<std::vector<RegionRange>, std::vector<RegionProbe>>> compile_probes(
      const KernelTables& kernel, const FootprintSlice& slice, const char* name, const std::vector<ProbeKind>& kinds) {
    name_functions(kernel);
    const std::string key = key_of(kernel, name);
    RegionImage image;
    auto kept = shared_->cache.find(key);
    if (!kept || !read(*kept, image)) {
      auto context = std::make_unique<llvm::LLVMContext>();
      auto module = std::make_unique<llvm::Module>(name, *context);
      Unit unit = unit_for(kernel, Mode{.check = true}, *module);
      std::optional<std::vector<RegionRange>> ranges = build_footprint(unit, slice, kinds);
      if (!ranges) return std::nullopt;
      auto object = shared_->jit->compile(std::move(context), std::move(module), Effort::loops);
      if (!object) return std::nullopt;
      image.code.ranges = std::move(*ranges);
      image.object = std::move(*object);
      shared_->cache.keep(key, write(image));
    }
    std::vector<std::string> names;
    for (std::size_t n = 0; n < kinds.size(); ++n) names.push_back(probe_name(n));
    auto added = shared_->jit->link(image.object, names);
    if (!added) return std::nullopt;
    std::vector<RegionProbe> probes;
    for (auto at : *added) probes.push_back(reinterpret_cast<RegionProbe>(at));
    return std::make_pair(std::move(image.code.ranges), std::move(probes));
  }

  std::unique_ptr<FootprintCode> compile_footprint(const KernelTables& kernel) {
    std::optional<FootprintSlice> slice = footprint_slice(tables_, kernel);
    if (!slice) return nullptr;
    auto bounds = compile_probes(kernel, *slice, "footprint", {ProbeKind::bounds});
    if (!bounds) return nullptr;
    FootprintCode code{bounds->second[0], std::move(bounds->first), slice->lasting, {}};
    code.interleaved = [this, &kernel, slice = std::move(*slice), ranges = code.ranges.size(),
                        made = std::optional<InterleavedProbes>()]() mutable -> const InterleavedProbes* {
      if (!made) {
        made.emplace();
        auto probes = compile_probes(kernel, slice, "interleaved", {ProbeKind::residues, ProbeKind::list});
        if (probes && probes->first.size() == ranges) *made = {probes->second[0], probes->second[1]};
      }
      return made->residues ? &*made : nullptr;
    };
    return std::make_unique<FootprintCode>(std::move(code));
  }

  FunctionPointer* pointer_to(std::uint32_t function) {
    auto [it, fresh] = pointers_.emplace(function, nullptr);
    if (fresh) it->second = shared_->pointers.make();
    DEADHEAT_CHECK(it->second);
    return it->second;
  }

  std::shared_ptr<Shared> shared_;
  std::string origin_;
  std::function<std::uint64_t(std::string_view)> address_of_;
  ModuleTables tables_;
  std::map<std::string, KernelTables, std::less<>> kernels_;
  std::vector<std::string> names_, refusals_;
  std::map<std::pair<std::uint32_t, unsigned>, std::unique_ptr<KernelCode>> compiled_;
  std::map<std::pair<std::uint32_t, bool>, std::unique_ptr<RegionCode>> regions_;  // by kernel and check; null: none
  std::map<std::uint32_t, std::unique_ptr<FootprintCode>> footprints_; // by kernel; null: none
  std::map<std::uint32_t, FunctionPointer*> pointers_;
};

class JitCompiler final : public Compiler {
 public:
  explicit JitCompiler(CompilerOptions options) : options_(options) {}
  Expected<std::unique_ptr<LoadedModule>> load(ptx::Module module, std::string origin,
                                               std::function<std::uint64_t(std::string_view)> address_of) override {
    if (!shared_) {
      auto jit = Jit::create();
      if (!jit) return jit.error();
      shared_ = std::make_shared<Shared>(options_);
      shared_->jit = std::move(*jit);
    }
    if (module.address_size != 64)
      return Error{.what = "32-bit PTX is not supported", .where = std::move(origin), .hint = "compile for 64 bits"};
    auto loaded = std::make_unique<Loaded>(shared_, std::move(origin), std::move(address_of));
    loaded->load(std::move(module));
    return std::unique_ptr<LoadedModule>(std::move(loaded));
  }

 private:
  CompilerOptions options_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace

std::unique_ptr<Compiler> make_compiler(CompilerOptions options) { return std::make_unique<JitCompiler>(options); }

}  // namespace deadheat::engine
