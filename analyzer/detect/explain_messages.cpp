// Why two accesses are unordered although a flag was written and read: which message between them falls short, and how.
#include <algorithm>
#include <utility>

#include "analyzer/detect/explain.h"
#include "deadheat/lanes.h"

namespace deadheat::detect {

namespace {

using order::ThreadKey;

using why::most_flags;
constexpr std::size_t most_flags_behind = 512; // of all sites

constexpr const char* plain_write = " is a plain one, which releases nothing";
constexpr const char* plain_read = " is a plain one, which acquires nothing";

std::string it(const std::string& named) { // where what was named before is meant
  return named == "the write" || named == "the read" ? "it" : named;
}

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
  const Flag flag{view.space == Space::shared ? thread.block_bits() + 1 : 0, view.address[lane]};
  FlagUse use{{view.module, view.site}, thread, site.ordering, site.scope};
  use.reads = site.access != AccessKind::write;
  use.writes = site.access == AccessKind::write || (site.access == AccessKind::atomic && view.wrote >> lane & 1);
  // Sums of floating-point numbers are no flags.
  use.unused = site.outcome_unused || site.opcode.starts_with("red") || unused_.contains(place) ||
               detector_.sides().place(place).float_add;
  use.in_shared = view.space == Space::shared;
  use.waits = may_poll(site) || is_acquire(site.ordering);
  use.stamp = now_;
  if (!flag.first) flag_elsewhere(flag, use);
  const auto cases = by_block_.find(thread.block_bits());
  if (cases == by_block_.end()) return;
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

// What others of the first's block said before it made its access, and who of the second's heard that by then.
void Explainer::flag_before(Case& entry, const Flag& flag, const FlagUse& use) {
  const FoundRace& race = *entry.race;
  const auto known = entry.writes_before.find(flag);
  if (use.reads && known != entry.writes_before.end() && known->second.use.thread != use.thread &&
      use.in_second_block(race) && may_tell(race, use))
    entry.early_message = Message{known->second, use, {}, false};
  if (use.writes && use.thread != race.first.thread && use.in_first_block(race) &&
      (entry.writes_before.size() < most_flags || known != entry.writes_before.end())) {
    const auto fence = entry.fences_before.find(use.thread);
    entry.writes_before[flag] = {use, fence == entry.fences_before.end() ? Fence{} : fence->second};
  }
  entry.note_waiting(flag, use);
}

void Explainer::flag_between(Case& entry, const Flag& flag, const FlagUse& use) {
  const FoundRace& race = *entry.race;
  if (!entry.barrier && !entry.met) entry.note_waiting(flag, use);
  auto receive = [&](std::optional<Message>& message, const FlagWrite& write) {
    // The later one, but for one that says less than the former: nobody looked, or it was no strong read, or write, or
    // fetched data only.
    const auto plainer = [](const FlagUse& now, const FlagUse& former) {
      return !is_strong(now.ordering) && is_strong(former.ordering);
    };
    const bool less = message && ((use.unused && !message->read.unused) || plainer(use, message->read) ||
                                  plainer(write.use, message->write.use) || (message->read.looks() && !use.looks()) ||
                                  (write.lost_to && !message->write.lost_to));
    if (write.use.thread != use.thread && !less) message = Message{write, use, {}, false};
  };
  if (use.reads && use.thread != race.first.thread && use.in_second_block(race) && may_tell(race, use)) {
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
  if (!entry.relays.empty()) relay(entry, flag, use);
  if (use.writes && use.in_first_block(race)) {
    if (entry.waited_elsewhere && entry.waited_elsewhere->first == flag) entry.waited_elsewhere.reset();
    if (!entry.writes.count(flag)) { // an array that is stored by strong accesses does not keep the flag behind it out
      std::size_t& of_site = entry.flags_of[{use.mark.module, use.mark.site}];
      if (of_site >= most_flags || entry.writes.size() >= most_flags_behind) return;
      ++of_site;
      if (!flag.first) told_[flag.second].push_back(std::size_t(&entry - cases_.data()));
    }
    // Of another thread, behind a barrier, the first's own fence counts in place of one of its own.
    const bool own = use.thread == race.first.thread;
    auto fence = entry.fences.find(use.thread);
    const bool behind = entry.barrier || why::meets(entry.met, use.thread, race.first.thread);
    const bool lent = fence == entry.fences.end() && behind && !own;
    if (lent) fence = entry.fences.find(race.first.thread);
    FlagWrites& known = entry.writes[flag];
    const bool ever_own = known.ever_own || own;
    FlagWrite write{use, fence == entry.fences.end() ? Fence{} : fence->second, behind, ever_own && !own, lent};
    const std::optional<FlagWrite>& former = own ? known.own : known.other;
    if (former && former->use.thread == use.thread) {
      write.released = former->released;
      if (is_release(former->use.ordering))
        write.released.keep_widest({former->use.mark, former->use.ordering, former->use.scope, former->use.stamp});
    }
    if (!own && !use.reads && known.own && known.own->releases()) write.over = known.own->use.mark;
    lose(known, race.second.thread, use);
    // A chain of read-modify-writes carries what it began with (PTX ISA, "Release patterns").
    if (!use.reads) known.own = known.other = {};
    known.ever_own = ever_own;
    (own ? known.own : known.other) = std::move(write);
  }
}

// "Observation order relates a write W to a read R through an optional sequence of atomic read-modify-write operations"
// that are morally strong (PTX ISA, "Observation order"); what the same thread stores behind its release is a part of
// that pattern.
void Explainer::lose(FlagWrites& known, ThreadKey reader, const FlagUse& use) const {
  for (std::optional<FlagWrite>* const write : {&known.own, &known.other}) {
    if (!*write || (*write)->lost_to || (*write)->use.thread == use.thread) continue;
    if (!use.reads || narrow(use.scope, apart(use.thread, (*write)->use.thread)) ||
        narrow(use.scope, apart(use.thread, reader)))
      (*write)->lost_to = use;
  }
}

// Threads of other blocks than the first's that write a flag of its, or look at it.
void Explainer::flag_elsewhere(const Flag& flag, const FlagUse& use) {
  const auto cases = told_.find(flag.second);
  if (cases == told_.end()) return;
  std::erase_if(cases->second, [&](std::size_t index) { return now_ > cases_[index].race->second.stamp; });
  for (const std::size_t index : cases->second) {
    Case& entry = cases_[index];
    if (use.in_first_block(*entry.race)) continue;
    FlagWrites& known = entry.writes[flag];
    if (use.reads && !use.in_second_block(*entry.race)) hears(index, known, use);
    if (use.writes) lose(known, entry.race->second.thread, use);
  }
}

// The first read what the second then wrote, and the flag that says so came behind both; or another thread of the
// first's block waits for what comes behind both.
void Explainer::flag_behind(Case& entry, const Flag& flag, const FlagUse& use) {
  const FoundRace& race = *entry.race;
  if (const auto waits = entry.waiting.find(use.thread);
      waits != entry.waiting.end() && waits->second == std::pair(flag, use.mark))
    entry.still_waiting = use.mark;
  heard_behind(entry, flag, use);
  if (entry.late_message || race.first.thread.block_bits() == race.second.thread.block_bits()) return;
  if (detector_.sides().place(race.first.place).kind != AccessKind::read) return;
  if (use.reads && use.in_first_block(race) && may_tell(race, use)) {
    const auto known = entry.writes_behind.find(flag);
    if (known != entry.writes_behind.end()) entry.late_message = Message{known->second, use, {}, false};
  }
  if (use.writes && use.in_second_block(race) &&
      (entry.writes_behind.size() < most_flags || entry.writes_behind.count(flag)))
    entry.writes_behind[flag] = {use, {}};
}

// A flag that the second's block looks at too late: its thread itself, or one that it does not wait for.
void Explainer::heard_behind(Case& entry, const Flag& flag, const FlagUse& use) {
  const FoundRace& race = *entry.race;
  if (entry.heard_late || race.first.thread.operation() != race.second.thread.operation() ||
      race.first.thread.block_bits() == race.second.thread.block_bits())
    return;
  if (use.writes && use.in_first_block(race)) {
    if (!entry.writes.count(flag) && entry.writes.size() >= most_flags_behind) return;
    FlagWrites& known = entry.writes[flag];
    std::optional<FlagWrite>& write = use.thread == race.first.thread ? known.own : known.other;
    if (!write) write = FlagWrite{use, {}};
  }
  if (!use.in_second_block(race)) return;
  // Where each tells the other, as blocks do at their barriers, an access ahead of that may be in its right place.
  const bool answers = entry.answered.count(flag);
  if (use.writes && entry.answered.size() < most_flags) entry.answered.insert(flag);
  if (!use.reads || !use.waits || (use.thread == race.second.thread ? answers : entry.second_passed)) return;
  const FlagWrite* write = nullptr;
  if (const auto known = entry.writes.find(flag); known != entry.writes.end()) {
    for (const auto& of : {&known->second.own, &known->second.other})
      if (!write && *of && (*of)->use.thread != use.thread) write = &**of;
  } else if (const auto early = entry.writes_before.find(flag); early != entry.writes_before.end()) {
    write = &early->second;
  }
  if (write) entry.heard_late = Message{*write, use, {}, false};
}

// Nobody releases and nobody acquires, and neither thread has to do with it, or the read is an atomic operation whose
// result nobody looks at: threads of the two blocks happened to write and read one location, or both add to it. Shared
// memory is handed on by barriers, or by flags beside it.
bool Explainer::by_chance(const FoundRace& race, const Message& message) const {
  const FlagWrite& write = message.write;
  const FlagUse& read = message.read;
  if (write.before.mark || is_release(write.use.ordering) || write.released.mark || message.after.mark ||
      is_acquire(read.ordering))
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

// A release is the flag's write itself, one of the flag by its thread before it, or a fence of its thread. A fence of
// another thread, ahead of a barrier, is one with a fence of the other side alone (Fence-SC order).
std::vector<Explainer::Lack> Explainer::lacks_release(const Case& entry, const Message& message, const Hop& hop) const {
  const FlagWrite& write = message.write;
  const Apart between = apart(hop.from, hop.to);
  const Fence &before = write.before, &behind = message.after.mark ? message.after : message.behind_barrier;
  const bool fenced = before.releases(), released = bool(write.released.mark);
  const bool in_fence_order = before.ordering == Ordering::sc &&
                              (behind.mark ? behind.ordering == Ordering::sc : !is_acquire(message.read.ordering));
  std::vector<Lack> lacks;
  const auto lack = [&](std::string words, std::string beside = {}) {
    lacks.push_back({std::move(words), true, std::move(beside)});
  };
  if (!is_strong(write.use.ordering)) {
    lack(hop.the_write + plain_write);
  } else if (is_release(write.use.ordering) || (released && !narrow(write.released.scope, between))) {
    // Its scope is told below.
  } else if (fenced && narrow(before.scope, between)) {
    lack("the fence at " + place(before.mark) + " before " + it(hop.the_write) + too_narrow(before.scope, between));
  } else if (fenced && write.lent && !in_fence_order) {
    lack(hop.the_write + " releases nothing: the fence at " + place(before.mark) +
         " is another thread's, and it needs one of its own (__threadfence), behind the barrier");
  } else if (fenced) {
  } else if (released) {
    lack("the release at " + place(write.released.mark) + ", of which " + hop.the_write + " is a part," +
         too_narrow(write.released.scope, between));
  } else if (before.mark) {
    lack(hop.the_write + " releases nothing: the fence at " + place(before.mark) + " before it only acquires");
  } else {
    std::string words = hop.the_write + " releases nothing: no fence (__threadfence) of its thread stands between ";
    words += hop.from == entry.race->first.thread ? "the first access and it" : "what it heard and it";
    std::string beside;
    const auto late = entry.fences.find(write.use.thread);
    if (late != entry.fences.end() && late->second.stamp > write.use.stamp)
      beside = ", the one at " + place(late->second.mark) + " comes behind it";
    else if (entry.just_before.mark && write.use.thread == entry.race->first.thread)
      beside = ", the one at " + place(entry.just_before.mark) + " comes before both";
    lack(std::move(words), std::move(beside));
  }
  if (narrow(write.use.scope, between)) lack(hop.the_write + too_narrow(write.use.scope, between));
  return lacks;
}

std::vector<Explainer::Lack> Explainer::lacks_acquire(const Case& entry, const Message& message, const Hop& hop) const {
  const FlagUse& read = message.read;
  const Apart between = apart(hop.from, hop.to);
  const Fence &after = message.after, &behind = message.behind_barrier, &before = message.write.before;
  // Fences of each thread, before a barrier here and behind one there, are enough: who has one there lacks none.
  const bool unreleased = !before.mark && !is_release(message.write.use.ordering) && !message.write.released.mark;
  const bool in_fence_order = unreleased || (before.ordering == Ordering::sc && before.mark);
  std::vector<Lack> lacks;
  const auto lack = [&](std::string words, std::string beside = {}) {
    lacks.push_back({std::move(words), false, std::move(beside)});
  };
  if (read.unused) lack("nobody looks at what " + hop.the_read + " returned: it may have been the value from before");
  if (!is_strong(read.ordering)) {
    lack(hop.the_read + plain_read);
  } else if (is_acquire(read.ordering)) {
    // Its scope is told below.
  } else if (after.acquires()) {
    if (narrow(after.scope, between))
      lack("the fence at " + place(after.mark) + " after " + it(hop.the_read) + too_narrow(after.scope, between));
  } else if (behind.mark && narrow(behind.scope, between)) {
    lack("the fence at " + place(behind.mark) + " behind the barrier after " + it(hop.the_read) +
         too_narrow(behind.scope, between));
  } else if (behind.mark && in_fence_order && behind.ordering == Ordering::sc) {
  } else if (behind.mark) {
    lack(hop.the_read + " acquires nothing: the fence at " + place(behind.mark) +
         " is another thread's, and it needs one of its own (__threadfence), before the barrier");
  } else if (after.mark) {
    lack(hop.the_read + " acquires nothing: the fence at " + place(after.mark) + " after it only releases");
  } else {
    std::string words = hop.the_read + " acquires nothing: no fence (__threadfence) of its thread follows it before ";
    words += hop.to == entry.race->second.thread ? "the second" : "it is handed on";
    std::string beside;
    const Fence& early = entry.second_fence;
    if (early.mark && early.stamp < read.stamp && read.thread == entry.race->second.thread)
      beside = ", the one at " + place(early.mark) + " comes before it";
    lack(std::move(words), std::move(beside));
  }
  if (narrow(read.scope, between)) lack(hop.the_read + too_narrow(read.scope, between));
  return lacks;
}

// What stands at the flag when it is read is another write, which does not carry this one's release on.
std::string Explainer::lost(const Message& message, const Hop& hop) const {
  const FlagWrite& write = message.write;
  if (write.over)
    return hop.the_write + " is a store over what another thread released at " + place(write.over) +
           ": only atomic read-modify-writes carry that on, and who stores has to have acquired it and to release in "
           "turn";
  if (!write.lost_to) return "";
  const FlagUse& use = *write.lost_to;
  if (use.thread == message.read.thread) return ""; // the look itself
  const std::string by = " at " + place(use.mark) + ", by another thread,";
  if (use.reads && narrow(write.use.scope, apart(hop.from, hop.to))) return ""; // told already
  if (use.reads)
    return "the atomic operation" + by + " comes in between with " + name(use.scope) +
           " scope only: what was released ahead of it does not pass through it";
  return "the store" + by +
         " overwrites that before it is read: only atomic read-modify-writes carry on what was released, and who "
         "stores has to have acquired it and to release in turn";
}

std::vector<Explainer::Lack> Explainer::shortcomings(const Case& entry, const Message& message) const {
  const FoundRace& race = *entry.race;
  const Hop hop{race.first.thread, race.second.thread};
  const FlagWrite& write = message.write;
  std::vector<Lack> wrong;
  if (write.use.thread != race.first.thread && !write.barrier_before && !write.handed_on) {
    wrong.push_back(
        {"another thread than that of the first access writes it, and no barrier of its block comes before"});
  }
  for (Lack& lack : lacks_release(entry, message, hop)) wrong.push_back(std::move(lack));
  if (std::string lack = lost(message, hop); !lack.empty()) wrong.push_back({std::move(lack), true, {}, true});
  for (Lack& lack : lacks_acquire(entry, message, hop)) wrong.push_back(std::move(lack));
  if (message.read.thread != race.second.thread && !message.barrier_after) {
    wrong.push_back(
        {"another thread than that of the second access reads it, and no barrier of its block follows", false});
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
    if ((one_block || by_another_block(entry)) && !entry.messages[n]->deliberate()) continue;
    std::vector<Lack> lacks = shortcomings(entry, *entry.messages[n]);
    // Nothing: it came too late.
    if (lacks.empty()) continue;
    const auto lacking = [](const Message& message, std::size_t number) {
      return std::pair(number, !message.read.looks());
    };
    if (least.message && lacking(*entry.messages[n], lacks.size()) >= lacking(*least.message, least.lacks.size()))
      continue;
    least = {&*entry.messages[n], std::move(lacks)};
  }
  return least;
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
  Shortfall found = shortfall(cases_[index]);
  if (!found.message || !found.message->deliberate()) return "";
  std::string name;
  if (found.lacks.size() > 1) std::erase_if(found.lacks, [](const Lack& lack) { return lack.between; });
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
  return lines_of(place) + ";" +
         (plain->kind == AccessKind::read ? std::string("the read") + plain_read
                                          : std::string("the write") + plain_write) +
         ";";
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
    for (Lack& lack : found.lacks) out.push_back(std::move(lack.words) + lack.beside);
    return;
  }
  const Place &a = detector_.sides().place(race.first.place), &b = detector_.sides().place(race.second.place);
  const bool one_launch = race.first.thread.operation() == race.second.thread.operation();
  if (blocks_differ && one_launch && by_another_block(entry)) {
    const std::string handed_on = relayed(entry);
    out.push_back(
        !handed_on.empty()
            ? handed_on
            : "the block of the second waits at " + place(entry.waited_elsewhere->second) +
                  " for what the block of the first does not write in between: if a third block is to hand on there "
                  "what that one tells it, a release, an acquire or a barrier is missing on the way, or a scope is too "
                  "narrow");
    return;
  }
  if (!blocks_differ || entry.has_message()) return;
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
  } else if (entry.heard_late && !entry.late_message) {
    const Message& late = *entry.heard_late;
    const FlagWrite& write = late.write;
    std::string words = flag_at("first", late, "second") + ", but ";
    if (write.use.stamp < race.first.stamp) {
      words +=
          "another thread than that of the first access writes it, and before that access: no barrier of its block "
          "makes it wait; ";
    } else if (write.use.thread != race.first.thread && !write.barrier_before && write.use.stamp < race.second.stamp) {
      words += "another thread than that of the first access writes it, and no barrier of its block comes before; ";
    }
    out.push_back(words + (late.read.thread == race.second.thread
                               ? "the second access comes before that read"
                               : "another thread than that of the second access reads it, and the second access does "
                                 "not wait for that: no barrier of its block stands between"));
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
