// Why two accesses are unordered although a third block hears of the first and tells the second: which of the two
// messages falls short, and how.
#include <utility>

#include "analyzer/detect/explain.h"

namespace deadheat::detect {

using order::ThreadKey;

namespace {

constexpr std::size_t most_relays = 8, most_told = 16, most_fences = 64; // of a race, of a block of these, of all

} // namespace

void Explainer::hears(std::size_t index, const FlagWrites& known, const FlagUse& use) {
  Case& entry = cases_[index];
  const std::optional<FlagWrite>& write = known.own ? known.own : known.other;
  const std::uint64_t block = use.thread.block_bits();
  if (!write || write->lost_to || !use.looks()) return;
  const auto relay = entry.relays.find(block);
  if (relay == entry.relays.end() ? entry.relays.size() >= most_relays : !relay->second.writes.empty()) return;
  if (relay == entry.relays.end()) by_block_[block].push_back(index);
  entry.relays[block] = Relay{Message{*write, use, {}, false}, {}, {}};
}

void Explainer::relay(Case& entry, const Flag& flag, const FlagUse& use) {
  if (use.writes) {
    const auto from = entry.relays.find(use.thread.block_bits());
    if (from != entry.relays.end() && (from->second.writes.size() < most_told || from->second.writes.count(flag))) {
      const auto fence = entry.relay_fences.find(use.thread);
      from->second.writes[flag] = {use, fence == entry.relay_fences.end() ? Fence{} : fence->second,
                                   from->second.in.barrier_after};
    }
  }
  if (!use.reads || !use.in_second_block(*entry.race)) return;
  for (auto& [block, relay] : entry.relays) {
    const auto known = relay.writes.find(flag);
    if (known == relay.writes.end() || known->second.use.thread == use.thread) continue;
    if (!relay.out || use.looks() || !relay.out->read.looks()) relay.out = Message{known->second, use, {}, false};
  }
}

void Explainer::relay_fence(Case& entry, ThreadKey thread, const Fence& fence) {
  if (const auto at = entry.relays.find(thread.block_bits()); at != entry.relays.end()) {
    Message& in = at->second.in;
    if (in.read.thread == thread && fence.acquires_more(in.after)) in.after = fence;
    if (entry.relay_fences.size() < most_fences || entry.relay_fences.count(thread))
      entry.relay_fences[thread].keep_widest(fence);
  }
  for (auto& [block, relay] : entry.relays) {
    if (!relay.out || relay.out->read.thread != thread) continue;
    if (fence.acquires_more(relay.out->after)) relay.out->after = fence;
  }
}

std::string Explainer::relayed(const Case& entry) const {
  const FoundRace& race = *entry.race;
  for (const auto& [block, relay] : entry.relays) {
    if (!relay.out) continue;
    const Message &in = relay.in, &out = *relay.out;
    const ThreadKey heard = in.read.thread, tells = out.write.use.thread;
    const auto at = [&](const char* what, const Mark& mark) { return what + place(mark); };
    const Hop first{race.first.thread, heard, at("the write at ", in.write.use.mark), at("the read at ", in.read.mark)};
    const Hop second{tells, race.second.thread, at("the write at ", out.write.use.mark),
                     at("the read at ", out.read.mark)};
    std::vector<std::string> lacks;
    const auto add = [&](std::vector<Lack> more) {
      for (Lack& lack : more) lacks.push_back(std::move(lack.words) + lack.beside);
    };
    if (in.write.use.thread != race.first.thread && !in.write.barrier_before && !in.write.handed_on)
      lacks.push_back("another thread than that of the first access makes " + first.the_write +
                      ", and no barrier of its block comes before");
    add(lacks_release(entry, in, first));
    add(lacks_acquire(entry, in, first));
    if (heard != tells && !out.write.barrier_before)
      lacks.push_back("another thread of the third block makes " + second.the_write + " than " + first.the_read +
                      ", and no barrier stands between");
    add(lacks_release(entry, out, second));
    add(lacks_acquire(entry, out, second));
    if (out.read.thread != race.second.thread && !out.barrier_after)
      lacks.push_back("another thread than that of the second access makes " + second.the_read +
                      ", and no barrier of its block follows");
    if (lacks.empty()) continue;
    std::string words = "a third block reads at " + place(in.read.mark) + " what the block of the first writes at " +
                        place(in.write.use.mark) + ", and writes at " + place(out.write.use.mark) +
                        " what the block of the second reads at " + place(out.read.mark) + ", but ";
    for (const std::string& lack : lacks) words += (&lack == &lacks.front() ? "" : "; ") + lack;
    return words;
  }
  return "";
}

} // namespace deadheat::detect
