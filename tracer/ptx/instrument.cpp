#include "tracer/ptx/instrument.h"

#include <algorithm>
#include <set>

#include "tracer/ptx/demangle.h"
#include "tracer/ptx/instrument_function.h"
#include "tracer/ptx/parse.h"
#include "tracer/ptx/rewrite.h"

namespace deadheat::ptx {

namespace {

// Functions that touch memory or synchronize, themselves or through what they call.
std::set<std::string> functions_with_sites(const Module& module, const SiteTable& sites) {
  std::set<std::string> found;
  for (bool grown = true; grown;) {
    grown = false;
    for (std::size_t f = 0; f < module.functions.size(); ++f) {
      const Function& function = module.functions[f];
      if (!function.has_body || found.count(function.name)) continue;
      bool has = false;
      each_instruction(function, [&](std::size_t s, const Instruction& i) {
        has |= sites.site_of(f, s) != SiteTable::none || found.count(std::string(callee(i))) > 0;
      });
      if (!has && !function.entry) continue;
      found.insert(function.name);
      grown = true;
    }
  }
  return found;
}

// The functions with a body, by name, that each calls by name.
using Calls = std::map<std::string_view, std::set<std::string_view>>;

Calls calls_of(const Module& module) {
  Calls calls;
  for (const Function& function : module.functions) {
    if (!function.has_body) continue;
    std::set<std::string_view>& called = calls[function.name];
    each_instruction(function, [&](std::size_t, const Instruction& i) {
      if (!callee(i).empty()) called.insert(callee(i));
    });
  }
  return calls;
}

// `from` and all that they reach, of functions with a body.
std::set<std::string_view> reached(const Calls& calls, std::vector<std::string_view> from) {
  std::set<std::string_view> found;
  while (!from.empty()) {
    const std::string_view name = from.back();
    from.pop_back();
    const auto at = calls.find(name);
    if (at == calls.end() || !found.insert(at->first).second) continue;
    from.insert(from.end(), at->second.begin(), at->second.end());
  }
  return found;
}

// Whether phases of mbarriers may be completed by what is not recorded: tcgen05.commit, gathered rows of tensors.
bool unseen_arrivals(const Module& module) {
  bool unseen = false;
  for (const Function& function : module.functions) {
    if (!function.has_body) continue;
    each_instruction(function, [&](std::size_t, const Instruction& i) {
      const bool arrives = completes_on_mbarrier(i) || i.opcode == Opcode::tcgen05;
      unseen |= arrives && !follows(i);
    });
  }
  return unseen;
}

bool mul(const Instruction& i) { return i.opcode == Opcode::mul; }
bool add(const Instruction& i) { return i.opcode == Opcode::add || i.opcode == Opcode::sub; }
// May ptxas contract it? Only without a rounding modifier (PTX ISA 9.7.3.1, "add": rounding).
bool contractible(const Instruction& i) {
  if (!mul(i) && !add(i)) return false;
  const Type t = i.type();
  if (t != Type::f32 && t != Type::f64 && t != Type::f16 && t != Type::f16x2 && t != Type::bf16 && t != Type::bf16x2 &&
      t != Type::f32x2) {
    return false;
  }
  return !i.has(Modifier::rn) && !i.has(Modifier::rz) && !i.has(Modifier::rm) && !i.has(Modifier::rp);
}

std::uint32_t align_up(std::uint32_t n, std::uint32_t to) { return (n + to - 1) / to * to; }

std::uint32_t alignment(const Variable& v) {
  return v.align && !v.pointer ? v.align : std::max(1u, bits(v.type) / 8 * v.vector);
}

void lay_out(const Function& f, InstrumentedKernel& kernel) {
  std::uint32_t at = 0;
  for (const Variable& p : f.params) {
    at = align_up(at, alignment(p));
    at += std::uint32_t(p.size);
  }
  kernel.parameters = std::uint32_t(f.params.size());
  kernel.arguments_bytes = at;
  kernel.parameter_offset = align_up(at, 8);
}

}  // namespace

// Whether a segment that begins at statement `at`, in the middle of [first, last), could come between a multiplication
// and the only addition that uses it.
bool parts_contraction(const Function& function, std::uint32_t first, std::uint32_t at, std::uint32_t last) {
  for (std::uint32_t s = first; s < at; ++s) {
    const Instruction* m = function.body[s].instruction();
    if (!m || !mul(*m) || !contractible(*m) || m->operands.empty()) continue;
    const RegisterId product = m->operands[0].reg;
    std::uint32_t uses = 0;
    bool parted = false;
    each_instruction(function, [&](std::size_t u, const Instruction& i) {
      for (std::size_t k = 1; k < i.operands.size(); ++k) {
        if (i.operands[k].kind != Operand::Kind::reg || i.operands[k].reg != product) continue;
        ++uses;
        parted |= u >= at && u < last && add(i) && contractible(i);
      }
    });
    if (uses == 1 && parted) return true;
  }
  return false;
}

std::vector<KernelSites> sites_of_kernels(const Module& module, const SiteTable& sites) {
  std::map<std::string_view, std::uint32_t> own;
  for (std::size_t f = 0; f < module.functions.size(); ++f) {
    const std::vector<std::uint32_t>& of = sites.by_function[f];
    own[module.functions[f].name] =
        std::uint32_t(std::count_if(of.begin(), of.end(), [](std::uint32_t site) { return site != SiteTable::none; }));
  }
  const Calls calls = calls_of(module);
  std::vector<KernelSites> kernels;
  for (const Function& function : module.functions) {
    if (!function.entry || !function.has_body) continue;
    KernelSites& kernel = kernels.emplace_back();
    kernel.name = function.name;
    for (std::string_view name : reached(calls, {function.name})) kernel.sites += own[name];
  }
  return kernels;
}

std::set<std::string> kernels_that_reach(const Module& module, const std::string& function) {
  const Calls calls = calls_of(module);
  std::set<std::string> kernels;
  for (const Function& kernel : module.functions) {
    if (kernel.entry && reached(calls, {kernel.name}).count(function)) kernels.insert(kernel.name);
  }
  return kernels;
}

Expected<Instrumentation> instrument(const Module& module, const SiteTable& sites, const InstrumentOptions& options) {
  if (module.version < 63) return Error{"PTX before version 6.3 is not instrumented"};
  if (module.target.size() < 5 || std::atoi(module.target.c_str() + 3) < 70) {
    return Error{"PTX for targets before sm_70 is not instrumented", module.target};
  }
  Instrumentation made;
  for (const Variable& v : module.variables) {
    if ((v.space == Space::global || v.space == Space::constant) && v.linkage != Variable::Linkage::extern_ &&
        !v.opaque_reference && v.size != 0) {
      made.variables.push_back(v.name);
    }
  }
  std::set<std::string> cloned = functions_with_sites(module, sites);
  if (options.kernels) {
    const std::set<std::string_view> wanted =
        reached(calls_of(module), {options.kernels->begin(), options.kernels->end()});
    std::erase_if(cloned, [&](const std::string& name) { return !wanted.count(name); });
  }
  // Functions, and with them their callers, that stay as they are.
  std::map<std::string, std::string> refused;
  for (std::size_t f = 0; f < module.functions.size(); ++f) {
    const Function& function = module.functions[f];
    if (!function.has_body) continue;
    if (function.name.front() == '%')
      refused.emplace(function.name, "names that begin with %"); // no name with a prefix
    for (const Variable& v : function.variables) {
      if (v.space == Space::global || v.space == Space::constant)
        refused.emplace(function.name, "variables of its own");
    }
    each_instruction(function, [&](std::size_t, const Instruction& i) {
      if (of_later_ptx(i)) refused.emplace(function.name, "instructions such as " + i.full_opcode());
    });
  }
  for (bool grown = true; grown;) {
    grown = false;
    for (const Function& function : module.functions) {
      if (!function.has_body || refused.count(function.name)) continue;
      each_instruction(function, [&](std::size_t, const Instruction& i) {
        auto called = refused.find(std::string(callee(i)));
        if (called == refused.end() || refused.count(function.name)) return;
        refused.emplace(function.name, called->second);
        grown = true;
      });
    }
  }

  const Clocks clocks = clocks_of(module, sites);
  std::string declarations, clones;
  std::map<std::string, bool> strong;  // functions with strong accesses
  for (std::size_t f = 0; f < module.functions.size(); ++f) {
    const Function& function = module.functions[f];
    if (!function.has_body || !cloned.count(function.name)) continue;
    if (auto why = refused.find(function.name); why != refused.end()) {
      if (function.entry)
        made.notes.push_back("kernel " + brief_name(function.name) + " is not recorded: " + why->second +
                             " are not supported on the GPU yet");
      continue;
    }
    FunctionClone clone(module, f, sites, cloned, clocks, options, made.segments);
    const std::string text = clone.text();
    strong[function.name] = clone.strong();
    if (!clone.refused().empty()) {
      if (function.entry)
        made.notes.push_back("kernel " + brief_name(function.name) + " is not recorded: " + clone.refused());
      if (function.entry) continue;
    }
    clones += text;
    declarations += clone.heap_declarations();
    if (!function.entry) {
      declarations += clone.declaration();
      continue;
    }
    InstrumentedKernel kernel;
    kernel.name = function.name;
    kernel.clone = clone_prefix + function.name;
    kernel.left_out = clone.left_out();
    kernel.cluster = function.reqnctapercluster;
    lay_out(function, kernel);
    made.kernels.push_back(std::move(kernel));
  }
  for (bool grown = true; grown;) {
    grown = false;
    for (const Function& function : module.functions) {
      if (!function.has_body || strong[function.name]) continue;
      each_instruction(function, [&](std::size_t, const Instruction& i) {
        if (!strong[function.name] && !callee(i).empty() && strong[std::string(callee(i))]) {
          grown = strong[function.name] = true;
        }
      });
    }
  }
  const bool unseen = unseen_arrivals(module);
  for (InstrumentedKernel& kernel : made.kernels) {
    kernel.strong = strong[kernel.name];
    kernel.unseen_arrivals = unseen;
  }

  made.text = print_with(module, declarations + clones);
  return made;
}

}  // namespace deadheat::ptx
