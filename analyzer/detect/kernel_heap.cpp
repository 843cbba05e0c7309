#include "analyzer/detect/kernel_heap.h"

#include <algorithm>
#include <utility>

#include "tracer/ptx/parse.h"
#include "tracer/ptx/rewrite.h"

namespace deadheat::detect {

namespace {

constexpr std::string_view aligned_malloc = "__nv_aligned_device_malloc"; // its result is given to free, too

bool in_no_allocation(const FoundRace& race) { return race.level != RaceLevel::shared && !race.allocation; }

// ".extern .func free": the declaration that a call of it needs (PTX ISA, 5.6).
bool calls_free(const std::string& ptx) {
  constexpr std::string_view declared = ".func free";
  for (std::size_t at = ptx.find(declared); at != std::string::npos; at = ptx.find(declared, at + 1)) {
    const char next = at + declared.size() < ptx.size() ? ptx[at + declared.size()] : '\0';
    if (next == '(' || next == ' ' || next == '\n') return true;
  }
  return false;
}

// May some call of malloc or free not be recorded? Through addresses the original functions are called, which record
// nothing; and older traces have no such records at all.
bool may_be_unseen(const trace::Module& module, const std::string& text) {
  if (std::none_of(module.sites.begin(), module.sites.end(), [](const Site& s) { return s.kind == SiteKind::heap; }))
    return true;
  const Expected<ptx::Module> parsed = ptx::parse(text, module.origin);
  if (!parsed) return true;
  bool unseen = false;
  for (const ptx::Function& function : parsed->functions) {
    if (!function.has_body) continue;
    ptx::each_instruction(function, [&](std::size_t, const ptx::Instruction& i) {
      if (i.opcode == ptx::Opcode::call) unseen |= ptx::callee(i).empty() || ptx::callee(i) == aligned_malloc;
    });
  }
  return unseen;
}

} // namespace

KernelHeap::KernelHeap(const Detector& detector, const std::vector<FoundRace>& races, ModuleText text)
    : detector_(detector), races_(races), text_(std::move(text)) {
  for (const FoundRace& race : races)
    if (in_no_allocation(race)) modules_.merge(modules_of(race));
}

std::set<std::uint32_t> KernelHeap::modules_of(const FoundRace& race) const {
  std::set<std::uint32_t> modules;
  for (const Touch* touch : {&race.first, &race.second}) {
    const Place& place = detector_.sides().place(touch->place);
    if (place.site) modules.insert(place.module);
  }
  return modules;
}

bool KernelHeap::record(trace::Record& record) {
  if (const auto* process = std::get_if<trace::Process>(&record)) {
    on_gpu_ = process->device_kind == "gpu";
    if (!on_gpu_) modules_.clear(); // nothing to look for
  } else if (const auto* module = std::get_if<trace::Module>(&record); module && modules_.contains(module->id)) {
    const std::string text = text_(*module);
    if (!calls_free(text)) return true;
    freeing_.insert(module->id);
    if (may_be_unseen(*module, text)) unseen_.insert(module->id);
  }
  return true;
}

bool KernelHeap::owners_unknown(std::size_t race) const {
  if (!on_gpu_ || !in_no_allocation(races_[race])) return false;
  const std::set<std::uint32_t>& unsure = races_[race].level == RaceLevel::stream ? freeing_ : unseen_;
  const std::set<std::uint32_t> modules = modules_of(races_[race]);
  return std::any_of(modules.begin(), modules.end(), [&](std::uint32_t id) { return unsure.contains(id); });
}

} // namespace deadheat::detect
