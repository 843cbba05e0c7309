#include "tracer/ptx/sites.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "tracer/ptx/demangle.h"
#include "tracer/ptx/flow.h"
#include "tracer/ptx/operands.h"
#include "tracer/ptx/rewrite.h"
#include "tracer/ptx/value_types.h"

namespace deadheat::ptx {
namespace {

// The values that an access moves: the result of a load or atomic, the source of a store or reduction.
void collect_values(const Instruction& i, std::vector<RegisterId>& registers) {
  auto add = [&](const Operand& operand) {
    if (operand.kind == Operand::Kind::reg) registers.push_back(operand.reg);
    for (const Operand& element : operand.elements) {
      if (element.kind == Operand::Kind::reg) registers.push_back(element.reg);
    }
  };
  bool atomic = i.opcode == Opcode::atom || i.opcode == Opcode::red;
  for (std::size_t k = 0; k < i.operands.size(); ++k) {
    const Operand& operand = i.operands[k];
    if (operand.kind == Operand::Kind::address) continue;
    add(operand);
    if (!atomic) break;  // the value; a cache policy may follow it
  }
}

// A better type for an access than the one that is written, where every value it moves agrees on one.
std::string value_type(const Instruction& i, const ValueTypes& types) {
  Type written = i.type();
  bool bit_type = written >= Type::b8 && written <= Type::b128;
  if (is_float(written)) return std::string(name(written));
  std::vector<RegisterId> registers;
  collect_values(i, registers);
  Type found = Type::none;
  for (RegisterId r : registers) {
    Type type = types.of(r);
    if (type == Type::none || (found != Type::none && type != found)) return std::string(name(written));
    found = type;
  }
  bool fits = bits(found) == bits(written) && found != Type::none;
  return std::string(name(fits && (is_float(found) || bit_type) ? found : written));
}

}  // namespace

std::vector<SourceFrame> source_frames(const Module& module, std::uint32_t location, std::string_view function) {
  std::vector<SourceFrame> frames;
  std::size_t depth = 0;
  while (location != 0 && location < module.locations.size() && depth++ < 64) {
    const Location& here = module.locations[location];
    auto file = module.files.find(here.file);
    bool outermost = here.inlined_at == 0;
    frames.push_back({demangle(here.function.empty() && outermost ? function : std::string_view(here.function)),
                      file == module.files.end() ? std::string() : file->second, here.line, here.column});
    location = here.inlined_at;
  }
  return frames;
}

namespace {

// Functions that are called again and again: from a loop, or by one that is. A call through an address may be of any
// function that is no kernel.
class Repeated {
 public:
  explicit Repeated(const Module& module) : repeated_(module.functions.size()) {
    for (std::uint32_t f = 0; f < module.functions.size(); ++f)
      if (module.functions[f].has_body && !module.functions[f].entry) by_name_[module.functions[f].name] = f;
    if (by_name_.empty()) return;
    std::vector<std::uint32_t> next;
    for (const Function& function : module.functions) {
      std::optional<Flow> flow;
      each_instruction(function, [&](std::size_t s, const Instruction& i) {
        if (i.opcode != Opcode::call) return;
        if (!flow) flow.emplace(function);
        if (flow->on_cycle(std::uint32_t(s))) add_called(i, next);
      });
    }
    while (!next.empty()) {
      const std::uint32_t f = next.back();
      next.pop_back();
      if (repeated_[f]) continue;
      repeated_[f] = true;
      each_instruction(module.functions[f], [&](std::size_t, const Instruction& i) { add_called(i, next); });
    }
  }
  bool operator[](std::size_t function) const { return repeated_[function]; }

 private:
  void add_called(const Instruction& i, std::vector<std::uint32_t>& to) {
    if (i.opcode != Opcode::call) return;
    if (const std::string_view name = callee(i); !name.empty()) {
      if (const auto found = by_name_.find(name); found != by_name_.end()) to.push_back(found->second);
    } else if (!std::exchange(any_, true)) {
      for (const auto& [of, function] : by_name_) to.push_back(function);
    }
  }

  std::vector<bool> repeated_;
  std::map<std::string_view, std::uint32_t> by_name_;
  bool any_ = false; // any function is
};

// What textures and surfaces read is not kept coherent with what their launch writes (CUDA C++ Programming Guide,
// "Read/Write Coherency" of texture and surface memory), as with ld.global.nc.
void add_texels(SiteTable& table) {
  for (std::size_t f = 0; f < table.by_function.size(); ++f)
    for (const std::uint32_t id : table.by_function[f]) {
      if (id == SiteTable::none || !is_texture(table.sites[id])) continue;
      Site site = table.sites[id];
      site.kind = SiteKind::access;
      site.space = Space::global;
      site.ordering = site.access == AccessKind::read ? Ordering::nc : Ordering::weak;
      table.texels[f][site.instruction] = std::uint32_t(table.sites.size());
      for (unsigned n = 0; n < SiteTable::texel_sizes; ++n) {
        site.element_bytes = std::uint8_t(1u << n);
        site.type = "b" + std::to_string(8u << n);
        site.id = std::uint32_t(table.sites.size());
        table.sites.push_back(site);
      }
    }
}

} // namespace

namespace {

bool has_texels(const Site& site) {
  const std::string_view opcode = std::string_view(site.opcode).substr(0, site.opcode.find('.'));
  return opcode == "tex" || opcode == "tld4" || opcode == "suld" || opcode == "sust";
}

} // namespace

bool is_texture(const Site& site) { return site.kind == SiteKind::opaque && has_texels(site); }
bool is_discard(const Site& site) { return site.kind == SiteKind::access && site.opcode.starts_with("discard"); }
bool is_texel(const Site& site) { return site.kind == SiteKind::access && has_texels(site); }

SiteTable site_table(const Module& module) {
  SiteTable table;
  const Repeated repeated(module);
  std::set<std::string_view> own; // functions with a body: what the runtime provides has none
  for (const Function& function : module.functions)
    if (function.has_body) own.insert(function.name);
  struct Behind { // sites that are numbered behind all others
    std::size_t function = 0;
    Site site;
  };
  std::vector<Behind> behind;
  table.by_function.resize(module.functions.size());
  table.texels.resize(module.functions.size());
  auto add = [&](std::size_t f, Site site) {
    site.id = std::uint32_t(table.sites.size());
    table.by_function[f][site.instruction] = site.id;
    table.sites.push_back(std::move(site));
  };
  for (std::size_t f = 0; f < module.functions.size(); ++f) {
    const Function& function = module.functions[f];
    if (!function.has_body) continue;
    table.by_function[f].assign(function.body.size(), SiteTable::none);
    Flow flow(function);
    ValueTypes types(function);
    std::map<std::uint32_t, std::vector<SourceFrame>> frames; // of this function, by location
    for (std::uint32_t s = 0; s < function.body.size(); ++s) {
      const Instruction* i = function.body[s].instruction();
      if (!i) continue;
      std::optional<Site> site = classify(*i, function.entry);
      if (!site || (site->kind == SiteKind::heap && own.contains(callee(*i)))) continue;
      site->in_loop = flow.on_cycle(s) || repeated[f];
      site->opcode = i->full_opcode();
      site->function = function.name;
      site->instruction = s;
      site->ptx_line = i->source_line;
      if (site->kind == SiteKind::access && !is_discard(*site)) site->type = value_type(*i, types);
      auto [chain, added] = frames.try_emplace(i->location);
      if (added) chain->second = source_frames(module, i->location, function.name);
      site->source = chain->second;
      if (site->kind == SiteKind::heap)
        behind.push_back({f, std::move(*site)});
      else
        add(f, std::move(*site));
    }
  }
  for (Behind& heap : behind) add(heap.function, std::move(heap.site));
  add_texels(table);
  return table;
}

std::vector<Site> sites(const Module& module) { return site_table(module).sites; }

} // namespace deadheat::ptx
