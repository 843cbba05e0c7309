#include "tracer/cupti/journal.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "deadheat/address.h"
#include "deadheat/api_name.h"
#include "tracer/cupti/condition_run.h"
#include "tracer/cupti/layers.h"
#include "tracer/cupti/modules.h"
#include "tracer/cupti/placed.h"
#include "tracer/cupti/recorded_launch.h"
#include "tracer/cupti/session.h"

namespace deadheat::cupti {

namespace {

constexpr std::size_t most_spare = 16;    // blocks that wait to be used again
constexpr std::size_t most_room = 8192;   // bytes of arguments that a launch keeps room for

template <std::size_t I>
void restore(Journal::Item& item, const std::uint8_t* bytes) {
  using What = std::variant_alternative_t<I, Journal::Item>;
  if constexpr (Journal::small<What>) std::memcpy(&item.emplace<I>(), bytes, sizeof(What));
}

}  // namespace

void Journal::close_block() {
  if (!filling_) return;
  filling_->used = std::size_t(fill_ - filling_->bytes);
  full_.push_back(std::move(filling_));
  fill_ = end_ = nullptr;
}

void Journal::open_block() {
  close_block();
  if (spare_.empty()) {
    filling_ = std::make_unique_for_overwrite<Block>();
  } else {
    filling_ = std::move(spare_.back());
    spare_.pop_back();
  }
  fill_ = filling_->bytes;
  end_ = fill_ + sizeof filling_->bytes;
  ++blocks_;
  look_at_room();
}

void Journal::recycle(std::unique_ptr<Block>& block) {
  std::lock_guard hold(lock_);
  --blocks_;
  if (spare_.size() < most_spare) spare_.push_back(std::move(block));
  block = nullptr;
  look_at_room();
}

void Journal::push(Item item) {
  if (!layer_on(Layer::journal) || closed_) return;
  auto held = std::make_unique<Item>(std::move(item));
  std::lock_guard hold(lock_);
  Item* const address = held.get();
  std::memcpy(append(sizeof address, std::uint32_t(held->index()) | apart), &address, sizeof address);
  (void)held.release();
  apart_.fetch_add(1, std::memory_order_relaxed);
  look_at_room();
}

void Journal::push(Launched& launched) {
  if (layer_on(Layer::journal)) push(Item(std::make_unique<Launched>(std::move(launched))));
  launched.clear();
}

void Journal::Launched::clear() {
  arguments.clear();
  if (arguments.capacity() > most_room) std::vector<std::uint8_t>().swap(arguments);
  static_cast<LaunchFacts&>(*this) = {};
  accesses = nullptr;
  python.clear();
  by_effect = false;
  effects.clear();
}

void Journal::submit(const trace::Operation& operation, trace::TraceWriter& writer) {
  writer.write(operation);
  if (functions_.any()) functions_.submitted(operation);
}

void Journal::begin(std::uint32_t operation, trace::TraceWriter& writer) {
  if (!functions_.any() || !functions_.keeps_begin(operation)) writer.write(trace::OperationBegin{operation});
}

void Journal::end(std::uint32_t operation, trace::TraceWriter& writer) {
  if (!functions_.any() || !functions_.keeps_end(operation)) writer.write(trace::OperationEnd{operation});
}

void Journal::write(const MemorySet& set, trace::TraceWriter& writer) {
  trace::Operation operation;
  operation.id = set.operation;
  operation.stream = set.stream;
  operation.host_thread = set.host_thread;
  operation.what = trace::Set{{set.address, set.pitch, set.width, set.rows, 1, 0},
                              set.value,
                              std::uint8_t(set.element_bytes),
                              plain_api_name(set.function ? set.function : "")};
  submit(operation, writer);
  begin(set.operation, writer);
  end(set.operation, writer);
}

void Journal::write(const AllocatorBlock& block, trace::TraceWriter& writer) {
  if (gaps_) reach_.has_gaps();
  const bool sound = block.bytes > 0 ? reach_.block_taken(block.address, std::uint64_t(block.bytes))
                                     : reach_.block_given(block.address, std::uint64_t(0) - std::uint64_t(block.bytes));
  if (sound) return;
  const std::string line =
      "what PyTorch's allocator reports of its blocks makes no sense: "
      "footprints of opaque launches are whole allocations";
  say_once(line);
  writer.write(trace::Incident{"blocks", 1, line});
}

void Journal::write(const LaunchFacts& l, std::span<std::uint64_t> words, const Launched* more,
                    trace::TraceWriter& writer) {
  const Kernel& kernel = *l.kernel;
  trace::Operation& operation = written_;
  if (!std::holds_alternative<trace::Launch>(operation.what)) operation.what.emplace<trace::Launch>();
  trace::Launch& launch = std::get<trace::Launch>(operation.what);
  launch.module = kernel.code ? kernel.code->module : kernel.opaque_module;
  launch.kernel = kernel.name;
  launch.grid = l.grid;
  launch.block = l.block;
  launch.cluster = l.cluster;
  launch.dynamic_shared = l.dynamic_shared;
  launch.static_shared = kernel.static_shared;
  launch.cooperative = l.cooperative;
  launch.instrumented = more && more->accesses;
  launch.programmatic = l.programmatic && launch.instrumented;  // when an opaque one waits, nothing tells
  launch.footprint.clear();
  if (!launch.instrumented) reach_.of(words, launch.footprint);
  writer.bytes(more ? std::span<const std::uint8_t>(more->arguments) : std::span<const std::uint8_t>(),
               launch.arguments);
  operation.id = l.operation;
  operation.stream = l.stream;
  operation.host_thread = l.host_thread;
  operation.launch = l.launch;
  operation.call_site.clear();
  if (l.ranges) operation.call_site = *l.ranges;
  if (more && !more->python.empty()) operation.call_site += (l.ranges ? " / " : "") + more->python;
  if (more && more->by_effect) writer.write(trace::Effects{l.operation, more->effects});
  submit(operation, writer);
}

// A launch of a graph's node follows the beginning of its operation, with nothing between but launches of other
// threads.
bool Journal::write(const std::shared_ptr<Awaited>& awaited, trace::TraceWriter& writer, bool last_chance) {
  if (functions_.any()) {
    std::shared_ptr<Awaited> held = awaited;
    if (const auto placed = std::dynamic_pointer_cast<PlacedOperation>(awaited)) {
      const PlacedOperation::Written written = placed->write_submission(writer, last_chance);
      if (!written.operation) return written.settled;
      functions_.submitted(*written.operation);
      begin(written.operation->id, writer);
      end(written.operation->id, writer);
      return true;
    }
    if (std::dynamic_pointer_cast<RecordedLaunch>(awaited)) {
      if (functions_.keeps(begun_, held)) return true;
    } else if (std::dynamic_pointer_cast<ConditionRun>(awaited)) {
      functions_.all_over(writer); // which nodes of bodies come behind them is not followed
      if (!functions_.flush(writer, last_chance)) return false;
    }
  }
  return awaited->write(writer, last_chance);
}

bool Journal::write(Item& item, trace::TraceWriter& writer, bool last_chance) {
  return std::visit(
      [&](auto& what) {
        using What = std::decay_t<decltype(what)>;
        if constexpr (std::is_same_v<What, std::shared_ptr<Awaited>>) {
          return write(what, writer, last_chance);
        } else if constexpr (std::is_same_v<What, std::unique_ptr<Launched>>) {
          if (what->kernel) {
            words_of(*what->kernel, what->grid.x, what->arguments, words_);
            write(*what, words_, what.get(), writer);
            if (functions_.any() && functions_.keeps_begin(what->operation)) {
              std::shared_ptr<Awaited> accesses = std::move(what->accesses);
              functions_.keeps(what->operation, accesses);
              functions_.keeps_end(what->operation);
              return true;
            }
            if (beside_.takes(what->stream, what->accesses.get())) {
              beside_.add(what->operation, what->stream, std::move(what->accesses));
              return true;
            }
            writer.write(trace::OperationBegin{what->operation});
          }
          what->kernel = nullptr;  // the launch itself is written
          if (what->accesses && !what->accesses->write(writer, last_chance)) return false;
          writer.write(trace::OperationEnd{what->operation});
        } else if constexpr (std::is_same_v<What, EventRecorded>) {
          trace::Operation operation;
          operation.id = what.operation;
          operation.stream = what.stream;
          operation.host_thread = what.host_thread;
          submit(operation, writer);
          writer.write(trace::EventRecord{what.event, what.stream, what.operation, what.host_thread});
        } else if constexpr (std::is_same_v<What, MemorySet> || std::is_same_v<What, AllocatorBlock>) {
          write(what, writer);
        } else if constexpr (std::is_same_v<What, std::unique_ptr<CapturedKernel>>) {
          words_of(*what->kernel, what->blocks, what->arguments, words_);
          NodeFootprints::Footprint reached;
          reach_.of(words_, reached);
          node_footprints_.captured(what->node, NodeFootprints::hash(what->kernel->name, what->arguments),
                                    std::move(reached));
        } else if constexpr (std::is_same_v<What, CopiedNode>) {
          node_footprints_.copied(what.node, what.hash);
        } else if constexpr (std::is_same_v<What, CapturedGone>) {
          node_footprints_.forget(what.node);
        } else if constexpr (std::is_same_v<What, GraphKernel>) {
          node_footprints_.made(what.executable, what.index, what.node, what.hash);
        } else if constexpr (std::is_same_v<What, ExecutableGone>) {
          node_footprints_.forget(what.executable);
        } else if constexpr (std::is_same_v<What, std::unique_ptr<trace::Operation>>) {
          auto* launch = std::get_if<trace::Launch>(&what->what);
          const NodeFootprints::Footprint* reached = launch && what->graph_launch && !launch->instrumented
                                                         ? node_footprints_.of(executable_, what->graph_node)
                                                         : nullptr;
          if (reached) launch->footprint = *reached;
          submit(*what, writer);
        } else if constexpr (std::is_same_v<What, trace::OperationBegin>) {
          begun_ = what.operation;
          begin(what.operation, writer);
        } else if constexpr (std::is_same_v<What, trace::OperationEnd>) {
          end(what.operation, writer);
        } else if constexpr (std::is_same_v<What, FunctionOpens>) {
          functions_.opens(what.operation);
        } else if constexpr (std::is_same_v<What, FunctionBegun>) {
          functions_.comes(what.operation, writer);
          if (!functions_.flush(writer, last_chance)) return false;
          functions_.begun(what.operation, writer);
        } else if constexpr (std::is_same_v<What, std::unique_ptr<FunctionOver>>) {
          functions_.comes(what->operation, writer);
          if (!functions_.flush(writer, last_chance)) return false;
          functions_.over(*what, writer);
          return functions_.flush(writer, last_chance);
        } else if constexpr (std::is_same_v<What, std::unique_ptr<trace::Module>>) {
          writer.write(*what);
        } else {
          if constexpr (std::is_same_v<What, trace::Allocate>) {
            if (!is_array_memory(what.address)) reach_.allocated(what); // no argument is an address there
          } else if constexpr (std::is_same_v<What, trace::Free>) {
            reach_.freed(what.allocation);
          } else if constexpr (std::is_same_v<What, trace::GraphLaunch>) {
            executable_ = what.graph;
            functions_.graph_begins(what);
          } else if constexpr (std::is_same_v<What, trace::GraphEnd>) {
            functions_.graph_ends(what);
          } else if constexpr (std::is_same_v<What, trace::HostWaitBegin>) {
            if (functions_.any()) functions_.host_begins_to_wait(what);
          } else if constexpr (std::is_same_v<What, trace::HostWait>) {
            if (functions_.any()) functions_.host_waited(what, writer);
            if (!functions_.flush(writer, last_chance)) return false;
          } else if constexpr (std::is_same_v<What, trace::StreamWait>) {
            if (functions_.any()) functions_.wait(what);
          } else if constexpr (std::is_same_v<What, trace::StreamCreate>) {
            beside_.stream_made(what);
            functions_.stream_made(what);
          }
          writer.write(what);
        }
        return true;
      },
      item);
}

constexpr bool Journal::stands_aside(std::uint32_t kind) {
  const auto is = [&]<typename... What>(std::type_identity<What>...) {
    return (((kind & ~apart) == kind_of<What>(static_cast<const Item*>(nullptr))) || ...);
  };
  return is(std::type_identity<EventRecorded>(), std::type_identity<AllocatorBlock>(),
            std::type_identity<std::unique_ptr<trace::Module>>(), std::type_identity<trace::Symbol>(),
            std::type_identity<trace::Allocate>(), std::type_identity<trace::StreamCreate>(),
            std::type_identity<trace::StreamMaker>(), std::type_identity<trace::Incident>());
}

bool Journal::joins(const Entry& entry, const std::uint8_t* bytes) const {
  if (entry.kind != (kind_of<std::unique_ptr<Launched>>(static_cast<const Item*>(nullptr)) | apart)) return false;
  Item* item = nullptr;
  std::memcpy(&item, bytes, sizeof item);
  const Launched& launched = *std::get<std::unique_ptr<Launched>>(*item);
  return beside_.takes(launched.stream, launched.accesses.get());
}

bool Journal::write(const Entry& entry, std::uint8_t* bytes, trace::TraceWriter& writer, bool last_chance) {
  const bool keep = layer_on(Layer::all);
  if (!stands_aside(entry.kind) && !joins(entry, bytes) && !beside_.write(writer, last_chance)) return false;
  if (entry.kind == launch_kind) {
    if (!keep) return true;
    LaunchFacts facts;
    std::memcpy(&facts, bytes, sizeof facts);
    words_.resize((entry.bytes - sizeof entry - sizeof facts) / sizeof(std::uint64_t));
    if (!words_.empty()) std::memcpy(words_.data(), bytes + sizeof facts, words_.size() * sizeof(std::uint64_t));
    write(facts, words_, nullptr, writer);
    begin(facts.operation, writer);
    end(facts.operation, writer);
    return true;
  }
  if (entry.kind & apart) {
    Item* item = nullptr;
    std::memcpy(&item, bytes, sizeof item);
    if (keep && !write(*item, writer, last_chance)) return false;
    delete item;
    apart_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    constexpr void (*restorers[])(Item&, const std::uint8_t*) = {restore<I>...};
    Item item;
    restorers[entry.kind](item, bytes);
    return !keep || write(item, writer, last_chance);
  }(std::make_index_sequence<std::variant_size_v<Item>>());
}

void Journal::pump(trace::TraceWriter& writer, bool last_chance) {
  std::lock_guard one(pumping_);
  for (;;) {
    if (block_ == batch_.size()) {
      block_ = at_ = 0;
      batch_.clear();
      std::lock_guard hold(lock_);
      look_at_room();
      close_block();
      batch_.swap(full_);
    }
    if (batch_.empty()) {
      if (last_chance) {
        beside_.write(writer, true);
        functions_.all_over(writer);
        functions_.flush(writer, true);
      } else
        beside_.look(writer);
      return;
    }
    for (; block_ < batch_.size(); ++block_, at_ = 0) {
      if (in_haste_ && !last_chance) return;
      Block& block = *batch_[block_];
      while (at_ < block.used) {
        Entry entry;
        std::memcpy(&entry, block.bytes + at_, sizeof entry);
        std::uint8_t* const bytes = block.bytes + at_ + sizeof entry;
        if (!write(entry, bytes, writer, last_chance)) {
          if (!holds_too_much()) {
            std::lock_guard hold(lock_);
            return look_at_room();
          }
          say_once("a launch does not end, and too much waits behind it: the rest of its accesses is not recorded");
          write(entry, bytes, writer, true);
        }
        at_ += entry.bytes;
      }
      recycle(batch_[block_]);
    }
  }
}

}  // namespace deadheat::cupti
