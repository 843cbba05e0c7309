#include "replay/device/services.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "deadheat/address.h"
#include "deadheat/digest.h"
#include "deadheat/vector_values.h"
#include "replay/device/control.h"
#include "replay/device/holds.h"
#include "replay/device/machine.h"
#include "replay/device/record.h"
#include "replay/device/watch.h"
#include "replay/engine/tables.h"
#include "replay/engine/written.h"
#include "tracer/ptx/sites.h"

namespace deadheat::device {

using engine::ThreadContext;
using trace::MemoryError;

struct MachineServices {
  static Machine& machine(ThreadContext* t) { return *static_cast<Machine*>(t->block->launch->exec->machine); }
  static Block& block(ThreadContext* t) { return *static_cast<Block*>(t->block->block); }
  static Machine& changed(ThreadContext* t) { // ExecContext::changes
    ++t->block->launch->exec->changes;
    return machine(t);
  }

  static void set_fault(ThreadContext* t, std::uint32_t site, MemoryError::Kind kind, std::uint64_t address = 0,
                        std::uint32_t bytes = 0, AccessKind access = AccessKind::read, const char* text = nullptr) {
    t->fault_kind = std::uint32_t(kind);
    t->fault_site = site;
    t->fault_address = address;
    t->fault_bytes = bytes;
    t->fault_access = std::uint32_t(access);
    t->fault_text = text;
  }

  static void log_full(ThreadContext* t) {
    Machine& m = machine(t);
    Recorder& r = *m.recorder_;
    r.take_back(*t);
    Recorder::Lane& lane = r.lanes[t->lane];
    if (!m.options_.sink) {
      lane.used = 0;
    } else if (lane.log.size() < Recorder::max_entries) {
      lane.log.resize(lane.log.size() * 4);
    } else {
      m.flush(block(t), t->warp); // all lanes' logs so far: their program orders are kept
    }
    r.lend(*t);
  }

  static void strong(ThreadContext* t, std::uint32_t site, std::uint64_t address, std::uint64_t read,
                     std::uint64_t written, std::uint32_t wrote) {
    Machine& m = machine(t);
    Recorder::Strong& s = m.recorder_->lanes[t->lane].strong;
    const Site& what = block(t).launch->request.sites->sites->at(site);
    const std::uint32_t bytes = what.element_bytes;
    const std::uint32_t digest = deadheat::digest(&written, std::min(bytes, 8u));
    if (s.done && s.site == site) { // the next element of a vector: one record
      const std::uint32_t index = std::uint32_t(address - s.address) / std::max(bytes, 1u);
      s.read = with_element(s.read, read, index, bytes, what.elements);
      s.written = with_element(s.written, written, index, bytes, what.elements);
      if (wrote) s.digest = s.digest * digest_multiplier ^ digest;
      return;
    }
    s = {site, true, wrote != 0, digest, address, read, written, ++m.tickets_};
  }

  // A block of the kernels' heap that was freed, and that nobody has got since.
  static bool freed_in_heap(Machine& m, std::uint64_t address) {
    std::uint64_t heap_bytes = 0;
    if (m.heap_freed_.empty()) return false;
    const std::uint64_t offset = address - m.options_.environment->heap(&heap_bytes);
    const auto behind = m.heap_freed_.upper_bound(offset);
    return behind != m.heap_freed_.begin() && offset - std::prev(behind)->first < std::prev(behind)->second;
  }

  static std::uint32_t check(ThreadContext* t, std::uint32_t site, std::uint64_t address, std::uint32_t bytes,
                             std::uint32_t is_write) {
    Machine& m = machine(t);
    const AccessKind access = is_write ? AccessKind::write : AccessKind::read;
    auto refuse = [&](MemoryError::Kind kind) {
      set_fault(t, site, kind, address, bytes, access);
      return 0u;
    };
    if (std::has_single_bit(bytes) && address & (bytes - 1)) return refuse(MemoryError::Kind::misaligned);
    const std::vector<Site>& sites = *block(t).launch->request.sites->sites;
    const bool global = site < sites.size() && sites[site].space == Space::global;
    if (address & window_bit) {
      if (global && ptx::is_discard(sites[site])) return refuse(MemoryError::Kind::wrong_space);
      auto inside = [&](std::uint64_t window, std::uint64_t size) {
        return address - window < size && bytes <= size - (address - window);
      };
      const engine::LaunchContext& launch = *t->block->launch;
      if (inside(shared_window, launch.total_shared) || inside(local_window, t->stack_bytes)) return 1;
      if (shared_place(block(t), address, bytes).block) return 1; // another block's of the cluster
      if (!is_write && inside(param_window, block(t).launch->request.params.size())) return 1;
      return refuse(global ? MemoryError::Kind::wrong_space : MemoryError::Kind::out_of_bounds);
    }
    if (m.options_.environment->legal(address, bytes)) return 1;
    bool freed = false;
    m.options_.environment->nearest_allocation(address, &freed);
    freed |= freed_in_heap(m, address);
    return refuse(freed ? MemoryError::Kind::use_after_free : MemoryError::Kind::out_of_bounds);
  }

  static void async_copy(ThreadContext* t, std::uint32_t site, std::uint64_t destination, std::uint64_t source,
                         std::uint32_t bytes, std::uint32_t source_bytes) {
    Machine& m = changed(t);
    source_bytes = std::min(source_bytes, bytes);
    destination &= window_bytes - 1;
    if (destination + bytes > t->block->launch->total_shared) {
      set_fault(t, site, MemoryError::Kind::out_of_bounds, shared_window + destination, bytes, AccessKind::write);
      return m.take_fault(*t);
    }
    if (source_bytes && !m.options_.environment->legal(source, source_bytes)) {
      bool freed = false;
      m.options_.environment->nearest_allocation(source, &freed);
      freed |= freed_in_heap(m, source);
      set_fault(t, site, freed ? MemoryError::Kind::use_after_free : MemoryError::Kind::out_of_bounds, source,
                source_bytes);
      return m.take_fault(*t);
    }
    AsyncQueue& queue = m.async_queue(*t);
    AsyncCopy copy;
    copy.destination = destination;
    copy.source = source;
    copy.bytes = bytes;
    copy.source_bytes = source_bytes;
    copy.site = site;
    copy.group = queue.groups;
    copy.number = queue.issued++;
    copy.instruction = queue.instructions++;
    Block& b = block(t);
    if (b.named) m.holds_->copy_issued(b, *t, copy);
    if (m.watch_) m.watch_->copy_issued(b, t->linear, copy);
    queue.copies.push_back(copy);
    if (!m.recording(b)) return;
    m.recorder_->take_back(*t);
    Recorder::Lane& lane = m.recorder_->lanes[t->lane];
    Recorder::Event event{lane.used, site, Recorder::Event::Kind::copy, bytes, source_bytes, 0, destination, source};
    std::uint8_t written[16] = {};
    if (source_bytes) std::memcpy(written, reinterpret_cast<const void*>(to_host(source)), std::min(source_bytes, 16u));
    event.digest = deadheat::digest(written, std::min(bytes, 16u));
    lane.events.push_back(event);
  }

  static void say_commit(ThreadContext* t, std::uint32_t site) {
    Machine& m = machine(t);
    if (!m.recording(block(t))) return;
    m.recorder_->take_back(*t);
    Recorder::Lane& lane = m.recorder_->lanes[t->lane];
    lane.events.push_back({lane.used, site, Recorder::Event::Kind::commit});
  }
  static void async_commit(ThreadContext* t, std::uint32_t site) {
    Machine& m = changed(t);
    Block& b = block(t);
    AsyncQueue& queue = m.async_queue(*t);
    const Site& what = (*b.launch->request.sites->sites)[site];
    if (what.opcode.starts_with("wgmma")) {
      ++queue.warpgroup_groups;
      return say_commit(t, site);
    }
    const bool bulk = what.proxy == Proxy::async;
    if (m.watch_) m.watch_->copies_committed(b, t->linear, bulk);
    if (bulk) {
      ++queue.bulk_groups;
      return say_commit(t, site);
    }
    ++queue.groups;
    if (m.control_)
      m.control_->copies_committed(b, t->linear, queue.groups - 1);
    else
      m.perform_copies(b, t->linear, 0, false);
    say_commit(t, site);
  }

  static std::uint64_t mbarrier(ThreadContext* t, std::uint32_t site, std::uint32_t what, std::uint64_t address,
                                std::uint64_t operand) {
    const bool test = (what & std::uint32_t(engine::MbarrierOp::operation)) == std::uint32_t(engine::MbarrierOp::test);
    return (test ? machine(t) : changed(t)).mbarrier(*t, site, what, address, operand);
  }
  static void bulk_copy(ThreadContext* t, std::uint32_t site) { changed(t).bulk_copy(*t, site); }
  static void box_copy(ThreadContext* t, std::uint32_t site) { changed(t).box_copy(*t, site); }
  static void tensor_replace(ThreadContext* t, std::uint32_t site, std::uint64_t map, std::uint32_t field,
                             std::uint32_t ordinal, std::uint64_t value) {
    changed(t).tensor_replace(*t, site, map, field, ordinal, value);
  }
  static void tensor_map_copy(ThreadContext* t, std::uint32_t site, std::uint64_t destination, std::uint64_t source) {
    changed(t).tensor_map_copy(*t, site, destination, source);
  }

  // A generic address as bytes of the host, for as long as they are legal to read; null when the first is not.
  static const std::uint8_t* host(ThreadContext* t, std::uint64_t address) {
    return machine(t).readable(*t, address, 1);
  }

  static std::string string_at(void* thread, std::uint64_t address) {
    auto* t = static_cast<ThreadContext*>(thread);
    std::string text;
    for (; text.size() < 65536; ++address) {
      const std::uint8_t* at = host(t, address);
      if (!at || !*at) break;
      text += char(*at);
    }
    return text;
  }

  static std::int32_t print(ThreadContext* t, std::uint64_t format, std::uint64_t arguments) {
    Machine& m = changed(t);
    const std::uint8_t* packed = arguments ? host(t, arguments) : nullptr;
    std::size_t bytes = 0;
    if (packed && arguments - local_window < window_bytes)
      bytes = t->stack_bytes - std::size_t(arguments - local_window);
    else if (packed)
      while (bytes < 512 && host(t, arguments + bytes)) ++bytes;
    std::int32_t count = 0;
    m.options_.environment->printed(format_device(string_at(t, format), packed, bytes, string_at, t, &count));
    return count;
  }

  static void say_heap_block(ThreadContext* t, std::uint64_t address, std::uint64_t bytes) {
    Machine& m = machine(t);
    Block& b = block(t);
    if (!m.recording(b)) return;
    m.recorder_->take_back(*t);
    m.flush(b, t->warp); // lanes that ran before this one may have had the memory
    m.options_.sink->record(trace::HeapBlock{b.launch->request.launch, b.index, t->linear, address, bytes});
    m.recorder_->lend(*t);
  }
  static std::uint64_t allocate(ThreadContext* t, std::uint32_t site, std::uint64_t bytes) {
    Machine& m = changed(t);
    std::uint64_t heap_bytes = 0;
    const std::uint64_t heap = m.options_.environment->heap(&heap_bytes);
    if (!heap || bytes == 0 || bytes > heap_bytes) return 0;
    const std::uint64_t room = (bytes + 16 + 15) / 16 * 16; // a gap behind each
    std::uint64_t at = 0;
    for (const auto& [offset, used] : m.heap_) { // first fit
      if (offset - at >= room) break;
      at = offset + (used.bytes + 16 + 15) / 16 * 16;
    }
    if (at + room > heap_bytes) return 0;
    say_heap_block(t, heap + at, room - 16);
    const LaunchRequest& request = block(t).launch->request;
    m.heap_.emplace(at, HeapUse{heap + at, bytes, request.launch, block(t).index, t->linear, request.module, site});
    m.heap_freed_.erase(m.heap_freed_.lower_bound(at), m.heap_freed_.lower_bound(at + room));
    m.options_.environment->heap_valid(heap + at, bytes, true);
    return heap + at;
  }

  static std::uint64_t heap_bytes_at(Machine& m, std::uint64_t address) {
    std::uint64_t heap_bytes = 0;
    const auto found = m.heap_.find(address - m.options_.environment->heap(&heap_bytes));
    return found == m.heap_.end() ? 0 : found->second.bytes;
  }
  static void say_free(ThreadContext* t, std::uint32_t site, std::uint64_t address, std::uint64_t bytes) {
    Machine& m = machine(t);
    if (!m.recording(block(t))) return;
    m.recorder_->take_back(*t);
    Recorder::Lane& lane = m.recorder_->lanes[t->lane];
    lane.events.push_back({lane.used, site, Recorder::Event::Kind::free, 0, 0, 0, address, bytes});
  }
  static void release(ThreadContext* t, std::uint32_t site, std::uint64_t address) {
    if (!address) return;
    Machine& m = changed(t);
    std::uint64_t heap_bytes = 0;
    const std::uint64_t heap = m.options_.environment->heap(&heap_bytes);
    auto found = m.heap_.find(address - heap);
    if (!heap || found == m.heap_.end()) {
      auto gone = m.heap_freed_.find(address - heap);
      const bool twice = heap && gone != m.heap_freed_.end();
      if (twice) say_free(t, site, address, gone->second);
      set_fault(t, site, twice ? MemoryError::Kind::double_free : MemoryError::Kind::invalid_free, address, 0,
                AccessKind::free);
      return m.take_fault(*t);
    }
    const std::uint64_t bytes = found->second.bytes;
    say_free(t, site, address, bytes);
    m.options_.environment->heap_valid(address, bytes, false);
    m.heap_freed_.emplace(found->first, bytes);
    m.heap_.erase(found);
  }

  static void fault(ThreadContext* t, std::uint32_t site, std::uint32_t kind, const char* text) {
    set_fault(t, site, MemoryError::Kind(kind), 0, 0, AccessKind::read, text);
  }

  static void undefined(ThreadContext* t, std::uint32_t site, std::uint32_t use, std::uint64_t address,
                        std::uint32_t bytes) {
    machine(t).undefined(*t, site, engine::UndefinedUse(use), address, bytes);
  }

  // Counters that depend on nothing but how often they were read: the same in every schedule of the reader.
  static std::uint64_t clock(ThreadContext* t, std::uint32_t) { return machine(t).ticks_ += 64; }
};

const engine::Services* machine_services() {
  using S = MachineServices;
  static const engine::Services services{S::log_full,     S::strong,   S::check,          S::async_copy,
                                         S::async_commit, S::mbarrier, S::bulk_copy,      S::print,
                                         S::allocate,     S::release,  S::fault,          S::clock,
                                         S::undefined,    S::box_copy, S::tensor_replace, S::tensor_map_copy};
  return &services;
}

std::uint64_t heap_bytes_at(Machine& machine, std::uint64_t address) {
  return MachineServices::heap_bytes_at(machine, address);
}

std::vector<HeapUse> Machine::heap_in_use() const {
  std::vector<HeapUse> all;
  for (const auto& [offset, use] : heap_) all.push_back(use);
  return all;
}

void Machine::fault(ThreadContext& t, std::uint32_t site, MemoryError::Kind kind, std::uint64_t address,
                    std::uint32_t bytes, AccessKind access, const char* text) {
  MachineServices::set_fault(&t, site, kind, address, bytes, access, text);
  take_fault(t);
}

void Machine::take_fault(ThreadContext& t) {
  if (fault_) return;
  const Block& block = *static_cast<const Block*>(t.block->block);
  const LaunchRequest& request = block.launch->request;
  trace::MemoryError error;
  error.kind = MemoryError::Kind(t.fault_kind);
  error.launch = request.launch;
  error.block = block.index;
  error.thread = t.linear;
  error.module = request.module;
  error.site = t.fault_site;
  error.address = t.fault_address;
  error.bytes = t.fault_bytes;
  error.access = AccessKind(t.fault_access);
  if (t.fault_address && !(t.fault_address & window_bit)) {
    bool freed = false;
    error.nearest_allocation = options_.environment->nearest_allocation(t.fault_address, &freed);
  }
  if (t.fault_text) error.text = t.fault_text;
  if (const Block* owner = error.bytes ? exited_owner(block, t.fault_address) : nullptr) {
    error.text = "shared memory of block " + std::to_string(owner->index) +
                 " of its cluster, which has exited: all blocks of a cluster must stay until its shared memory is no "
                 "longer used (Programming Guide, Distributed Shared Memory)";
  }
  if (error.kind == MemoryError::Kind::assertion) {
    error.text = "`" + MachineServices::string_at(&t, t.arg[0]) + "' (" + MachineServices::string_at(&t, t.arg[1]) +
                 ":" + std::to_string(t.arg[2]) + ")";
  }
  fault_ = error;
}

} // namespace deadheat::device
