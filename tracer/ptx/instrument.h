// PTX in, PTX out: every kernel keeps its original and gains a clone that reports what it does to memory.
//
// The clone has one more parameter, last, of 32 bytes (tracer/device_log/layout.h says what lies in it and in the
// buffers it leads to). A clone's basic blocks are cut into *segments*: straight runs of instructions in which nothing
// waits for another thread. At the beginning of a segment the lanes that run it together reserve room in a ring buffer,
// once for all its sites; each site stores what its lanes touch into its *slot* of that room; at the end the segment's
// header makes it valid. So recording costs a few stores an access, and one atomic a segment.
//
// Between the instructions of a basic block nothing branches but the wait for room, which comes at the beginning of a
// segment: ptxas contracts a multiplication and an addition only within a block. What it contracts in the original a
// clone says itself (open_products.h); where that is not known, a segment that begins in between is refused.
//
// Invariants: site numbers are the original module's (sites.h). Registers that the clone adds begin with %dh_, or with
// %do_ where an original instruction uses them; functions with __deadheat_. The originals' text is kept byte for byte.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/ptx.h"
#include "tracer/ptx/sites.h"
#include "tracer/ptx/texture.h"

namespace deadheat::ptx {

inline constexpr const char* clone_prefix = "__deadheat_"; // of a clone's name, before the original's
inline constexpr const char* heap_prefix = "__deadheat_heap_"; // before a site's number: calls malloc or free there
inline constexpr std::uint32_t segment_header_bytes = 32;
inline constexpr std::uint32_t control_bytes = 32; // of the appended parameter

// A wait for an mbarrier may take long, and is asked again and again: its segment begins when it has succeeded, and is
// written only then.
//
// What a site stores, each array for 32 lanes. Lanes whose guard is false have all ones as address or flag (0: true).
// An access whose address differs by a constant from that of an earlier one in its segment stores none: it points to
// the earlier one's.
struct Slot {
  enum class Kind : std::uint8_t {
    read, // address
    write, // address, u32 digest
    strong, // u64 ticket before, u64 after, u64 of the ring (not for 32 lanes: once), address; where valued: value read
            // (not of writes), operand (not of reads; unless it is known), compared (of a cas, whose operand is the new
            // value), u32 digest (of vectors that are stored)
    event, // u32 flag where guarded; else nothing: fences, commits, waits, exits
    barrier, // u32 number where it is a register, else flag where guarded; u32 threads where they are a register
    warp_sync, // u32 member mask where it is a register (0: guard false), else flag where guarded
    copy, // u64 source, u32 destination, u32 source bytes
    mbarrier, // tickets as strong; address; where they are stored: u32 operand (count, bytes, parity; of a test with a
              // state: u64), u32 bytes expected, u64 state read. A test stands in a segment of its own behind its
              // instruction: lanes whose test failed have all ones as address
    bulk, // tickets as strong where it completes on an mbarrier; u64 destination, source, mbarrier, u32 bytes, u32 mask
          // of blocks. st.async and red.async: no source, and their bytes are `number`. Of a tensor: u64 of its address
          // in shared memory, u64 digest of the tensor map (device_log/tensor_map.h), u32 of each coordinate,
          // and of each offset of im2col
    heap, // tickets as strong, but none before: of malloc taken behind the call, of free ahead of it; u64 address, and
          // of malloc u64 bytes asked for. A segment of its own in a function that the clone calls in place of the
          // runtime's
    matrix, // u32 flag where guarded; u64 descriptors, once: of wgmma, of a (where it lies in shared memory) and of b
    texture, // u64 handle; u32 of what the instruction is given besides, each where it has it: the layer, coordinates,
             // the level, two gradients, offsets, the values of a formatted store; of other stores u32 digest
  };
  Kind kind = Kind::read;
  bool guarded = false;
  bool narrow = false; // addresses are u32 offsets in shared memory; else u64 generic ones
  bool compares = false; // strong: a cas
  bool valued = false; // strong: its values are stored (at most 8 bytes an element; vectors are folded to u64)
  bool short_values = false; // strong: values are u32; else u64
  bool operand_known = false; // strong: `number` is the operand
  bool in_block = false; // strong: its tickets are the ring's, not the device's
  bool both_tickets = false; // strong: the device's, and one of the ring after it
  bool after_only = false; // strong: there is no ticket before, and the one after is nanoseconds of the device
  bool ranked = false; // bits 24 and up of shared addresses are 0 for the block's own memory, else the rank of the
                       // block whose memory it is, plus one (deadheat/address.h); where not ranked they mean nothing
  bool number_known = false, threads_known = false; // barrier, warp_sync: immediate
  std::uint32_t site = 0;
  std::uint32_t offset = 0; // from the segment's header
  std::uint32_t address = 0, digest = 0; // read, write, strong: where the arrays lie, from the segment's header
  std::uint32_t value_read = 0, operand = 0, compared = 0; // likewise, of strong; mbarrier: state read, operand
  std::uint32_t source = 0, object = 0, size = 0, blocks = 0; // likewise, of bulk; mbarrier: size is the bytes
                                                              // expected; write: the bytes that st.bulk sets; heap:
                                                              // the bytes asked for
  std::uint32_t map = 0, coordinates = 0; // likewise, of bulk: of tensors; texture: coordinates is its first word
  std::uint32_t dimensions = 0, offsets = 0; // likewise: how many coordinates, and offsets (of im2col) behind them
  bool from_tensor = false; // likewise; else to it
  std::uint32_t first = 0, second = 0; // matrix: where the descriptors lie; first 0: a is in registers
  bool transposed[2] = {}; // matrix
  TextureForm form; // texture
  bool layered = false; // likewise
  std::uint32_t texel_site = 0, values = 0; // likewise: SiteTable::texels; words of a formatted store
  MatrixPieces pieces; // read, write: of a wmma.load or wmma.store; lanes store the matrix's address
  std::uint32_t stride = 0; // likewise: where the distance of lines lies, u32, in elements; 0: they lie without gaps
  std::int64_t delta = 0; // what is to be added to the addresses
  std::uint64_t number = 0; // barrier; warp_sync: the mask; waits: pending groups; strong: operand
  std::uint32_t threads = 0; // barrier
};

struct Segment {
  std::uint32_t bytes = 0; // header included, a multiple of 32
  bool ends = false; // threads may end in it
  std::vector<Slot> slots; // in program order
};

struct InstrumentedKernel {
  std::string name, clone;
  std::uint32_t parameters = 0, parameter_offset = 0; // how many come before the added one; where it lies
  std::uint32_t arguments_bytes = 0;
  std::vector<std::uint32_t> offsets; // of those that come before
  bool strong = false; // it, or what it calls, has strong accesses, mbarriers or cluster barriers
  bool unseen_arrivals = false; // something that is not recorded may complete phases of mbarriers
  bool textures = false; // it, or what it calls, fetches from textures or accesses surfaces, and that is recorded
  std::optional<Dim3> cluster; // that it was compiled for
  std::uint32_t left_out = 0; // sites whose accesses are not recorded (kinds that are not supported), and calls by
                              // address; of the functions that it calls, too
};

struct Instrumentation {
  std::string text;
  std::vector<Segment> segments;
  std::vector<InstrumentedKernel> kernels;
  std::vector<std::string> variables; // of the module, with storage in device memory
  std::vector<std::string> notes; // kernels that were left as they are, and why: one line each
};

struct InstrumentOptions {
  // A fence behind every vote of a clone. ptxas (CUDA 13.0, from -O1) may gather the predicates of successive votes,
  // and then finds no room for more than seven ("C7600: register allocation failed"): code that would not assemble
  // does.
  bool part_votes = false;
  // The kernels that gain a clone, by name; null: all.
  const std::set<std::string>* kernels = nullptr;
};

// The sites of a kernel and of the functions that it reaches by calls that name them, each counted once.
struct KernelSites {
  std::string name;
  std::uint32_t sites = 0;
};
std::vector<KernelSites> sites_of_kernels(const Module& module, const SiteTable& sites); // in the module's order
std::set<std::string> kernels_that_reach(const Module& module, const std::string& function); // or are it

Expected<Instrumentation> instrument(const Module& module, const SiteTable& sites,
                                     const InstrumentOptions& options = {});

} // namespace deadheat::ptx
