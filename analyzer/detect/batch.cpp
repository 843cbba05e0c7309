#include "analyzer/detect/batch.h"

#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

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
    T* const to = std::get_if<index>(&record); // which need not be cleared first
    std::memcpy(static_cast<void*>(to ? to : &record.emplace<index>()), from, sizeof(T));
  }
}

template <std::size_t... index>
constexpr auto take_table(std::index_sequence<index...>) {
  return std::array{&take_small<index>...};
}

// Of each of 32 lanes, a worker whose memory it touches: a byte each.
constexpr std::uint8_t nobody = 0xFF;
using OwnerBytes = std::array<std::uint8_t, 32>;
class Owners {
 public:
  // worker_of(lane) is asked for all lanes, from the last to the first.
  template <typename WorkerOf>
    requires std::is_invocable_v<WorkerOf, unsigned>
  explicit Owners(WorkerOf&& worker_of) {
    auto eight = [&](unsigned from) {
      std::uint64_t owners = 0;
      for (unsigned i = 8; i--;) owners = owners << 8 | worker_of(from + i);
      return static_cast<long long>(owners);
    };
    const long long d = eight(24), c = eight(16), b = eight(8), a = eight(0);
    high_ = _mm_set_epi64x(d, c);
    low_ = _mm_set_epi64x(b, a);
  }
  explicit Owners(const OwnerBytes& bytes)
      : low_(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data()))),
        high_(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data() + 16))) {}
  std::uint32_t lanes(unsigned worker) const { // that are the worker's
    const __m128i wanted = _mm_set1_epi8(char(worker));
    auto half = [&](__m128i owners) { return std::uint32_t(_mm_movemask_epi8(_mm_cmpeq_epi8(owners, wanted))); };
    return half(low_) | half(high_) << 16;
  }

 private:
  __m128i low_, high_;
};

// Does a lane's access end in the page where it begins, however wide it is?
bool ends_in_page(std::uint64_t address) { return address % page_bytes + most_lane_bytes <= page_bytes; }

} // namespace

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

// Each worker gets the lanes that touch its memory, so that none is looked at twice; `to` get it even when it has none.
void Batcher::weak_lanes(const trace::AccessView& view, WeakAccess weak, std::uint64_t memory, std::uint64_t to) {
  std::uint32_t across = 0; // lanes that may touch two pages
  const Owners owners([&, addresses = view.address](unsigned lane) {
    const std::uint64_t address = addresses[lane];
    across = across << 1 | std::uint32_t(!ends_in_page(address));
    return address < address_limit ? worker_of(memory, address / page_bytes) : nobody;
  });
  OwnerBytes further;
  further.fill(nobody);
  across &= view.mask;
  each_lane(across, [&](unsigned lane) {
    const std::uint64_t address = view.address[lane];
    if (address < address_limit) further[lane] = worker_of(memory, address / page_bytes + 1);
  });
  for (unsigned worker = 0; worker < routing_.workers; ++worker) {
    weak.mask = (owners.lanes(worker) & view.mask) | (across ? Owners(further).lanes(worker) : 0);
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
  owners.fill(nobody);
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
          const std::size_t at = batch_->small.size();
          batch_->small.resize(at + (sizeof(T) + 7) / 8);
          std::memcpy(&batch_->small[at], &r, sizeof(T));
          common({stamp, std::uint32_t(at), Batch::What::small, std::uint8_t(record.index())}, sizeof(T));
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
