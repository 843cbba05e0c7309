// cp.async.bulk and cp.reduce.async.bulk between global memory and shared memory, that of other blocks of the cluster
// included (PTX ISA 9.7.9.25.4), and st.async and red.async (9.7.9.12, 9.7.13.7), which are copies of a value. Each is
// an agent of its own: it reads, writes, and then completes on an mbarrier or with its bulk group.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "deadheat/address.h"
#include "deadheat/digest.h"
#include "replay/device/control.h"
#include "replay/device/holds.h"
#include "replay/device/machine.h"
#include "replay/device/record.h"
#include "replay/device/watch.h"
#include "replay/engine/numeric.h"
#include "replay/engine/shadow.h"

namespace deadheat::device {

using engine::BulkReduction;
using engine::ThreadContext;
using trace::MemoryError;

namespace {

namespace numeric = engine::numeric;
constexpr std::uint32_t granule = 16; // addresses and sizes of copies are multiples of it (9.7.9.25.4.1)

template <typename T>
T integer(BulkReduction op, T old, T x) {
  switch (op) {
    case BulkReduction::add: return T(std::uint64_t(old) + std::uint64_t(x));
    case BulkReduction::min: return std::min(old, x);
    case BulkReduction::max: return std::max(old, x);
    case BulkReduction::inc: return old >= x ? T(0) : T(old + 1);
    case BulkReduction::dec: return old == 0 || old > x ? x : T(old - 1);
    case BulkReduction::and_: return T(old & x);
    case BulkReduction::or_: return T(old | x);
    case BulkReduction::xor_: return T(old ^ x);
  }
  return x;
}

// As atom has it: of a number and a NaN the number; -0 below +0; NaNs canonical.
double floating(BulkReduction op, double old, double x) {
  if (op == BulkReduction::add) return old + x;
  if (old != old) return x;
  if (x != x) return old;
  const bool smaller = old < x || (old == x && std::signbit(old));
  return smaller == (op == BulkReduction::min) ? old : x;
}

template <typename T>
void each_element(std::uint8_t* to, const std::uint8_t* from, std::uint32_t bytes, T (*combine)(BulkReduction, T, T),
                  BulkReduction op) {
  for (std::uint32_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
    T old, x;
    std::memcpy(&old, to + at, sizeof(T));
    std::memcpy(&x, from + at, sizeof(T));
    old = combine(op, old, x);
    std::memcpy(to + at, &old, sizeof(T));
  }
}

std::uint16_t half(BulkReduction op, std::uint16_t old, std::uint16_t x, numeric::Format format) {
  // Sums of two halves are exact in double, so there is one rounding.
  return std::uint16_t(numeric::narrow(
      floating(op, numeric::widen(old, std::uint32_t(format)), numeric::widen(x, std::uint32_t(format))),
      numeric::Narrowing{format}.code()));
}
std::uint16_t half_f16(BulkReduction op, std::uint16_t old, std::uint16_t x) {
  return half(op, old, x, numeric::Format::f16);
}
std::uint16_t half_bf16(BulkReduction op, std::uint16_t old, std::uint16_t x) {
  return half(op, old, x, numeric::Format::bf16);
}
float single_float(BulkReduction op, float old, float x) {
  const float r = op == BulkReduction::add ? old + x : float(floating(op, old, x));
  return r == r ? r : std::bit_cast<float>(0x7fffffffu);
}
// As add of .ftz types: denormals, going in and coming out, are zeros of their sign.
float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
float flushing_float(BulkReduction op, float old, float x) {
  return flushed(single_float(op, flushed(old), flushed(x)));
}
double double_float(BulkReduction op, double old, double x) {
  const double r = floating(op, old, x);
  return r == r ? r : std::bit_cast<double>(0xfff8000000000000ull);
}

void reduce(std::uint8_t* to, const std::uint8_t* from, std::uint32_t bytes, std::uint32_t reduction) {
  const auto op = BulkReduction((reduction & 0xff) - 1);
  if (reduction & reduction_flushes) return each_element<float>(to, from, bytes, flushing_float, op);
  switch (ptx::Type(reduction >> 8)) {
    case ptx::Type::f16: return each_element<std::uint16_t>(to, from, bytes, half_f16, op);
    case ptx::Type::bf16: return each_element<std::uint16_t>(to, from, bytes, half_bf16, op);
    case ptx::Type::f32: return each_element<float>(to, from, bytes, single_float, op);
    case ptx::Type::f64: return each_element<double>(to, from, bytes, double_float, op);
    case ptx::Type::s32: return each_element<std::int32_t>(to, from, bytes, integer, op);
    case ptx::Type::s64: return each_element<std::int64_t>(to, from, bytes, integer, op);
    case ptx::Type::u64:
    case ptx::Type::b64: return each_element<std::uint64_t>(to, from, bytes, integer, op);
    default: return each_element<std::uint32_t>(to, from, bytes, integer, op);
  }
}

} // namespace

// Where the bytes are on the host; null when they are not all legal to touch.
std::uint8_t* Machine::bulk_bytes_at(Block& block, std::uint64_t address, std::uint64_t bytes) const {
  if (address - shared_window < window_bytes) {
    const SharedPlace at = shared_place(block, address, bytes);
    return at.block ? at.bytes() : nullptr;
  }
  if (address & window_bit || !options_.environment->legal(address, bytes)) return nullptr;
  return reinterpret_cast<std::uint8_t*>(to_host(address));
}

bool Machine::bulk_legal(Block& block, ThreadContext& thread, std::uint32_t site, std::uint64_t address,
                         std::uint64_t bytes, bool is_write, std::uint64_t alignment) {
  MemoryError::Kind kind = MemoryError::Kind::misaligned;
  if (address % alignment == 0 && bytes % alignment == 0) {
    if (bulk_bytes_at(block, address, bytes)) return true;
    bool freed = false;
    if (!(address & window_bit)) options_.environment->nearest_allocation(address, &freed);
    kind = freed ? MemoryError::Kind::use_after_free : MemoryError::Kind::out_of_bounds;
  }
  fault(thread, site, kind, address, std::uint32_t(bytes), is_write ? AccessKind::write : AccessKind::read);
  return false;
}

void Machine::bulk_copy(ThreadContext& thread, std::uint32_t site) {
  Block& block = *static_cast<Block*>(thread.block->block);
  thread.pending_site = site;
  AsyncCopy copy;
  copy.kind = AsyncCopy::Kind::bulk;
  copy.site = site;
  copy.destination = thread.arg[engine::bulk_destination];
  copy.source = thread.arg[engine::bulk_source];
  copy.bytes = copy.source_bytes = std::uint32_t(thread.arg[engine::bulk_bytes]);
  copy.mbarrier = thread.arg[engine::bulk_mbarrier];
  copy.reduction = std::uint32_t(thread.arg[engine::bulk_reduction]);
  const std::uint32_t targets = std::uint32_t(thread.arg[engine::bulk_targets]);
  AsyncQueue& queue = async_queue(thread);
  copy.instruction = queue.instructions++;
  if (copy.bytes == 0) return;
  const bool stores = copy.source == engine::bulk_no_source; // a value: aligned as it is large
  if (stores) copy.source = 0;
  const std::uint64_t alignment = stores ? copy.bytes : granule;
  if (stores) {
    const auto* value = reinterpret_cast<const std::uint8_t*>(&thread.arg[engine::bulk_value]);
    copy.data.assign(value, value + copy.bytes);
  } else if (!bulk_legal(block, thread, site, copy.source, copy.bytes, false, granule)) {
    return;
  }
  copy.bulk_group = queue.bulk_groups;
  if (block.named) holds_->copy_issued(block, thread, copy);
  issue_everywhere(block, thread, copy, targets, [&](const AsyncCopy& one) {
    return bulk_legal(block, thread, site, one.destination, one.bytes, true, alignment);
  });
}

// To each of the blocks that the mask names, if it names any. `legal` sets a fault where it says no.
void Machine::issue_everywhere(Block& block, ThreadContext& thread, const AsyncCopy& copy, std::uint32_t targets,
                               const std::function<bool(const AsyncCopy&)>& legal) {
  AsyncQueue& queue = async_queue(thread);
  std::vector<std::uint32_t> groups;
  // .multicast::cluster: the same offset in each of the blocks, and the mbarrier there.
  auto in_block = [](std::uint64_t address, std::uint32_t rank) {
    return shared_window + (std::uint64_t(rank + 1) << cluster_shift) +
           ((address - shared_window) & cluster_offset_mask);
  };
  for (std::uint32_t rank = 0, more = targets ? targets : 1; more; ++rank, more >>= 1) {
    if (!(more & 1)) continue;
    AsyncCopy one = copy;
    if (targets) {
      one.destination = in_block(copy.destination, rank);
      one.mbarrier = in_block(copy.mbarrier, rank);
    }
    if (!legal(one)) return;
    if (one.mbarrier) {
      const SharedPlace at = shared_place(block, one.mbarrier, 8);
      if (!at.block || at.offset % 8) {
        fault(thread, copy.site, at.block ? MemoryError::Kind::misaligned : MemoryError::Kind::out_of_bounds,
              one.mbarrier, 8, AccessKind::atomic);
        return;
      }
    }
    one.group = queue.next_own++;
    one.number = queue.issued;
    queue.issued += one.box ? one.box->parts : 1;
    if (recording(block)) record_bulk(block, thread, one, !groups.empty());
    if (watch_) watch_->copy_issued(block, thread.linear, one);
    groups.push_back(one.group);
    queue.copies.push_back(std::move(one));
  }
  for (const std::uint32_t group : groups) issued(block, thread.linear, group);
}

void Machine::record_bulk(Block& block, const ThreadContext& thread, const AsyncCopy& copy, bool further) {
  if (copy.box) return record_box(block, thread, copy, further);
  trace::BulkCopy record;
  record.warp = {block.launch->request.launch, block.index, thread.warp};
  record.module = block.launch->request.module;
  record.site = copy.site;
  record.mask = 1u << thread.lane;
  record.further = further;
  record.destination[thread.lane] = copy.destination;
  record.source[thread.lane] = copy.source;
  record.mbarrier[thread.lane] = copy.mbarrier;
  record.bytes[thread.lane] = copy.bytes;
  const std::uint8_t* from = copy.data.empty() ? bulk_bytes_at(block, copy.source, copy.bytes) : copy.data.data();
  record.digest[thread.lane] = deadheat::digest(from, copy.bytes);
  say_effect(std::move(record));
}

void Machine::perform_bulk(Block& block, std::uint32_t thread, const AsyncCopy& copy) {
  if (copy.box) return perform_box(block, thread, copy);
  move_bytes(block, thread, copy);
  complete_bytes(block, thread, copy, copy.bytes);
}

void Machine::move_bytes(Block& block, std::uint32_t thread, const AsyncCopy& copy) {
  // What was legal at issue may be gone: a copy of nothing.
  const std::uint8_t* from = copy.data.empty() ? bulk_bytes_at(block, copy.source, copy.bytes) : copy.data.data();
  std::uint8_t* to = bulk_bytes_at(block, copy.destination, copy.bytes);
  if (!from || !to) return;
  if (watch_) from = watch_copy(block, thread, copy, from, to);
  if (copy.reduction)
    reduce(to, from, copy.bytes, copy.reduction);
  else
    std::memmove(to, from, copy.bytes);
  bulk_written(block, copy);
  if (watch_) {
    watch_->copy_ended(to);
    note_copy(block, thread, copy, true, to);
  }
  if (!block.launch->request.mode.precision) return;
  if (copy.reduction || !copy.data.empty())
    options_.shadows->forget(std::uint64_t(to), copy.bytes);
  else
    options_.shadows->copy(std::uint64_t(to), std::uint64_t(bulk_bytes_at(block, copy.source, copy.bytes)), copy.bytes);
}

// Tells the copy's mbarrier, if it has one, that so many of its bytes are there.
void Machine::complete_bytes(Block& block, std::uint32_t thread, const AsyncCopy& copy, std::uint32_t bytes) {
  if (!copy.mbarrier) return;
  ThreadContext& t = block.threads[thread];
  const std::uint32_t site = std::exchange(t.pending_site, copy.site);
  const SharedPlace at = shared_place(block, copy.mbarrier, 8);
  if (at.block && mbarrier_object(block, t, at, "the completion of a bulk copy"))
    mbarrier_change(block, t, at, std::uint32_t(engine::MbarrierOp::complete_tx), 0, -std::int64_t(bytes));
  t.pending_site = site;
}

} // namespace deadheat::device
