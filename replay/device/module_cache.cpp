#include "replay/device/module_cache.h"

#include "tracer/ptx/parse.h"

namespace deadheat::device {

std::shared_ptr<ModuleCache> make_module_cache(std::unique_ptr<engine::Compiler> compiler) {
  auto cache = std::make_shared<ModuleCache>();
  cache->compiler = compiler ? std::move(compiler) : engine::make_compiler();
  return cache;
}

Expected<std::shared_ptr<CachedModule>> ModuleCache::find(const std::string& text, const std::string& origin,
                                                          const SymbolTable* symbols) {
  std::vector<std::shared_ptr<CachedModule>>& entries = by_text[text];
  for (const auto& entry : entries)
    if (!symbols || entry->symbols->empty() || *entry->symbols == *symbols) return entry;
  auto entry = std::make_shared<CachedModule>();
  entry->symbols = std::make_shared<SymbolTable>();
  Expected<ptx::Module> parsed = ptx::parse(text, origin);
  if (!parsed) return parsed.error();
  auto address_of = [table = entry->symbols](std::string_view name) -> std::uint64_t {
    auto found = table->find(name);
    return found == table->end() ? 0 : found->second;
  };
  Expected<std::unique_ptr<engine::LoadedModule>> loaded = compiler->load(std::move(*parsed), origin, address_of);
  if (!loaded) return loaded.error();
  entry->module = std::move(*loaded);
  entry->sites = std::make_shared<SiteTable>(entry->module->sites());
  entries.push_back(entry);
  return entry;
}

} // namespace deadheat::device
