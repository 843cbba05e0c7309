// wgmma.mma_async: a warp's part of its warpgroup's product (engine/warpgroup.h), once all its lanes have met. It reads
// shared memory through the asynchronous proxy: at once, or when a hold lets it (products.h).
#include <algorithm>
#include <cstring>

#include "deadheat/address.h"
#include "replay/device/holds.h"
#include "replay/device/machine.h"
#include "replay/device/products.h"
#include "replay/device/watch.h"
#include "replay/engine/warpgroup.h"
#include "replay/engine/written.h"
#include "tracer/ptx/matrix_descriptor.h"

namespace deadheat::device {

using engine::ThreadContext;
using engine::WarpgroupLane;
using engine::WarpgroupOp;
using trace::MemoryError;

namespace {

constexpr std::uint32_t unit_bytes = 16;

template <typename F>
void each(std::uint32_t lanes, F&& f) {
  for (; lanes; lanes &= lanes - 1) f(std::uint32_t(__builtin_ctz(lanes)));
}

WarpgroupLane* lane_of(const ThreadContext& t) {
  return reinterpret_cast<WarpgroupLane*>(t.arg[engine::warpgroup_lane]);
}

// What all lanes of a warp must have alike (9.7.15.5.2: ".aligned"; 9.7.15.5.1.2.2: descriptors are the same for all
// warps of the warpgroup). Null: they do.
const char* disagreement(const ThreadContext& x, const ThreadContext& y, const WarpgroupOp& op) {
  using namespace engine;
  if (x.pending_site != y.pending_site) return "lanes of a warp execute different wgmma instructions";
  if (x.arg[warpgroup_b] != y.arg[warpgroup_b] || (!op.a_registers && x.arg[warpgroup_a] != y.arg[warpgroup_a]))
    return "lanes of a warp give wgmma different matrix descriptors";
  if (x.arg[warpgroup_adds] != y.arg[warpgroup_adds]) return "lanes of a warp give wgmma different scale-d";
  return nullptr;
}

// A number that nothing else has: not small, no NaN.
std::uint32_t mark_of(std::uint32_t n) {
  std::uint64_t x = (std::uint64_t(n) + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
  return (std::uint32_t(x >> 32) & 0xbfffffffu) | 0x20000000u;
}

} // namespace

// Reads a matrix in shared memory. False: some of it is not there, which is the machine's fault now.
bool Machine::read_matrix(Block& block, ThreadContext& lead, const WarpgroupOp& op, char matrix,
                          std::uint64_t descriptor, engine::WarpgroupOperands& to, std::uint32_t site) {
  const LaunchRequest& request = block.launch->request;
  const std::vector<std::uint32_t> units = engine::units_of(op, matrix, descriptor, lead.warp % 4);
  const std::uint8_t* shadow =
      request.mode.written ? block.context.shared + engine::shared_shadow(request.total_shared) : nullptr;
  for (std::size_t n = 0; n < units.size(); ++n) {
    const std::uint64_t at = units[n];
    if (at + unit_bytes > request.total_shared) {
      fault(lead, site, MemoryError::Kind::out_of_bounds, shared_window + at, unit_bytes, AccessKind::read);
      return false;
    }
    std::uint16_t open = 0;
    for (unsigned byte = 0; shadow && byte < unit_bytes; ++byte)
      if (shadow[at + byte] != 0xff) open |= std::uint16_t(1u << byte);
    if (open && !to.open) to.open = shared_window + at; // named when it comes to matter
    engine::place_unit(op, matrix, n, block.context.shared + at, open, to);
  }
  return true;
}

bool Machine::read_operands(Block& block, std::uint32_t warp, Product& p) {
  ThreadContext& lead = block.threads[warp * warp_lanes + p.lead];
  engine::clear_operands(p.op, p.operands);
  engine::gather_rows(p.op, p.part, p.operands);
  if (block.named) holds_->show(p.copy);
  p.has_read = (p.op.a_registers || read_matrix(block, lead, p.op, 'a', p.a, p.operands, p.copy.site)) &&
               read_matrix(block, lead, p.op, 'b', p.b, p.operands, p.copy.site);
  if (p.has_read && watch_) note_product(block, lead, p);
  if (block.named) detour_ |= holds_->copied(p.copy);
  return p.has_read;
}

// What it reads, as traces and logs have it.
std::vector<ptx::MatrixStretch> Machine::product_reads(const Block& block, const ThreadContext& lead,
                                                       const Product& p) {
  const Site& site = (*block.launch->request.sites->sites)[p.copy.site];
  return ptx::warp_reads(ptx::matrix_shape(site.opcode), p.op.a_registers ? nullptr : &p.a, p.op.a_transposed, p.b,
                         p.op.b_transposed, lead.warp % 4);
}

void Machine::note_product(Block& block, const ThreadContext& lead, const Product& p) {
  if (!watch_->logs()) return;
  AsyncCopy part = p.copy;
  for (const ptx::MatrixStretch& s : product_reads(block, lead, p)) {
    part.source = shared_window + s.address;
    part.source_bytes = s.bytes;
    note_copy(block, lead.linear, part, false, block.context.shared + s.address);
  }
}

void Machine::say_product(Block& block, const ThreadContext& lead, const Product& p) {
  trace::BulkCopy record;
  record.warp = {block.launch->request.launch, block.index, lead.warp};
  record.module = block.launch->request.module;
  record.site = p.copy.site;
  record.mask = 1u << lead.lane;
  for (const ptx::MatrixStretch& s : product_reads(block, lead, p)) {
    record.source[lead.lane] = shared_window + s.address;
    record.bytes[lead.lane] = s.bytes;
    say_effect(record);
    record.further = true;
  }
}

// All lanes of the warp that will come have come.
void Machine::multiply(Block& block, std::uint32_t warp, std::uint32_t members) {
  ThreadContext* lanes = block.threads + warp * warp_lanes;
  ThreadContext& lead = lanes[__builtin_ctz(members)];
  auto product = std::make_unique<Product>();
  Product& p = *product;
  p.op = WarpgroupOp::from(lead.arg[engine::warpgroup_code]);
  p.lead = lead.lane;
  p.a = lead.arg[engine::warpgroup_a];
  p.b = lead.arg[engine::warpgroup_b];
  p.part.adds = lead.arg[engine::warpgroup_adds] & 1;
  bool same = true;
  each(members, [&](std::uint32_t l) {
    const char* why = disagreement(lead, lanes[l], p.op);
    if (why && same) sync_error(block, lanes[l], why);
    same &= !why;
    if (lanes[l].pending_site != lead.pending_site) return; // it has given something else
    p.part.lanes[l] = lane_of(lanes[l]);
    p.part.metadata[l] = std::uint32_t(lanes[l].arg[engine::warpgroup_metadata]);
  });
  AsyncQueue& queue = async_queue(lead);
  p.group = queue.warpgroup_groups;
  p.copy.kind = AsyncCopy::Kind::product;
  p.copy.site = lead.pending_site;
  p.copy.instruction = queue.instructions++;
  p.copy.number = queue.issued++;
  ++queue.products;
  queue.product_site = p.copy.site;
  if (block.named) holds_->copy_issued(block, lead, p.copy);
  if (recording(block)) say_product(block, lead, p);
  const bool delayed = p.copy.hold >= 0 && holds_->delays(p.copy.hold);
  if (!delayed && !read_operands(block, warp, p)) return;
  if (delayed || gets_marks(block, warp, p)) return leave_marks(block, warp, std::move(product));
  run_product(block, warp, p);
}

void Machine::run_product(Block& block, std::uint32_t warp, Product& p) {
  engine::run_warpgroup(p.op, p.operands, p.part);
  if (!block.launch->request.mode.written) return;
  engine::run_warpgroup_undefined(p.op, p.operands, p.part);
  if (!p.operands.open) return;
  ThreadContext* lanes = block.threads + warp * warp_lanes;
  for (std::uint32_t l = 0; l < warp_lanes; ++l) {
    const WarpgroupLane* lane = p.part.lanes[l];
    if (!lane) continue;
    const auto sums = lane->open_sums.begin();
    if (std::none_of(sums, sums + p.op.sum_words(), [](std::uint32_t w) { return w != 0; })) continue;
    lanes[l].undefined_site = p.copy.site;
    lanes[l].undefined_address = p.operands.open;
    lanes[l].undefined_bytes = unit_bytes;
  }
}

// Does it add to what another that waits will give?
bool Machine::gets_marks(const Block& block, std::uint32_t warp, const Product& p) const {
  const auto pending = block.products.find(warp);
  if (pending == block.products.end() || !p.part.adds) return false;
  for (const auto& before : pending->second->products)
    for (std::uint32_t l = 0; l < warp_lanes; ++l) {
      if (!p.part.lanes[l]) continue;
      const auto& sums = p.part.lanes[l]->sums;
      const auto end = before->marks[l].begin() + before->op.sum_words();
      for (std::uint32_t w = 0; w < p.op.sum_words(); ++w)
        if (std::find(before->marks[l].begin(), end, sums[w]) != end) return true;
    }
  return false;
}

void Machine::leave_marks(Block& block, std::uint32_t warp, std::unique_ptr<Product> product) {
  auto& pending = block.products[warp];
  if (!pending) pending = std::make_shared<PendingProducts>();
  Product& p = *product;
  p.lanes.resize(warp_lanes);
  p.marks.resize(warp_lanes);
  for (std::uint32_t l = 0; l < warp_lanes; ++l) {
    WarpgroupLane* lane = p.part.lanes[l];
    if (!lane) continue;
    p.lanes[l] = *lane;
    p.part.lanes[l] = &p.lanes[l];
    for (std::uint32_t w = 0; w < p.op.sum_words(); ++w) p.marks[l][w] = lane->sums[w] = mark_of(pending->marks++);
  }
  pending->products.push_back(std::move(product));
}

// Puts the sums of a computed product into the places of its marks.
void Machine::settle_marks(Block& block, std::uint32_t warp, const Product& p, PendingProducts& pending) {
  for (std::uint32_t l = 0; l < warp_lanes; ++l) {
    if (!p.part.lanes[l]) continue;
    const auto marks = p.marks[l].begin(), end = marks + p.op.sum_words();
    auto settle = [&](std::uint32_t& word) {
      const auto found = std::find(marks, end, word);
      if (found != end) word = p.lanes[l].sums[std::size_t(found - marks)];
    };
    for (const auto& later : pending.products)
      if (later->part.lanes[l]) std::for_each(later->lanes[l].sums.begin(), later->lanes[l].sums.end(), settle);
    const ThreadContext& t = block.threads[warp * warp_lanes + l];
    auto* words = reinterpret_cast<std::uint32_t*>(t.stack);
    std::for_each(words, words + t.stack_used / 4, settle);
  }
}

// Computes the warp's products of groups below, but for those that a hold delays and what comes behind them. False: one
// of them is left.
bool Machine::perform_products(Block& block, std::uint32_t warp, std::uint32_t below) {
  const auto found = block.products.find(warp);
  if (found == block.products.end()) return true;
  if (current_) return false; // its registers are not in its frame: later
  const std::shared_ptr<PendingProducts> pending = found->second;
  auto& all = pending->products;
  while (!all.empty() && all.front()->group < below) {
    Product& p = *all.front();
    if (!p.has_read && holds_->delays(p.copy.hold)) return false;
    if (!p.has_read && !read_operands(block, warp, p)) return true;
    const std::unique_ptr<Product> product = std::move(all.front());
    all.erase(all.begin());
    engine::run_warpgroup(p.op, p.operands, p.part);
    settle_marks(block, warp, p, *pending);
    ++progress_;
    ++exec_.changes;
  }
  return true;
}

// All threads of the block have exited: all warps of a warpgroup must have executed each product (9.7.15.5.2, ".sync",
// ".aligned").
void Machine::check_warpgroups(const Block& block) {
  constexpr std::uint32_t group_threads = 4 * warp_lanes;
  for (std::uint32_t first = 0; first < block.async.size(); first += group_threads) {
    std::array<std::uint32_t, 4> counts{};
    std::uint32_t site = 0;
    for (std::uint32_t t = first; t < std::min<std::size_t>(first + group_threads, block.async.size()); ++t) {
      counts[(t - first) / warp_lanes] += block.async[t].products;
      if (block.async[t].products) site = block.async[t].product_site;
    }
    const auto fewest = std::min_element(counts.begin(), counts.end());
    if (*fewest == *std::max_element(counts.begin(), counts.end())) continue;
    const LaunchRequest& request = block.launch->request;
    const std::uint32_t thread =
        std::min(first + std::uint32_t(fewest - counts.begin()) * warp_lanes, block.threads_count - 1);
    std::string text = "the warps of a warpgroup execute wgmma.mma_async";
    for (const std::uint32_t count : counts) text += (&count == counts.data() ? " " : ", ") + std::to_string(count);
    say_sync_error({request.launch, block.index, thread, request.module, site,
                    text + " times: all four must execute each one (PTX ISA, wgmma.mma_async)"});
  }
}

// wgmma.wait_group: all but the last `keep_groups` groups that the warp has committed.
bool Machine::warpgroup_wait(Block& block, std::uint32_t thread, std::uint32_t keep_groups) {
  if (block.products.empty()) return true;
  const std::uint32_t warp = thread / warp_lanes, groups = block.async[thread].warpgroup_groups;
  return perform_products(block, warp, groups - std::min(groups, keep_groups));
}

} // namespace deadheat::device
