// What happened, waiting to be written: one queue for all host threads of the process.
//
// Host threads append items in the order of their calls; what costs time (names, footprints, encoding) is done when
// they are written, by the tracer's own thread. The queue is written from its front; a launch whose accesses are
// recorded holds it until all of them have arrived. So the log reads as if every operation had run when it was
// submitted: an order in which things can have happened (deadheat/trace.h), and no access lies behind the free or the
// reuse of its memory. Launches that may have told each other something are written together (beside.h). Host functions
// begin and end when they did, and what comes behind one begins when it is over (open_functions.h).
//
// What comes often and is small (launches, events, waits) lies in the queue as bytes, one behind the other in blocks
// that are used again: a host thread that launches asks for no memory, and touches only what it writes, which is what
// matters where another core has just read it. What is rare is an object of its own, and the queue holds its address.
//
// Thread-safety: push() from any thread, which throws where there is no memory; pump() from one thread at a time (a
// second one waits).
#pragma once

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <variant>
#include <vector>

#include "deadheat/trace.h"
#include "tracer/cupti/awaited.h"
#include "tracer/cupti/beside.h"
#include "tracer/cupti/layers.h"
#include "tracer/cupti/node_footprints.h"
#include "tracer/cupti/open_functions.h"
#include "tracer/cupti/quick_lock.h"
#include "tracer/cupti/reach.h"
#include "tracer/recorder/writer.h"

namespace deadheat::cupti {

struct Kernel;
class RecordedLaunch;

class Journal {
 public:
  struct LaunchFacts { // of a launch by the program, outside of graphs
    std::uint32_t operation = 0, launch = 0, stream = 0, host_thread = 0;
    const Kernel* kernel = nullptr;
    const std::string* ranges = nullptr; // of NVTX; null: none
    Dim3 grid, block, cluster;
    std::uint32_t dynamic_shared = 0;
    bool cooperative = false, programmatic = false;
    bool clusters_vary = false; // some may have more blocks than `cluster` says, and nothing tells which
  };
  struct Launched : LaunchFacts {
    std::vector<std::uint8_t> arguments; // in the trace, too
    std::shared_ptr<RecordedLaunch> accesses; // null: not recorded
    std::string python; // the line that launched; empty: not known
    bool by_effect = false; // an opaque launch in a window: what it changed
    std::vector<trace::Effects::Change> effects;

    void clear(); // as made, but for the room that the arguments have
  };
  struct EventRecorded {
    std::uint32_t operation = 0, event = 0, stream = 0, host_thread = 0;
  };
  struct MemorySet {
    std::uint32_t operation = 0, stream = 0, host_thread = 0, value = 0;
    std::uint64_t address = 0, pitch = 0, width = 0, rows = 0; // bytes; trace::MemoryRange
    const char* function = nullptr; // as it was called: Call::function
    std::uint32_t element_bytes = 0;
  };
  struct AllocatorBlock { // of PyTorch's allocator, handed out; bytes below 0: taken back
    std::uint64_t address = 0;
    std::int64_t bytes = 0;
  };
  struct CapturedKernel { // opaque, that became a graph's node
    CUgraphNode node = nullptr;
    const Kernel* kernel = nullptr;
    std::uint32_t blocks = 0; // along x
    std::vector<std::uint8_t> arguments;
  };
  struct CopiedNode { // of a graph that was copied: it launches what a captured one does
    CUgraphNode node = nullptr;
    std::uint64_t hash = 0; // NodeFootprints
  };
  struct CapturedGone { // its graph is destroyed
    CUgraphNode node = nullptr;
  };
  struct GraphKernel { // opaque, of an executable: which node it is made of; null: what it reaches is in its launches
    std::uint32_t executable = 0, index = 0;
    CUgraphNode node = nullptr;
    std::uint64_t hash = 0; // NodeFootprints
  };
  struct ExecutableGone {
    std::uint32_t executable = 0;
  };
  struct FunctionOpens { // the operation that comes next is a host function (open_functions.h)
    std::uint32_t operation = 0;
  };
  struct FunctionBegun {
    std::uint32_t operation = 0;
  };
  // What host threads append: records without what is large and comes from kernels.
  using Item =
      std::variant<std::shared_ptr<Awaited>, std::unique_ptr<Launched>, EventRecorded, MemorySet, AllocatorBlock,
                   std::unique_ptr<CapturedKernel>, CopiedNode, CapturedGone, GraphKernel, ExecutableGone,
                   FunctionOpens, FunctionBegun, std::unique_ptr<FunctionOver>, trace::Device,
                   std::unique_ptr<trace::Module>, trace::Symbol, trace::Allocate, trace::Free, trace::StreamCreate,
                   trace::StreamMaker, trace::StreamDestroy, trace::EventRecord, trace::StreamWait, trace::HostWait,
                   trace::HostWaitBegin, trace::HostWrite, std::unique_ptr<trace::Operation>, trace::GraphLaunch,
                   trace::GraphEnd, trace::OperationBegin, trace::OperationEnd, trace::Incident, trace::Window,
                   trace::Effects, trace::TensorMap>;

  void push(Item item);
  void push(Launched& launched); // leaves it clear
  // Items that lie in the queue as they are.
  template <typename What>
  static constexpr bool small = std::is_trivially_copyable_v<What> && sizeof(What) <= 64;
  template <typename What>
    requires small<What>
  void push(const What& what) {
    if (!layer_on(Layer::journal) || closed_.load(std::memory_order_relaxed)) return;
    std::lock_guard hold(lock_);
    std::memcpy(append(sizeof what, kind_of<What>(static_cast<const Item*>(nullptr))), &what, sizeof what);
  }
  // One of which nothing is recorded. `words` puts those of its arguments that may be addresses (Reach::marked) where
  // it is told to, at most `most`, and says how many there are.
  template <typename Words>
  void push(const LaunchFacts& launch, std::size_t most, Words&& words) {
    if (!layer_on(Layer::journal) || closed_.load(std::memory_order_relaxed)) return;
    std::lock_guard hold(lock_);
    std::uint8_t* at = room(sizeof launch + most * sizeof(std::uint64_t));
    std::memcpy(at, &launch, sizeof launch);
    const std::size_t count = words(reinterpret_cast<std::uint64_t*>(at + sizeof launch));
    append(sizeof launch + count * sizeof(std::uint64_t), launch_kind);
  }
  static constexpr std::size_t most_words = 4096;
  // Parts of the run are left out (layers.h): blocks that were not told of are no sign that none can be believed.
  void has_gaps() { gaps_ = true; }
  void push(trace::Operation operation) { push(Item(std::make_unique<trace::Operation>(std::move(operation)))); }
  void push(FunctionOver over) { push(Item(std::make_unique<FunctionOver>(std::move(over)))); }
  void push(CapturedKernel kernel) { push(Item(std::make_unique<CapturedKernel>(std::move(kernel)))); }
  // Who is being written asks what an opaque kernel reaches that is a node of the graph whose launch this is; null: not
  // known.
  const NodeFootprints::Footprint* node_reaches(std::uint32_t node) const {
    return node_footprints_.of(executable_, node);
  }
  void push(trace::Module module) { push(Item(std::make_unique<trace::Module>(std::move(module)))); }

  // Writes what can be written. last_chance: nothing more arrives; launches write what they have.
  void pump(trace::TraceWriter& writer, bool last_chance = false);
  void close() { closed_ = true; } // what is pushed from here on is dropped: the process ends
  // Who pumps, but not for the last time, is to leave soon, however much comes. Async-signal-safe.
  void haste() { in_haste_ = true; }
  // So much may wait behind a launch of which accesses are to come: where it is more, and the launch may never end, it
  // writes what it has, and the rest of it is missing.
  void may_hold(std::size_t bytes) { most_held_ = bytes; }
  // Much more waits than that: who pushes more should give the writer time, and may hold nothing then that it needs.
  bool is_full() const { return is_full_.load(std::memory_order_relaxed) && !closed_; }

 private:
  static constexpr std::size_t block_bytes = std::size_t(128) << 10;
  static constexpr std::size_t bytes_apart = 600; // of an entry that is an Item's address, with what it points to
  struct Block {
    std::size_t used = 0;
    alignas(8) std::uint8_t bytes[block_bytes];
  };
  struct Entry { // in front of its bytes; of launches words of their arguments follow the facts
    std::uint32_t bytes = 0, kind = 0; // bytes: with this; kind: which of Item, as it is or `apart`; or launch_kind
  };
  static constexpr std::uint32_t launch_kind = std::variant_size_v<Item>;
  static constexpr std::uint32_t apart = 1u << 31; // the entry is the address of an Item
  template <typename What, typename... Alternatives>
  static constexpr std::uint32_t kind_of(const std::variant<Alternatives...>*) {
    static_assert((std::is_same_v<What, Alternatives> || ...));
    std::uint32_t kind = 0;
    (void)((std::is_same_v<What, Alternatives> || (++kind, false)) || ...);
    return kind;
  }

  // Under lock_: where the bytes of the next entry go; makes an entry of them, and returns the same.
  std::uint8_t* room(std::size_t bytes) {
    if (std::size_t(end_ - fill_) < sizeof(Entry) + bytes + 7) [[unlikely]]
      open_block();
    return fill_ + sizeof(Entry);
  }
  std::uint8_t* append(std::size_t bytes, std::uint32_t kind) {
    std::uint8_t* const at = room(bytes);
    const Entry entry{std::uint32_t((sizeof entry + bytes + 7) & ~std::size_t(7)), kind};
    std::memcpy(fill_, &entry, sizeof entry);
    fill_ += entry.bytes;
    return at;
  }
  void close_block(); // likewise: it is filled
  void open_block();
  bool write(const Entry& entry, std::uint8_t* bytes, trace::TraceWriter& writer, bool last_chance);
  std::size_t held() const { // bytes, of what is not written
    return blocks_.load(std::memory_order_relaxed) * sizeof(Block) +
           apart_.load(std::memory_order_relaxed) * bytes_apart;
  }
  bool holds_too_much() const { return held() > most_held_; }
  // Full is more than what makes the writer go on (holds_too_much): so it comes to an end however long a launch takes.
  void look_at_room() {
    if (held() > most_held_ + most_held_ / 4)
      is_full_ = true;
    else if (is_full_.load(std::memory_order_relaxed) && !holds_too_much())
      is_full_ = false;
  }
  void recycle(std::unique_ptr<Block>& block); // that is written
  // May it be written before launches that were submitted earlier, and are held back (beside.h)? What only says that
  // something was made, or submitted and does nothing.
  static constexpr bool stands_aside(std::uint32_t kind);
  bool joins(const Entry& entry, const std::uint8_t* bytes) const; // those that are held back
  bool write(Item& item, trace::TraceWriter& writer, bool last_chance); // false: more of it is to come
  void write(const LaunchFacts& launch, std::span<std::uint64_t> words, const Launched* more,
             trace::TraceWriter& writer);
  void write(const MemorySet& set, trace::TraceWriter& writer);
  bool write(const std::shared_ptr<Awaited>& awaited, trace::TraceWriter& writer, bool last_chance);
  void submit(const trace::Operation& operation, trace::TraceWriter& writer);
  void begin(std::uint32_t operation, trace::TraceWriter& writer);
  void end(std::uint32_t operation, trace::TraceWriter& writer);
  void write(const AllocatorBlock& block, trace::TraceWriter& writer);

  alignas(64) QuickLock lock_; // of the queue
  std::uint8_t *fill_ = nullptr, *end_ = nullptr; // room in the block that is being filled
  std::unique_ptr<Block> filling_;
  std::atomic<bool> closed_{false}, in_haste_{false};
  std::vector<std::unique_ptr<Block>> full_, spare_;
  std::atomic<std::size_t> apart_{0}; // entries of that kind
  std::atomic<std::size_t> blocks_{0}; // that are filled, or are being filled or written
  std::atomic<bool> is_full_{false};

  std::size_t most_held_ = std::size_t(1) << 30;
  std::mutex pumping_; // of what follows
  std::vector<std::unique_ptr<Block>> batch_;
  std::size_t block_ = 0, at_ = 0; // the first entry of the batch that is not written
  Beside beside_;
  OpenFunctions functions_;
  std::uint32_t begun_ = 0; // of those with an item for that, whose launch may come next
  Reach reach_; // as of what was written last
  NodeFootprints node_footprints_; // likewise
  std::uint32_t executable_ = 0; // whose launch is being written
  std::atomic<bool> gaps_{false};
  std::vector<std::uint64_t> words_; // of the launch that is being written
  trace::Operation written_; // the launch that was written last: its strings keep their room
};

} // namespace deadheat::cupti
