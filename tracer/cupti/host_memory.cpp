#include "tracer/cupti/host_memory.h"

#include <cstring>

namespace deadheat::cupti {

namespace {

constexpr std::uint64_t most_told = std::uint64_t(1) << 20;  // at once
constexpr std::uint64_t gap = 16;  // unchanged bytes that are told along, rather than in two stretches

const std::uint8_t* memory_at(std::uint64_t address) { return reinterpret_cast<const std::uint8_t*>(address); }

}  // namespace

// Calls each(page number, first byte in it, bytes of it) until that returns false.
template <typename Each>
void HostMemory::each_page(std::uint64_t address, std::uint64_t bytes, Each&& each) {
  for (const std::uint64_t end = address + bytes; address < end;) {
    const std::uint64_t number = address / page_bytes, from = address % page_bytes;
    const std::uint64_t here = std::min(page_bytes - from, end - address);
    if (!each(number, from, here)) return;
    address += here;
  }
}

HostMemory::Page* HostMemory::page(std::uint64_t number, const Room& room) {
  auto found = pages_.find(number);
  if (found == pages_.end()) {
    if (!room(cost)) return nullptr;
    found = pages_.emplace(number, std::make_unique<Page>()).first;
  }
  return found->second.get();
}

bool HostMemory::device_reads(std::uint64_t address, std::uint64_t bytes, const Room& room, const Wrote& wrote) {
  std::uint64_t begin = 0, end = 0;  // of the stretch that is to be told
  std::vector<std::uint8_t> data;    // of it: what the copy says now
  auto tell = [&] {
    const bool go_on = data.empty() || wrote(begin, data.data(), data.size());
    data.clear();
    return go_on;
  };
  bool good = true;
  each_page(address, bytes, [&](std::uint64_t number, std::uint64_t from, std::uint64_t count) {
    Page* const kept = page(number, room);
    if (!kept) return good = false;
    const std::uint8_t* const now = memory_at(number * page_bytes + from);
    const auto* const states = kept->state.data() + from;
    const bool plain = std::all_of(states, states + count, [](Byte state) { return state == Byte::known; });
    if (plain && std::memcmp(now, kept->copy.data() + from, count) == 0) return true;
    for (std::uint64_t i = 0; i < count; ++i) {
      Byte& state = kept->state[from + i];
      std::uint8_t& copy = kept->copy[from + i];
      const std::uint8_t value = *const_cast<const volatile std::uint8_t*>(now + i);
      if (state == Byte::devices || (state == Byte::known && copy == value)) continue;
      state = Byte::known;
      copy = value;
      const std::uint64_t at = number * page_bytes + from + i;
      bool joins = !data.empty() && at - end <= gap && at - begin < most_told;
      for (std::uint64_t between = end; joins && between < at; ++between) {
        const Page* of = pages_.at(between / page_bytes).get();
        joins = of->state[between % page_bytes] == Byte::known;
      }
      if (!joins) {
        if (!tell()) return good = false;
        begin = end = at;
      }
      for (; end <= at; ++end) data.push_back(pages_.at(end / page_bytes)->copy[end % page_bytes]);
    }
    return true;
  });
  return tell() && good;
}

bool HostMemory::device_writes(const Writer& writer, const Room& room) {
  bool good = true;
  each_page(writer.address, writer.bytes, [&](std::uint64_t number, std::uint64_t from, std::uint64_t count) {
    Page* const kept = page(number, room);
    if (!kept) return good = false;
    std::fill_n(kept->state.begin() + std::ptrdiff_t(from), count, Byte::devices);
    return true;
  });
  writers_.push_back(writer);
  return good;
}

void HostMemory::submitted(const Writer& writer) {
  for (Writer& known : writers_) {
    if (known.operation == not_submitted && known.address == writer.address && known.handle == writer.handle) {
      known.operation = writer.operation;
      known.stream = writer.stream;
      return;
    }
  }
}

void HostMemory::withdraw(std::uint64_t address, void* handle) {
  const auto it = std::find_if(writers_.begin(), writers_.end(), [&](const Writer& writer) {
    return writer.operation == not_submitted && writer.address == address && writer.handle == handle;
  });
  if (it == writers_.end()) return; // the memory is gone
  const Writer writer = *it;
  writers_.erase(it);
  settle(writer.address, writer.bytes);
}

void HostMemory::settle(std::uint64_t address, std::uint64_t bytes) {
  device_wrote(address, bytes);
  const std::uint64_t end = address + bytes;
  for (const Writer& other : writers_) {  // others may still be writing some of it
    const std::uint64_t from = std::max(address, other.address), to = std::min(end, other.address + other.bytes);
    if (from >= to) continue;
    each_page(from, to - from, [&](std::uint64_t number, std::uint64_t first, std::uint64_t count) {
      if (const auto kept = pages_.find(number); kept != pages_.end()) {
        std::fill_n(kept->second->state.begin() + std::ptrdiff_t(first), count, Byte::devices);
      }
      return true;
    });
  }
}

void HostMemory::device_wrote(std::uint64_t address, std::uint64_t bytes) {
  each_page(address, bytes, [&](std::uint64_t number, std::uint64_t from, std::uint64_t count) {
    if (const auto kept = pages_.find(number); kept != pages_.end()) {
      std::memcpy(kept->second->copy.data() + from, memory_at(number * page_bytes + from), count);
      std::fill_n(kept->second->state.begin() + std::ptrdiff_t(from), count, Byte::known);
    }
    return true;
  });
}

void HostMemory::forget(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + bytes;
  std::erase_if(writers_,
                [&](const Writer& writer) { return writer.address < end && address < writer.address + writer.bytes; });
  each_page(address, bytes, [&](std::uint64_t number, std::uint64_t from, std::uint64_t count) {
    if (const auto kept = pages_.find(number); kept != pages_.end()) {
      std::fill_n(kept->second->state.begin() + std::ptrdiff_t(from), count, Byte::unknown);
    }
    return true;
  });
}

void HostMemory::clear() {
  pages_.clear();
  writers_.clear();
}

}  // namespace deadheat::cupti
