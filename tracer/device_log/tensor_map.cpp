#include "tracer/device_log/tensor_map.h"

namespace deadheat::device_log {

void TensorMaps::made(const void* encoded, const ptx::TensorMap& map) {
  Made made{{}, map};
  std::memcpy(made.bytes.data(), encoded, made.bytes.size());
  std::lock_guard hold(lock_);
  if (maps_.size() < most_maps) maps_.insert_or_assign(tensor_digest(encoded), made);
}

std::optional<ptx::TensorMap> TensorMaps::find(std::uint64_t digest) const {
  std::lock_guard hold(lock_);
  const auto found = maps_.find(digest);
  if (found == maps_.end()) return std::nullopt;
  return found->second.map;
}

std::vector<TensorMaps::Made> TensorMaps::all() const {
  std::lock_guard hold(lock_);
  std::vector<Made> all;
  for (const auto& [digest, made] : maps_) all.push_back(made);
  return all;
}

} // namespace deadheat::device_log
