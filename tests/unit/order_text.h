// Executions of order_oracle.h in words, an event a line; of whole warps, an instruction.
//
// Thread-safety: pure function.
#pragma once

#include <string>

#include "tests/unit/order_oracle.h"

namespace deadheat::test {

inline std::string text(const Execution& execution) {
  static const char* kinds[] = {"access",        "fence",           "arrive",        "leave",
                                "block_barrier", "warp_barrier",    "copy_issue",    "copy",
                                "copy_commit",   "copy_arrive",     "copy_wait",     "cluster_arrive",
                                "cluster_wait",  "mbarrier_arrive", "mbarrier_test", "bulk_issue",
                                "bulk",          "bulk_complete",   "bulk_commit",   "bulk_wait",
                                "proxy_fence",   "dependency_wait", "launch_begin",  "launch_end",
                                "exit"};
  static const char* accesses[] = {"read", "write", "atomic", "free"};
  static const char* orderings[] = {"weak", "relaxed", "acquire", "release", "acq_rel", "sc", "volatile", "mmio", "nc"};
  static const char* scopes[] = {"", "cta", "cluster", "gpu", "sys"};
  std::string out = std::to_string(execution.blocks_per_cluster) + " blocks a cluster\n";
  for (const Event& e : execution.events) {
    if (execution.named_lanes && e.together) {
      out.pop_back();
      out += (e.stored ? ", " : ", failed ") + std::to_string(e.thread);
      if (e.memory()) out += " at " + std::to_string(e.address & 4095);
      out += "\n";
      continue;
    }
    out += std::to_string(e.line) + ": block " + std::to_string(e.block) + " thread " + std::to_string(e.thread) + " " +
           kinds[int(e.kind)];
    if (e.memory()) {
      out += std::string(" ") + accesses[int(e.access)] + (e.reduction ? "(red)" : "") + (e.stored ? "" : "(failed)") +
             (e.shared ? " shared " : " global ") + (e.memory_of() != e.block ? "of the other " : "") +
             std::to_string(e.address & 4095) + "+" + std::to_string(e.bytes);
    }
    if (e.kind == Event::Kind::launch_begin) {
      const Launched& launched = execution.launches[e.launch()];
      out += " device " + std::to_string(launched.device) + " stream " + std::to_string(launched.stream) +
             " waits for " + std::to_string(launched.waits_for);
      if (launched.primary != Launched::none) out += " programmatic";
    }
    if (e.memory() || e.kind == Event::Kind::fence) {
      out += std::string(" ") + orderings[int(e.ordering)] + " " + scopes[int(e.scope)];
    }
    if (e.barrier) out += " barrier " + std::to_string(e.barrier) + " scope " + std::to_string(int(e.scope));
    if (e.relaxed) out += " relaxed";
    if (e.kind == Event::Kind::mbarrier_test) out += std::string(" ") + orderings[int(e.ordering)];
    if (e.repeats) out += " repeats";
    if (e.instruction != Event::none) out += " by the instruction of " + std::to_string(e.instruction + 1);
    if (e.together) out += " together";
    if (e.unused) out += " unused";
    if (e.kind == Event::Kind::proxy_fence) out += e.shared ? " shared" : " global";
    if (e.one_way()) {
      out += std::string(e.of_shared ? " async::generic " : " tensormap::generic ") + orderings[int(e.ordering)] + " " +
             scopes[int(e.scope)];
    }
    if (!e.memory()) out += " phase " + std::to_string(e.phase) + " group " + std::to_string(e.group);
    out += "\n";
  }
  return out;
}

} // namespace deadheat::test
