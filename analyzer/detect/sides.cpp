#include "analyzer/detect/sides.h"

#include <cstdlib>

#include "tracer/ptx/sites.h"

namespace deadheat::detect {

namespace {

std::string source_key(const Site& site, std::uint32_t module) {
  std::string key = std::to_string(int(site.access)) + "|";
  if (site.source.empty()) return key + std::to_string(module) + ":" + std::to_string(site.ptx_line);
  for (const SourceFrame& frame : site.source) {
    key += frame.file + ":" + std::to_string(frame.line) + "<";
  }
  return key;
}

// What the looks of one wait loop have in common.
std::string look_key(const Site& site) {
  if (site.source.empty()) return {};
  std::string key = site.function + "|" + site.opcode;
  for (const SourceFrame& frame : site.source) key += "|" + frame.file + ":" + std::to_string(frame.line);
  return key;
}

bool adds_floats(const Site& site) {
  if (site.kind != SiteKind::access && site.kind != SiteKind::bulk_copy) return false;
  if (site.access != AccessKind::atomic) return false;
  bool adds = site.opcode.find(".add") != std::string::npos;
  bool floats = site.opcode.find(".f16") != std::string::npos || site.opcode.find(".bf16") != std::string::npos ||
                site.opcode.find(".f32") != std::string::npos || site.opcode.find(".f64") != std::string::npos;
  return adds && floats;
}

}  // namespace

SideId Sides::side_of(const std::string& key) {
  return side_ids_.try_emplace(key, SideId(side_ids_.size() + 1)).first->second;
}

PlaceId Sides::add(Place place, const std::string& key) {
  place.side = side_of(key);
  places_.push_back(std::move(place));
  return PlaceId(places_.size() - 1);
}

void Sides::module(const trace::Module& module) {
  if (sites_.count(module.id)) return;
  std::vector<Site>& sites = sites_[module.id] = module.sites;
  auto& [places, writes] = by_module_[module.id];
  for (std::uint32_t number = 0; number < sites.size(); ++number) {
    Site& site = sites[number];
    if (const std::uint8_t bytes = ptx::value_bytes(site); bytes != site.element_bytes) {
      site.elements = std::uint8_t(site.elements * (site.element_bytes / bytes));
      site.element_bytes = bytes;
    }
    Place place;
    place.module = module.id;
    place.site_number = number;
    place.site = &site;
    const bool one_access = site.kind == SiteKind::access || site.kind == SiteKind::heap ||
                            site.kind == SiteKind::mbarrier || site.kind == SiteKind::async_mbarrier_arrive;
    place.kind = one_access ? site.access : AccessKind::read;
    place.float_add = adds_floats(site);
    places.push_back(add(place, source_key(site, module.id)));
    PlaceId write = 0;
    if (site.kind == SiteKind::async_copy || site.kind == SiteKind::bulk_copy) {
      place.kind = site.access == AccessKind::atomic ? AccessKind::atomic : AccessKind::write;
      write = add(place, "async|" + source_key(site, module.id));
    }
    writes.push_back(write);
  }
  find_loops(places);
}

void Sides::find_loops(const std::vector<PlaceId>& places) {
  auto strong_read = [](const Place& place) {
    return place.site && place.site->kind == SiteKind::access && place.kind == AccessKind::read &&
           is_strong(place.site->ordering);
  };
  std::unordered_map<std::string, PlaceId> loops;
  for (PlaceId id : places) {
    Place& place = places_[id];
    if (!strong_read(place) || !may_poll(*place.site)) continue;
    place.looping = id;
    if (std::string key = look_key(*place.site); !key.empty()) {
      PlaceId& first = loops.try_emplace(std::move(key), id).first->second;
      if (place.site->polls == Polls::yes) first = id;
    }
  }
  for (PlaceId id : places) {
    Place& place = places_[id];
    if (!strong_read(place) || place.looping || place.site->polls == Polls::no) continue;
    if (auto found = loops.find(look_key(*place.site)); found != loops.end()) place.looping = found->second;
  }
}

const Sides::Places* Sides::find_places(std::uint32_t module) const {
  const auto found = by_module_.find(module);
  if (found == by_module_.end()) return nullptr;
  recent_module_ = {module, &found->second};
  return recent_module_.second;
}

PlaceId Sides::async_write(std::uint32_t module, std::uint32_t site) const {
  const Places* of = places_of(module);
  return of && site < of->async_writes.size() ? of->async_writes[site] : 0;
}

PlaceId Sides::operation(const std::string& api, AccessKind kind, std::uint32_t stream,
                         std::optional<std::uint32_t> word) {
  PlaceId& known = by_operation_[{api, kind, stream, word}];
  if (known) return known;
  Place place;
  place.api = api;
  place.kind = kind;
  place.word = word;
  return known = add(place, "api|" + api + "|" + std::to_string(int(kind)) + "|" + std::to_string(stream));
}

}  // namespace deadheat::detect
