#include "tracer/cupti/node_footprints.h"

#include <algorithm>
#include <functional>

namespace deadheat::cupti {

std::uint64_t NodeFootprints::hash(std::string_view kernel, std::span<const std::uint8_t> arguments) {
  const std::string_view bytes(reinterpret_cast<const char*>(arguments.data()), arguments.size());
  const std::hash<std::string_view> hash;
  return hash(kernel) * 0x9e3779b97f4a7c15u ^ hash(bytes);
}

void NodeFootprints::captured(CUgraphNode node, std::uint64_t hash, Footprint footprint) {
  captured_[node] = {hash, std::make_shared<const Footprint>(std::move(footprint))};
  std::vector<CUgraphNode>& same = by_hash_[hash];
  std::erase(same, node);
  same.push_back(node);
}

void NodeFootprints::copied(CUgraphNode node, std::uint64_t hash) {
  Footprint all;
  std::vector<std::shared_ptr<const Footprint>> different;
  captured_.erase(node);
  std::erase_if(by_hash_[hash], [&](CUgraphNode other) {
    const auto found = captured_.find(other);
    if (found == captured_.end() || found->second.hash != hash) return true;
    const std::shared_ptr<const Footprint>& footprint = found->second.footprint;
    const auto is_same = [&](const auto& one) { return *one == *footprint; };
    if (std::none_of(different.begin(), different.end(), is_same)) different.push_back(footprint);
    return false;
  });
  if (different.empty()) return;
  for (const auto& one : different) all.insert(all.end(), one->begin(), one->end());
  captured(node, hash, std::move(all));
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
