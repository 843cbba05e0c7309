// mbarrier objects (PTX ISA 9.7.13.15): counts and phases in shared memory, arrivals from threads, copies and other
// blocks of the cluster. A thread that waits is parked until the object's phase changes; who is never let go is named
// with what the phase still misses (stuck.cpp). Wrong use is a sync error and has no effect.
#include "replay/device/mbarrier.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "deadheat/address.h"
#include "replay/device/machine.h"
#include "replay/device/record.h"

namespace deadheat::device {

using engine::MbarrierOp;
using engine::ThreadContext;
using trace::MemoryError;
using What = trace::Mbarrier::What;

namespace {

bool has(std::uint32_t what, MbarrierOp flag) { return what & std::uint32_t(flag); }

std::string number(std::uint64_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

} // namespace

// The object there, initialised and untouched by others since; null after saying what is wrong.
MbarrierState* Machine::mbarrier_object(Block& block, ThreadContext& thread, const SharedPlace& at, const char* what) {
  auto found = at.block->mbarriers.find(at.offset);
  if (found == at.block->mbarriers.end()) {
    sync_error(block, thread, std::string(what) + " on an mbarrier object that is not initialised");
    return nullptr;
  }
  if (std::memcmp(at.bytes(), &found->second.bits, 8) != 0) {
    sync_error(block, thread, std::string(what) + " on an mbarrier object that other accesses have overwritten");
    at.block->mbarriers.erase(found);
    return nullptr;
  }
  return &found->second;
}

std::uint64_t Machine::mbarrier(ThreadContext& thread, std::uint32_t site, std::uint32_t what, std::uint64_t address,
                                std::uint64_t operand) {
  Block& block = *static_cast<Block*>(thread.block->block);
  thread.pending_site = site; // whom errors name
  const SharedPlace at = shared_place(block, address, 8);
  if (!at.block || at.offset % 8) {
    const bool shared = address - shared_window < window_bytes;
    fault(thread, site,
          at.block ? MemoryError::Kind::misaligned
          : shared ? MemoryError::Kind::out_of_bounds
                   : MemoryError::Kind::wrong_space,
          address, 8, AccessKind::atomic);
    return 0;
  }
  const std::uint32_t count = std::uint32_t(operand);
  const auto op = MbarrierOp(what & std::uint32_t(MbarrierOp::operation));
  switch (op) {
    case MbarrierOp::init: {
      if (count == 0 || count > MbarrierBits::most_arrivals)
        sync_error(block, thread,
                   "mbarrier.init with a count of " + std::to_string(count) + ": 1 to 1048575 are allowed");
      auto old = at.block->mbarriers.find(at.offset);
      if (old != at.block->mbarriers.end() && std::memcmp(at.bytes(), &old->second.bits, 8) == 0)
        sync_error(block, thread, "mbarrier.init of an object in use: mbarrier.inval ends its use");
      MbarrierBits bits;
      bits.expected = bits.pending = count & MbarrierBits::most_arrivals;
      MbarrierState& state = at.block->mbarriers[at.offset] = {0, bits.pack(), {}};
      std::memcpy(at.bytes(), &state.bits, 8);
      shared_written(*at.block, at.offset, 8);
      ++progress_;
      say_mbarrier(block, thread, at, site, What::init, count, 0);
      return 0;
    }
    case MbarrierOp::inval:
      if (!mbarrier_object(block, thread, at, "mbarrier.inval")) return 0;
      at.block->mbarriers.erase(at.offset);
      ++progress_;
      say_mbarrier(block, thread, at, site, What::inval, 0, 0);
      return 0;
    case MbarrierOp::test: return mbarrier_test(block, thread, at, what, address, operand);
    case MbarrierOp::async_arrive: {
      MbarrierState* object = mbarrier_object(block, thread, at, "cp.async.mbarrier.arrive");
      if (!object) return 0;
      if (!has(what, MbarrierOp::no_increment)) {
        MbarrierBits bits = MbarrierBits::unpack(object->bits);
        bits.pending = (bits.pending + 1) & MbarrierBits::most_arrivals;
        object->bits = bits.pack();
        std::memcpy(at.bytes(), &object->bits, 8);
      }
      AsyncQueue& queue = async_queue(thread);
      AsyncCopy arrival;
      arrival.kind = AsyncCopy::Kind::arrival;
      arrival.group = queue.next_own++;
      arrival.site = site;
      arrival.mbarrier = address;
      queue.copies.push_back(arrival);
      issued(block, thread.linear, arrival.group);
      return 0;
    }
    default: break;
  }
  const char* name = op == MbarrierOp::expect_tx     ? "mbarrier.expect_tx"
                     : op == MbarrierOp::complete_tx ? "mbarrier.complete_tx"
                                                     : "mbarrier.arrive";
  const MbarrierState* object = mbarrier_object(block, thread, at, name);
  if (!object) return 0;
  const std::uint64_t before = object->bits;
  if (op == MbarrierOp::expect_tx)
    mbarrier_change(block, thread, at, what, 0, count);
  else if (op == MbarrierOp::complete_tx)
    mbarrier_change(block, thread, at, what, 0, -std::int64_t(count));
  else
    mbarrier_change(block, thread, at, what, count, std::int64_t(operand >> 32));
  return before;
}

// An expect-tx or complete-tx operation of `bytes`, then an arrive-on operation of `count`.
void Machine::mbarrier_change(Block& block, ThreadContext& thread, const SharedPlace& at, std::uint32_t what,
                              std::uint32_t count, std::int64_t bytes) {
  MbarrierState& object = at.block->mbarriers.at(at.offset);
  MbarrierBits bits = MbarrierBits::unpack(object.bits);
  const auto op = MbarrierOp(what & std::uint32_t(MbarrierOp::operation));
  const bool arrives = op == MbarrierOp::arrive || op == MbarrierOp::arrive_drop || op == MbarrierOp::async_arrive;
  const std::uint32_t site = thread.pending_site;
  if (arrives && (count == 0 || count > bits.pending)) {
    return sync_error(block, thread,
                      "an arrival of " + std::to_string(count) + " at an mbarrier phase that waits for " +
                          std::to_string(bits.pending) + " more");
  }
  if (has(what, MbarrierOp::no_complete) && count == bits.pending && bits.bytes + bytes == 0) {
    return sync_error(block, thread, "an arrival with .noComplete that completes the phase");
  }
  bits.bytes += bytes;
  if (bits.bytes > MbarrierBits::most_bytes || bits.bytes < -MbarrierBits::most_bytes) {
    return sync_error(block, thread, "an mbarrier phase that waits for more than 1048575 bytes");
  }
  bits.pending -= count;
  if (op == MbarrierOp::arrive_drop) bits.expected -= std::min(count, bits.expected);
  const std::uint32_t phase = object.phase;
  if (bits.advance()) ++object.phase;
  object.bits = bits.pack();
  std::memcpy(at.bytes(), &object.bits, 8);
  ++progress_;
  const What said = op == MbarrierOp::arrive        ? What::arrive
                    : op == MbarrierOp::arrive_drop ? What::arrive_drop
                    : op == MbarrierOp::expect_tx   ? What::expect_tx
                    : op == MbarrierOp::complete_tx ? What::complete_tx
                                                    : What::async_arrive;
  say_mbarrier(block, thread, at, site, said, arrives ? count : std::uint32_t(bytes < 0 ? -bytes : bytes), phase);
}

std::uint64_t Machine::mbarrier_test(Block& block, ThreadContext& thread, const SharedPlace& at, std::uint32_t what,
                                     std::uint64_t address, std::uint64_t operand) {
  constexpr std::uint64_t no = 0, yes = 1, suspend = 2;
  std::uint64_t bits = 0;
  std::memcpy(&bits, at.bytes(), 8); // what is awaited to change, whether it is an object or not
  if (MbarrierState* object = mbarrier_object(block, thread, at, "a wait")) {
    const std::uint32_t now = MbarrierBits::unpack(bits).phase;
    const bool parity = has(what, MbarrierOp::parity);
    const std::uint32_t asked = parity ? std::uint32_t(operand & 1) : MbarrierBits::unpack(operand).phase;
    if (parity ? (now & 1) != asked : now != asked) {
      const std::uint32_t ago = parity ? 1 : (now - asked) & 7;
      // A fresh object passes for one whose phase -1 is complete: that orders nothing.
      if (object->phase >= ago) {
        if (object->next.empty()) object->next.resize(block.threads_count);
        object->next[thread.linear] = object->phase - ago + 1;
        say_mbarrier(block, thread, at, thread.pending_site, What::test, 0, object->phase - ago);
      }
      thread.spin_site = ~0u;
      return yes;
    }
  }
  const bool looked = thread.spin_site == thread.pending_site && thread.spin_address == address &&
                      ((thread.spin_value ^ bits) & MbarrierBits::phase_mask) == 0;
  thread.pending_address = thread.spin_address = address;
  thread.spin_site = thread.pending_site;
  thread.spin_value = bits;
  if (has(what, MbarrierOp::again)) return no;
  return has(what, MbarrierOp::blocking) || (looked && has(what, MbarrierOp::in_loop)) ? suspend : no;
}

// Who waits by parity takes the phase after next for the one that it missed, and waits for its end.
std::string Machine::missed_text(const MbarrierState& object, const ThreadContext& thread) {
  const std::uint32_t next = object.next.empty() ? 0 : object.next[thread.linear];
  if (next >= object.phase) return {};
  const bool looks_the_same = (object.phase - next) % 2 == 0;
  return " (phase " + std::to_string(next) + " is over, and the thread has not seen that: " +
         (looks_the_same
              ? "it has the same parity, and nothing keeps those that arrive from going on before it has looked)"
              : "it waits with the parity of the one behind it)");
}

std::string Machine::mbarrier_text(const ThreadContext& thread, bool parity) const {
  const SharedPlace at = shared_place(*static_cast<Block*>(thread.block->block), thread.pending_address, 8);
  if (!at.block) return {};
  char place[64];
  std::snprintf(place, sizeof place, ", mbarrier at shared offset 0x%x", at.offset);
  std::string text = place;
  auto found = at.block->mbarriers.find(at.offset);
  if (found == at.block->mbarriers.end()) return text + ", not initialised";
  const MbarrierBits bits = MbarrierBits::unpack(found->second.bits);
  text += ": phase " + std::to_string(found->second.phase) + " waits for " + number(bits.pending, "arrival") + " of " +
          std::to_string(bits.expected);
  if (bits.bytes > 0) text += " and " + number(std::uint64_t(bits.bytes), "byte");
  if (bits.bytes < 0) text += " and to be told of " + number(std::uint64_t(-bits.bytes), "byte") + " that have come";
  return text + (parity ? missed_text(found->second, thread) : "");
}

} // namespace deadheat::device
