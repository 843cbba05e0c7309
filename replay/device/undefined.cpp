// What undefined bits come to decide, and what the machine itself writes.
#include "replay/device/undefined.h"

#include <algorithm>
#include <cstring>

#include "replay/device/machine.h"
#include "replay/engine/written.h"

namespace deadheat::device {

using engine::UndefinedUse;

void UndefinedWords::add(std::uint64_t address, std::uint64_t bytes, std::uint32_t load) {
  for (std::uint64_t word = address / 8; word * 8 < address + bytes && words_.size() < most; ++word)
    words_[word] = load;
}

void UndefinedWords::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> found;
  for (auto at = words_.lower_bound(from / 8); at != words_.end() && at->first * 8 < from + bytes; ++at)
    found.push_back({std::max(at->first * 8, from) - from + to, at->second});
  for (const auto& [address, load] : found) add(address, std::min<std::uint64_t>(8, to + bytes - address), load);
}

void UndefinedWords::forget(std::uint64_t address, std::uint64_t bytes) {
  words_.erase(words_.lower_bound(address / 8), words_.lower_bound((address + bytes + 7) / 8));
}

std::uint32_t UndefinedLoads::add(const trace::MemoryError& error) {
  const auto [at, fresh] = numbers_.emplace(std::pair{error.module, error.site}, std::uint32_t(loads_.size()));
  if (fresh) loads_.push_back({error, false});
  return at->second;
}

const trace::MemoryError* UndefinedLoads::report(std::uint32_t load, const std::string& use) {
  Load& l = loads_[load];
  if (std::exchange(l.reported, true)) return nullptr;
  l.error.text += use;
  return &l.error;
}

namespace {

const char* text_of(UndefinedUse use) {
  switch (use) {
    case UndefinedUse::address: return ", and uses it as an address";
    case UndefinedUse::branch: return ", and decides by it what to do next";
    case UndefinedUse::operand: return ", and an atomic operation computes with it";
    case UndefinedUse::result: return ", and stores what it computes from it where the host can see it";
    case UndefinedUse::atomic:
    case UndefinedUse::discard: break;
  }
  return "";
}

} // namespace

void Machine::shared_written(Block& block, std::uint64_t offset, std::uint64_t bytes, std::uint64_t copied_from) {
  const LaunchRequest& request = block.launch->request;
  if (!request.mode.written || offset + bytes > request.total_shared) return;
  std::uint8_t* shadow = block.context.shared + engine::shared_shadow(request.total_shared) + offset;
  if (copied_from - device_arena < device_arena_bytes)
    std::memcpy(shadow, engine::written_shadow_of(copied_from), bytes);
  else
    std::memset(shadow, 0xff, bytes);
}

// The shadow follows a bulk copy; what it reduces into, and bytes that a schedule kept, count as written.
void Machine::bulk_written(Block& block, const AsyncCopy& copy) {
  if (!block.launch->request.mode.written) return;
  auto shadow_of = [&](std::uint64_t address) -> std::uint8_t* {
    if (address - shared_window < window_bytes) {
      const SharedPlace at = shared_place(block, address, copy.bytes);
      if (!at.block) return nullptr;
      return at.block->context.shared + engine::shared_shadow(block.launch->request.total_shared) + at.offset;
    }
    const std::uint64_t host = to_host(address);
    return host - device_arena < device_arena_bytes ? engine::written_shadow_of(host) : nullptr;
  };
  std::uint8_t* to = shadow_of(copy.destination);
  if (!to) return;
  const std::uint8_t* from = copy.reduction || !copy.data.empty() ? nullptr : shadow_of(copy.source);
  if (from)
    std::memmove(to, from, copy.bytes);
  else
    std::memset(to, 0xff, copy.bytes);
}

// The load that the undefined bits in a thread's hands come from.
std::uint32_t Machine::undefined_load(const engine::ThreadContext& thread, std::uint32_t site, std::uint64_t address,
                                      std::uint32_t bytes, bool atomic) {
  Block& block = *static_cast<Block*>(thread.block->block);
  const LaunchRequest& request = block.launch->request;
  const SharedPlace at = shared_place(block, address, bytes);
  const std::uint64_t offset = at.offset;
  const bool shared = at.block;
  auto undefined = [](const std::uint8_t* shadow, std::uint64_t begin, std::uint64_t end) {
    return std::any_of(shadow + begin, shadow + end, [](std::uint8_t byte) { return byte != 0xff; });
  };
  std::int64_t known = -1; // the memory holds a result of undefined bits
  const bool local = address - local_window < window_bytes;
  if (local) {
    const std::uint64_t host = std::uint64_t(thread.stack) + (address - local_window);
    known = block.undefined_local.find(host, bytes, [&](std::uint64_t word) {
      const std::uint64_t begin = std::max(word, host), end = std::min<std::uint64_t>(word + 8, host + bytes);
      return undefined(reinterpret_cast<const std::uint8_t*>(begin + thread.stack_bytes), 0, end - begin);
    });
  } else if (shared) {
    const std::uint8_t* shadow = at.block->context.shared + engine::shared_shadow(request.total_shared);
    known = at.block->undefined.find(offset, bytes, [&](std::uint64_t word) {
      return undefined(shadow, std::max(word, offset), std::min<std::uint64_t>(word + 8, offset + bytes));
    });
  } else if (address) {
    known = find_undefined(to_host(address), bytes);
  }
  if (known >= 0) return std::uint32_t(known);
  trace::MemoryError error;
  error.kind = trace::MemoryError::Kind::uninitialized;
  error.launch = request.launch;
  error.block = block.index;
  error.thread = thread.linear;
  error.module = request.module;
  error.site = site;
  error.address = address;
  error.bytes = bytes;
  error.access = atomic ? AccessKind::atomic : AccessKind::read;
  error.text = std::string(atomic ? "computes with " : "reads ") +
               (shared      ? "shared memory that no thread of the block wrote"
                : local     ? "local memory that the thread did not write"
                : discards_ ? "memory that nobody wrote since it was allocated or discarded"
                            : "memory that nobody wrote since it was allocated");
  bool freed = false;
  if (!shared && !local && address)
    error.nearest_allocation = options_.environment->nearest_allocation(address, &freed);
  return undefined_loads_.add(error);
}

std::int64_t Machine::find_undefined(std::uint64_t host, std::uint64_t bytes) const {
  return undefined_words_.find(host, bytes, [&](std::uint64_t word) {
    const std::uint64_t begin = std::max(word, host), end = std::min(word + 8, host + bytes);
    const std::uint8_t* shadow = engine::written_shadow_of(begin);
    return std::any_of(shadow, shadow + (end - begin), [](std::uint8_t byte) { return byte != 0xff; });
  });
}

void Machine::undefined(engine::ThreadContext& thread, std::uint32_t site, UndefinedUse use, std::uint64_t address,
                        std::uint32_t bytes) {
  if (!options_.sink || !options_.environment->tracks_written()) return;
  if (use == UndefinedUse::discard) {
    discards_ = true;
    return undefined_words_.forget(to_host(address), bytes);
  }
  Block& block = *static_cast<Block*>(thread.block->block);
  const bool atomic = use == UndefinedUse::atomic;
  const std::uint32_t load =
      atomic ? undefined_load(thread, site, address, bytes, true)
             : undefined_load(thread, thread.undefined_site, thread.undefined_address, thread.undefined_bytes, false);
  if (use == UndefinedUse::result) {
    const std::uint64_t host = to_host(address);
    if (const SharedPlace at = shared_place(block, address, bytes); at.block)
      return at.block->undefined.add(at.offset, bytes, load);
    if (address - local_window < window_bytes)
      return block.undefined_local.add(std::uint64_t(thread.stack) + (address - local_window), bytes, load);
    if (host - device_arena < device_arena_bytes) return undefined_words_.add(host, bytes, load);
  }
  report_undefined(load, text_of(use));
}

void Machine::report_undefined(std::uint32_t load, const std::string& use) {
  if (const trace::MemoryError* error = undefined_loads_.report(load, use)) options_.sink->record(*error);
}

void Machine::copy_undefined(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  if (!undefined_words_.empty()) undefined_words_.copy(to, from, bytes);
}

} // namespace deadheat::device
