// Random little executions with slots of data beside a flag: what the detector's third pass finds are the pairs that
// the oracle names, as often as it does.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/unit/order_patterns.h"
#include "tests/unit/order_text.h"
#include "tests/unit/seeds.h"
#include "tests/unit/slots_oracle.h"

namespace deadheat::test {
namespace {

// Pairs of lines, and how often each.
using Counts = std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t>;

class SlotBuilder : public PatternBuilder {
 public:
  using PatternBuilder::PatternBuilder;

  void slot_step(std::uint64_t bits) {
    Choices choose(bits);
    const std::uint32_t what = choose.below(16);
    if (what == 15) return launches(choose);
    if (running_.empty()) return;
    if (what < 4)
      look(by(choose), choose);
    else if (what < 8)
      fill(by(choose), choose);
    else if (what < 11)
      hand_back_slot(choose);
    else if (what == 11)
      vote(by(choose));
    else if (what == 12) {
      Choices all(choose.below(5) + 5 * choose.below(7));
      Event event = by(choose);
      barrier(event, all);
    } else if (what == 13)
      say(by(choose), choose, choose.of({AccessKind::read, AccessKind::write, AccessKind::atomic}));
    else
      step(bits / 16);
  }

  // What threads come to says of each flagged read at random whether it was the last one.
  Flags flags(std::uint64_t seed) const {
    Flags all;
    const auto random = [&](std::uint64_t a, std::uint64_t b) {
      std::uint64_t i = (seed * 0x9e3779b97f4a7c15u ^ a) * 0xd6e8feb86659fd93u ^ b;
      i = (i ^ i >> 32) * 0x9e3779b97f4a7c15u;
      return i >> 40;
    };
    const std::vector<Event>& events = execution_.events;
    for (std::uint32_t read = 0; read < events.size(); ++read) {
      if (!events[read].polls || events[read].continued || events[read].instruction != Event::none) continue;
      ptx::FlaggedRead& flagged = all[read];
      flagged.data = 1 + std::uint32_t(random(read, 1001) % 3);
      flagged.moves_on = random(read, 1002) % 2;
      flagged.next.ends = random(read, 1003) % 2;
      flagged.behind_others.ends = random(read, 1004) % 2;
      for (std::uint32_t site = 0; site < events.size(); ++site) {
        if (site_of(execution_, site) != site || events[site].continued) continue;
        const std::uint64_t how = random(read, site) % 16;
        if (how < 3 && events[site].polls) {
          flagged.again.push_back(site);
          continue;
        }
        for (const bool others : {false, true}) {
          const std::uint64_t comes = (how + 7 * others) % 16;
          ptx::FlaggedRead::Next& next = others ? flagged.behind_others : flagged.next;
          if (comes < 11)
            next.behind.push_back(site);
          else if (comes < 14)
            next.beside.push_back(site);
        }
      }
    }
    return all;
  }

 private:
  Event by(Choices& choose) {
    Event event;
    event.block = some_block(choose);
    event.thread = choose.of(threads_of_block);
    return event;
  }
  void place(Event& event, Choices& choose) {
    event.shared = choose.below(4) == 0;
    share(event, choose);
    event.address = (event.shared ? 0 : memory) + 128 + 8 * choose.below(event.shared ? 1 : 2);
  }
  void add_pair(Event event) {
    add(event);
    event.address += event.bytes;
    event.continued = true;
    event.together = false;
    event.instruction = Event::none;
    add(event);
  }
  // Perhaps by the other lane of the warp, too.
  void add_pairs(Event event, Choices& choose) {
    const std::uint32_t first = std::uint32_t(execution_.events.size());
    add_pair(event);
    add_other_lane(event, choose, [&](Event& other) {
      other.instruction = event.instruction == Event::none ? first : event.instruction;
      if (!other.shared && choose.below(2)) other.address ^= 8;
      add_pair(other);
    });
  }
  void look(Event event, Choices& choose) {
    if (gone(event)) return;
    place(event, choose);
    event.access = AccessKind::read;
    event.ordering = Ordering::volatile_;
    event.scope = Scope::sys;
    event.polls = true;
    std::vector<std::uint32_t>& sites = sites_[event.shared];
    if (!sites.empty() && choose.below(2))
      event.instruction = sites[choose.below(std::uint32_t(sites.size()))];
    else
      sites.push_back(std::uint32_t(execution_.events.size()));
    add_pairs(event, choose);
  }
  void fill(Event event, Choices& choose) {
    if (gone(event)) return;
    place(event, choose);
    event.access = AccessKind::write;
    event.ordering = choose.of({Ordering::volatile_, Ordering::relaxed, Ordering::relaxed, Ordering::release});
    event.scope = event.ordering == Ordering::volatile_ ? Scope::sys : choose.of({Scope::gpu, Scope::cta, Scope::sys});
    const std::uint32_t shape = choose.below(8);
    event.repeats = choose.below(6) == 5;
    if (shape < 6) return add_pairs(event, choose);
    event.address += 4 * choose.below(2);
    if (shape == 6 && choose.below(2)) event.access = AccessKind::atomic, event.ordering = Ordering::relaxed;
    add(event);
  }
  void say(Event event, Choices& choose, AccessKind kind) {
    if (gone(event)) return;
    event.access = kind;
    event.address = memory + 64 + 4 * choose.below(2);
    event.ordering = choose.of({Ordering::relaxed, Ordering::volatile_});
    event.scope = event.ordering == Ordering::volatile_ ? Scope::sys : choose.of({Scope::gpu, Scope::cta});
    if (kind == AccessKind::atomic) {
      event.ordering = Ordering::relaxed;
      event.scope = Scope::gpu;
      event.reduction = choose.below(3) == 0;
    }
    event.unused = kind != AccessKind::write && !event.reduction && choose.below(5) == 4;
    add(event);
  }
  void vote(Event event) {
    event.kind = Event::Kind::warp_barrier;
    event.relaxed = true;
    event.group = ++groups_;
    for (event.thread = 0; event.thread < 2; ++event.thread)
      if (!gone(event)) add(event);
  }
  void use(Event event, Choices& choose) {
    if (gone(event)) return;
    event.access = AccessKind::write;
    event.address = memory + 256 + 4 * choose.below(2);
    add(event);
  }
  // Looked at, taken, told by somebody to somebody, filled again; parts are left out.
  void hand_back_slot(Choices& choose) {
    const Event reader = by(choose);
    Event writer = by(choose);
    if (choose.below(4) == 0) fill(writer, choose);
    look(reader, choose);
    const auto meet = [&](const Event& of) {
      Event event = of;
      const std::uint32_t how = choose.below(6);
      Choices which(how);
      if (how < 2) barrier(event, which);
      if (how == 2) vote(of);
    };
    if (choose.below(4)) use(reader, choose);
    meet(reader);
    Event teller = reader, hearer = writer;
    if (choose.below(3) == 0) teller.thread = choose.of(threads_of_block);
    if (choose.below(3) == 0) hearer.thread = choose.of(threads_of_block);
    if (choose.below(6)) say(teller, choose, choose.below(3) ? AccessKind::write : AccessKind::atomic);
    if (choose.below(6)) say(hearer, choose, choose.below(3) ? AccessKind::read : AccessKind::atomic);
    meet(hearer);
    if (choose.below(3) == 0) use(reader, choose);
    fill(writer, choose);
    if (choose.below(3) == 0) use(reader, choose);
  }

  std::vector<std::uint32_t> sites_[2]; // of flagged reads: of global memory, of shared memory
};

Counts found(const Records& records, const Flags& flags, const Execution& execution) {
  detect::FindOptions options;
  options.flagged = [&](const trace::Module&) { return flags; };
  const detect::Findings findings = records.findings(options);
  Counts counts;
  for (const detect::FoundRace& race : findings.races) {
    if (race.race_class != RaceClass::strong) continue;
    const auto event = [&](const detect::Touch& touch) {
      return findings.detector->sides().place(touch.place).site->source[0].line - 1;
    };
    std::uint32_t a = event(race.first), b = event(race.second);
    if (!execution.events[a].polls) std::swap(a, b);
    if (execution.events[a].polls) counts[{a, b}] += race.occurrences;
  }
  return counts;
}
Counts expected(const Flags& flags, const Execution& execution) {
  Counts counts;
  for (const auto& [read, write] : refilled(execution, flags))
    ++counts[{site_of(execution, read), site_of(execution, write)}];
  return counts;
}

std::string text(const Counts& counts) {
  std::string out;
  for (const auto& [pair, count] : counts)
    out += std::to_string(pair.first) + "-" + std::to_string(pair.second) + " (" + std::to_string(count) + ") ";
  return out + "\n";
}
std::string text(const std::vector<std::uint32_t>& sites) {
  std::string out;
  for (const std::uint32_t site : sites) out += " " + std::to_string(site);
  return out;
}
std::string text(const Flags& flags) {
  std::string out;
  for (const auto& [site, flagged] : flags) {
    out += "flagged read " + std::to_string(site) + ": data " + std::to_string(flagged.data) + ", again" +
           text(flagged.again) + (flagged.moves_on ? " (moves on)" : "") + ", behind" + text(flagged.next.behind) +
           (flagged.next.ends ? " end" : "") + ", beside" + text(flagged.next.beside) + "; behind others: behind" +
           text(flagged.behind_others.behind) + (flagged.behind_others.ends ? " end" : "") + ", beside" +
           text(flagged.behind_others.beside) + "\n";
  }
  return out;
}

TEST(SlotsOracle, ManyExecutions) {
  const std::uint64_t rounds = 4000 * seeds_times();
  std::uint64_t state = (1 + seeds_from()) * 88172645463325252ull | 1;
  const auto next = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  };
  std::size_t racy = 0, ordered = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const bool several = round / 2 % 3 == 2;
    SlotBuilder builder(round % 2 + 1, several, several && round % 5 == 0);
    const std::size_t length = 2 + next() % 14;
    for (std::size_t i = 0; i < length; ++i) builder.slot_step(next());
    const Flags flags = builder.flags(next());
    const Execution execution = builder.take();
    const Records records(execution, false);
    const Counts by_oracle = expected(flags, execution), by_detector = found(records, flags, execution);
    ASSERT_EQ(by_detector, by_oracle) << "round " << round << "\n"
                                      << text(execution) << text(flags) << "found:    " << text(by_detector)
                                      << "expected: " << text(by_oracle);
    (by_oracle.empty() ? ordered : racy) += 1;
  }
  EXPECT_GT(racy, rounds / 10);
  EXPECT_GT(ordered, rounds / 10);
}

} // namespace
} // namespace deadheat::test
