#include "tracer/cupti/stream_values.h"

#include <algorithm>

namespace deadheat::cupti {

namespace {

// Of the bits that both the wait and the write have.
std::uint64_t part(std::uint64_t value, unsigned bits) { return bits < 64 ? value & 0xffffffffu : value; }

bool reaches(std::uint64_t found, std::uint64_t value, unsigned bits) {
  return !(part(found - value, bits) >> (bits - 1) & 1);
}

bool satisfies(std::uint64_t found, std::uint64_t value, unsigned bits, StreamValues::Until until) {
  switch (until) {
    case StreamValues::Until::at_least: return reaches(found, value, bits);
    case StreamValues::Until::equal: return part(found ^ value, bits) == 0;
    case StreamValues::Until::a_bit: return part(found & value, bits) != 0;
    case StreamValues::Until::no_bit: break;
  }
  return part(~(found | value), bits) != 0;
}

} // namespace

void StreamValues::wrote(std::uint64_t address, const Write& write) {
  std::vector<Write>& writes = writes_[address];
  if (writes.size() >= most_writes) writes.erase(writes.begin(), writes.begin() + most_writes / 2);
  writes.push_back(write);
}

const StreamValues::Write* StreamValues::seen(std::uint64_t address, std::uint64_t value, unsigned bits,
                                              Until until) const {
  const auto found = writes_.find(address);
  if (found == writes_.end()) return nullptr;
  const std::vector<Write>& writes = found->second;
  const auto does = [&](const Write& write) {
    return satisfies(write.value, value, std::min(bits, write.bits), until);
  };
  auto seen = std::find_if(writes.rbegin(), writes.rend(), does);
  if (seen == writes.rend()) return nullptr;
  const auto counted_up = [](const Write& from, const Write& to) {
    const unsigned both = std::min(from.bits, to.bits);
    return part(from.value ^ to.value, both) != 0 && reaches(to.value, from.value, both);
  };
  for (auto before = seen + 1; until == Until::at_least && before != writes.rend(); ++before) {
    if (!does(*before) || !counted_up(*before, *seen)) break;
    seen = before;
  }
  return &*seen;
}

} // namespace deadheat::cupti
