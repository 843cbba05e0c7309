// A site: one PTX memory or synchronization instruction, with what it does and where it comes from.
//
// tracer/ptx/sites.h classifies instructions into sites; the engine and the instrumenter report executions by site
// number; traces carry the table, so that the analyzer never needs the PTX.
//
// Numbering: sites of one module are numbered from 0 in source order, over all functions with a body; behind them come
// those of SiteKind::heap, and then those of texels (ptx/sites.h), likewise (older traces have none). A trace numbers
// modules; a site is named everywhere by (module, site).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deadheat/memory_model.h"

namespace deadheat {

// What executing a site means to the memory model. Values are written into traces.
enum class SiteKind : std::uint8_t {
  access = 0,          // ld, st, atom, red, discard, ldmatrix, stmatrix, wmma.load/store: AccessKind, one an element
  fence = 1,           // fence, membar
  barrier = 2,         // bar, barrier: {sync, red, arrive}
  warp_barrier = 3,    // bar.warp.sync
  warp_value = 4,      // shfl, vote, match, redux, activemask, elect: rendezvous that orders no memory
  cluster_barrier = 5, // barrier.cluster
  mbarrier = 6,        // mbarrier.*
  async_copy = 7,      // cp.async (non-bulk): reads operand 1, writes operand 0
  async_commit = 8,    // cp.async.commit_group, cp.async.bulk.commit_group
  async_wait = 9,      // cp.async.wait_group, wait_all, cp.async.bulk.wait_group
  async_mbarrier_arrive = 10, // cp.async.mbarrier.arrive
  bulk_copy = 11,      // cp.async.bulk, cp.reduce.async.bulk, with or without tensor; st.async, red.async
  proxy_fence = 12,    // fence.proxy.*
  dependency = 13,     // griddepcontrol
  exit = 14,           // exit, ret of an entry, trap, a call of __assertfail
  opaque = 15, // touches memory in a way that is not modelled (wgmma, tcgen05, textures): named, never dropped
  heap = 16 // a call of the runtime's malloc (AccessKind::write) or free (AccessKind::free)
};

// One level of inlining: `function` inlined at file:line.
struct SourceFrame {
  std::string function; // demangled where possible; may be empty
  std::string file;
  std::uint32_t line = 0, column = 0;
  friend bool operator==(const SourceFrame&, const SourceFrame&) = default;
};

// Does the value of a strong read decide whether a loop reads the same location again?
enum class Polls : std::uint8_t { unknown, yes, no };

struct Site {
  std::uint32_t id = 0; // number within the module
  SiteKind kind = SiteKind::opaque;
  AccessKind access = AccessKind::read; // of accesses
  Space space = Space::generic;
  Ordering ordering = Ordering::weak;
  Scope scope = Scope::none;
  Proxy proxy = Proxy::generic;
  bool shared_cluster = false; // .shared::cluster addressing
  bool in_loop = false; // on a cycle of its function, or of one that calls it: spin loops suspend here
  bool aligned = false; // .aligned form of barriers
  bool arrive_only = false; // bar.arrive, barrier.cluster.arrive: releases, acquires nothing
  bool wait_only = false; // barrier.cluster.wait, tests of mbarriers, waits for copies
  std::uint8_t element_bytes = 0; // bytes of one element; 0 where not an access
  std::uint8_t elements = 1; // 2, 4, 8 for vectors: one access an element
  std::string type; // element type as the value is used: "f32" where dataflow shows that a b32 is a float
  std::string opcode; // full opcode as written: "ld.global.nc.f32"
  std::string function; // mangled name of the function that holds it
  std::uint32_t instruction = 0; // index into Function::body
  std::uint32_t ptx_line = 0;
  std::vector<SourceFrame> source; // innermost first; empty without line information
  // Not in traces: the analyzer finds them in the module's PTX, where it has that. Of tests of an mbarrier's phase, and
  // of strong reads: nothing depends on the outcome (ptx::unused_outcomes). Of strong reads: ptx::polls.
  bool outcome_unused = false;
  Polls polls = Polls::unknown;
};

} // namespace deadheat
