#include "tracer/device_log/tensor_map.h"

namespace deadheat::device_log {

bool TensorMaps::made(const void* encoded, const ptx::TensorMap& map) {
  const std::uint64_t digest = tensor_digest(encoded);
  std::lock_guard hold(lock_);
  if (maps_.size() >= most_maps && !maps_.count(digest)) return false;
  return maps_.insert_or_assign(digest, map).second;
}

std::optional<ptx::TensorMap> TensorMaps::find(std::uint64_t digest) const {
  std::lock_guard hold(lock_);
  const auto found = maps_.find(digest);
  if (found == maps_.end()) return std::nullopt;
  return found->second;
}

} // namespace deadheat::device_log
