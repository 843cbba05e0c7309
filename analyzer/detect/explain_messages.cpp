// Why two accesses are unordered although a flag was written and read: which message between them falls short, and how.
#include <algorithm>

#include "analyzer/detect/explain.h"
#include "deadheat/lanes.h"

namespace deadheat::detect {

namespace {

using order::ThreadKey;

constexpr std::size_t most_flags = 64; // remembered a race, of each kind and, behind the first access, each site
constexpr std::size_t most_flags_behind = 512; // of all sites

constexpr const char* plain_write = "the write is a plain one, which releases nothing";
constexpr const char* plain_read = "the read is a plain one, which acquires nothing";

} // namespace

// Who gives a lock back, or says that data are there, by a plain store, races with those who look by atomics or in a
// loop that waits. That race is told by itself; to the data's it is the message that falls short. Strong reads by which
// data themselves are fetched look for nothing.
void Explainer::note_plain_flag(const FoundRace& race) {
  if (const Place* plain = plain_flag(race)) plain_flags_.insert(plain->side);
}

const Place* Explainer::plain_flag(const FoundRace& race) const {
  if (race.level == RaceLevel::stream || race.race_class != RaceClass::data) return nullptr;
  const Place &a = detector_.sides().place(race.first.place), &b = detector_.sides().place(race.second.place);
  if (!a.site || !b.site) return nullptr;
  for (const auto& [plain, strong] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    if (is_strong(plain->site->ordering) || !is_strong(strong->site->ordering) || plain->kind == strong->kind) continue;
    if (strong->kind == AccessKind::read && !may_poll(*strong->site)) continue;
    return plain;
  }
  return nullptr;
}

void Explainer::note_unused(const trace::Module& module) {
  const bool races = std::any_of(cases_.begin(), cases_.end(), [&](const Case& entry) {
    return detector_.sides().place(entry.race->first.place).module == module.id ||
           detector_.sides().place(entry.race->second.place).module == module.id;
  });
  if (!races) return;
  for (const std::uint32_t site : unused_atomics(text_, module))
    unused_.insert(detector_.sides().site(module.id, site));
}

// What races is no message about itself. A flag may stand on the line of the data, though.
bool Explainer::is_side(const FoundRace& race, PlaceId place) const {
  const Place& here = detector_.sides().place(place);
  const auto is = [&](PlaceId racing) {
    const Place& there = detector_.sides().place(racing);
    return here.side == there.side &&
           (!there.site || is_strong(there.site->ordering) == is_strong(here.site->ordering));
  };
  return is(race.first.place) || is(race.second.place);
}

void Explainer::flag(const trace::AccessView& view, PlaceId place, unsigned lane) {
  const Site& site = *detector_.sides().place(place).site;
  const ThreadKey thread = key_of(detector_.operation_of(view.warp.launch), view.warp, lane);
  const auto cases = by_block_.find(thread.block_bits());
  if (cases == by_block_.end()) return;
  const Flag flag{view.space == Space::shared ? thread.block_bits() + 1 : 0, view.address[lane]};
  FlagUse use{{view.module, view.site}, thread, site.ordering, site.scope};
  use.reads = site.access != AccessKind::write;
  use.writes = site.access == AccessKind::write || (site.access == AccessKind::atomic && view.wrote >> lane & 1);
  // Sums of floating-point numbers are no flags.
  use.unused = site.outcome_unused || site.opcode.starts_with("red") || unused_.contains(place) ||
               detector_.sides().place(place).float_add;
  use.in_shared = view.space == Space::shared;
  use.waits = may_poll(site) || is_acquire(site.ordering);
  for (const std::size_t index : cases->second) {
    Case& entry = cases_[index];
    const FoundRace& race = *entry.race;
    if (is_side(race, place)) continue;
    if (now_ > race.second.stamp) {
      flag_behind(entry, flag, use);
    } else if (now_ > race.first.stamp) {
      flag_between(entry, flag, use);
    } else {
      flag_before(entry, flag, use);
    }
  }
}

void Explainer::note_waiting(Case& entry, const Flag& flag, const FlagUse& use) {
  if (!use.reads || !use.waits || use.thread == entry.race->first.thread || !in_first_block(*entry.race, use)) return;
  if (entry.waiting.size() < most_flags || entry.waiting.count(use.thread))
    entry.waiting.insert_or_assign(use.thread, std::pair(flag, use.mark));
}

// What others of the first's block said before it made its access, and who of the second's heard that by then.
void Explainer::flag_before(Case& entry, const Flag& flag, const FlagUse& use) {
  const FoundRace& race = *entry.race;
  const auto known = entry.writes_before.find(flag);
  if (use.reads && known != entry.writes_before.end() && known->second.use.thread != use.thread &&
      in_second_block(race, use) && may_tell(race, use))
    entry.early_message = Message{known->second, use, {}, false};
  if (use.writes && use.thread != race.first.thread && in_first_block(race, use) &&
      (entry.writes_before.size() < most_flags || known != entry.writes_before.end())) {
    const auto fence = entry.fences_before.find(use.thread);
    entry.writes_before[flag] = {use, fence == entry.fences_before.end() ? Fence{} : fence->second};
  }
  note_waiting(entry, flag, use);
}

void Explainer::flag_between(Case& entry, const Flag& flag, const FlagUse& use) {
  const FoundRace& race = *entry.race;
  if (!entry.barrier) note_waiting(entry, flag, use);
  auto receive = [&](std::optional<Message>& message, const FlagWrite& write) {
    // The later one, but for one that says less than the former: nobody looked, or it was no strong read, or write, or
    // fetched data only.
    const auto plainer = [](const FlagUse& now, const FlagUse& former) {
      return !is_strong(now.ordering) && is_strong(former.ordering);
    };
    const bool less = message && ((use.unused && !message->read.unused) || plainer(use, message->read) ||
                                  plainer(write.use, message->write.use) || (looks(message->read) && !looks(use)));
    if (write.use.thread != use.thread && !less) message = Message{write, use, {}, false};
  };
  if (use.reads && use.thread != race.first.thread && in_second_block(race, use) && may_tell(race, use)) {
    const bool itself = use.thread == race.second.thread;
    if (const auto known = entry.writes.find(flag); known != entry.writes.end()) {
      if (known->second.own) receive(entry.messages[2 + itself], *known->second.own);
      if (known->second.other) receive(entry.messages[itself], *known->second.other);
    } else if (const auto early = entry.writes_before.find(flag); early != entry.writes_before.end()) {
      receive(entry.early_message, early->second);
    } else if (use.waits && !use.writes && !flag.first) {
      entry.waited_elsewhere = std::pair(flag, use.mark);
    }
  }
  if (use.writes && in_first_block(race, use)) {
    if (entry.waited_elsewhere && entry.waited_elsewhere->first == flag) entry.waited_elsewhere.reset();
    if (!entry.writes.count(flag)) { // an array that is stored by strong accesses does not keep the flag behind it out
      std::size_t& of_site = entry.flags_of[{use.mark.module, use.mark.site}];
      if (of_site >= most_flags || entry.writes.size() >= most_flags_behind) return;
      ++of_site;
    }
    // Of another thread, behind a barrier, the first's own fence counts in place of one of its own.
    auto fence = entry.fences.find(use.thread);
    if (fence == entry.fences.end() && entry.barrier) fence = entry.fences.find(race.first.thread);
    FlagWrites& known = entry.writes[flag];
    const bool own = use.thread == race.first.thread;
    // A chain of read-modify-writes carries what it began with (PTX ISA, "Release patterns").
    if (!use.reads) known.own = known.other = {};
    known.ever_own |= own;
    const FlagWrite write{use, fence == entry.fences.end() ? Fence{} : fence->second, entry.barrier,
                          known.ever_own && !own};
    (own ? known.own : known.other) = write;
  }
}

// The first read what the second then wrote, and the flag that says so came behind both; or another thread of the
// first's block waits for what comes behind both.
void Explainer::flag_behind(Case& entry, const Flag& flag, const FlagUse& use) {
  const FoundRace& race = *entry.race;
  if (const auto waits = entry.waiting.find(use.thread);
      waits != entry.waiting.end() && waits->second == std::pair(flag, use.mark))
    entry.still_waiting = use.mark;
  if (entry.late_message || race.first.thread.block_bits() == race.second.thread.block_bits()) return;
  if (detector_.sides().place(race.first.place).kind != AccessKind::read) return;
  if (use.reads && in_first_block(race, use) && may_tell(race, use)) {
    const auto known = entry.writes_behind.find(flag);
    if (known != entry.writes_behind.end()) entry.late_message = Message{known->second, use, {}, false};
  }
  if (use.writes && in_second_block(race, use) &&
      (entry.writes_behind.size() < most_flags || entry.writes_behind.count(flag)))
    entry.writes_behind[flag] = {use, {}};
}

// Nobody releases and nobody acquires, and neither thread has to do with it, or the read is an atomic operation whose
// result nobody looks at: threads of the two blocks happened to write and read one location, or both add to it. Shared
// memory is handed on by barriers, or by flags beside it.
bool Explainer::by_chance(const FoundRace& race, const Message& message) const {
  const FlagWrite& write = message.write;
  const FlagUse& read = message.read;
  if (write.before.mark || is_release(write.use.ordering) || message.after.mark || is_acquire(read.ordering))
    return false;
  if (read.unused && read.writes) return true;
  if (race.level == RaceLevel::shared && !read.in_shared) return true;
  return write.use.thread != race.first.thread && !write.barrier_before && !write.handed_on &&
         read.thread != race.second.thread && !message.barrier_after;
}

bool Explainer::only_early(const FoundRace& race, const Message& message) {
  const FlagWrite& write = message.write;
  const FlagUse& read = message.read;
  const bool released = is_release(write.use.ordering) || (is_strong(write.use.ordering) && write.before.mark);
  const bool acquired = is_acquire(read.ordering) || (is_strong(read.ordering) && message.after.mark);
  return released && acquired && (read.thread == race.second.thread || message.barrier_after);
}

std::vector<Explainer::Lack> Explainer::shortcomings(const FoundRace& race, const Message& message) const {
  const Apart between = apart(race.first.thread, race.second.thread);
  const FlagWrite& write = message.write;
  std::vector<Lack> wrong;
  const auto of_write = [&](std::string words) { wrong.push_back({std::move(words), true}); };
  const auto of_read = [&](std::string words) { wrong.push_back({std::move(words), false}); };
  if (write.use.thread != race.first.thread && !write.barrier_before && !write.handed_on) {
    of_write("another thread than that of the first access writes it, and no barrier of its block comes before");
  }
  const bool releases = is_release(write.use.ordering), fenced = bool(write.before.mark);
  if (!is_strong(write.use.ordering)) {
    of_write(plain_write);
  } else if (!releases && !fenced) {
    of_write("the write releases nothing: no fence (__threadfence) stands between the access and it");
  } else if (fenced && !releases && narrow(write.before.scope, between)) {
    of_write("the fence at " + place(write.before.mark) + " before it" + too_narrow(write.before.scope, between));
  }
  if (narrow(write.use.scope, between)) {
    of_write("the write" + too_narrow(write.use.scope, between));
  }
  const FlagUse& read = message.read;
  if (read.unused) of_read("nobody looks at what the read returned: it may have been the value from before");
  // Fences of each thread, before a barrier here and behind one there, are enough: who has one there lacks none.
  const bool acquires = is_acquire(read.ordering),
             fence_after = message.after.mark || (!wrong.empty() && message.behind_barrier.mark);
  if (!is_strong(read.ordering)) {
    of_read(plain_read);
  } else if (!acquires && !fence_after) {
    of_read("the read acquires nothing: no fence (__threadfence) follows it before the second");
  } else if (message.after.mark && !acquires && narrow(message.after.scope, between)) {
    of_read("the fence at " + place(message.after.mark) + " after it" + too_narrow(message.after.scope, between));
  }
  if (narrow(read.scope, between)) {
    of_read("the read" + too_narrow(read.scope, between));
  }
  if (read.thread != race.second.thread && !message.barrier_after) {
    of_read("another thread than that of the second access reads it, and no barrier of its block follows");
  }
  return wrong;
}

// Where plain data race, and no message of the two blocks was meant.
bool Explainer::by_another_block(const Case& entry) const {
  const auto is_plain = [&](const Touch& touch) {
    const Site* site = detector_.sides().place(touch.place).site;
    return site && !is_strong(site->ordering);
  };
  return entry.waited_elsewhere && !entry.early_message && !entry.late_message && is_plain(entry.race->first) &&
         is_plain(entry.race->second);
}

// That which lacks least is the one that was meant; of several, one that is looked for, and the two threads' own.
Explainer::Shortfall Explainer::shortfall(const Case& entry) const {
  const bool one_block = entry.race->first.thread.block_bits() == entry.race->second.thread.block_bits();
  Shortfall least;
  for (std::size_t n = entry.messages.size(); n-- > 0;) {
    if (!entry.messages[n] || by_chance(*entry.race, *entry.messages[n])) continue;
    // By a counter of all, where the second waits for another block: that one tells it. Lanes that pass values on
    // through volatile memory, without waiting for any, have no flags among them.
    if ((one_block || by_another_block(entry)) && !deliberate(*entry.messages[n])) continue;
    std::vector<Lack> lacks = shortcomings(*entry.race, *entry.messages[n]);
    // Nothing: it came too late, or from a write that another overwrote.
    if (lacks.empty()) continue;
    const auto lacking = [](const Message& message, std::size_t number) {
      return std::pair(number, !looks(message.read));
    };
    if (least.message && lacking(*entry.messages[n], lacks.size()) >= lacking(*least.message, least.lacks.size()))
      continue;
    least = {&*entry.messages[n], std::move(lacks)};
  }
  return least;
}

// Threads that draw numbers from one counter mean no message by it, unless something says so.
bool Explainer::deliberate(const Message& message) {
  return message.write.before.mark || is_release(message.write.use.ordering) ||
         !is_strong(message.write.use.ordering) || message.after.mark || message.read.waits;
}

std::string Explainer::lines_of(PlaceId place) const {
  const Site& site = *detector_.sides().place(place).site;
  if (site.source.empty()) return "site " + std::to_string(place);
  std::string lines;
  for (const SourceFrame& frame : site.source) lines += frame.file + ":" + std::to_string(frame.line) + "<";
  return lines;
}

// By the end that falls short: whoever else it tells something, or hears from, puts nothing right.
std::string Explainer::broken_message(std::size_t index) const {
  const Shortfall found = shortfall(cases_[index]);
  if (!found.message || !deliberate(*found.message)) return "";
  std::string name;
  for (const bool write : {true, false}) {
    const Mark& mark = write ? found.message->write.use.mark : found.message->read.mark;
    const auto lacks = [&](const Lack& lack) { return lack.of_write == write; };
    if (std::any_of(found.lacks.begin(), found.lacks.end(), lacks))
      name += lines_of(detector_.sides().site(mark.module, mark.site)) + ";";
  }
  for (const Lack& lack : found.lacks) name += lack.words + ";";
  return name;
}

std::string Explainer::plain_message(std::size_t index) const {
  const FoundRace& race = *cases_[index].race;
  const Place* plain = plain_flag(race);
  if (!plain || apart(race.first.thread, race.second.thread) == Apart::no) return "";
  const PlaceId place = plain == &detector_.sides().place(race.first.place) ? race.first.place : race.second.place;
  return lines_of(place) + ";" + (plain->kind == AccessKind::read ? plain_read : plain_write) + ";";
}

// A flag was written after the first access and read before the second: what keeps it from ordering them.
void Explainer::explain_message(const Case& entry, std::vector<std::string>& out) const {
  const FoundRace& race = *entry.race;
  const bool blocks_differ = apart(race.first.thread, race.second.thread) != Apart::no;
  auto flag_at = [&](const char* writer, const Message& message, const char* reader) {
    const std::string of_block = "the block of the ";
    return (blocks_differ ? of_block + writer : "their block") + " writes at " + place(message.write.use.mark) +
           " what " + (blocks_differ ? of_block + reader : "it") + " reads at " + place(message.read.mark);
  };
  if (Shortfall found = shortfall(entry); found.message) {
    found.lacks.front().words = flag_at("first", *found.message, "second") + ", but " + found.lacks.front().words;
    for (Lack& lack : found.lacks) out.push_back(std::move(lack.words));
    return;
  }
  const Place &a = detector_.sides().place(race.first.place), &b = detector_.sides().place(race.second.place);
  const bool one_launch = race.first.thread.operation() == race.second.thread.operation();
  if (blocks_differ && one_launch && by_another_block(entry)) {
    out.push_back(
        "the block of the second waits at " + place(entry.waited_elsewhere->second) +
        " for what the block of the first does not write in between: if a third block is to hand on there what "
        "that one tells it, a release, an acquire or a barrier is missing on the way, or a scope is too narrow");
    return;
  }
  if (!blocks_differ || has_message(entry)) return;
  const Apart between = apart(race.first.thread, race.second.thread);
  const bool strong_first = a.site && is_strong(a.site->ordering),
             strong_second = b.site && is_strong(b.site->ordering);
  if (strong_first && strong_second && !one_launch) {
    if (narrow(a.site->scope, between)) out.push_back("the first" + too_narrow(a.site->scope, between));
    if (narrow(b.site->scope, between)) out.push_back("the second" + too_narrow(b.site->scope, between));
  }
  const bool early = entry.early_message && only_early(race, *entry.early_message);
  if ((strong_first || strong_second) && !early) return; // a flag itself
  if (early || (entry.early_message && entry.first_fence.mark)) {
    out.push_back(flag_at("first", *entry.early_message, "second") +
                  ", but another thread than that of the first access writes it, and before that access: no barrier of "
                  "its block makes it wait");
  } else if (const Fence& fence = entry.first_fence.mark ? entry.first_fence : entry.second_fence;
             fence.mark && one_launch) {
    out.push_back("the fence at " + place(fence.mark) +
                  " alone orders nothing with another block: no strong write after it is read before the second");
  } else if (entry.late_message) {
    const bool itself = entry.late_message->read.thread == race.first.thread;
    out.push_back(flag_at("second", *entry.late_message, "first") + ", but " +
                  (itself ? "the first access comes before that read"
                          : "another thread than that of the first access reads it, and the first access does not wait "
                            "for that: no barrier of its block stands between"));
  } else if (entry.still_waiting && one_launch) {
    out.push_back("another thread of the block of the first waits at " + place(entry.still_waiting) +
                  " for what comes behind both, and the first access does not wait for that: no barrier of its block "
                  "stands between");
  }
}

} // namespace deadheat::detect
