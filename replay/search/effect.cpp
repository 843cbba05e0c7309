#include "replay/search/effect.h"

#include <map>
#include <tuple>
#include <vector>

namespace deadheat::search {

using device::Performed;

namespace {

using Event = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t>; // operation, block, thread, nth
// Whose shared memory, and 1; address, bytes. Accesses of other shapes that overlap are not compared with it.
using Place = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>;

struct Run {
  std::map<Event, const Performed*> all;
  std::map<Place, std::vector<std::uint64_t>> written; // in their order: others may read what was there in between
  bool known = true; // the values, and what overlaps
};

Run accesses(const Log& log, const std::function<bool(const Performed&)>& of_race) {
  Run run;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Place> words;
  for (const Performed& p : log) {
    if (p.fence || !of_race(p)) continue;
    run.known &= p.bytes <= sizeof p.read && p.copy == Performed::Copy::none;
    run.known &= run.all.try_emplace({p.operation, p.block, p.thread, p.nth}, &p).second;
    const std::uint64_t memory = p.space == Space::shared ? (std::uint64_t(p.operation) << 32 | p.owner) + 1 : 0;
    const Place place{memory, p.address, p.bytes};
    for (std::uint64_t word = p.address / 4; word * 4 < p.address + p.bytes; ++word)
      run.known &= words.try_emplace({memory, word}, place).first->second == place;
    if (p.wrote) run.written[place].push_back(p.written);
  }
  return run;
}

} // namespace

bool has_effect(const Log& a, const Log& b, const std::function<bool(const Performed&)>& of_race) {
  const Run one = accesses(a, of_race), other = accesses(b, of_race);
  if (!one.known || !other.known || one.all.size() != other.all.size() || one.written != other.written) return true;
  for (const auto& [event, p] : one.all) {
    const auto found = other.all.find(event);
    if (found == other.all.end()) return true;
    const Performed& q = *found->second;
    if (p->module != q.module || p->site != q.site || p->address != q.address) return true;
    if (p->access != AccessKind::write && p->read != q.read) return true;
  }
  return false;
}

} // namespace deadheat::search
