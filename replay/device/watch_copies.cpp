// The asynchronous side of a watched run: copies that read and write beside their thread, mbarriers that tell of their
// completion, barriers of a cluster. Told to the store histories as the analysis of traces tells its clocks
// (analyzer/detect/asynchrony.cpp), so that both take the same accesses for ordered.
#include "replay/device/watch.h"

#include "replay/device/machine.h"

namespace deadheat::device {

using What = trace::Mbarrier::What;

order::Location Watch::location(const Place& place, std::uint32_t bytes) const {
  return {place.block ? key(*place.block, 0).block_bits() + 1 : 0, place.address, bytes};
}

void Watch::cluster_barrier(const Block& block, std::uint32_t warp, std::uint32_t lanes, std::uint32_t phase, bool wait,
                            bool relaxed) {
  if (chooser_) {
    const std::uint32_t operation = block.launch->request.operation;
    const Chooser::Object at{(std::uint64_t(operation) << 32 | block.cluster->blocks.front()->index) + 1, ~0ull};
    for (std::uint32_t m = lanes; m; m &= m - 1) {
      const Agent who{.kind = Agent::Kind::thread,
                      .operation = operation,
                      .block = block.index,
                      .thread = warp * warp_lanes + std::uint32_t(__builtin_ctz(m))};
      if (wait)
        chooser_->waited(who, at, phase);
      else
        chooser_->arrived(who, at, phase, false);
    }
  }
  if (histories_)
    histories_->causality().cluster_barrier(block.launch->history, block.index, warp, lanes, phase, wait, relaxed,
                                            histories_->tick());
}

void Watch::mbarrier(const Block& block, std::uint32_t thread, const Place& object, const Site& site, What what,
                     std::uint32_t phase) {
  if (chooser_ && (what == What::arrive || what == What::test)) {
    const std::uint32_t operation = block.launch->request.operation;
    const Agent who{.kind = Agent::Kind::thread, .operation = operation, .block = block.index, .thread = thread};
    const Chooser::Object at{(std::uint64_t(operation) << 32 | object.block->index) + 1, object.address};
    if (what == What::test)
      chooser_->waited(who, at, phase);
    else
      chooser_->arrived(who, at, phase, object.block->mbarriers.at(std::uint32_t(object.address)).phase != phase);
  }
  if (!histories_) return;
  constexpr std::uint32_t object_bytes = 8;
  if (what != What::test) histories_->overwritten(location(object, object_bytes));
  order::Causality& causality = histories_->causality();
  const order::Location at = location(object, 0);
  const order::ThreadKey who = key(block, thread);
  switch (what) {
    case What::init:
    case What::inval: return causality.mbarrier_init(at);
    case What::arrive:
    case What::arrive_drop:
      return causality.mbarrier_arrive(who, at, phase, site.ordering, site.scope, histories_->tick());
    case What::complete_tx:
      if (site.kind == SiteKind::bulk_copy) causality.bulk_complete(who, at, phase, histories_->tick());
      return;
    case What::async_arrive: return causality.mbarrier_async_arrive(who, at, phase, histories_->tick());
    case What::test: return causality.mbarrier_test(who, at, phase, site.ordering, site.scope);
    case What::expect_tx: return;
  }
}

// Copies that complete with a group belong to the one that is open when they are issued; those that complete on an
// mbarrier are told of when they are performed, since their completion names none of them.
void Watch::copy_issued(const Block& block, std::uint32_t thread, AsyncCopy& copy) {
  if (!histories_ || copy.mbarrier) return;
  order::Causality& causality = histories_->causality();
  if (copy.kind == AsyncCopy::Kind::copy) {
    copy.history_read = copy.history_write = causality.async_issue(key(block, thread));
  } else {
    const auto groups = causality.bulk_issue(key(block, thread), nullptr);
    copy.history_read = groups.read;
    copy.history_write = groups.write;
  }
}

void Watch::copies_committed(const Block& block, std::uint32_t thread, bool bulk) {
  if (!histories_) return;
  if (bulk)
    histories_->causality().bulk_commit(key(block, thread));
  else
    histories_->causality().async_commit(key(block, thread));
}

void Watch::copies_completed(const Block& block, std::uint32_t thread, std::uint32_t pending, bool bulk, bool all,
                             bool reads_only) {
  if (!histories_) return;
  if (bulk)
    histories_->causality().bulk_wait(key(block, thread), pending, reads_only, histories_->tick());
  else
    histories_->causality().async_wait(key(block, thread), pending, all, histories_->tick());
}

const std::uint8_t* Watch::copy_begins(const Block& block, std::uint32_t thread, const AsyncCopy& copy,
                                       const Place& source, const Place& destination, const Place& object,
                                       const std::uint8_t* from, const std::uint8_t* to) {
  copy_.age = 0;
  if (!histories_) return from;
  const Traits& traits = traits_of(block.launch->request)[copy.site];
  order::HistoryAccess access;
  access.thread = key(block, thread);
  access.copy = true;
  access.async_proxy = traits.site->proxy == Proxy::async;
  access.tag = traits.tag;
  access.clustered = block.cluster != nullptr;
  order::AsyncGroup write = copy.mbarrier && copy.goes_on ? copy_.write.group : copy.history_write;
  if (copy.mbarrier && !copy.goes_on) {
    const order::Location at = location(object, 0);
    write = histories_->causality().bulk_issue(access.thread, &at).write;
  }
  copy_.write = access;
  copy_.write.location = location(destination, copy.bytes);
  copy_.write.group = write;
  if (copy.reduction) { // atomic, an element each (9.7.9.25.4.2)
    copy_.write.element_bytes = std::max<std::uint32_t>(traits.site->element_bytes, 1);
    copy_.write.ordering = traits.site->ordering;
    copy_.write.scope = traits.scope;
  }
  copy_.before.assign(to, to + copy.bytes);
  if (!from || !copy.data.empty() || !copy.source_bytes) return from;
  access.location = location(source, copy.source_bytes);
  if (opaque_) {
    histories_->settle();
    return from;
  }
  const std::size_t choices = histories_->choices(access, from);
  if (choices < 2) return from;
  const std::uint64_t nth = OldRead::of_copy + copy.number;
  copy_.age = listed(block, thread, nth, choices);
  if (!copy_.age && !chooser_) copy_.age = draw(access, block, copy.site, choices);
  if (!copy_.age) return from;
  old_reads_.push_back({block.launch->request.operation, block.index, thread, std::uint32_t(copy_.age), nth});
  copy_.shown.assign(from, from + copy.source_bytes);
  histories_->look(access, copy_.age, copy_.shown.data());
  return copy_.shown.data();
}

void Watch::copy_ended(const std::uint8_t* to) {
  if (histories_) histories_->write(copy_.write, copy_.before.data(), to);
}

} // namespace deadheat::device
