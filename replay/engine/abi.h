// What compiled kernels and the machine that runs them share: the contexts in memory, how a thread stops and goes on.
//
// Every GPU thread is a state machine: `Step entry(ThreadContext*, frame)` runs it until it stops and returns why. To
// go on, the same function is called again with the same frame; its first word says where. Nothing of a thread lives
// on the host's stack while it is stopped: its state is the bytes of ThreadContext and of its stack, so it can be
// copied.
//
// A frame: u32 resume point (0: start), 12 bytes of the code generator's, the function's parameters and results, its
// local memory, saved registers; FunctionDescriptor::frame_bytes is its size. Calls put the callee's frame at
// ThreadContext::stack + stack_used and call again on resume. A thread starts with its frame at stack, and stack_used
// behind it.
//
// MXCSR must hold its default (round to nearest, no flushing) while compiled code runs.
//
// The code reads and writes these structs by offset: standard layout only. No virtuals here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deadheat::engine {

// clang-format off
// Why a thread stopped.
enum class Step : std::int32_t {
  exited = 0,   // exit, or return from the entry function
  visible = 1,  // before a visible operation (pending_site, pending_address); performs it when called again
  barrier = 2,  // at bar/barrier (pending_site; arg[0] barrier number, arg[1] thread count or 0; of red: arg[2]
                // predicate, result[0]; arg[5] and result[2] their undefined bits)
  warp = 3,     // at a rendezvous of lanes (pending_site; WarpOp in arg[0], operands after it); answers in result[]
  spin = 4,     // re-read an unchanged value (pending_address), or used up its quantum in a loop (pending_address 0)
  fault = 5,    // trap, assertion, memory error: fault_*; never goes on
  async_wait = 6, // cp.async.wait_group: arg[0] groups that may stay pending; arg[1] bits: 1 wait for all, committed or
                  // not; 2 bulk groups; 4 their reads only; 8 groups of wgmma
  cluster = 7,  // barrier.cluster: arg[0] 1 waits, 0 arrives; arg[1] 1: .relaxed
  mbarrier = 8, // waits for a phase of the mbarrier at pending_address; tests it once more when called again
  dependency = 9 // griddepcontrol: arg[0] 1 waits for the launch before, 0 lets the launch behind begin
};

// Rendezvous operations. arg[1] is always the member mask.
enum class WarpOp : std::uint32_t {
  barrier = 0,   // bar.warp.sync
  shfl_up = 1, shfl_down = 2, shfl_bfly = 3, shfl_idx = 4, // arg[2] value, arg[3] lane operand, arg[4] clamp/segment operand,
                                                          // arg[5] its undefined bits (Mode::written);
                                                          // result[0] value, result[1] predicate, result[2] undefined bits
                                                          // Mode::precision: arg[6], arg[7] RegisterShadow of value and result, or 0
  // Votes, matches and reductions: arg[5] undefined bits of arg[2], result[2] of result[0], result[3] of result[1].
  vote_all = 5, vote_any = 6, vote_uni = 7, vote_ballot = 8, // arg[2] predicate; result[0]
  match_any = 9, match_all = 10,  // arg[2] value (64 bits); result[0] mask, result[1] predicate
  redux_add = 11, redux_min_s = 12, redux_max_s = 13, redux_min_u = 14, redux_max_u = 15, redux_and = 16, redux_or = 17,
  redux_xor = 18,                 // arg[2]; result[0]
  activemask = 19,                // no mask: the scheduler's choice; result[0]
  elect = 20,                     // result[0] leader lane, result[1] predicate
  redux_min_f = 21, redux_max_f = 22, // arg[2]; arg[3] bits: 1 .abs, 2 .NaN; result[0]
  // Matrix operations, whose lanes exchange registers: arg[2] is the code of a TensorOp (tensor.h), arg[3..] hold the
  // lane's 32-bit words going in, two a slot; result[] those that come out.
  tensor = 32,
  warpgroup = 33 // wgmma.mma_async: a warp's part; arg[] as WarpgroupArgument says (warpgroup.h)
};
// clang-format on

inline bool reduces(WarpOp op) {
  return (op >= WarpOp::redux_add && op <= WarpOp::redux_xor) || op == WarpOp::redux_min_f || op == WarpOp::redux_max_f;
}

// What Services::mbarrier is asked to do, with flags. The operand: init's count; arrivals: count in the low half, bytes
// to expect in the high half; expect_tx, complete_tx: bytes; tests: the state or the parity.
enum class MbarrierOp : std::uint32_t {
  init = 0,
  inval = 1,
  arrive = 2,
  arrive_drop = 3,
  expect_tx = 4,
  complete_tx = 5,
  test = 6,
  async_arrive = 7,
  operation = 0xff,
  no_complete = 0x100, // arrivals: must not complete the phase
  no_increment = 0x200, // async_arrive: .noinc
  parity = 0x400, // tests: by parity
  blocking = 0x800, // tests: try_wait, which may suspend the thread
  again = 0x1000, // tests: after the thread was suspended
  in_loop = 0x2000 // tests: is polled
};

// cp.async.bulk and asynchronous stores: arg[] of the thread.
enum BulkArgument : unsigned {
  bulk_destination = 0,
  bulk_source = 1, // generic addresses
  bulk_bytes = 2,
  bulk_mbarrier = 3, // generic address; 0: completes with its bulk group
  bulk_targets = 4, // of .multicast::cluster: a bit a rank; 0: none
  bulk_reduction = 5, // 0: a copy; else 1 + BulkReduction::op + (ptx::Type << 8)
  bulk_value = 6 // of st.async and red.async, whose source is bulk_no_source: the bytes, in two arguments
};
// cp.async.bulk.tensor and cp.reduce.async.bulk.tensor: arg[] of the thread.
enum BoxArgument : unsigned {
  box_shared = 0, // generic address of the box in shared memory
  box_map = 1, // generic address of the tensor map
  box_form = 2, // how many coordinates, and box_im2col
  box_mbarrier = 3, // generic address; 0: from shared memory, completes with its bulk group
  box_targets = 4, // as bulk_targets
  box_reduction = 5, // 0: a copy; else 1 + BulkReduction::op
  box_coordinates = 6, // five
  box_offsets = 11 // of im2col: three
};
inline constexpr std::uint64_t box_im2col = 0x100;
// tensormap.replace (9.7.9.28): .field
enum class TensorField : std::uint32_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  fill_mode
};
inline constexpr std::uint64_t bulk_no_source = ~std::uint64_t(0);
enum class BulkReduction : std::uint32_t { add, min, max, inc, dec, and_, or_, xor_ };

// One weak access, logged by recorded code; merged by tracer/recorder/warp_log.h (same layout).
struct LogEntry {
  std::uint64_t address; // generic address (deadheat/address.h)
  std::uint32_t site;
  std::uint32_t digest; // of writes: of the bytes written; 0 for reads
};
static_assert(sizeof(LogEntry) == 16);

struct BlockContext;
struct LaunchContext;
struct ThreadContext;
class Shadows;

// What compiled code calls. All are called with a stopped world: one host thread runs a machine. (The blocks of a
// launch may be shared out among several machines, see replay/device/spread.h.)
struct Services {
  // The lane's log is full (log_cursor == log_end): makes room.
  void (*log_full)(ThreadContext*);
  // A strong access or atomic was performed (record mode). values: low 64 bits; wrote: 0 for reads and failed cas.
  void (*strong)(ThreadContext*, std::uint32_t site, std::uint64_t address, std::uint64_t read, std::uint64_t written,
                 std::uint32_t wrote);
  // An address that the fast check did not accept: 1 when the access is legal, else 0 and thread->fault_* is set.
  std::uint32_t (*check)(ThreadContext*, std::uint32_t site, std::uint64_t address, std::uint32_t bytes,
                         std::uint32_t is_write);
  // cp.async: `bytes` to shared offset `destination` from global `source`, of which the last bytes - source_bytes are
  // zeros. commit closes the thread's open group.
  void (*async_copy)(ThreadContext*, std::uint32_t site, std::uint64_t destination, std::uint64_t source,
                     std::uint32_t bytes, std::uint32_t source_bytes);
  void (*async_commit)(ThreadContext*, std::uint32_t site);
  // mbarrier.* and cp.async.mbarrier.arrive: `what` is MbarrierOp; address generic. Arrivals return the state before
  // them; tests 1 when the phase is complete, 0 when not, 2 when not and the thread is to stop with Step::mbarrier.
  std::uint64_t (*mbarrier)(ThreadContext*, std::uint32_t site, std::uint32_t what, std::uint64_t address,
                            std::uint64_t operand);
  // cp.async.bulk, cp.reduce.async.bulk, st.async, red.async: operands in arg[] (BulkArgument).
  void (*bulk_copy)(ThreadContext*, std::uint32_t site);
  std::int32_t (*print)(ThreadContext*, std::uint64_t format, std::uint64_t arguments); // vprintf; generic addresses
  std::uint64_t (*allocate)(ThreadContext*, std::uint32_t site, std::uint64_t bytes); // malloc; device address or 0
  void (*release)(ThreadContext*, std::uint32_t site, std::uint64_t address); // free
  // Sets thread->fault_*: kind is trace::MemoryError::Kind (trap, assertion, stack_overflow …); text may be null. Of an
  // assertion arg[0], arg[1] and arg[3] are the generic addresses of message, file and function, arg[2] is the line.
  void (*fault)(ThreadContext*, std::uint32_t site, std::uint32_t kind, const char* text);
  std::uint64_t (*clock)(ThreadContext*, std::uint32_t which); // 0 %clock64, 1 %globaltimer: deterministic counters
  // Bits that nobody wrote decide something: `use` is an UndefinedUse (written.h); of `atomic` and `result` the memory.
  void (*undefined)(ThreadContext*, std::uint32_t site, std::uint32_t use, std::uint64_t address, std::uint32_t bytes);
  // Copies by tensor maps: operands in arg[] (BoxArgument).
  void (*box_copy)(ThreadContext*, std::uint32_t site);
  // tensormap.replace: `field` is a TensorField; and tensormap.cp_fenceproxy. Generic addresses.
  void (*tensor_replace)(ThreadContext*, std::uint32_t site, std::uint64_t map, std::uint32_t field,
                         std::uint32_t ordinal, std::uint64_t value);
  void (*tensor_map_copy)(ThreadContext*, std::uint32_t site, std::uint64_t destination, std::uint64_t source);
};

// Nothing that programs compute with by intention.
inline constexpr std::uint64_t discard_pattern = 0xDDDD'DDDD'DDDD'DDDD;

struct ExecContext {
  std::int64_t quantum = 0; // visible operations that may run before the thread must stop (control mode);
                            // strong operations in loops, in every mode
  const Services* services = nullptr;
  const std::uint8_t* shadow = nullptr; // validity of the device arena: one byte for 16 bytes, 16 = all valid, n < 16 =
                                        // the first n bytes valid
  std::uint64_t visible = 0; // visible operations performed (control mode counts them)
  // Control mode: grows whenever a thread may have changed what others can notice, or took in what is not memory (the
  // clock): stores, read-modify-writes that change something, and what services do.
  std::uint64_t changes = 0;
  void* machine = nullptr;
  Shadows* shadows = nullptr; // Mode::precision
  std::uint64_t discarded = discard_pattern; // what `discard` leaves, again and again
};

struct LaunchContext {
  ExecContext* exec = nullptr;
  const std::uint8_t* params = nullptr; // the parameter block
  const std::uint8_t* site_stop = nullptr; // control mode: by site number; nonzero: stop before this site always
  std::uint32_t nctaid[3] = {1, 1, 1}, ntid[3] = {1, 1, 1};
  std::uint32_t nclusterid[3] = {1, 1, 1}, cluster_nctaid[3] = {1, 1, 1};
  std::uint32_t dynamic_shared = 0, total_shared = 0; // bytes
  std::uint32_t concurrent = 0; // nonzero: other host threads run blocks of the same launch
  std::uint64_t gridid = 0;
  std::uint64_t grid_workspace = 0; // device address; of cooperative launches: {u32 size, u32 barrier}
  void* launch = nullptr; // the machine's
  std::uint32_t module = 0; // the trace's number, for shadows
};

struct BlockContext {
  LaunchContext* launch = nullptr;
  std::uint8_t* shared = nullptr; // total_shared bytes
  std::uint32_t ctaid[3] = {0, 0, 0};
  std::uint32_t linear = 0;
  std::uint32_t smid = 0, nsmid = 0;
  // Of kernels that reach other blocks' shared memory: where each begins, by bits 24 to 31 of a shared address
  // (deadheat/address.h); 256 entries, those of no block as the first.
  std::uint8_t* const* cluster_shared = nullptr;
  void* block = nullptr; // the machine's
};

struct ThreadContext {
  BlockContext* block = nullptr;
  std::uint8_t* stack = nullptr; // frames and local memory; local_window + o is stack + o
  std::uint32_t stack_used = 0, stack_bytes = 0;
  std::uint32_t tid[3] = {0, 0, 0};
  std::uint32_t linear = 0, lane = 0, warp = 0;

  LogEntry* log_cursor = nullptr; // record mode
  LogEntry* log_end = nullptr;

  std::uint32_t pending_site = 0;
  std::uint32_t spin_site = ~0u; // the last strong operation in a loop, its address and what it read (spin.h)
  std::uint64_t spin_address = 0, spin_value = 0;
  std::uint64_t pending_address = 0;
  // The last load of undefined bits that may come to matter (undefined.h).
  std::uint64_t undefined_address = 0;
  std::uint32_t undefined_site = ~0u, undefined_bytes = 0;
  void take_undefined(const ThreadContext& from) {
    undefined_site = from.undefined_site;
    undefined_bytes = from.undefined_bytes;
    undefined_address = from.undefined_address;
  }
  std::uint64_t arg[21] = {};
  std::uint64_t result[8] = {};

  std::uint32_t fault_kind = 0, fault_site = 0, fault_access = 0, fault_bytes = 0;
  std::uint64_t fault_address = 0;
  const char* fault_text = nullptr;
};

using EntryPoint = std::int32_t (*)(ThreadContext*, std::uint8_t* frame); // returns Step

// What the address of a function is: PTX function pointers hold the host address of its descriptor.
struct FunctionDescriptor {
  EntryPoint entry = nullptr;
  std::uint32_t frame_bytes = 0; // 16-byte aligned
  std::uint32_t params_offset = 0; // of the parameters in the frame; results follow, each naturally aligned
  std::uint32_t cleared_bytes = 0; // of a kernel's frame, which are zeros when a thread starts: all but saved registers
};

} // namespace deadheat::engine
