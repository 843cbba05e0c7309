#include "replay/engine/tables.h"

#include <algorithm>

#include "replay/engine/lower.h"
#include "replay/engine/lower_tensor.h"
#include "replay/engine/lower_texture.h"
#include "tracer/ptx/flow.h"
#include "tracer/ptx/sites.h"

namespace deadheat::engine {

using ptx::Operand;

namespace {

// Functions that the runtime provides (CUDA programming guide: device-side printf, assert, malloc).
bool is_provided(std::string_view name) {
  return name == "vprintf" || name == "malloc" || name == "free" || name == "__assertfail" ||
         name == "cudaDeviceSynchronize";
}

class Filler {
 public:
  Filler(ModuleTables& tables, FunctionTables& f) : tables_(tables), f_(f) {}

  void fill() {
    for (const ptx::Variable& v : f_.function->variables)
      if (v.space == Space::shared) f_.shared.push_back(&v);
    for (std::uint32_t s = 0; s < f_.function->body.size(); ++s)
      if (const ptx::Instruction* i = f_.function->body[s].instruction()) instruction(s, *i);
    for (auto* list : {&f_.callees, &f_.taken}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    std::sort(f_.shared.begin(), f_.shared.end());
    f_.shared.erase(std::unique(f_.shared.begin(), f_.shared.end()), f_.shared.end());
  }

 private:
  void refuse(const ptx::Instruction& i, const std::string& why) {
    if (f_.refused.empty()) f_.refused = i.full_opcode() + ": " + why;
  }

  void symbol(const Operand& o) {
    if (o.kind == Operand::Kind::symbol && o.variable < 0) {
      if (const ptx::Variable* v = tables_.module.variable(o.text)) {
        if (v->space == Space::shared) f_.shared.push_back(v);
      } else if (auto it = tables_.by_name.find(o.text); it != tables_.by_name.end() && !is_parameter(o.text)) {
        f_.taken.push_back(it->second);
      }
    }
    f_.reserved |= o.text.starts_with("%reserved_smem_offset");
    for (const Operand& e : o.elements) symbol(e);
  }

  bool is_parameter(std::string_view name) const {
    for (const auto* list : {&f_.function->params, &f_.function->results})
      for (const ptx::Variable& v : *list)
        if (v.name == name) return true;
    return false;
  }

  void call(const ptx::Instruction& i) {
    if (i.operands.size() < 3) return refuse(i, "operands");
    const Operand& callee = i.operands[1];
    symbol(i.operands[0]);
    symbol(i.operands[2]);
    if (callee.kind != Operand::Kind::symbol) {
      f_.indirect = true;
      return;
    }
    auto it = tables_.by_name.find(callee.text);
    if (it != tables_.by_name.end() && tables_.functions[it->second].function->has_body) {
      f_.callees.push_back(it->second);
    } else if (!is_provided(callee.text)) {
      // What the device runtime (cudadevrt) calls kernels' launches, its own and those of graphs.
      const bool launches = callee.text.starts_with("__cudaCDP2") || callee.text == "cudaGraphLaunch";
      refuse(i, "function " + std::string(callee.text) + " has no body" +
                    (launches ? " (launches by kernels are not supported)" : ""));
    }
  }

  void instruction(std::uint32_t s, const ptx::Instruction& i) {
    if (!lowering_of(i.opcode)) return refuse(i, "not supported by the embedded device");
    std::string why = refusal_of(i);
    if (!why.empty()) return refuse(i, why);
    if (i.opcode == ptx::Opcode::call)
      call(i);
    else
      for (const Operand& o : i.operands) symbol(o);
    if (i.opcode == ptx::Opcode::nanosleep) f_.stops = true;
    const bool barrier =
        (i.opcode == ptx::Opcode::barrier || i.opcode == ptx::Opcode::bar) && i.has(ptx::Modifier::cluster);
    if (i.opcode == ptx::Opcode::mapa || i.has(ptx::Modifier::shared_cluster) || barrier) f_.clusters = true;
    if (is_texture_access(i)) f_.stops_control = true;
    std::uint32_t number = f_.site[s];
    if (number == no_site) return;
    const Site& site = tables_.sites[number];
    switch (site.kind) {
      case SiteKind::barrier:
      case SiteKind::warp_barrier:
      case SiteKind::warp_value:
      case SiteKind::cluster_barrier:
      case SiteKind::mbarrier:
      case SiteKind::dependency:
      case SiteKind::async_wait: f_.stops = true; break;
      case SiteKind::async_mbarrier_arrive:
      case SiteKind::bulk_copy:
      case SiteKind::proxy_fence:
      case SiteKind::fence:
        f_.stops |= site.in_loop || is_matrix_access(i);
        f_.stops_record = f_.stops_control = true;
        break;
      case SiteKind::access:
        f_.stops |= is_matrix_access(i);
        if (site.space == Space::local || site.space == Space::param) break;
        f_.stops_control = true;
        if (is_strong(site.ordering) || site.access == AccessKind::atomic) {
          f_.stops_record = true;
          f_.stops |= site.in_loop;
        }
        break;
      case SiteKind::async_copy: f_.stops_control = true; break;
      case SiteKind::heap: f_.stops_control |= site.access == AccessKind::free; break;
      default: break;
    }
  }

  ModuleTables& tables_;
  FunctionTables& f_;
};

}  // namespace

void fill_tables(ModuleTables& tables, ptx::Module module) {
  tables.module = std::move(module);
  ptx::SiteTable sites = ptx::site_table(tables.module);
  tables.sites = std::move(sites.sites);
  auto& functions = tables.module.functions;
  tables.functions.resize(functions.size());
  for (std::uint32_t n = 0; n < functions.size(); ++n) {
    tables.functions[n].function = &functions[n];
    auto [it, fresh] = tables.by_name.emplace(functions[n].name, n);
    if (!fresh && functions[n].has_body) it->second = n;
  }
  for (std::uint32_t n = 0; n < functions.size(); ++n) {
    if (!functions[n].has_body) continue;
    tables.functions[n].site = std::move(sites.by_function[n]);
    tables.functions[n].texels = std::move(sites.texels[n]);
    Filler(tables, tables.functions[n]).fill();
    auto& taken = tables.functions[n].taken;
    tables.taken.insert(tables.taken.end(), taken.begin(), taken.end());
  }
  for (const ptx::Variable& v : tables.module.variables)
    for (const auto& r : v.relocations)
      if (auto it = tables.by_name.find(r.symbol); it != tables.by_name.end()) tables.taken.push_back(it->second);
  std::sort(tables.taken.begin(), tables.taken.end());
  tables.taken.erase(std::unique(tables.taken.begin(), tables.taken.end()), tables.taken.end());
  std::erase_if(tables.taken, [&](std::uint32_t n) { return !functions[n].has_body || functions[n].entry; });
}

std::vector<std::uint32_t> lay_out(const std::vector<ptx::Variable>& variables, std::uint32_t& offset) {
  std::vector<std::uint32_t> at;
  for (const ptx::Variable& v : variables) {
    std::uint32_t natural = std::max(v.align, std::max(1u, ptx::bits(v.type) / 8));
    offset = align_up(offset, natural);
    at.push_back(offset);
    offset += std::uint32_t(v.size);
  }
  return at;
}

KernelTables kernel_tables(const ModuleTables& tables, std::uint32_t kernel) {
  KernelTables k;
  k.kernel = kernel;
  const ptx::Function& f = *tables.functions[kernel].function;
  k.info.name = f.name;

  // Everything it reaches.
  std::vector<bool> seen(tables.functions.size(), false);
  k.reached.push_back(kernel);
  seen[kernel] = true;
  bool pointers = false;
  for (std::size_t n = 0; n < k.reached.size(); ++n) {
    const FunctionTables& t = tables.functions[k.reached[n]];
    auto add = [&](std::uint32_t callee) {
      if (!seen[callee]) {
        seen[callee] = true;
        k.reached.push_back(callee);
      }
    };
    for (auto c : t.callees) add(c);
    if (t.indirect && !pointers) {
      pointers = true;
      for (auto c : tables.taken) add(c);
    }
    if (t.reserved) k.info.reserved_shared = reserved_shared_bytes;
    k.info.reaches_cluster |= t.clusters;
    if (k.info.refused.empty() && !t.refused.empty())
      k.info.refused = t.refused + (n ? " (in " + t.function->name + ")" : "");
  }

  // Shared variables: static ones in the order of the text, then all unsized ones at one address.
  std::vector<const ptx::Variable*> shared;
  for (auto n : k.reached)
    shared.insert(shared.end(), tables.functions[n].shared.begin(), tables.functions[n].shared.end());
  std::sort(shared.begin(), shared.end());
  shared.erase(std::unique(shared.begin(), shared.end()), shared.end());
  auto rank = [&](const ptx::Variable* v) {  // deterministic: module scope first, then by function
    const auto& m = tables.module.variables;
    if (!m.empty() && v >= m.data() && v < m.data() + m.size())
      return std::pair<std::size_t, std::size_t>(0, std::size_t(v - m.data()));
    for (auto n : k.reached) {
      const auto& l = tables.functions[n].function->variables;
      if (!l.empty() && v >= l.data() && v < l.data() + l.size())
        return std::pair<std::size_t, std::size_t>(1 + n, std::size_t(v - l.data()));
    }
    return std::pair<std::size_t, std::size_t>(~std::size_t(0), 0);
  };
  std::sort(shared.begin(), shared.end(), [&](auto* a, auto* b) { return rank(a) < rank(b); });
  std::uint32_t offset = 0, dynamic_align = 16;
  for (const ptx::Variable* v : shared) {
    if (v->size == 0) {
      dynamic_align = std::max(dynamic_align, v->align);
      continue;
    }
    offset = align_up(offset, std::max(v->align, 1u));
    k.shared[v] = offset;
    offset += std::uint32_t(v->size);
  }
  k.info.static_shared = offset;
  if (k.info.reserved_shared) offset = align_up(offset, 16) + k.info.reserved_shared;
  k.info.dynamic_shared_offset = align_up(offset, dynamic_align);
  for (const ptx::Variable* v : shared)
    if (v->size == 0) k.shared[v] = k.info.dynamic_shared_offset;

  std::uint32_t bytes = 0;
  std::vector<std::uint32_t> at = lay_out(f.params, bytes);
  for (std::size_t n = 0; n < f.params.size(); ++n) {
    k.params[f.params[n].name] = at[n];
    k.info.parameters.push_back({f.params[n].name, at[n], std::uint32_t(f.params[n].size)});
    if (f.params[n].opaque_reference && k.info.refused.empty())
      k.info.refused = "parameter " + f.params[n].name + ": texture and surface references are not supported";
  }
  k.info.parameter_bytes = bytes;
  if (f.reqnctapercluster) k.info.cluster = *f.reqnctapercluster;
  if (f.reqntid)
    k.info.max_threads = std::uint32_t(f.reqntid->count());
  else if (f.maxntid)
    k.info.max_threads = std::uint32_t(f.maxntid->count());
  for (auto n : k.reached)
    for (const ptx::Variable& v : tables.functions[n].function->variables)
      if (v.space == Space::local) k.info.local_bytes += std::uint32_t(v.size);
  return k;
}

std::vector<bool> stopping_functions(const ModuleTables& tables, Mode mode) {
  std::vector<bool> stops(tables.functions.size(), false);
  for (std::size_t n = 0; n < stops.size(); ++n) {
    const FunctionTables& f = tables.functions[n];
    stops[n] = f.stops || f.indirect || (mode.record && f.stops_record) || (mode.control && f.stops_control);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t n = 0; n < stops.size(); ++n) {
      if (stops[n]) continue;
      for (auto c : tables.functions[n].callees)
        if (stops[c]) stops[n] = changed = true;
    }
  }
  return stops;
}

}  // namespace deadheat::engine
