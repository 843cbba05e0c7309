// What happened, as types: the records of a trace, the same for the GPU and for the embedded device.
//
// A trace is a directory with one append-only log a process and content-addressed blobs shared by all of them.
// tracer/recorder/writer.h writes a log, tracer/recorder/reader.h reads it; trace_format.h and docs there say how the
// bytes lie. The order of the records of a log is an order in which things can have happened: a record comes after
// every record of the same thread that precedes it in program order, and after the release that it acquired from.
//
// Names: module, launch, operation, stream, event, allocation, graph ids are numbers given by the recorder, from 1
// (0 means none), never reused within a log. A GPU thread is (launch, block, thread): linear indices, x fastest. Warp
// w of a block holds threads 32w … 32w+31; lane l of a mask is bit l.
//
// Thread-safety: plain values.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "deadheat/memory_model.h"
#include "deadheat/site.h"

namespace deadheat::trace {

using BlobHash = std::array<std::uint8_t, 16>; // XXH3-128 of the uncompressed bytes

// ---- What the process and its device are -----------------------------------------------------------------------

struct Process {
  std::uint32_t pid = 0;
  std::string host;                     // host name
  std::vector<std::string> command;     // argv
  std::string device_kind;              // "embedded" or "gpu"
  std::uint64_t seed = 0;
  std::uint64_t start_nanoseconds = 0;  // since the epoch
};

struct Device {                         // a device, and its profile if it is embedded
  std::uint32_t id = 0;
  std::string name;                     // "NVIDIA H200", "deadheat embedded (sm_90 profile)"
  std::uint32_t compute_major = 9, compute_minor = 0, multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
};

struct Module {
  std::uint32_t id = 0;
  BlobHash image{};                     // PTX text (or cubin, for opaque modules)
  enum class Kind : std::uint8_t { ptx = 0, cubin = 1 } kind = Kind::ptx;
  std::string origin;                   // file or library it came from
  std::vector<Site> sites;
};

// A module-scope variable with device storage (global or constant).
struct Symbol {
  std::uint32_t module = 0;
  std::string name;
  std::uint32_t allocation = 0;
};

// ---- Memory ----------------------------------------------------------------------------------------------------

struct Allocate {
  std::uint32_t allocation = 0;
  enum class Kind : std::uint8_t { device = 0, pinned = 1, managed = 2, pool = 3, symbol = 4 } kind = Kind::device;
  std::uint64_t address = 0, bytes = 0; // device address
  std::uint64_t host_address = 0;       // of pinned and managed memory
  std::uint32_t operation = 0;          // the operation that allocates, for stream-ordered allocation; 0: at once
  std::uint32_t host_thread = 0;
  std::string name;                     // of a symbol
};
struct Free {
  std::uint32_t allocation = 0;
  std::uint32_t operation = 0;          // stream-ordered free; 0: cudaFree, of a symbol with its module (no order)
  std::uint32_t host_thread = 0;
};

// ---- Streams, events, the host ---------------------------------------------------------------------------------

struct StreamCreate {
  std::uint32_t stream = 0;             // 1 is the legacy default stream of device 0, created implicitly
  enum class Kind : std::uint8_t { legacy = 0, blocking = 1, non_blocking = 2, per_thread = 3 } kind = Kind::blocking;
  std::int32_t priority = 0;
  std::uint32_t device = 0, host_thread = 0;
};
// Whose code created it, where the host's stack told: after the stream's record, if at all.
struct StreamMaker {
  std::uint32_t stream = 0;
  std::string library;                  // file, as it was loaded
};
struct StreamDestroy {
  std::uint32_t stream = 0, host_thread = 0;
};
struct EventRecord {                    // cudaEventRecord as an operation of `stream`
  std::uint32_t event = 0, stream = 0, operation = 0, host_thread = 0;
};
struct StreamWait {                     // cudaStreamWaitEvent: later work of `stream` waits
  std::uint32_t stream = 0, event = 0;
  std::uint32_t record_operation = 0;   // the record it waits on; 0: the event was never recorded (no wait)
  std::uint32_t operation = 0, host_thread = 0;
};
// The host learned that work was complete: a synchronization that returned, or a query that returned success.
struct HostWait {
  enum class Kind : std::uint8_t { device = 0, stream = 1, event = 2, operation = 3 } kind = Kind::device;
  std::uint32_t id = 0;                 // stream, event or operation; of device: its number plus one, 0: all of them
  std::uint32_t record_operation = 0;   // of event: the record waited on
  bool query = false;
  std::uint32_t host_thread = 0;
};

// A host thread begins to wait; the HostWait of the same kind and id that it brings forth next is for what is there
// now, not for what other threads submit meanwhile. Of recorders that see calls begin and end. Of an operation: right
// before it, where the call that submits it waits for it (cudaMemcpy); of a stream, where the call waits for what comes
// before its operation there.
struct HostWaitBegin {
  HostWait::Kind kind = HostWait::Kind::device;
  std::uint32_t id = 0, host_thread = 0; // as HostWait has them
};

// ---- Operations ------------------------------------------------------------------------------------------------

// Bytes the host handed to the device, inline or as a blob.
struct Bytes {
  std::uint64_t size = 0;
  std::vector<std::uint8_t> inlined; // size bytes, or empty when in a blob
  BlobHash blob{};
};

struct Launch {
  std::uint32_t module = 0;
  std::string kernel; // mangled
  Dim3 grid, block, cluster;
  std::uint32_t dynamic_shared = 0, static_shared = 0; // bytes
  bool cooperative = false, programmatic = false; // programmatic stream serialization
  bool instrumented = false; // its accesses are in the trace
  Bytes arguments; // the parameter block, laid out by .param offsets; opaque: only in windows
  std::vector<std::uint64_t> footprint; // of an opaque launch: what its pointer arguments reach (deadheat/footprint.h)
};
// Rows of `width` bytes, `pitch` bytes from one to the next (0: without gaps), `height` of them a slice; `slice` bytes
// from one slice to the next (0: likewise).
struct MemoryRange {
  std::uint64_t address = 0, pitch = 0, width = 0, height = 1, depth = 1, slice = 0;

  std::uint64_t row_pitch() const { return pitch ? pitch : width; }
  std::uint64_t slice_pitch() const { return slice ? slice : row_pitch() * height; }
  std::uint64_t rows() const { return height * depth; }
  std::uint64_t bytes() const { return width * rows(); }
  std::uint64_t row(std::uint64_t n) const { // where the nth row begins
    return address + n / height * slice_pitch() + n % height * row_pitch();
  }
  std::uint64_t extent() const { // from the first byte to behind the last
    return bytes() ? row(rows() - 1) + width - address : 0;
  }
};
struct Copy {
  enum class Direction : std::uint8_t { h2h = 0, h2d = 1, d2h = 2, d2d = 3 } direction = Direction::d2d;
  MemoryRange destination, source; // width bytes a row; device addresses, or host addresses on a host side
  bool pageable_destination = false, pageable_source = false;
  std::uint32_t symbol_module = 0;
  std::string api; // "cudaMemcpyAsync"
  Bytes data; // h2d: what the copy read
};
struct Set {
  MemoryRange destination;
  std::uint32_t value = 0;
  std::uint8_t element_bytes = 1;
  std::string api;
};
struct HostCallback {
  std::string api;
};
struct Marker {}; // event record or wait, empty node
struct PoolOperation {
  bool free = false;
  std::uint32_t allocation = 0;
};

struct Operation { // submitted to a stream, by a host thread, in this order
  std::uint32_t id = 0, stream = 0, host_thread = 0;
  std::uint32_t graph_launch = 0; // graph launch (id) that this node belongs to; 0: none
  std::uint32_t graph_node = 0; // node index
  std::vector<std::uint32_t> node_dependencies; // operations (ids) of the same graph launch that it waits for
  std::uint32_t launch = 0; // launch number, for launches
  std::string call_site; // file:line or library of the host's call, where known
  std::variant<Marker, Launch, Copy, Set, HostCallback, PoolOperation> what;
};
struct GraphLaunch { // cudaGraphLaunch: its nodes follow as Operations, then GraphEnd
  std::uint32_t id = 0, graph = 0, stream = 0, host_thread = 0; // graph 0: a batch of copies, which nothing orders
};
struct GraphEnd {
  std::uint32_t id = 0;
};
// Execution on the device. Between its begin and end an operation's accesses appear.
struct OperationBegin {
  std::uint32_t operation = 0;
};
struct OperationEnd {
  std::uint32_t operation = 0;
};
// Device bytes the host received, when it received them: what outputs are compared on.
struct HostRead {
  std::uint32_t operation = 0; // the copy that delivered them; 0 for mapped memory and printf
  std::uint64_t address = 0; // device address of the first byte
  Bytes data;
};

// Host memory that the device can reach (pinned, managed) and that the host changed since the device last saw it.
struct HostWrite {
  std::uint64_t address = 0; // host address, in the allocation
  Bytes data;
};

// ---- Windows: stretches of a GPU's run that can be executed again without it -------------------------------------

// Between the record that opens a window and the one that closes it, the log has all that is needed to run its
// operations again: bytes that copies brought, the memory that they find (Snapshot), and what opaque launches did
// (Effects). A window opens when nothing runs; it ends at the log's end where it is not closed.
struct Span {
  std::uint64_t address = 0, bytes = 0;
};
struct Window {
  std::uint32_t id = 0;
  bool opens = true;
  std::string trouble; // of the closing record: why it cannot be run again; empty: it can
  std::vector<Span> touched; // likewise: memory that its operations touched and that lives on: its outputs
};
// Bytes as they were when a window opened. They come when it has closed, since only then it is known which matter.
struct Snapshot {
  std::uint32_t window = 0;
  std::uint64_t address = 0;
  Bytes data;
};
// What an opaque launch changed: before its operation in the log. What a host function wrote: when it has run.
struct Effects {
  std::uint32_t operation = 0;
  struct Change {
    std::uint64_t address = 0;
    Bytes data;
  };
  std::vector<Change> changes;
};

// ---- Execution: accesses a warp at a time, and what orders them ----------------------------------------------------

struct Warp {
  std::uint32_t launch = 0, block = 0, warp = 0;
};

// One execution of an access site by the lanes in `mask`. Vector accesses are one record; the element size and count
// are the site's. Address spaces: Space::shared addresses are offsets in the block's shared memory; those of another
// block of its cluster carry that block's rank plus one in bits 24 and up (deadheat/address.h).
struct Access {
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0;
  Space space = Space::global; // resolved: never generic
  std::array<std::uint64_t, 32> address{}; // valid for lanes of mask
  std::array<std::uint32_t, 32> digest{}; // of writes and atomics: 32-bit digest of the bytes written
  // Strong accesses and atomics only (site.ordering strong): values and place in the location's order.
  std::array<std::uint64_t, 32> value_read{}, value_written{}; // low 64 bits; of vectors: vector_values.h
  std::array<std::uint64_t, 32> order_first{}, order_last{}; // ticket interval; equal when exact
  std::array<bool, 32> wrote{}; // an atomic that stored (a failed cas does not)
};
// Of griddepcontrol.wait too (by its site): ordering weak, no scope; what follows comes after the launch before.
struct Fence {
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0;
  Ordering ordering = Ordering::sc;
  Scope scope = Scope::gpu;
  Proxy proxy = Proxy::generic;
};
// bar/barrier: arrival of lanes, in the order they arrived; `sync` lanes leave at the BarrierComplete of that phase.
struct BarrierArrive {
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0;
  std::uint32_t barrier = 0, phase = 0; // barrier number 0 … 15; phases of a barrier count from 0
  bool sync = true; // false: bar.arrive
};
struct BarrierComplete {
  std::uint32_t launch = 0, block = 0, barrier = 0, phase = 0;
};
// All threads of the block that have not exited arrived at `barrier` with sync and left: the common case in one record.
struct BlockBarrier {
  std::uint32_t launch = 0, block = 0, barrier = 0, phase = 0, module = 0, site = 0;
};
struct WarpBarrier {
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0;
}; // bar.warp.sync completed for mask
struct WarpValue {
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0;
}; // shfl, vote …: orders nothing
// cp.async by lanes of mask: `bytes` from source (global) to destination (shared); src_bytes < bytes zero-fills.
struct AsyncCopy {
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0;
  std::uint32_t bytes = 0;
  std::array<std::uint64_t, 32> destination{}, source{};
  std::array<std::uint32_t, 32> source_bytes{}, digest{};
};
// cp.async.bulk and cp.reduce.async.bulk issued by lanes of mask, each a copy of its own; st.async and red.async, whose
// source is 0: a value. Addresses are generic ones (deadheat/address.h). A copy to several blocks (.multicast::cluster)
// is one record a block, in order of their ranks, all but the first with `further`. Completion on an mbarrier is an
// Mbarrier record (complete_tx) of the same site and lane, in the order of issue for each object.
struct BulkCopy {
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0;
  bool further = false;
  std::array<std::uint64_t, 32> destination{}, source{}, mbarrier{}; // mbarrier 0: completes with its bulk group
  std::array<std::uint32_t, 32> bytes{}, digest{};
};
struct AsyncCommit { // of cp.async or, by its site, of bulk copies
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0;
};
struct AsyncWait {
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0;
  std::uint32_t pending = 0;
  bool all = false;
  bool read_only = false;
};
// mbarrier operation by one lane a bit; `address` is the object's shared address (block: whose shared memory).
struct Mbarrier {
  enum class What : std::uint8_t {
    init = 0,
    inval = 1,
    arrive = 2,
    arrive_drop = 3,
    expect_tx = 4,
    complete_tx = 5,
    test = 6,
    async_arrive = 7
  } what = What::init;
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0, block = 0;
  Ordering ordering = Ordering::release;
  Scope scope = Scope::cta;
  std::array<std::uint64_t, 32> address{};
  std::array<std::uint32_t, 32> count{}, phase{}; // test: phase whose completion was seen; arrive: phase arrived in
  std::uint32_t succeeded = 0; // lanes whose test returned true
};
struct ClusterBarrier {
  Warp warp;
  std::uint32_t module = 0, site = 0, mask = 0, phase = 0;
  bool wait = false, relaxed = false;
};
struct ThreadExit {
  Warp warp;
  std::uint32_t mask = 0;
};

// malloc in a kernel gave a thread memory. Where another block of the heap was made of it before, it is other memory
// now, and the allocator answers for the order of its owners: a deallocation synchronizes with the allocation that gets
// the same memory next (C++, [c.malloc]; CUDA's programming guide, "Dynamic Global Memory Allocation and Operations",
// says of order nothing else). After all accesses that come before the HeapFree in between, before those of the new
// owner. Older logs have the record only where memory was given out again.
struct HeapBlock {
  std::uint32_t launch = 0, block = 0, thread = 0;
  std::uint64_t address = 0, bytes = 0; // whole multiples of 16
};
// A thread calls free for a block of the heap: an access to all of it (AccessKind::free), by whichever thread.
struct HeapFree {
  std::uint32_t launch = 0, block = 0, thread = 0, module = 0, site = 0;
  std::uint64_t address = 0, bytes = 0; // bytes 0: as many as its HeapBlock says
};

// ---- Faults and the end
// ----------------------------------------------------------------------------------------------

struct MemoryError {
  enum class Kind : std::uint8_t {
    out_of_bounds = 0,
    use_after_free = 1,
    misaligned = 2,
    wrong_space = 3,
    uninitialized = 4,
    double_free = 5,
    invalid_free = 6,
    stack_overflow = 7,
    trap = 8,
    assertion = 9,
    leak = 10, // of an allocation that is never freed
    api_error = 11 // of a launch that failed, and nothing asked for the error
  } kind = Kind::out_of_bounds;
  std::uint32_t launch = 0, block = 0, thread = 0, module = 0, site = 0;
  std::uint64_t address = 0, bytes = 0;
  AccessKind access = AccessKind::read;
  std::uint32_t nearest_allocation = 0;
  std::string text; // assertion text and the like
};
struct SyncError {
  std::uint32_t launch = 0, block = 0, thread = 0, module = 0, site = 0;
  std::string text;
};
// Something that could not be recorded, or that makes the run unrepeatable: kind, how often, one line.
struct Incident {
  std::string kind;
  std::uint64_t count = 0;
  std::string text;
};
// A tensor map that a program on a GPU had the driver make: its 128 bytes, and the same map in the encoding of the
// embedded device (FORMAT.md), with addresses of the GPU.
struct TensorMap {
  std::vector<std::uint8_t> bytes, described;
};
struct ProgramEnd {
  std::int32_t status = 0;
  bool clean = true;
};

using Record =
    std::variant<Process, Device, Module, Symbol, Allocate, Free, StreamCreate, StreamDestroy, EventRecord, StreamWait,
                 HostWait, Operation, GraphLaunch, GraphEnd, OperationBegin, OperationEnd, HostRead, HostWrite, Access,
                 Fence, BarrierArrive, BarrierComplete, BlockBarrier, WarpBarrier, WarpValue, AsyncCopy, BulkCopy,
                 AsyncCommit, AsyncWait, Mbarrier, ClusterBarrier, ThreadExit, MemoryError, SyncError, Incident,
                 ProgramEnd, Window, Snapshot, Effects, HeapBlock, StreamMaker, HostWaitBegin, HeapFree, TensorMap>;

} // namespace deadheat::trace
