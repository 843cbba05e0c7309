// Modules as the device uses them: the loaded module, its site table, where its symbols lie.
//
// Thread-safety: none (device.h).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "deadheat/expected.h"
#include "replay/device/block.h"
#include "replay/device/device.h"
#include "replay/engine/compiler.h"

namespace deadheat::device {

using SymbolTable = std::map<std::string, std::uint64_t, std::less<>>; // name → device address

// Code is compiled against fixed addresses of symbols: one entry a set of addresses.
struct CachedModule {
  std::shared_ptr<SymbolTable> symbols;       // empty until bound
  std::shared_ptr<engine::LoadedModule> module;
  std::shared_ptr<const SiteTable> sites;
};

struct ModuleCache {
  std::unique_ptr<engine::Compiler> compiler;
  std::unordered_map<std::string, std::vector<std::shared_ptr<CachedModule>>> by_text;

  // A module with this text: one whose symbols are `symbols` or not bound yet, else a newly loaded one.
  Expected<std::shared_ptr<CachedModule>> find(const std::string& text, const std::string& origin,
                                               const SymbolTable* symbols);
};

} // namespace deadheat::device
