#include "tracer/cupti/node_footprints.h"

#include <functional>

namespace deadheat::cupti {

std::uint64_t NodeFootprints::hash(std::string_view kernel, std::span<const std::uint8_t> arguments) {
  const std::string_view bytes(reinterpret_cast<const char*>(arguments.data()), arguments.size());
  const std::hash<std::string_view> hash;
  return hash(kernel) * 0x9e3779b97f4a7c15u ^ hash(bytes);
}

void NodeFootprints::captured(CUgraphNode node, std::uint64_t hash, Footprint footprint) {
  captured_[node] = {hash, std::make_shared<const Footprint>(std::move(footprint))};
}

void NodeFootprints::forget(CUgraphNode node) { captured_.erase(node); }

void NodeFootprints::made(std::uint32_t executable, std::uint32_t index, CUgraphNode node, std::uint64_t hash) {
  const auto found = captured_.find(node);
  if (found != captured_.end() && found->second.hash == hash)
    made_[{executable, index}] = found->second.footprint;
  else
    made_.erase({executable, index});
}

void NodeFootprints::forget(std::uint32_t executable) {
  made_.erase(made_.lower_bound({executable, 0}), made_.upper_bound({executable, ~0u}));
}

const NodeFootprints::Footprint* NodeFootprints::of(std::uint32_t executable, std::uint32_t index) const {
  const auto found = made_.find({executable, index});
  return found == made_.end() ? nullptr : found->second.get();
}

} // namespace deadheat::cupti
