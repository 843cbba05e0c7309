// mbarriers and cluster barriers in the order that Merge makes.
//
// An mbarrier's phase is complete when its arrivals and its bytes are (PTX ISA 9.7.13.15.5): counted here, as the
// device counts them. So an arrival belongs to the phase that is current when its turn comes, and a test that succeeded
// comes after what completed the phase it asked for. A bulk copy completes when it is issued, a cp.async arrival
// likewise: the phase that waits for them cannot be complete before.
#include <algorithm>
#include <string_view>

#include "deadheat/address.h"
#include "tracer/device_log/merge.h"
#include "tracer/device_log/slots.h"

namespace deadheat::device_log {

using Op = trace::Mbarrier::What;

namespace {

bool has(const std::string& opcode, std::string_view word) { return opcode.find(word) != std::string::npos; }

Op operation_of(const Site& site) {
  const std::string& o = site.opcode;
  if (site.kind == SiteKind::bulk_copy) return Op::complete_tx;
  if (site.kind == SiteKind::async_mbarrier_arrive) return Op::async_arrive;
  if (site.wait_only) return Op::test;
  if (has(o, ".init")) return Op::init;
  if (has(o, ".inval")) return Op::inval;
  if (has(o, ".arrive_drop")) return Op::arrive_drop;
  if (has(o, ".arrive")) return Op::arrive;
  return has(o, ".expect_tx") ? Op::expect_tx : Op::complete_tx;
}

} // namespace

// ---- opening

std::uint32_t Merge::object_of(const LaunchLog& log, const Place& at) {
  const auto [found, fresh] = object_numbers_.try_emplace(std::uint64_t(log.first_block_ + at.block) << 32 | at.offset,
                                                          std::uint32_t(objects_.size()));
  if (fresh) {
    objects_.emplace_back();
    objects_.back().at = at;
  }
  return found->second;
}

void Merge::open_steps(Head& head, const Item& item) {
  LaunchLog& log = *head.warp->log;
  const ptx::Slot& slot = *item.slot;
  const Site& site = (*log.shape_.sites)[slot.site];
  Step step;
  step.what = operation_of(site);
  const std::uint32_t block = head.warp->block;
  if (slot.kind == ptx::Slot::Kind::bulk) {
    for (const trace::BulkCopy& copy : log.bulk_copies(*head.warp, slot, item.bytes)) {
      each_lane(copy.mask, [&](unsigned lane) {
        step.lane = lane;
        step.object = object_of(log, log.place_of(block, copy.mbarrier[lane]));
        step.count = copy.bytes[lane];
        step.bytes = -std::int64_t(copy.bytes[lane]);
        if (copy.bytes[lane]) head.steps.push_back(step);
      });
      log.output_.record(copy);
    }
  } else {
    step.parity = slot.short_values;
    step.increments = !has(site.opcode, ".noinc");
    each_lane(header_of(item.bytes).mask, [&](unsigned lane) {
      std::uint64_t address =
          slot.narrow ? u32_at(item.bytes, slot.address, lane) : u64_at(item.bytes, slot.address, lane);
      if (address == (slot.narrow ? ~0u : ~std::uint64_t(0))) return;
      step.lane = lane;
      address &= slot.ranked ? 0xFFFF'FFFFu : cluster_offset_mask;
      step.object = object_of(log, log.place_of(block, shared_window + address));
      const std::uint64_t operand = slot.operand_known || !slot.operand     ? slot.number
                                    : step.what == Op::test && !step.parity ? u64_at(item.bytes, slot.operand, lane)
                                                                            : u32_at(item.bytes, slot.operand, lane);
      step.asked = step.parity ? operand & 1 : operand;
      step.count = std::uint32_t(operand);
      step.bytes = slot.size                      ? std::int64_t(u32_at(item.bytes, slot.size, lane))
                   : step.what == Op::expect_tx   ? std::int64_t(step.count)
                   : step.what == Op::complete_tx ? -std::int64_t(step.count)
                                                  : 0;
      step.state_known = slot.value_read != 0;
      if (step.state_known) step.state = u64_at(item.bytes, slot.value_read, lane);
      head.steps.push_back(step);
    });
  }
  head.left = std::uint32_t(head.steps.size());
  for (const Step& s : head.steps) {
    std::vector<std::uint32_t>& open = objects_[s.object].open;
    if (open.empty() || open.back() != head.number) open.push_back(head.number);
  }
}

// ---- the order

// The phase that a state stands for: the thread's own arrival tells, or another's.
std::uint32_t Merge::phase_of(const Head& head, const Step& step) const {
  auto found = states_.find({step.object, head.of_warp * 32 + step.lane, step.asked});
  if (found == states_.end()) found = states_.find({step.object, none, step.asked});
  if (found != states_.end()) return found->second;
  const std::uint32_t phase = objects_[step.object].phase;
  return phase ? phase - 1 : 0;
}

bool Merge::fits(const Head& head, const Step& step) const {
  const Object& object = objects_[step.object];
  if (!object.known) return true;
  switch (step.what) {
    case Op::arrive:
    case Op::arrive_drop: return step.count <= object.pending;
    case Op::async_arrive: return step.increments || object.pending >= 1;
    case Op::test: return step.parity ? (object.phase & 1) != step.asked : object.phase > phase_of(head, step);
    default: return true;
  }
}

void Merge::place(Head& head, Step& step) {
  const bool arrives = step.what == Op::arrive || step.what == Op::arrive_drop;
  const std::uint32_t arrivals = arrives || (step.what == Op::async_arrive && !step.increments) ? step.count : 0;
  const bool fresh = step.what == Op::init || step.what == Op::inval;
  {
    const Object& object = objects_[step.object];
    const bool completes =
        object.known && step.what != Op::test && object.pending == arrivals && object.bytes + step.bytes == 0;
    if (completes || fresh) tests_first(head, step.object);
  }
  Object& object = objects_[step.object];
  std::uint32_t count = arrives || step.what == Op::async_arrive || step.what == Op::init ? step.count
                        : step.what == Op::test || step.what == Op::inval
                            ? 0
                            : std::uint32_t(step.bytes < 0 ? -step.bytes : step.bytes);
  std::uint32_t phase = fresh ? 0 : object.phase;
  bool said = true;
  switch (step.what) {
    case Op::init: object = {object.at, true, step.count, step.count, 0, 0, std::move(object.open)}; break;
    case Op::inval: object.known = false; break;
    case Op::test:
      // A fresh object passes for one whose phase -1 is complete: that orders nothing.
      said = phase > 0;
      phase = step.parity ? phase - 1 : phase_of(head, step);
      break;
    default:
      if (!object.known) break;
      object.bytes += step.bytes;
      object.pending -= std::min(arrivals, object.pending);
      if (step.what == Op::arrive_drop) object.expected -= std::min(step.count, object.expected);
      if (object.pending == 0 && object.bytes == 0) {
        object.pending = object.expected;
        ++object.phase;
      }
  }
  if (step.state_known) {
    states_[{step.object, head.of_warp * 32 + step.lane, step.state}] = phase;
    states_[{step.object, none, step.state}] = phase;
  }
  step.placed = true;
  --head.left;
  if (said) say(head, step, count, phase);
}

// Open tests that saw what is there now come before it changes.
void Merge::tests_first(const Head& head, std::uint32_t object) {
  for (bool any = true; any;) {
    any = false;
    const std::vector<std::uint32_t> open = objects_[object].open;
    for (std::uint32_t number : open) {
      Head& other = *heads_[number];
      if (number == head.number || !other.turn || other.before >= head.after) continue;
      const std::uint32_t left = other.left;
      for (Step& s : other.steps) {
        if (!s.placed && s.object == object && s.what == Op::test && fits(other, s)) place(other, s);
      }
      any |= other.left != left;
      if (left && !other.left) finish(other);
    }
  }
}

// What a step of `head` on the object waits for: an open one that can come before, the first of those to end.
bool Merge::place_other(const Head& head, std::uint32_t object) {
  Head* best = nullptr;
  Step* its = nullptr;
  for (std::uint32_t number : objects_[object].open) {
    Head& other = *heads_[number];
    if (number == head.number || other.before >= head.after || (best && best->after <= other.after)) continue;
    auto step = std::find_if(other.steps.begin(), other.steps.end(), [&](const Step& s) {
      return !s.placed && s.object == object && s.what != Op::test && fits(other, s);
    });
    if (step == other.steps.end()) continue;
    best = &other;
    its = &*step;
  }
  if (!best) return false;
  place(*best, *its);
  if (!best->left) finish(*best);
  return true;
}

void Merge::settle_steps(Head& head) {
  while (head.left) {
    const std::uint32_t left = head.left;
    for (Step& step : head.steps) {
      if (!step.placed && fits(head, step)) place(head, step);
    }
    if (!head.left) break;
    if (head.left != left) continue;
    Step& step = *std::find_if(head.steps.begin(), head.steps.end(), [](const Step& s) { return !s.placed; });
    if (place_other(head, step.object)) continue;
    // What completed the phase was not recorded.
    LaunchLog& log = *head.warp->log;
    if (!log.shape_.unseen_arrivals && !log.unknown_maps_) ++log.guessed_;
    Object& object = objects_[step.object];
    object.phase = step.what == Op::test && !step.parity ? phase_of(head, step) + 1 : object.phase + 1;
    object.expected = object.pending = std::max(object.expected, step.count);
    object.bytes = 0;
  }
  finish(head);
}

void Merge::finish(Head& head) {
  flush();
  for (const Step& s : head.steps) std::erase(objects_[s.object].open, head.number);
  head.steps.clear();
  close(head);
}

// Lanes that did the same one after another are one record.
void Merge::say(const Head& head, const Step& step, std::uint32_t count, std::uint32_t phase) {
  const Object& object = objects_[step.object];
  const std::uint32_t bit = 1u << step.lane;
  trace::Mbarrier& r = said_;
  if (r.mask && (said_by_ != head.warp || r.what != step.what || r.site != head.slot->site ||
                 r.block != object.at.block || r.mask >= bit)) {
    flush();
  }
  if (!r.mask) {
    const LaunchLog& log = *head.warp->log;
    const Site& site = (*log.shape_.sites)[head.slot->site];
    const bool copy = site.kind == SiteKind::bulk_copy; // completes "with release semantics at cluster scope"
    r.what = step.what;
    said_by_ = head.warp;
    r.warp = {log.shape_.launch, head.warp->block, head.warp->number};
    r.module = log.shape_.module;
    r.site = head.slot->site;
    r.block = object.at.block;
    r.ordering = copy ? Ordering::release : site.ordering;
    r.scope = copy ? Scope::cluster : site.scope;
  }
  r.mask |= bit;
  r.address[step.lane] = object.at.offset;
  r.count[step.lane] = count;
  r.phase[step.lane] = phase;
  if (step.what == Op::test) r.succeeded |= bit;
}

void Merge::flush() {
  if (!said_.mask) return;
  said_by_->log->output_.record(said_);
  said_ = {};
}

// ---- cluster barriers

Merge::Cluster& Merge::cluster_of(const LaunchLog::Warp& warp) {
  const Shape& shape = warp.log->shape_;
  Cluster& cluster = clusters_[warp.log->first_block_ + cluster_peer(warp.block, 0, shape.grid, shape.cluster)];
  if (cluster.arrived.empty()) {
    cluster.threads = std::uint32_t(shape.cluster.count()) * shape.threads;
    cluster.arrived.push_back(0);
  }
  if (arrivals_.size() < 32 * warps_.size()) arrivals_.resize(32 * warps_.size(), 0);
  return cluster;
}

bool Merge::waits(const Cluster& cluster, const Waiting& who) const {
  bool waits = false;
  each_lane(warps_[who.first]->items.item(who.second).lanes,
            [&](unsigned lane) { waits |= arrivals_[32 * who.first + lane] > cluster.phase; });
  return waits;
}

// An arrival, or a wait that is over. `ready`: warps that need not wait any more.
void Merge::at_cluster(std::uint32_t w, const Item& item, std::vector<std::uint32_t>& ready) {
  const LaunchLog::Warp& warp = *warps_[w];
  LaunchLog& log = *warp.log;
  const Site& site = (*log.shape_.sites)[item.slot->site];
  Cluster& cluster = cluster_of(warp);
  for (std::uint32_t left = item.lanes; left;) {
    trace::ClusterBarrier record;
    record.warp = {log.shape_.launch, warp.block, warp.number};
    record.module = log.shape_.module;
    record.site = item.slot->site;
    record.wait = site.wait_only;
    record.relaxed = site.ordering == Ordering::relaxed;
    const std::uint32_t count = arrivals_[32 * w + unsigned(__builtin_ctz(left))];
    each_lane(left, [&](unsigned lane) {
      if (arrivals_[32 * w + lane] == count) record.mask |= 1u << lane;
    });
    left &= ~record.mask;
    record.phase = site.wait_only ? (count ? count - 1 : 0) : count;
    log.output_.record(record);
    if (site.wait_only) continue;
    each_lane(record.mask, [&](unsigned lane) { ++arrivals_[32 * w + lane]; });
    if (cluster.arrived.size() <= count + 1) cluster.arrived.resize(count + 2);
    cluster.arrived[count] += std::uint32_t(__builtin_popcount(record.mask));
  }
  if (!site.wait_only) complete(cluster, ready);
}

// Threads that have ended are not waited for.
void Merge::left_cluster(std::uint32_t w, std::uint32_t lanes, std::vector<std::uint32_t>& ready) {
  if (warps_[w]->log->shape_.cluster.count() == 1 && arrivals_.empty()) return;
  Cluster& cluster = cluster_of(*warps_[w]);
  each_lane(lanes, [&](unsigned lane) { ++cluster.gone[arrivals_[32 * w + lane]]; });
  complete(cluster, ready);
}

void Merge::complete(Cluster& cluster, std::vector<std::uint32_t>& ready) {
  for (;;) {
    std::uint32_t here = cluster.arrived[cluster.phase];
    if (!here) return;
    for (const auto& [arrivals, threads] : cluster.gone) here += arrivals <= cluster.phase ? threads : 0;
    if (here < cluster.threads) return;
    ++cluster.phase;
    if (cluster.arrived.size() <= cluster.phase) cluster.arrived.resize(cluster.phase + 1);
    for (std::size_t i = 0; i < cluster.waiting.size();) {
      const auto [w, item] = cluster.waiting[i];
      if (waits(cluster, cluster.waiting[i])) {
        ++i;
        continue;
      }
      cluster.waiting.erase(cluster.waiting.begin() + std::ptrdiff_t(i));
      at_cluster(w, warps_[w]->items.item(item), ready);
      warps_[w]->items.done(item);
      ready.push_back(w);
    }
  }
}

// Threads did not arrive, or their arrivals are lost. Who went on had not to wait any more; of others, that is not
// said.
bool Merge::pass_stuck_cluster() {
  std::uint32_t first = none; // in an order that does not hang on the table
  for (const auto& [block, cluster] : clusters_) {
    if (!cluster.waiting.empty()) first = std::min(first, block);
  }
  if (first == none) return false;
  Cluster& cluster = clusters_[first];
  ++cluster.phase;
  if (cluster.arrived.size() <= cluster.phase) cluster.arrived.resize(cluster.phase + 1);
  std::vector<std::uint32_t> ready;
  for (const auto& [w, item] : std::exchange(cluster.waiting, {})) {
    WarpQueue& queue = warps_[w]->items;
    if (queue.followed(item)) at_cluster(w, queue.item(item), ready);
    queue.done(item);
    ready.push_back(w);
  }
  advance_all(ready);
  return true;
}

} // namespace deadheat::device_log
