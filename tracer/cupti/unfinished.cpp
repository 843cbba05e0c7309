#include "tracer/cupti/unfinished.h"

#include <algorithm>
#include <vector>

namespace deadheat::cupti {

std::shared_ptr<Unfinished::Launch> Unfinished::begin(Context context) {
  auto launch = std::make_shared<Launch>(context);
  std::lock_guard hold(lock_);
  launches_.insert(launch);
  count_.store(launches_.size(), std::memory_order_relaxed);
  return launch;
}

void Unfinished::end(const std::shared_ptr<Launch>& launch) {
  std::lock_guard hold(lock_);
  launches_.erase(launch);
  count_.store(launches_.size(), std::memory_order_relaxed);
}

bool Unfinished::none(Context context) const {
  std::lock_guard hold(lock_);
  return std::none_of(launches_.begin(), launches_.end(),
                      [&](const std::shared_ptr<Launch>& launch) { return launch->context_ == context; });
}

bool Unfinished::Wait::over(Clock::time_point now) {
  std::lock_guard hold(launches_.lock_);
  std::vector<Launch*> waited_for;
  std::uint64_t bytes = 0;
  for (const std::shared_ptr<Launch>& launch : launches_.launches_) {
    if (context_ && launch->context_ != context_) continue;
    const std::uint64_t wrote = launch->bytes.load(std::memory_order_relaxed);
    if (launch->in_vain_ >= most_ || launch->silent_at_ == wrote) continue;
    waited_for.push_back(launch.get());
    bytes += wrote;
  }
  if (bytes != bytes_) heard_ = now;
  bytes_ = bytes;
  const bool silent = now - heard_ > silence, in_vain = now - begun_ > most_;
  for (Launch* launch : waited_for) {
    if (in_vain) launch->in_vain_ = most_;
    if (silent) launch->silent_at_ = launch->bytes.load(std::memory_order_relaxed);
  }
  return waited_for.empty() || silent || in_vain;
}

} // namespace deadheat::cupti
