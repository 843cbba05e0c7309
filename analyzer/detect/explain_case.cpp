#include "analyzer/detect/explain_case.h"

namespace deadheat::detect::why {

bool meets(std::uint32_t lanes, order::ThreadKey thread, order::ThreadKey other) {
  return thread.block_bits() == other.block_bits() && thread.warp() == other.warp() &&
         (lanes >> (thread.thread() % 32) & 1);
}

void Case::first_meets_before() {
  writes_before.clear();
  waiting.clear();
  early_message.reset();
  just_before = {};
}

void Case::first_meets() {
  const order::ThreadKey first = race->first.thread;
  if (!barrier) std::erase_if(fences, [&](const auto& fence) { return fence.first != first; });
  barrier = true;
  waiting.clear();
}

void Case::first_meets(std::uint32_t lanes) {
  const order::ThreadKey first = race->first.thread;
  std::erase_if(fences, [&](const auto& fence) {
    return fence.first != first && !meets(met, fence.first, first) && meets(lanes, fence.first, first);
  });
  met |= lanes;
  waiting.clear();
}

void Case::second_meets() {
  for (std::optional<Message>& message : messages)
    if (message) message->barrier_after = true;
  if (early_message) early_message->barrier_after = true;
  for (auto& [block, relay] : relays)
    if (relay.out) relay.out->barrier_after = true;
}

void Case::second_meets(std::uint32_t lanes) {
  const auto after = [&](std::optional<Message>& message) {
    if (message) message->barrier_after |= meets(lanes, message->read.thread, race->second.thread);
  };
  for (std::optional<Message>& message : messages) after(message);
  after(early_message);
  for (auto& [block, relay] : relays) after(relay.out);
}

void Case::third_meets(std::uint64_t block) {
  if (const auto at = relays.find(block); at != relays.end()) at->second.in.barrier_after = true;
}

void Case::note_waiting(const Flag& flag, const FlagUse& use) {
  if (!use.reads || !use.waits || use.thread == race->first.thread || !use.in_first_block(*race)) return;
  if (waiting.size() < most_flags || waiting.count(use.thread))
    waiting.insert_or_assign(use.thread, std::pair(flag, use.mark));
}

} // namespace deadheat::detect::why
