#include "replay/search/interleaving.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

namespace deadheat::search {

using device::Performed;

namespace {

constexpr std::size_t most_at_a_word = 128; // accesses whose pairs are compared

using ThreadName = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>; // operation, block, thread
using EventName = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t, Performed::Copy>;
using Word = std::tuple<std::uint64_t, std::uint64_t>; // whose shared memory, and 1; address / 4

ThreadName thread_of(const Performed& p) { return {p.operation, p.block, p.thread}; }
EventName name_of(const Performed& p) { return {p.operation, p.block, p.thread, p.nth, p.copy}; }
bool by_copy(const Performed& p) { return p.copy != Performed::Copy::none; }
bool same_agent(const Performed& p, const Performed& q) {
  return thread_of(p) == thread_of(q) && by_copy(p) == by_copy(q);
}
bool is_of(const Performed& p, const AccessName& name) {
  return p.launch == name.launch && p.block == name.block && p.thread == name.thread;
}

template <typename F>
void each_word(const Performed& p, F&& f) {
  if (p.fence || !p.bytes) return;
  const std::uint64_t memory = p.space == Space::shared ? (std::uint64_t(p.operation) << 32 | p.owner) + 1 : 0;
  for (std::uint64_t word = p.address / 4; word * 4 < p.address + p.bytes; ++word) f(Word{memory, word});
}

bool writes(const Performed& p) { return p.access != AccessKind::read; }

// How often the thread executed the site before, in the order of the program where copies are made by it.
std::uint64_t executions_before(const Log& log, std::size_t place) {
  const Performed& p = log[place];
  auto alike = [&](const Performed& other) {
    return thread_of(other) == thread_of(p) && other.copy == p.copy && other.module == p.module && other.site == p.site;
  };
  if (!by_copy(p)) return std::uint64_t(std::count_if(log.begin(), log.begin() + std::ptrdiff_t(place), alike));
  std::set<std::uint32_t> instructions;
  for (const Performed& other : log)
    if (alike(other) && other.instruction < p.instruction) instructions.insert(other.instruction);
  return instructions.size();
}

WitnessStep step_of(const Performed& p, bool second, const SiteOf& site_of) {
  WitnessStep step;
  step.second = second;
  step.op = p.fence ? "fence" : word(p.access);
  step.copy = by_copy(p);
  if (const Site* site = site_of(p.module, p.site)) {
    step.place = site->opcode;
    if (!site->source.empty()) {
      // Of an inlined function of the toolkit's headers: the line that calls it.
      auto own = std::find_if(site->source.begin(), site->source.end(), [](const SourceFrame& frame) {
        return frame.file.find("/include/") == std::string::npos;
      });
      const SourceFrame& frame = own == site->source.end() ? site->source.front() : *own;
      step.place = frame.file.substr(frame.file.rfind('/') + 1) + ":" + std::to_string(frame.line);
    }
  }
  step.address = p.address;
  step.bytes = p.bytes;
  step.shared = p.space == Space::shared;
  step.read = p.read;
  step.written = p.wrote ? p.written : p.read;
  step.age = p.age;
  return step;
}

} // namespace

SideBySide side_by_side(const Log& a, const Log& b, const Race::Instance& threads, const SiteOf& site,
                        std::size_t most) {
  // A thread may race with its own copies, which then are one of the columns.
  const bool alone = threads.first.launch == threads.second.launch && threads.first.block == threads.second.block &&
                     threads.first.thread == threads.second.thread;
  bool copies_second = false;
  for (const Performed& p : a)
    copies_second |=
        by_copy(p) && is_of(p, threads.second) && p.module == threads.second.module && p.site == threads.second.site;
  auto of_first = [&](const Performed& p) {
    return is_of(p, threads.first) && (!alone || by_copy(p) != copies_second);
  };
  auto of_second = [&](const Performed& p) {
    return is_of(p, threads.second) && (!alone || by_copy(p) == copies_second);
  };
  // Words that both use and one writes, in either run.
  struct Use {
    bool first = false, second = false, written = false;
  };
  std::map<Word, Use> uses;
  for (const Log* log : {&a, &b})
    for (const Performed& p : *log) {
      const bool first = of_first(p), second = of_second(p);
      if (!first && !second) continue;
      each_word(p, [&](const Word& word) {
        Use& use = uses[word];
        use.first |= first;
        use.second |= second;
        use.written |= writes(p);
      });
    }
  auto matters = [&](const Performed& p) {
    if (!is_of(p, threads.first) && !is_of(p, threads.second)) return false;
    bool any = p.fence;
    each_word(p, [&](const Word& word) {
      const Use& use = uses[word];
      any |= use.first && use.second && use.written;
    });
    return any;
  };
  std::vector<const Performed*> of_a, of_b;
  for (const Performed& p : a)
    if (matters(p)) of_a.push_back(&p);
  for (const Performed& p : b)
    if (matters(p)) of_b.push_back(&p);
  auto same = [](const Performed& x, const Performed& y) {
    return name_of(x) == name_of(y) && x.read == y.read && x.written == y.written && x.digest == y.digest &&
           x.age == y.age;
  };
  std::size_t parts = 0;
  while (parts < of_a.size() && parts < of_b.size() && same(*of_a[parts], *of_b[parts])) ++parts;
  const std::size_t begin = parts > most / 4 ? parts - most / 4 : 0;
  // The race's own accesses belong to the picture, however far before.
  auto steps = [&](const Log& log, const std::vector<const Performed*>& from) {
    const Performed *const first = log.data() + place_of(log, threads.first), *const second =
                                                                                  log.data() +
                                                                                  place_of(log, threads.second);
    std::vector<WitnessStep> all;
    for (std::size_t n = 0; n < std::min(begin, from.size()); ++n)
      if (from[n] == first || from[n] == second) all.push_back(step_of(*from[n], of_second(*from[n]), site));
    for (std::size_t n = begin; n < from.size() && all.size() < most; ++n) {
      all.push_back(step_of(*from[n], of_second(*from[n]), site));
      all.back().parts = n == parts;
    }
    return all;
  };
  return {steps(a, of_a), steps(b, of_b)};
}

std::optional<Race::Instance> parting_instance(const Log& a, const Log& b, const Race& race) {
  auto is_at = [](const Performed& p, const AccessName& name) {
    return !p.fence && p.launch == name.launch && p.module == name.module && p.site == name.site;
  };
  auto name_at = [&](std::size_t n) {
    AccessName name{a[n].operation, a[n].launch, a[n].block, a[n].thread, a[n].module, a[n].site, 0};
    name.nth = executions_before(a, n);
    return name;
  };
  auto overlap = [](const Performed& p, const Performed& q) {
    bool any = false;
    each_word(p, [&](const Word& word) { each_word(q, [&](const Word& other) { any |= word == other; }); });
    return any;
  };
  using Read = std::pair<std::uint64_t, std::uint32_t>;
  std::map<EventName, Read> read_in_b;
  for (const Performed& p : b)
    if (!p.fence) read_in_b[name_of(p)] = {p.read, p.digest};
  for (std::size_t n = 0; n < a.size(); ++n) {
    const bool first = is_at(a[n], race.first.name), second = is_at(a[n], race.second.name);
    if ((!first && !second) || a[n].access == AccessKind::write) continue;
    auto other = read_in_b.find(name_of(a[n]));
    if (other == read_in_b.end() || other->second == Read{a[n].read, a[n].digest}) continue;
    auto is_partner = [&](const Performed& p) {
      return ((first && is_at(p, race.second.name)) || (second && is_at(p, race.first.name))) && !same_agent(p, a[n]) &&
             overlap(p, a[n]);
    };
    std::size_t partner = n;
    while (partner > 0 && !is_partner(a[partner - 1])) --partner;
    if (partner > 0) {
      --partner;
    } else {
      for (partner = n; partner < a.size() && !is_partner(a[partner]);) ++partner;
      if (partner == a.size()) continue;
    }
    if (is_at(a[partner], race.first.name) && second) return Race::Instance{name_at(partner), name_at(n)};
    return Race::Instance{name_at(n), name_at(partner)};
  }
  return std::nullopt;
}

std::uint64_t context_switches(const Log& a, const Log& b) {
  auto by_threads = [](const Log& log) {
    std::vector<const Performed*> steps;
    for (const Performed& p : log)
      if (!by_copy(p)) steps.push_back(&p);
    return steps;
  };
  const std::vector<const Performed*> of_a = by_threads(a), of_b = by_threads(b);
  std::map<EventName, std::size_t> place;
  for (std::size_t n = 0; n < of_a.size(); ++n) place[name_of(*of_a[n])] = n;
  std::uint64_t count = 0;
  for (std::size_t n = 1; n < of_b.size(); ++n) {
    if (thread_of(*of_b[n]) == thread_of(*of_b[n - 1])) continue;
    auto before = place.find(name_of(*of_b[n - 1]));
    const bool as_in_a = before != place.end() && before->second + 1 < of_a.size() &&
                         name_of(*of_a[before->second + 1]) == name_of(*of_b[n]);
    count += !as_in_a;
  }
  return count;
}

std::size_t place_of(const Log& log, const AccessName& name) {
  auto is_side = [&](const Performed& p) {
    return is_of(p, name) && p.module == name.module && p.site == name.site && p.copy != Performed::Copy::reads;
  };
  std::uint64_t seen = 0;
  std::set<std::uint32_t> instructions; // that issue copies
  for (std::size_t n = 0; n < log.size(); ++n) {
    if (!is_side(log[n])) continue;
    if (by_copy(log[n]))
      instructions.insert(log[n].instruction);
    else if (seen++ == name.nth)
      return n;
  }
  if (instructions.size() <= name.nth) return log.size();
  const std::uint32_t wanted = *std::next(instructions.begin(), std::ptrdiff_t(name.nth));
  const auto found =
      std::find_if(log.begin(), log.end(), [&](const Performed& p) { return is_side(p) && p.instruction == wanted; });
  return std::size_t(found - log.begin());
}

std::vector<SitePair> changed_places(const Log& a, const Log& b, const Race::Instance& but) {
  struct Accesses {
    std::vector<const Performed*> all;
    bool shared = false, written = false; // by several threads
  };
  std::map<Word, Accesses> words;
  for (const Performed& p : a)
    each_word(p, [&](const Word& word) {
      Accesses& at = words[word];
      at.shared |= !at.all.empty() && !same_agent(*at.all.front(), p);
      at.written |= writes(p);
      if (at.all.size() < most_at_a_word) at.all.push_back(&p);
    });
  std::map<EventName, std::size_t> place;
  for (std::size_t n = 0; n < b.size(); ++n) place[name_of(b[n])] = n;
  constexpr std::size_t nowhere = std::size_t(-1);
  std::vector<std::size_t> places; // in b, of what a has
  places.reserve(a.size());
  for (const Performed& p : a) {
    const auto found = place.find(name_of(p));
    places.push_back(found == place.end() ? nowhere : found->second);
  }
  // The instance's own accesses: the nth executions of its sites.
  auto is_side = [&](const Performed& p, const AccessName& name) {
    return is_of(p, name) && p.module == name.module && p.site == name.site;
  };
  auto place_in = [&](const Performed& p) { return std::size_t(&p - a.data()); };
  std::set<SitePair> changed;
  for (const auto& [word, at] : words) {
    if (!at.shared || !at.written) continue;
    for (std::size_t i = 0; i < at.all.size(); ++i)
      for (std::size_t j = i + 1; j < at.all.size(); ++j) {
        const Performed &x = *at.all[i], &y = *at.all[j];
        if (same_agent(x, y) || (!writes(x) && !writes(y))) continue;
        const std::size_t x_in_b = places[place_in(x)], y_in_b = places[place_in(y)];
        if (x_in_b == nowhere || y_in_b == nowhere || x_in_b < y_in_b) continue;
        const bool own =
            (is_side(x, but.first) && is_side(y, but.second) && executions_before(a, place_in(x)) == but.first.nth &&
             executions_before(a, place_in(y)) == but.second.nth) ||
            (is_side(x, but.second) && is_side(y, but.first) && executions_before(a, place_in(x)) == but.second.nth &&
             executions_before(a, place_in(y)) == but.first.nth);
        if (own) continue;
        const SiteName one{x.module, x.site}, other{y.module, y.site};
        changed.insert({std::min(one, other), std::max(one, other)});
      }
  }
  return {changed.begin(), changed.end()};
}

} // namespace deadheat::search
