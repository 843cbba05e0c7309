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
void take_small(const std::uint64_t* from, trace::Record& record, bool columns) {
  using T = std::variant_alternative_t<index, trace::Record>;
  if constexpr (plain_bytes<T>) {
    T* to = std::get_if<index>(&record); // which need not be cleared first
    if (!to) to = &record.emplace<index>();
    if constexpr (has_lanes<T>) {
      unpack(from, *to, columns || !std::is_same_v<T, trace::AsyncCopy>);
    } else {
      std::memcpy(static_cast<void*>(to), from, sizeof(T));
    }
  }
}

template <std::size_t... index>
constexpr auto take_table(std::index_sequence<index...>) {
  return std::array{&take_small<index>...};
}

} // namespace

// Of each of 32 lanes, the worker in whose memory it begins: a byte each.
class Batcher::Owners {
 public:
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
                        strong_parts.capacity() * sizeof(StrongPart) + strong_values.bytes() + small.capacity() * 8 +
                        large.capacity() * sizeof(trace::Record) + digests.capacity() * 128;
  for (const auto& list : weak) count += list.capacity() * sizeof(WeakAccess);
  for (const LaneList& list : lanes) count += list.bytes();
  for (const LaneList& list : strong_lanes) count += list.bytes();
  return count;
}

void Batch::clear() {
  for (auto& list : weak) list.clear();
  for (LaneList& list : lanes) list.clear();
  common.clear();
  strong.clear();
  strong_parts.clear();
  for (LaneList& list : strong_lanes) list.clear();
  strong_values.clear();
  small.clear();
  large.clear();
  digests.resize(1);
  stamps = accesses = filled = 0;
  last = false;
}

void Batch::take(const Common& entry, trace::Record& record, bool touches) const {
  static constexpr auto table = take_table(std::make_index_sequence<std::variant_size_v<trace::Record>>());
  if (entry.what == What::large) {
    record = large[entry.index];
  } else {
    table[entry.alternative](&small[entry.index], record, touches);
  }
}

Batcher::Batcher(const Routing& routing, Batch& batch, Full full) : routing_(routing), full_(std::move(full)) {
  for (unsigned part = 0; part < partitions; ++part) workers_[part] = std::uint8_t(part % routing.workers);
  begin(batch);
}

void Batcher::begin(Batch& batch) {
  batch_ = &batch;
  batch.weak.resize(routing_.workers);
  batch.lanes.resize(routing_.workers);
  batch.strong_lanes.resize(routing_.workers);
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
    const std::uint32_t words = batch_->strong_values.count(), number = std::uint32_t(batch_->strong.size());
    strong(view);
    common(stamp, number, Batch::What::strong,
           sizeof(StrongAccesses) + routing_.workers * sizeof(StrongPart) +
               (batch_->strong_values.count() - words + unsigned(std::popcount(view.mask))) * sizeof(std::uint64_t));
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
  Weak weak{view, stamp};
  weak.rank = rank;
  weak.affine = view.affine && view.stride == std::int32_t(view.stride);
  if (routing_.suspects && view.digest) {
    weak.digests = std::uint32_t(batch_->digests.size());
    std::memcpy(batch_->digests.emplace_back().data(), view.digest, 128);
    batch_->filled += 128;
  }
  const auto to_one = [&](unsigned worker) {
    if (weak.affine) {
      weak_to(worker, weak);
    } else {
      lanes_to(worker, weak, view.mask);
    }
  };
  if (routing_.workers == 1) return to_one(0);
  // Workers; 64 at most. Whoever has the first lane's memory counts what cannot be looked at.
  const std::uint64_t base = view.address[first], first_page = base / page_bytes;
  const bool shared = view.space == Space::shared;
  const unsigned first_worker = shared ? worker_of_block(view.warp.block) : worker_again(first_page);
  std::uint64_t to = 1ull << first_worker;
  auto pages = [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t page = begin / page_bytes; page <= end / page_bytes; ++page) {
      if (page != first_page) to |= 1ull << worker_of(page);
    }
  };
  if (routing_.everything_to_all || rank) { // which block a rank is, only its launch knows
    to = ~0ull;
  } else if (shared) {
    return to_one(first_worker);
  } else if (weak.affine) {
    const std::uint64_t other = view.address[last];
    if (other / page_bytes == first_page) return to_one(first_worker);
    const std::uint64_t low = std::min(base, other), high = std::max(base, other);
    if (high - low > 64 * page_bytes) {
      to = ~0ull;
    } else {
      pages(low, high);
    }
  } else {
    return weak_lanes(weak, to);
  }
  if (routing_.workers < 64) to &= (1ull << routing_.workers) - 1;
  for (; to; to &= to - 1) to_one(unsigned(std::countr_zero(to)));
}

WeakAccess& Batcher::weak_to(unsigned worker, const Weak& weak) {
  const trace::AccessView& view = weak.view;
  WeakAccess& to = append(batch_->weak[worker]);
  to.base = view.address[std::countr_zero(view.mask)];
  to.stamp = weak.stamp;
  to.mask = view.mask;
  to.launch = view.warp.launch;
  to.block = view.warp.block;
  to.module = view.module;
  to.site = view.site;
  to.stride = weak.affine ? std::int32_t(view.stride) : 0;
  to.digests = weak.digests;
  to.warp = std::uint8_t(view.warp.warp & 31);
  to.space = view.space;
  to.affine = weak.affine;
  to.rank = weak.rank;
  batch_->filled += sizeof to;
  return to;
}

void Batcher::lanes_to(unsigned worker, const Weak& weak, std::uint32_t mask) {
  LaneList& lanes = batch_->lanes[worker];
  WeakAccess& to = weak_to(worker, weak);
  to.mask = mask;
  to.lanes = lanes.count();
  lanes.add(weak.view.address, mask);
  batch_->filled += (lanes.count() - to.lanes) * sizeof(std::uint64_t);
}

Batch::Common& Batcher::common(std::uint32_t stamp, std::size_t index, Batch::What what, std::uint64_t bytes) {
  Batch::Common& added = append(batch_->common);
  added.stamp = stamp;
  added.index = std::uint32_t(index);
  added.what = what;
  batch_->filled += sizeof added + bytes;
  return added;
}

Batcher::Owners Batcher::owners_of(const LaneParts& parts) const {
  if (std::has_single_bit(routing_.workers)) return Owners(parts.part, std::uint8_t(routing_.workers - 1));
  OwnerBytes owners;
  for (unsigned lane = 0; lane < 32; ++lane) owners[lane] = workers_[parts.part[lane]];
  return Owners(owners);
}

// Each worker gets the lanes that begin in its memory, so that none is looked at twice; `to` get it even when it has
// none. Of all 32 lanes, and without a branch for each: which of two workers has a lane's page is as good as random.
void Batcher::weak_lanes(const Weak& weak, std::uint64_t to) {
  const trace::AccessView& view = weak.view;
  const LaneParts parts = lane_parts(view.address);
  std::uint32_t lanes = view.mask; // that have an address
  if (!parts.limited) [[unlikely]]
    each_lane(view.mask,
              [&](unsigned lane) { lanes &= ~(std::uint32_t(view.address[lane] >= address_limit) << lane); });
  const Owners owners = owners_of(parts);
  for (unsigned worker = 0; worker < routing_.workers; ++worker) {
    const std::uint32_t mine = owners.lanes(worker) & lanes;
    if (mine || (to >> worker & 1)) lanes_to(worker, weak, mine);
  }
}

// The lanes of a strong access, in the order in which they reached the location.
class Batcher::LaneOrder {
 public:
  explicit LaneOrder(const trace::AccessView& view) : count_(unsigned(std::popcount(view.mask))) {
    std::array<std::uint64_t, 32> packed;
    const std::uint64_t* order = view.order_first;
    if (count_ != 32) {
      pack_lanes(view.order_first, view.mask, packed.data());
      order = packed.data();
    }
    bool ascend = true;
    for (unsigned i = 1; i < count_; ++i) ascend &= order[i - 1] <= order[i];
    if (in_order_ = ascend; ascend) return;
    unsigned at = 0;
    each_lane(view.mask, [&](unsigned lane) { lanes_[at++] = std::uint8_t(lane); });
    std::stable_sort(lanes_.begin(), lanes_.begin() + count_,
                     [&](std::uint8_t a, std::uint8_t b) { return view.order_first[a] < view.order_first[b]; });
  }
  bool in_order() const { return in_order_; } // by number; else lanes() tells it
  const std::array<std::uint8_t, 32>& lanes() const { return lanes_; } // by place
  // The addresses of those of `lanes`, by place.
  void add(const std::uint64_t* addresses, std::uint32_t lanes, LaneList& to) const {
    if (in_order_) return to.add(addresses, lanes);
    std::array<std::uint64_t, 32> by_place;
    std::uint32_t places = 0;
    for (unsigned place = 0; place < count_; ++place) {
      by_place[place] = addresses[lanes_[place]];
      places |= (lanes >> lanes_[place] & 1) << place;
    }
    to.add(by_place.data(), places);
  }

 private:
  unsigned count_;
  bool in_order_ = true;
  std::array<std::uint8_t, 32> lanes_{};
};

void Batcher::strong(const trace::AccessView& view) {
  const LaneOrder order(view);
  StrongAccesses& all = append(batch_->strong);
  all.warp = view.warp;
  all.module = view.module;
  all.site = view.site;
  all.space = view.space;
  all.mask = view.mask;
  all.wrote = view.wrote;
  all.in_order = order.in_order();
  all.values = batch_->strong_values.count();
  put_values(view, order.lanes(), routing_.suspects && view.digest, all, batch_->strong_values);
  const auto to = [&](unsigned worker, std::uint32_t lanes) {
    LaneList& list = batch_->strong_lanes[worker];
    StrongPart& part = append(batch_->strong_parts);
    part.lanes = lanes;
    part.first = list.count();
    if (lanes) order.add(view.address, lanes, list);
  };
  if (view.space == Space::shared) { // which block a rank of a cluster is, only the launch knows
    each_lane(view.mask, [&](unsigned lane) {
      all.of_cluster |= std::uint32_t(view.address[lane] >> cluster_shift != 0) << lane;
    });
    const unsigned own = worker_of_block(view.warp.block);
    for (unsigned worker = 0; worker < routing_.workers; ++worker) to(worker, worker == own ? view.mask : 0);
  } else {
    const Owners owners = owners_of(lane_parts(view.address));
    for (unsigned worker = 0; worker < routing_.workers; ++worker)
      to(worker, routing_.workers == 1 ? view.mask : owners.lanes(worker) & view.mask);
  }
}

std::uint8_t Batcher::owner(const std::array<std::uint64_t, 32>& addresses, std::uint32_t mask, std::uint64_t bytes) {
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
  return other ? Batch::anybody : worker_again(page);
}

// Takes no stamp: it lies between that of what comes before and that of what comes after.
void Batcher::missing() {
  common(std::uint32_t(batch_->stamps) + 1, 0, Batch::What::missing, 0);
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
          if constexpr (std::is_same_v<T, trace::AsyncCopy>) {
            if (!routing_.suspects) r.digest = {};
          }
          if constexpr (has_lanes<T>) {
            pack(r, small);
          } else {
            small.resize(at + (sizeof(T) + 7) / 8);
            std::memcpy(&small[at], &r, sizeof(T));
          }
          Batch::Common& entry = common(stamp, at, Batch::What::small, 8 * (small.size() - at));
          entry.alternative = std::uint8_t(record.index());
          if constexpr (std::is_same_v<T, trace::AsyncCopy>) {
            entry.owners = {owner(r.source, r.mask, r.bytes), worker_of_block(r.warp.block)};
          } else if constexpr (std::is_same_v<T, trace::Mbarrier>) {
            entry.owners[0] = worker_of_block(r.block);
          }
        } else {
          common(stamp, batch_->large.size(), Batch::What::large, sizeof(trace::Record));
          batch_->large.emplace_back(std::move(r));
        }
      },
      record);
  pass_on();
  return true;
}

} // namespace deadheat::detect
