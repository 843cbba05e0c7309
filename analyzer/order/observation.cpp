// Observation order (PTX ISA 8.9.2): which write a read saw, and who comes after a read that did.
#include <algorithm>

#include "analyzer/order/causality.h"

namespace deadheat::order {

// ---- which write

// The write that the access read, which begins `offset` bytes into the location, as far as its value matches. Where its
// place is not exact, one whose value tells goes before one whose value does not.
template <typename Matches>
const Causality::Write* Causality::observed_write(const LocationState& state, const StrongAccess& access,
                                                  std::uint64_t offset, Matches&& matches) {
  const bool guess = access.order_first != access.order_last;
  const Write* perhaps = nullptr;
  for (auto write = state.writes.rbegin(); write != state.writes.rend(); ++write) {
    if (write->bytes <= offset) continue;
    if (guess ? write->order_first >= access.order_last : access.order_last && write->order_last >= access.order_first)
      continue; // it comes after the read
    const Match match = matches(*write);
    if (match == Match::yes) return &*write;
    if (!guess) return match == Match::no ? nullptr : &*write;
    if (match == Match::perhaps && !perhaps) perhaps = &*write;
  }
  return perhaps;
}

// The atomic operation on a word around the access of which it read a part.
const Causality::Write* Causality::observed_around(const StrongAccess& access) const {
  const Write* seen = nullptr;
  for (std::uint32_t bytes = 2 * access.bytes; access.bytes && bytes <= 8; bytes *= 2) {
    Location around = access.location;
    around.address &= ~std::uint64_t(bytes - 1);
    if (!may_be_known(around)) continue;
    const std::uint64_t begin = 8 * (access.location.address - around.address);
    const std::uint64_t part = (std::uint64_t(1) << 8 * access.bytes) - 1;
    const Write* write = observed_write(locations_.at(around), access, begin / 8, [&](const Write& of) {
      if (!of.atomic || of.bytes != bytes) return Match::no;
      if (of.form || access.form) return Match::perhaps;
      return (of.value >> begin & part) == access.value_read ? Match::yes : Match::no;
    });
    if (write && (!seen || write->stamp > seen->stamp)) seen = write;
  }
  return seen;
}

const Causality::Write* Causality::observed_by(const StrongAccess& access, const LocationState& at) const {
  const bool exact = access.order_first == access.order_last;
  const Write* seen = observed_write(at, access, 0, [&](const Write& write) {
    if (write.form != access.form) return Match::perhaps;
    if (write.value == access.value_read) return Match::yes;
    return exact && access.form ? Match::perhaps : Match::no; // others may have written the vector's other elements
  });
  if (seen && seen->bytes != access.bytes) seen = nullptr;
  if (access.writes) return seen;
  const Write* around = observed_around(access);
  return around && (!seen || around->stamp > seen->stamp) ? around : seen;
}

// For one more. The oldest goes of those behind which another is as long: of what is longer a part may still be read.
void Causality::make_room(std::vector<Write>& writes) {
  if (writes.size() < most_writes) return;
  auto oldest = writes.begin();
  while (oldest != writes.end() &&
         std::none_of(oldest + 1, writes.end(), [&](const Write& later) { return later.bytes >= oldest->bytes; })) {
    ++oldest;
  }
  writes.erase(oldest == writes.end() ? writes.begin() : oldest);
}

// ---- who comes after

// The read is morally strong with the write that it observed, or reads a part of it.
void Causality::observe(const StrongAccess& read, const Write& write, Stamp now) {
  Location location = read.location;
  if (write.bytes != read.bytes) location.address &= ~std::uint64_t(write.bytes - 1);
  locations_.at(location).observations.add(read.thread, now, write.chain->first, write.stamp, last_sync(read.thread));
}

Causality::Observed Causality::observed(const Location& location, Stamp write, ThreadKey second, Stamp now) const {
  const auto found = locations_.find(location);
  if (found == locations_.end()) return Observed::no;
  const Observations& observations = found->second.observations;
  const Restriction what =
      location.block ? Restriction::shared : Restriction::none; // the reads are of that memory, too
  const auto in_block = [&](std::uint64_t block) {
    return observations.any(block, block, write, now,
                            [&](ThreadKey reader, Stamp read) { return ordered(reader, read, 0, second, what); });
  };
  if (in_block(second.block_bits())) return Observed::yes;
  // Whole operations: where none run beside others, the write's would come before, too.
  for (auto block = operations_.concurrent() ? observations.next_block(0) : std::nullopt; block;) {
    const OperationIndex operation = operation_of_block(*block);
    const std::uint64_t next = first_block_of(std::uint64_t(operation) + 1);
    if (operation != second.operation() && operations_ordered(operation, second) &&
        observations.any(*block, next - 1, write, now, [](ThreadKey, Stamp) { return true; }))
      return Observed::yes;
    block = observations.next_block(next);
  }
  // Blocks that the thread knows of.
  for (const Clock* clock : clocks_of(second, second.block_bits())) {
    if (!clock) continue;
    for (auto block = clock->next_block(0); block; block = clock->next_block(*block + 1)) {
      block = observations.next_block(*block);
      if (!block) break;
      if (clock->knows(*block) && in_block(*block)) return Observed::yes;
    }
  }
  return write <= observations.forgotten() ? Observed::perhaps : Observed::no;
}

} // namespace deadheat::order
