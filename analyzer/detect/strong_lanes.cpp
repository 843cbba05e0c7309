#include "analyzer/detect/strong_lanes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "analyzer/detect/batch.h"

namespace deadheat::detect {

namespace {

using Kept = StrongColumns::Kept;
constexpr std::uint32_t most_words = StrongColumns::count * 32 + 32 / 8;

// fixed: how many lanes there are, where it is known while this is compiled; else 0.
template <std::uint32_t fixed>
Kept how_alike(const std::uint64_t* values, std::uint32_t count) {
  if constexpr (fixed) count = fixed;
  std::uint64_t other = 0, bits = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    other |= values[i] ^ values[0];
    bits |= values[i];
  }
  return !other ? Kept::once : bits >> 32 ? Kept::wide : Kept::narrow;
}

// Returns the end.
template <std::uint32_t fixed, typename Value>
std::uint64_t* put_narrow(const Value* values, std::uint32_t count, std::uint64_t* to) {
  if constexpr (fixed) count = fixed;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t value = std::uint32_t(values[i]);
    std::memcpy(reinterpret_cast<std::byte*>(to) + i * sizeof value, &value, sizeof value);
  }
  return to + (count + 1) / 2;
}

template <std::uint32_t fixed>
std::uint64_t* put(const std::uint64_t* values, std::uint32_t count, Kept how, std::uint64_t* to) {
  if constexpr (fixed) count = fixed;
  if (how == Kept::narrow) return put_narrow<fixed>(values, count, to);
  if (how == Kept::once) count = 1;
  std::memcpy(to, values, count * sizeof *to);
  return to + count;
}

std::uint32_t words(Kept how, std::uint32_t count) {
  switch (how) {
    case Kept::once: return 1;
    case Kept::narrow: return (count + 1) / 2;
    case Kept::wide: return count;
    case Kept::as_before: return 0;
  }
  return 0;
}

// Returns the end.
template <std::uint32_t fixed>
std::uint64_t* put_columns(const trace::AccessView& view, std::uint32_t count, bool digests, StrongAccesses& of,
                           std::uint64_t* to) {
  std::array<std::uint64_t, 32> packed[4];
  const std::uint64_t* values[4] = {view.order_first, view.order_last, view.value_read, view.value_written};
  if (!fixed) {
    for (unsigned column = 0; column < 4; ++column) {
      pack_lanes(values[column], view.mask, packed[column].data());
      values[column] = packed[column].data();
    }
  }
  for (unsigned column = 0; column < 4; ++column) {
    Kept how = how_alike<fixed>(values[column], count);
    if (column == 1 && how != Kept::once &&
        std::memcmp(values[1], values[0], (fixed ? fixed : count) * sizeof(std::uint64_t)) == 0)
      how = Kept::as_before;
    StrongColumns::keep(of.columns, column, how);
    if (how != Kept::as_before) to = put<fixed>(values[column], count, how, to);
  }
  if (!digests) {
    *to = 0;
    return to + 1;
  }
  std::array<std::uint32_t, 32> by_rank;
  unsigned rank = 0;
  each_lane(view.mask, [&](unsigned lane) { by_rank[rank++] = view.digest[lane]; });
  StrongColumns::keep(of.columns, 4, Kept::narrow);
  return put_narrow<fixed>(by_rank.data(), count, to);
}

} // namespace

void put_values(const trace::AccessView& view, const std::array<std::uint8_t, 32>& lanes, bool digests,
                StrongAccesses& of, WordRoom& to) {
  const std::uint32_t count = std::uint32_t(std::popcount(view.mask));
  std::uint64_t *const begin = to.room(most_words), *end = begin;
  if (!of.in_order) {
    std::memcpy(end, lanes.data(), lanes.size());
    end += (count + 7) / 8;
  }
  end = count == 32 ? put_columns<32>(view, count, digests, of, end) : put_columns<0>(view, count, digests, of, end);
  to.added(std::uint32_t(end - begin), std::uint32_t(end - begin));
}

StrongColumns::StrongColumns(const StrongAccesses& of, const std::uint64_t* list) {
  const std::uint64_t* at = list + of.values;
  const std::uint32_t lanes = std::uint32_t(std::popcount(of.mask));
  if (!of.in_order) {
    lanes_ = reinterpret_cast<const std::uint8_t*>(at);
    at += (lanes + 7) / 8;
  }
  for (unsigned column = 0; column < count; ++column) {
    kept_[column] = kept(of.columns, column);
    at_[column] = at;
    if (kept_[column] == Kept::as_before) {
      kept_[column] = kept_[column - 1];
      at_[column] = at_[column - 1];
    } else {
      at += words(kept_[column], lanes);
    }
  }
}

std::uint64_t StrongColumns::word(unsigned column, unsigned rank) const {
  const std::uint64_t* const at = at_[column];
  if (kept_[column] == Kept::once) return *at;
  if (kept_[column] == Kept::wide) return at[rank];
  std::uint32_t value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(at) + rank * sizeof value, sizeof value);
  return value;
}

StrongView::StrongView(const Batch& batch, std::uint32_t number, unsigned worker)
    : batch_(&batch),
      all_(&batch.strong[number]),
      parts_(&batch.strong_parts[number * batch.weak.size()]),
      own_(parts_[worker].lanes),
      addresses_(batch.strong_lanes[worker].data() + parts_[worker].first),
      first_(parts_[worker].first) {
  if (!all_->in_order) order_ = StrongColumns(*all_, batch.strong_values.data()).lanes();
}

StrongView::StrongView(const StrongAccesses& all, const std::uint64_t* addresses, const std::uint32_t* digests)
    : all_(&all), own_(all.mask), addresses_(addresses), digests_(digests) {}

std::uint64_t StrongView::address(unsigned lane) const {
  std::uint32_t lanes = own_;
  const std::uint64_t* addresses = addresses_;
  for (std::size_t worker = 0; !(lanes >> lane & 1); ++worker) {
    lanes = parts_[worker].lanes;
    addresses = batch_->strong_lanes[worker].data() + parts_[worker].first;
  }
  if (!order_) return addresses[std::popcount(lanes & ((1u << lane) - 1))];
  for (const std::uint8_t* earlier = order_; *earlier != lane; ++earlier) addresses += lanes >> *earlier & 1;
  return *addresses;
}

unsigned StrongView::lanes(std::array<Lane, 32>& to) const {
  std::array<std::uint64_t, 32> address; // by lane
  const auto take = [&](std::uint32_t lanes, const std::uint64_t* addresses) {
    each_of(lanes, [&, at = addresses](unsigned lane) mutable { address[lane] = *at++; });
  };
  if (batch_) {
    for (std::size_t worker = 0; worker < batch_->strong_lanes.size(); ++worker)
      if (parts_[worker].lanes) take(parts_[worker].lanes, batch_->strong_lanes[worker].data() + parts_[worker].first);
  } else {
    take(own_, addresses_);
  }
  const StrongColumns columns = batch_ ? StrongColumns(*all_, batch_->strong_values.data()) : StrongColumns();
  unsigned place = 0;
  each_of(all_->mask, [&](unsigned lane) {
    const unsigned rank = unsigned(std::popcount(all_->mask & ((1u << lane) - 1)));
    to[place++] = {address[lane], digests_ ? digests_[lane] : columns.digest(rank), std::uint8_t(lane),
                   (all_->wrote >> lane & 1) != 0, columns.values(rank)};
  });
  return place;
}

} // namespace deadheat::detect
