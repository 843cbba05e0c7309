// What the code generator needs to know of a module before it builds anything: who calls whom, which functions can
// stop, where shared variables lie, which kernels cannot run and why.
//
// Invariants: FunctionTables are indexed like ptx::Module::functions. Cheap: one pass over the instructions.
//
// Thread-safety: plain values; immutable once made.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "deadheat/ptx.h"
#include "deadheat/site.h"
#include "replay/engine/compiler.h"

namespace deadheat::engine {

inline constexpr std::uint32_t no_site = ~std::uint32_t(0);

struct FunctionTables {
  const ptx::Function* function = nullptr;
  std::vector<std::uint32_t> site;                   // by index into Function::body: site number or no_site
  std::map<std::uint32_t, std::uint32_t> texels;     // of textures and surfaces: ptx::SiteTable::texels
  std::vector<std::uint32_t> callees;                // direct calls of functions with a body
  std::vector<std::uint32_t> taken;                  // functions whose address it takes
  std::vector<const ptx::Variable*> shared;          // shared variables it names or declares
  bool reserved = false;                             // names a %reserved_smem_offset register
  bool indirect = false;                             // calls through a pointer
  bool clusters = false;                             // meets other blocks of its cluster, or may reach their memory
  bool stops = false;                                // has an instruction at which a thread stops in every mode
  bool stops_record = false, stops_control = false;  // … in these modes
  std::string refused;                               // why it cannot run: the first instruction that is not supported
};

struct ModuleTables {
  ptx::Module module;
  std::vector<Site> sites;
  std::vector<FunctionTables> functions;
  std::map<std::string_view, std::uint32_t> by_name;  // the definition where there is one
  std::vector<std::uint32_t> taken;  // functions whose address is taken anywhere, initializers included
};

// The module is moved in; functions point into it, so the tables must not move afterwards.
void fill_tables(ModuleTables& tables, ptx::Module module);

// A kernel with all that it reaches.
struct KernelTables {
  KernelInfo info;
  std::uint32_t kernel = 0;
  std::vector<std::uint32_t> reached;                    // functions, the kernel first
  std::map<const ptx::Variable*, std::uint32_t> shared;  // offsets of .shared variables
  std::map<std::string_view, std::uint32_t> params;      // offsets in the parameter block
};
KernelTables kernel_tables(const ModuleTables& tables, std::uint32_t kernel);

// By function: whether a thread can stop in it in a mode, or in what it calls.
std::vector<bool> stopping_functions(const ModuleTables& tables, Mode mode);

// Offsets of parameters laid out one after the other, each naturally aligned, from `offset`; advances it.
std::vector<std::uint32_t> lay_out(const std::vector<ptx::Variable>& variables, std::uint32_t& offset);

inline constexpr std::uint32_t align_up(std::uint32_t n, std::uint32_t to) { return (n + to - 1) / to * to; }

}  // namespace deadheat::engine
