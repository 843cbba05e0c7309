// What the opaque kernels of graphs reach: as of when their launches were captured, or their nodes were made by hand or
// changed. Of the blocks of PyTorch's
// allocator that they were given some are given back before the graph is made, and handed out again: a launch of the
// graph uses them nevertheless.
//
// Nodes come by their handles, which may come again once their graph is destroyed, and by what they launch: a node that
// launches something else than what was captured (cuGraphKernelNodeSetParams) is another one.
//
// Thread-safety: none.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace deadheat::cupti {

class NodeFootprints {
 public:
  using Footprint = std::vector<std::uint64_t>; // deadheat/footprint.h

  // Of a kernel and its arguments.
  static std::uint64_t hash(std::string_view kernel, std::span<const std::uint8_t> arguments);

  void captured(CUgraphNode node, std::uint64_t hash, Footprint footprint);
  // A node of a graph that is a copy: it reaches what those do together that launch the same.
  void copied(CUgraphNode node, std::uint64_t hash);
  void forget(CUgraphNode node); // its graph is destroyed
  // A node of an executable, of which that one is made. A null one, or one that was not captured: nothing is known.
  void made(std::uint32_t executable, std::uint32_t index, CUgraphNode node, std::uint64_t hash);
  void forget(std::uint32_t executable);

  const Footprint* of(std::uint32_t executable, std::uint32_t index) const; // null: not known

 private:
  struct Captured {
    std::uint64_t hash = 0;
    std::shared_ptr<const Footprint> footprint;
  };
  std::unordered_map<CUgraphNode, Captured> captured_;
  std::unordered_map<std::uint64_t, std::vector<CUgraphNode>> by_hash_; // some of them are forgotten, or others
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::shared_ptr<const Footprint>> made_;
};

} // namespace deadheat::cupti
