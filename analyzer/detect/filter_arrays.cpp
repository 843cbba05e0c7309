#include "analyzer/detect/filter_arrays.h"

namespace deadheat::detect {

namespace {

template <typename Pools, typename Do, std::size_t... i>
void pick(Pools& pools, unsigned size, Do&& act, std::index_sequence<i...>) {
  ((size == i ? act(std::get<i>(pools)) : void()), ...);
}
using OfBlocks = std::make_index_sequence<EntryArrays::room.size()>;
using All = std::make_index_sequence<EntryArrays::room.size() + 1>;

} // namespace

Entry* EntryArrays::at_any(unsigned size, std::uint32_t id) const {
  Entry* found = nullptr;
  pick(pools_, size, [&](auto& pool) { found = pool.at(id); }, OfBlocks());
  return found;
}

std::uint32_t EntryArrays::allocate(unsigned size) {
  std::uint32_t id = 0;
  pick(pools_, size, [&](auto& pool) { id = pool.allocate(); }, All());
  return id;
}

void EntryArrays::free(unsigned size, std::uint32_t id) {
  pick(pools_, size, [&](auto& pool) { pool.free(id); }, All());
}

std::uint64_t EntryArrays::bytes() const {
  return std::apply([](auto&... pool) { return ((pool.bytes() + pool.free_bytes()) + ...); }, pools_);
}

bool EntryArrays::much_free() const {
  constexpr std::uint64_t little = 1 << 16;
  std::uint64_t used = 0, free = 0;
  std::apply([&](auto&... pool) { (void((used += pool.bytes(), free += pool.free_bytes())), ...); }, pools_);
  return free > used / 16 + little;
}

void EntryArrays::pack_one(unsigned size, std::uint32_t& id) {
  pick(pools_, size, [&](auto& pool) { pool.pack(id); }, All());
}

} // namespace deadheat::detect
