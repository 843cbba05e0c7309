// Events within a block that are applied later, or never (deferred.h).
//
// Why that changes nothing: such an event reads and writes what the block's threads know, the mbarrier objects in its
// shared memory and its barriers, and nothing else that later events change. Whatever else touches those applies what
// was left here first. It leaves to others nothing but through a release, a launch's end or a block that is over, which
// are no such events.
#include "analyzer/order/deferred.h"

#include <bit>

#include "analyzer/order/causality.h"

namespace deadheat::order {

namespace {

constexpr std::size_t most_deferred = 1 << 17; // events of all blocks: 4 MB

} // namespace

void Causality::push_deferred(ThreadKey of_block, Block& block, const Deferred::Event& event) {
  block.deferred->events.push_back(event);
  if (++deferred_ > most_deferred) apply_deferred(of_block, block);
}

bool Causality::defer_at(ThreadKey lane0, const Location& object, Deferred::Event event) {
  const ThreadKey there = ThreadKey::first_of(object.block - 1);
  if (object.block && there.block_bits() == lane0.block_bits()) {
    event.object = object.address;
    event.warp = std::uint8_t(lane0.warp());
    return defer(lane0, known_or_new_block(lane0), event);
  }
  settle(there); // another block's, or what a damaged trace says
  return false;
}

void Causality::settle(ThreadKey of_block) {
  if (Block* const of = leaves_for_later_ ? known_block(of_block) : nullptr; of && of->deferred)
    apply_deferred(of_block, *of);
}

void Causality::drop_deferred(Block& block) {
  if (!block.deferred) return;
  std::vector<Deferred::Event>& events = block.deferred->events;
  deferred_ -= events.size();
  constexpr std::size_t most_room = 1 << 10; // that a block keeps: others may come, and each be the one with many
  if (events.capacity() > most_room)
    std::vector<Deferred::Event>().swap(events); // an empty list in its place would keep the room
  else
    events.clear();
}

void Causality::apply_deferred(ThreadKey of_block, Block& block) {
  Deferred& deferred = *block.deferred;
  if (deferred.applying || deferred.events.empty()) return;
  deferred.applying = true;
  for (const Deferred::Event& event : deferred.events) apply(of_block.operation(), of_block.block(), block, event);
  drop_deferred(block);
  deferred.applying = false;
}

void Causality::apply(OperationIndex operation, std::uint32_t index, Block& block, const Deferred::Event& event) {
  using What = Deferred::What;
  const ThreadKey lane0(operation, index, event.warp * 32u);
  const Location object{lane0.block_bits() + 1, event.object};
  const Stamp now = event.stamp;
  const auto one = [&] {
    return ThreadKey(operation, index, lane0.thread() + unsigned(std::countr_zero(event.lanes)));
  };
  switch (event.what) {
    case What::block_barrier: return apply_block_barrier(operation, index, block, now);
    case What::warp_barrier: return apply_warp_barrier(lane0, block, event.lanes, now);
    case What::barrier_arrive:
      return apply_barrier_arrive(lane0, block, event.lanes, std::uint32_t(event.object), event.phase, event.yes, now);
    case What::barrier_complete:
      return apply_barrier_complete(lane0, block, std::uint32_t(event.object), event.phase, event.yes);
    case What::proxy_fence: return apply_proxy_fence(lane0, block, event.lanes, event.yes, event.also, now);
    case What::mbarrier_init: return apply_mbarrier_init(object);
    case What::mbarrier_arrive:
      return apply_mbarrier_arrive(lane0, event.lanes, object, event.phase, event.ordering, event.scope, now);
    case What::mbarrier_async_arrive: return apply_mbarrier_async_arrive(lane0, event.lanes, object, event.phase, now);
    case What::mbarrier_test:
      return apply_mbarrier_test(lane0, event.lanes, object, event.phase, event.ordering, event.scope, event.yes);
    case What::bulk_complete: return apply_bulk_complete(object, event.phase, now);
    case What::bulk_told: return apply_bulk_told(one(), {event.phase, event.phase + 1});
    case What::matrix_wait: return apply_matrix_wait(one(), event.object);
  }
}

} // namespace deadheat::order
