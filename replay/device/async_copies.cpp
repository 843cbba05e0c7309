// cp.async: copies that belong to no thread's program order between their issue and the wait that requires them
// (PTX ISA 9.7.9.25). In the natural order a copy is performed when its group is committed; a schedule may delay it,
// at most to the wait.
#include <cstring>

#include "deadheat/address.h"
#include "replay/device/control.h"
#include "replay/device/holds.h"
#include "replay/device/machine.h"
#include "replay/device/record.h"

namespace deadheat::device {

using engine::ThreadContext;

AsyncQueue& Machine::async_queue(ThreadContext& thread) {
  Block& block = *static_cast<Block*>(thread.block->block);
  if (block.async.empty()) block.async.resize(block.threads_count);
  return block.async[thread.linear];
}

void Machine::perform(Block& block, const AsyncCopy& copy) {
  // Issue checked both ends; the source may have been freed since.
  std::uint8_t* to = block.context.shared + copy.destination;
  if (copy.source_bytes) {
    if (options_.environment->legal(copy.source, copy.source_bytes))
      std::memcpy(to, reinterpret_cast<const void*>(to_host(copy.source)), copy.source_bytes);
    else
      std::memset(to, 0, copy.source_bytes);
  }
  std::memset(to + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
  ++progress_;
}

// Performs the thread's copies but for its last `keep_groups` committed groups; `all`: those not committed too.
// Returns false when a held one is among them.
bool Machine::perform_copies(Block& block, std::uint32_t thread, std::uint32_t keep_groups, bool all) {
  if (block.async.empty()) return true;
  AsyncQueue& queue = block.async[thread];
  const std::uint32_t below = all ? ~0u : queue.groups - std::min(queue.groups, keep_groups);
  bool done = true;
  std::vector<AsyncCopy> left;
  for (const AsyncCopy& copy : queue.copies) {
    if (copy.group >= below) {
      left.push_back(copy);
    } else if (copy.hold >= 0 && holds_->delays(copy.hold)) {
      left.push_back(copy);
      done = false;
    } else {
      perform(block, copy);
      if (block.named) detour_ |= holds_->copied(copy);
    }
  }
  queue.copies = std::move(left);
  return done;
}

bool Machine::perform_copy_group(Block& block, std::uint32_t thread, std::uint32_t group) {
  bool any = false;
  AsyncQueue& queue = block.async[thread];
  std::vector<AsyncCopy> left;
  for (const AsyncCopy& copy : queue.copies) {
    if (copy.group != group) {
      left.push_back(copy);
      continue;
    }
    perform(block, copy);
    any = true;
  }
  queue.copies = std::move(left);
  return any;
}

// Lanes at a wait go on when what they wait for has been performed.
void Machine::copy_waits(Block& block, std::uint32_t warp) {
  WarpState& state = block.warps[warp];
  std::uint32_t done = 0;
  for (std::uint32_t m = state.waiting_copy; m; m &= m - 1) {
    const std::uint32_t lane = std::uint32_t(__builtin_ctz(m));
    const ThreadContext& t = block.threads[warp * warp_lanes + lane];
    if (perform_copies(block, t.linear, std::uint32_t(t.arg[0]), t.arg[1] & 1)) done |= 1u << lane;
    if (control_) control_->copies_performed(block, t.linear, std::uint32_t(t.arg[0]), t.arg[1] & 1);
  }
  if (!done) return;
  state.waiting_copy &= ~done;
  if (recording(block)) say_copy_wait(block, warp, done);
  make_ready(block, warp, done);
}

} // namespace deadheat::device
