#include "analyzer/detect/batch.h"

#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "analyzer/detect/packed.h"
#include "deadheat/address.h"
#include "deadheat/lanes.h"

namespace deadheat::detect {

namespace {

template <typename T>
constexpr bool plain_bytes = std::is_trivially_copyable_v<T> && alignof(T) <= 8;

template <std::size_t index>
void take_small(const std::uint64_t* from, trace::Record& record) {
  using T = std::variant_alternative_t<index, trace::Record>;
  if constexpr (plain_bytes<T>) {
    T* to = std::get_if<index>(&record); // which need not be cleared first
    if (!to) to = &record.emplace<index>();
    if constexpr (has_lanes<T>) {
      unpack(from, *to);
    } else {
      std::memcpy(static_cast<void*>(to), from, sizeof(T));
    }
  }
}

template <std::size_t... index>
constexpr auto take_table(std::index_sequence<index...>) {
  return std::array{&take_small<index>...};
}

// Does a lane's access end in the page where it begins, however wide it is?
bool ends_in_page(std::uint64_t address) { return address % page_bytes + most_lane_bytes <= page_bytes; }

} // namespace

// Of each of 32 lanes, a worker whose memory it touches: a byte each.
class Batcher::Owners {
 public:
  static constexpr std::uint8_t nobody = 0xFF;
  explicit Owners(const OwnerBytes& bytes, std::uint8_t bits = 0xFF)
      : low_(_mm_and_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data())), _mm_set1_epi8(char(bits)))),
        high_(_mm_and_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data() + 16)),
                            _mm_set1_epi8(char(bits)))) {}
  std::uint32_t lanes(unsigned worker) const { // that are the worker's
    const __m128i wanted = _mm_set1_epi8(char(worker));
    auto half = [&](__m128i owners) { return std::uint32_t(_mm_movemask_epi8(_mm_cmpeq_epi8(owners, wanted))); };
    return half(low_) | half(high_) << 16;
  }

 private:
  __m128i low_, high_;
};

std::uint64_t Batch::bytes() const {
  std::uint64_t count = common.capacity() * sizeof(Common) + strong.capacity() * sizeof(StrongAccesses) +
                        strong_masks.capacity() * sizeof(std::uint32_t) + strong_lanes.capacity() * sizeof(StrongLane) +
                        strong_values.capacity() * sizeof(StrongValues) + small.capacity() * 8 +
                        large.capacity() * sizeof(trace::Record) + addresses.capacity() * 256 +
                        digests.capacity() * 128;
  for (const auto& list : weak) count += list.capacity() * sizeof(WeakAccess);
  return count;
}

void Batch::clear() {
  for (auto& list : weak) list.clear();
  common.clear();
  strong.clear();
  strong_masks.clear();
  strong_lanes.clear();
  strong_values.clear();
  small.clear();
  large.clear();
  addresses.clear();
  digests.resize(1);
  stamps = accesses = filled = 0;
  last = false;
}

void Batch::take(const Common& entry, trace::Record& record) const {
  static constexpr auto table = take_table(std::make_index_sequence<std::variant_size_v<trace::Record>>());
  if (entry.what == What::large) {
    record = large[entry.index];
  } else {
    table[entry.alternative](&small[entry.index], record);
  }
}

Batcher::Batcher(const Routing& routing, Batch& batch, Full full) : routing_(routing), full_(std::move(full)) {
  for (unsigned part = 0; part < partitions; ++part) workers_[part] = std::uint8_t(part % routing.workers);
  begin(batch);
}

void Batcher::begin(Batch& batch) {
  batch_ = &batch;
  batch.weak.resize(routing_.workers);
}

// May the access touch a suspect word? Space::shared needs the launch's operation.
bool Batcher::wanted(const trace::AccessView& view) const {
  if (!routing_.suspects || routing_.everything_to_all) return true;
  std::uint64_t memory = 0;
  if (view.space == Space::shared) {
    const std::uint32_t operation = (*routing_.operations)[view.warp.launch];
    if (!operation) return true;
    memory = order::ThreadKey(operation, view.warp.block, 0).block_bits() + 1;
  }
  auto touches = [&](std::uint64_t low, std::uint64_t bytes) {
    return low < address_limit && routing_.suspects->touches(memory, low, bytes);
  };
  if (view.affine) {
    const std::uint64_t a = view.address[std::countr_zero(view.mask)],
                        b = view.address[31 - std::countl_zero(view.mask)];
    const std::uint64_t low = std::min(a, b), span = std::max(a, b) - low;
    if (span < 64 * page_bytes) return touches(low, span + most_lane_bytes);
  }
  for (std::uint32_t rest = view.mask; rest; rest &= rest - 1) {
    if (touches(view.address[std::countr_zero(rest)], most_lane_bytes)) return true;
  }
  return false;
}

bool Batcher::access(const trace::AccessView& view) {
  const std::uint32_t stamp = std::uint32_t(batch_->stamps) + 1;
  batch_->stamps += access_stamps;
  batch_->accesses += view.mask == ~0u ? 32u : unsigned(std::popcount(view.mask));
  if (view.strong && view.mask) {
    common({stamp, std::uint32_t(batch_->strong.size()), Batch::What::strong, 0},
           sizeof(StrongAccesses) + unsigned(std::popcount(view.mask)) * (sizeof(StrongLane) + sizeof(StrongValues)));
    strong(view);
  } else if (view.mask) {
    weak(view, stamp);
  }
  pass_on();
  return true;
}

void Batcher::weak(const trace::AccessView& view, std::uint32_t stamp) {
  std::uint64_t ranks = 0;
  if (view.space == Space::shared) {
    const std::uint32_t ends = 1u << (31 - std::countl_zero(view.mask)) | (view.mask & -view.mask);
    for (std::uint32_t rest = view.affine ? ends : view.mask; rest; rest &= rest - 1) {
      ranks |= view.address[std::countr_zero(rest)] >> cluster_shift;
    }
  }
  ranks ? weak_in_cluster(view, stamp) : weak(view, stamp, 0);
}

// Shared memory of several blocks of the cluster: an access for each. Lanes of one block keep their distances.
void Batcher::weak_in_cluster(const trace::AccessView& view, std::uint32_t stamp) {
  constexpr std::uint64_t most_rank = 255; // far above any cluster's; a damaged trace's is cut
  std::uint64_t offset[32] = {};
  for (std::uint32_t rest = view.mask; rest;) {
    const std::uint64_t rank = view.address[std::countr_zero(rest)] >> cluster_shift;
    trace::AccessView part = view;
    part.address = offset;
    part.mask = 0;
    for (std::uint32_t lanes = rest; lanes; lanes &= lanes - 1) {
      const unsigned lane = unsigned(std::countr_zero(lanes));
      if (view.address[lane] >> cluster_shift != rank) continue;
      part.mask |= 1u << lane;
      offset[lane] = view.address[lane] & cluster_offset_mask;
    }
    rest &= ~part.mask;
    weak(part, stamp, std::uint8_t(std::min(rank, most_rank)));
  }
}

void Batcher::weak(const trace::AccessView& view, std::uint32_t stamp, std::uint8_t rank) {
  if (!wanted(view)) return;
  const unsigned first = unsigned(std::countr_zero(view.mask)), last = 31 - unsigned(std::countl_zero(view.mask));
  WeakAccess weak;
  weak.base = view.address[first];
  weak.stamp = stamp;
  weak.mask = view.mask;
  weak.launch = view.warp.launch;
  weak.block = view.warp.block;
  weak.module = view.module;
  weak.site = view.site;
  weak.warp = std::uint8_t(view.warp.warp & 31);
  weak.space = view.space;
  weak.rank = rank;
  weak.affine = view.affine && view.stride == std::int32_t(view.stride);
  weak.stride = std::int32_t(weak.affine ? view.stride : 0);
  if (!weak.affine) {
    weak.addresses = std::uint32_t(batch_->addresses.size());
    std::memcpy(batch_->addresses.emplace_back().data(), view.address, 256);
    batch_->filled += 256;
  }
  if (routing_.suspects && view.digest) {
    weak.digests = std::uint32_t(batch_->digests.size());
    std::memcpy(batch_->digests.emplace_back().data(), view.digest, 128);
    batch_->filled += 128;
  }
  if (routing_.workers == 1) return weak_to(0, weak);
  const std::uint64_t memory = view.space == Space::shared ? std::uint64_t(view.warp.block) + 1 : 0;
  // Workers; 64 at most. Whoever has the first lane's memory counts what cannot be looked at.
  const std::uint64_t first_page = weak.base / page_bytes;
  const unsigned first_worker = worker_of(memory, first_page);
  std::uint64_t to = 1ull << first_worker;
  auto pages = [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t page = begin / page_bytes; page <= end / page_bytes; ++page) {
      if (page != first_page) to |= 1ull << worker_of(memory, page);
    }
  };
  if (routing_.everything_to_all || rank) { // which block a rank is, only its launch knows
    to = ~0ull;
  } else if (weak.affine) {
    const std::uint64_t other = view.address[last];
    const std::uint64_t low = std::min(weak.base, other), high = std::max(weak.base, other) + most_lane_bytes;
    if (low / page_bytes == first_page && high / page_bytes == first_page) return weak_to(first_worker, weak);
    if (high - low > 64 * page_bytes || high < low) {
      to = ~0ull;
    } else {
      pages(low, high);
    }
  } else {
    return weak_lanes(view, weak, memory, to);
  }
  if (routing_.workers < 64) to &= (1ull << routing_.workers) - 1;
  for (; to; to &= to - 1) weak_to(unsigned(std::countr_zero(to)), weak);
}

Batcher::Owners Batcher::owners_of(const PartBytes& parts) const {
  if (std::has_single_bit(routing_.workers)) return Owners(parts, std::uint8_t(routing_.workers - 1));
  OwnerBytes owners;
  for (unsigned lane = 0; lane < 32; ++lane) owners[lane] = workers_[parts[lane]];
  return Owners(owners);
}

// Each worker gets the lanes that touch its memory, so that none is looked at twice; `to` get it even when it has none.
// Of all 32 lanes, and without a branch for each: which of two workers has a lane's page is as good as random.
void Batcher::weak_lanes(const trace::AccessView& view, WeakAccess weak, std::uint64_t memory, std::uint64_t to) {
  constexpr std::uint64_t last = most_lane_bytes - 1; // byte that a lane's access may touch
  const auto both = [](std::uint64_t value) { return _mm_set1_epi64x(static_cast<long long>(value)); };
  __m128i any = _mm_setzero_si128(), ends = any; // bits of their addresses, and of where in their pages they may end
  for (unsigned lane = 0; lane < 32; lane += 2) {
    const __m128i address = _mm_loadu_si128(reinterpret_cast<const __m128i*>(view.address + lane));
    any = _mm_or_si128(any, address);
    ends = _mm_or_si128(ends, _mm_add_epi64(_mm_and_si128(address, both(page_bytes - 1)), both(last)));
  }
  const auto bits = [](__m128i two) {
    return std::uint64_t(_mm_cvtsi128_si64(_mm_or_si128(two, _mm_unpackhi_epi64(two, two))));
  };
  std::uint32_t lanes = view.mask; // that have an address
  if (bits(any) >= address_limit) [[unlikely]]
    each_lane(view.mask,
              [&](unsigned lane) { lanes &= ~(std::uint32_t(view.address[lane] >= address_limit) << lane); });
  const Owners begin = owners_of(partitions_of(memory, view.address));
  const Owners end = bits(ends) < page_bytes ? begin : owners_of(partitions_of(memory, view.address, last));
  for (unsigned worker = 0; worker < routing_.workers; ++worker) {
    weak.mask = (begin.lanes(worker) | end.lanes(worker)) & lanes;
    if (weak.mask || (to >> worker & 1)) weak_to(worker, weak);
  }
}

void Batcher::strong(const trace::AccessView& view) {
  StrongAccesses all;
  all.warp = view.warp;
  all.module = view.module;
  all.site = view.site;
  all.space = view.space;
  all.first = std::uint32_t(batch_->strong_lanes.size());
  std::array<std::uint8_t, 32> order;
  bool sorted = true;
  for (std::uint32_t rest = view.mask; rest; rest &= rest - 1) {
    const auto lane = std::uint8_t(std::countr_zero(rest));
    sorted = sorted && (!all.count || view.order_first[order[all.count - 1]] <= view.order_first[lane]);
    order[all.count++] = lane;
  }
  if (!sorted) {
    std::stable_sort(order.begin(), order.begin() + all.count,
                     [&](std::uint8_t a, std::uint8_t b) { return view.order_first[a] < view.order_first[b]; });
  }
  const std::uint64_t memory = view.space == Space::shared ? std::uint64_t(view.warp.block) + 1 : 0;
  OwnerBytes owners;
  owners.fill(Owners::nobody);
  std::array<StrongLane, 32> lanes;
  std::array<StrongValues, 32> values;
  for (unsigned i = 0; i < all.count; ++i) {
    const unsigned lane = order[i];
    const std::uint64_t address = view.address[lane];
    owners[i] = worker_of(memory, address / page_bytes);
    all.everybodys |= std::uint32_t(!ends_in_page(address) || (memory && address >> cluster_shift)) << i;
    lanes[i] = {address, view.digest ? view.digest[lane] : 0, std::uint8_t(lane), (view.wrote >> lane & 1) != 0};
    values[i] = {view.value_read[lane], view.value_written[lane], view.order_first[lane], view.order_last[lane]};
  }
  batch_->strong_lanes.insert(batch_->strong_lanes.end(), lanes.begin(), lanes.begin() + all.count);
  batch_->strong_values.insert(batch_->strong_values.end(), values.begin(), values.begin() + all.count);
  batch_->strong.push_back(all);
  for (unsigned worker = 0; worker < routing_.workers; ++worker)
    batch_->strong_masks.push_back(Owners(owners).lanes(worker) | all.everybodys);
}

std::uint8_t Batcher::owner(std::uint64_t memory, const std::array<std::uint64_t, 32>& addresses, std::uint32_t mask,
                            std::uint64_t bytes) const {
  if (routing_.workers == 1 || !mask || !bytes || bytes > page_bytes) return Batch::anybody;
  const std::uint64_t page = addresses[std::size_t(std::countr_zero(mask))] / page_bytes, last = bytes - 1;
  std::uint64_t other = 0; // bits in which the number of a page that they touch is another
  const auto touches = [&](std::uint64_t address) {
    other |= (address / page_bytes ^ page) | ((address + last) / page_bytes ^ page);
  };
  if (mask == ~0u) {
    for (const std::uint64_t address : addresses) touches(address);
  } else {
    each_lane(mask, [&](unsigned lane) { touches(addresses[lane]); });
  }
  return other ? Batch::anybody : worker_of(memory, page);
}

// Takes no stamp: it lies between that of what comes before and that of what comes after.
void Batcher::missing() {
  common({std::uint32_t(batch_->stamps) + 1, 0, Batch::What::missing, 0}, 0);
  pass_on();
}

bool Batcher::record(trace::Record& record) {
  const std::uint32_t stamp = std::uint32_t(++batch_->stamps);
  std::visit(
      [&](auto& r) {
        using T = std::decay_t<decltype(r)>;
        if constexpr (plain_bytes<T>) {
          std::vector<std::uint64_t>& small = batch_->small;
          const std::size_t at = small.size();
          Batch::Common entry{stamp, std::uint32_t(at), Batch::What::small, std::uint8_t(record.index()), {}};
          entry.owners.fill(Batch::anybody);
          if constexpr (std::is_same_v<T, trace::AsyncCopy>) {
            if (!routing_.suspects) r.digest = {};
            entry.owners = {owner(0, r.source, r.mask, r.bytes),
                            owner(std::uint64_t(r.warp.block) + 1, r.destination, r.mask, r.bytes)};
          } else if constexpr (std::is_same_v<T, trace::Mbarrier>) {
            entry.owners[0] = owner(std::uint64_t(r.block) + 1, r.address, r.mask, most_lane_bytes);
          }
          if constexpr (has_lanes<T>) {
            pack(r, small);
          } else {
            small.resize(at + (sizeof(T) + 7) / 8);
            std::memcpy(&small[at], &r, sizeof(T));
          }
          common(entry, 8 * (small.size() - at));
        } else {
          common({stamp, std::uint32_t(batch_->large.size()), Batch::What::large, 0}, sizeof(trace::Record));
          batch_->large.emplace_back(std::move(r));
        }
      },
      record);
  pass_on();
  return true;
}

} // namespace deadheat::detect
