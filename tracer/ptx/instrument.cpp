#include "tracer/ptx/instrument.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

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

std::uint32_t calls_by_address(const Function& function) {
  std::uint32_t calls = 0;
  each_instruction(function,
                   [&](std::size_t, const Instruction& i) { calls += i.opcode == Opcode::call && callee(i).empty(); });
  return calls;
}

// Functions that a call by address may be of: their names stand where no call names them.
std::vector<std::string_view> addressed(const Module& module) {
  std::vector<std::string_view> found;
  const auto initializes = [&](const Variable& v) {
    for (const Variable::Relocation& r : v.relocations) found.push_back(r.symbol);
  };
  for (const Variable& v : module.variables) initializes(v);
  for (const Function& function : module.functions) {
    for (const Variable& v : function.variables) initializes(v);
    for (const Statement& statement : function.body) {
      if (const auto* directive = std::get_if<Directive>(&statement.node))
        found.insert(found.end(), directive->targets.begin(), directive->targets.end());
      const Instruction* i = statement.instruction();
      if (!i) continue;
      for (std::size_t k = 0; k < i->operands.size(); ++k) {
        if (i->opcode == Opcode::call && k == 1) continue;
        if (i->operands[k].kind == Operand::Kind::symbol) found.push_back(i->operands[k].text);
      }
    }
  }
  return found;
}

// What orders accesses, or ends a thread: where it is not recorded, what is recorded tells of races that are none.
bool synchronizes(const Site& site, const Instruction& i) {
  switch (site.kind) {
    case SiteKind::access: return is_strong(site.ordering) || site.access == AccessKind::atomic;
    case SiteKind::warp_value:
    case SiteKind::opaque: return false;
    case SiteKind::exit: return i.opcode == Opcode::exit;
    default: return true;
  }
}

// Whether a call by address may be of a function that synchronizes.
bool address_synchronizes(const Module& module, const SiteTable& sites, const Calls& calls) {
  const std::set<std::string_view> called = reached(calls, addressed(module));
  bool found = false;
  for (std::size_t f = 0; f < module.functions.size(); ++f) {
    const Function& function = module.functions[f];
    if (function.entry || !function.has_body || !called.count(function.name)) continue;
    each_instruction(function, [&](std::size_t s, const Instruction& i) {
      const std::uint32_t site = sites.site_of(f, s);
      found |= site != SiteTable::none && synchronizes(sites.sites[site], i);
    });
  }
  return found;
}

// Whether a thread may come to the end of the text: it ends there, without an instruction that says so.
bool runs_off(const Module& module, const Function& function) {
  const Flow flow(function);
  if (flow.blocks().empty()) return true;
  const Block& last = flow.blocks().back();
  for (std::uint32_t s = last.last; s > last.first; --s) {
    const Instruction* i = function.body[s - 1].instruction();
    if (!i) continue;
    if (!last.reachable || classify(*i, true).value_or(Site{}).kind == SiteKind::exit)
      return last.reachable && i->guard;
    if (i->opcode == Opcode::bra || i->opcode == Opcode::brx) return i->guard.has_value();
    const Function* called = module.function(callee(*i));
    return i->guard || !called || !called->noreturn;
  }
  return last.reachable;
}

// A name that a clone could have, too.
bool reserved(std::string_view name) {
  return name.starts_with("%dh_") || name.starts_with("%do_") || name.starts_with("$dh_") ||
         name.starts_with("__dh_") || name.starts_with(clone_prefix);
}

bool has_reserved_name(const Function& f) {
  const auto of_these = [](const auto& all) {
    return std::any_of(all.begin(), all.end(), [](const auto& one) { return reserved(one.name); });
  };
  return reserved(f.name) || of_these(f.params) || of_these(f.results) || of_these(f.registers) ||
         of_these(f.variables) ||
         std::any_of(f.labels.begin(), f.labels.end(), [](const auto& label) { return reserved(label.first); });
}

// The first directive of a kernel (PTX ISA 11.4) of which a clone would have to have one too, and has not. Most are
// known to be kept, or to be hints; .blocksareclusters says what a launch's grid counts.
std::string_view directive_not_kept(const Function& f) {
  constexpr std::string_view fine[] = {".visible",
                                       ".weak",
                                       ".extern",
                                       ".common",
                                       ".entry",
                                       ".func",
                                       ".param",
                                       ".maxntid",
                                       ".reqntid",
                                       ".minnctapersm",
                                       ".maxnctapersm",
                                       ".maxnreg",
                                       ".reqnctapercluster",
                                       ".explicitcluster",
                                       ".maxclusterrank",
                                       ".noreturn",
                                       ".pragma",
                                       ".abi_preserve",
                                       ".abi_preserve_control"};
  std::size_t depth = 0; // of parameters
  for (const Token& token : f.head) {
    if (token.text == "(") ++depth;
    if (token.text == ")" && depth) --depth;
    if (!depth && token.text.starts_with('.') &&
        std::find(std::begin(fine), std::end(fine), token.text) == std::end(fine))
      return token.text;
  }
  return {};
}

// Bytes of parameters that a kernel may have (PTX ISA 5.1.6.1).
std::uint32_t most_parameters(const Module& module) { return module.version >= 81 ? 32764 : 4352; }

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

std::uint32_t align_up(std::uint32_t n, std::uint32_t to) { return (n + to - 1) / to * to; }

std::uint32_t alignment(const Variable& v) {
  return v.align && !v.pointer ? v.align : std::max(1u, bits(v.type) / 8 * v.vector);
}

void lay_out(const Function& f, InstrumentedKernel& kernel) {
  std::uint32_t at = 0;
  for (const Variable& p : f.params) {
    at = align_up(at, alignment(p));
    kernel.offsets.push_back(at);
    at += std::uint32_t(p.size);
  }
  kernel.parameters = std::uint32_t(f.params.size());
  kernel.arguments_bytes = at;
  kernel.parameter_offset = align_up(at, 8);
}

}  // namespace

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
  const Calls calls = calls_of(module);
  std::set<std::string> cloned = functions_with_sites(module, sites);
  if (options.kernels) {
    const std::set<std::string_view> wanted = reached(calls, {options.kernels->begin(), options.kernels->end()});
    std::erase_if(cloned, [&](const std::string& name) { return !wanted.count(name); });
  }
  const bool synchronized_by_address = address_synchronizes(module, sites, calls);
  // Functions, and with them their callers, that stay as they are.
  std::map<std::string, std::string> refused;
  for (std::size_t f = 0; f < module.functions.size(); ++f) {
    const Function& function = module.functions[f];
    if (!function.has_body) continue;
    if (function.name.front() == '%')
      refused.emplace(function.name, "names that begin with %"); // no name with a prefix
    if (has_reserved_name(function)) refused.emplace(function.name, "names that recording uses itself");
    if (const std::string_view directive = directive_not_kept(function); function.entry && !directive.empty())
      refused.emplace(function.name, "directives such as " + std::string(directive));
    if (function.entry && runs_off(module, function)) refused.emplace(function.name, "kernels that end without a ret");
    if (synchronized_by_address && calls_by_address(function))
      refused.emplace(function.name, "calls by address of functions that may synchronize");
    if (InstrumentedKernel kernel; function.entry) {
      lay_out(function, kernel);
      if (kernel.parameter_offset + control_bytes > most_parameters(module))
        refused.emplace(function.name, "parameters of so many bytes");
    }
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
  std::vector<std::pair<const Function*, std::string>> texts; // kernels' clones
  std::map<std::string, bool> strong; // functions with strong accesses
  std::map<std::string_view, std::uint32_t> left_out;
  std::set<std::string_view> with_textures;
  std::map<std::string_view, std::string> unusable; // functions whose clones must not be used
  for (std::size_t f = 0; f < module.functions.size(); ++f) {
    const Function& function = module.functions[f];
    if (!function.has_body) continue;
    left_out[function.name] = calls_by_address(function);
    if (!cloned.count(function.name)) continue;
    if (auto why = refused.find(function.name); why != refused.end()) {
      if (function.entry)
        made.notes.push_back("kernel " + brief_name(function.name) + " is not recorded: " + why->second +
                             " are not supported on the GPU yet");
      continue;
    }
    FunctionClone clone(module, f, sites, cloned, clocks, options, made.segments);
    const std::string text = clone.text();
    strong[function.name] = clone.strong();
    declarations += clone.heap_declarations();
    left_out[function.name] += clone.left_out();
    if (clone.textures()) with_textures.insert(function.name);
    if (!clone.refused().empty()) unusable[function.name] = clone.refused();
    if (!function.entry) {
      clones += text;
      declarations += clone.declaration();
      continue;
    }
    texts.emplace_back(&function, text);
  }
  for (const auto& [function, text] : texts) {
    const std::set<std::string_view> all = reached(calls, {function->name});
    const auto bad = std::find_if(all.begin(), all.end(), [&](std::string_view name) { return unusable.count(name); });
    if (bad != all.end()) {
      made.notes.push_back("kernel " + brief_name(function->name) + " is not recorded: " + unusable[*bad]);
      continue;
    }
    clones += text;
    InstrumentedKernel kernel;
    kernel.name = function->name;
    kernel.clone = clone_prefix + function->name;
    for (const std::string_view name : all) {
      kernel.left_out += left_out[name];
      kernel.textures |= with_textures.count(name) > 0;
    }
    kernel.cluster = function->reqnctapercluster;
    lay_out(*function, kernel);
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
