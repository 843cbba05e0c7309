// The sides of races: sites of kernels and roles of operations, numbered, and merged by source line.
//
// A *place* is one PTX site of a module, or what operations of a stream do in one role (copies that read). A *side* is
// what a report names: all places with the same source line, inlining chain and kind of access, or the same API call in
// a stream.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "deadheat/race.h"
#include "deadheat/site.h"
#include "deadheat/trace.h"

namespace deadheat::detect {

using PlaceId = std::uint32_t; // index into Sides::places
using SideId = std::uint32_t;

// May a strong read at the site be one of a wait loop?
inline bool may_poll(const Site& site) {
  return site.polls == Polls::yes || (site.in_loop && site.polls == Polls::unknown);
}

struct Place {
  std::uint32_t module = 0, site_number = 0;
  const Site* site = nullptr; // null: of operations
  std::string api; // of operations
  AccessKind kind = AccessKind::read;
  SideId side = 0;
  std::optional<std::uint32_t> word; // of sets: what they write (written.h)
  // Of a strong read: itself when it may poll, else, if it is in no loop, the one that it is the first look of: one of
  // the same function, opcode and source line, as compilers make them of a loop's condition. 0: none.
  PlaceId looping = 0;
  bool float_add = false; // an atomic addition of floating-point numbers
};

class Sides {
 public:
  void module(const trace::Module& module);
  // Places of a module's site: itself; an async copy also has the place of its write.
  // Returns 0 when the module or site is unknown.
  PlaceId site(std::uint32_t module, std::uint32_t site) const {
    const Places* const of = places_of(module);
    return of && site < of->own.size() ? of->own[site] : 0;
  }
  PlaceId async_write(std::uint32_t module, std::uint32_t site) const;
  PlaceId operation(const std::string& api, AccessKind kind, std::uint32_t stream,
                    std::optional<std::uint32_t> word = {});
  const Place& place(PlaceId id) const { return places_[id]; }
  std::size_t side_count() const { return side_ids_.size() + 1; }

 private:
  SideId side_of(const std::string& key);
  PlaceId add(Place place, const std::string& key);
  void find_loops(const std::vector<PlaceId>& places); // of a module's sites

  std::vector<Place> places_{1};
  std::map<std::uint32_t, std::vector<Site>> sites_; // node-based: pointers into it stay
  struct Places { // of a module's sites
    std::vector<PlaceId> own, async_writes; // 0: it writes nothing asynchronously
  };
  const Places* places_of(std::uint32_t module) const {
    return recent_module_.first == module && recent_module_.second ? recent_module_.second : find_places(module);
  }
  const Places* find_places(std::uint32_t module) const;
  std::map<std::uint32_t, Places> by_module_; // node-based, too
  mutable std::pair<std::uint32_t, const Places*> recent_module_{0, nullptr};
  std::map<std::tuple<std::string, AccessKind, std::uint32_t, std::optional<std::uint32_t>>, PlaceId> by_operation_;
  std::unordered_map<std::string, SideId> side_ids_;
};

} // namespace deadheat::detect
