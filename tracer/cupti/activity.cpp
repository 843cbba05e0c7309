#include "tracer/cupti/activity.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <span>
#include <string_view>

#include "tracer/cupti/libraries.h"
#include "tracer/ptx/instrument.h"

namespace deadheat::cupti {

namespace {

constexpr std::size_t buffer_bytes = std::size_t(1) << 20, most_calls = std::size_t(1) << 20;
constexpr std::uint32_t rounds = 20;  // after which a call without an activity is forgotten: it was a copy of nothing

Activity* the_activity = nullptr;
thread_local std::uint32_t current_driver_call = 0, current_runtime_call = 0;

std::uint64_t hash(std::string_view name) {
  // A clone stands for its kernel.
  if (name.rfind(ptx::clone_prefix, 0) == 0) name.remove_prefix(std::string_view(ptx::clone_prefix).size());
  return std::hash<std::string_view>{}(name);
}

}  // namespace

void CUPTIAPI Activity::requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, buffer_bytes));
  *bytes = *buffer ? buffer_bytes : 0;
  *records = 0;
}

void CUPTIAPI Activity::completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  try {
    std::lock_guard hold(the_activity->lock_);
    CUpti_Activity* next = nullptr;
    while (buffer && valid && cupti().cuptiActivityGetNextRecord(buffer, valid, &next) == CUPTI_SUCCESS) {
      the_activity->take(*next);
    }
  } catch (...) {
  }
  std::free(buffer);
}

void Activity::take(CUpti_Activity& activity) {
  auto add = [&](const auto& record, Kind kind, std::uint64_t kernel) {
    if (record.graphNodeId || record.start == 0 || record.end < record.start) return;
    seen_.push_back({record.correlationId, kind, kernel, record.start, record.end, 0});
  };
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& record = reinterpret_cast<const CUpti_ActivityKernel10&>(activity);
      add(record, Kind::launch, record.name ? hash(record.name) : 0);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      add(reinterpret_cast<const CUpti_ActivityMemcpy6&>(activity), Kind::copy, 0);
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      add(reinterpret_cast<const CUpti_ActivityMemcpyPtoP4&>(activity), Kind::copy, 0);
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET: add(reinterpret_cast<const CUpti_ActivityMemset4&>(activity), Kind::set, 0); break;
    default: break;
  }
}

bool Activity::start() {
  const Cupti& c = cupti();
  if (!c.cuptiActivityRegisterCallbacks || !c.cuptiActivityEnable || !c.cuptiActivityGetNextRecord ||
      !c.cuptiActivityFlushAll) {
    return false;
  }
  the_activity = this;
  if (c.cuptiActivityRegisterCallbacks(requested, completed) != CUPTI_SUCCESS) return false;
  bool all = true;
  for (CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                  CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET}) {
    all = c.cuptiActivityEnable(kind) == CUPTI_SUCCESS && all;
  }
  return all;
}

void Activity::driver_call(std::uint32_t correlation) { current_driver_call = correlation; }
void Activity::runtime_call(std::uint32_t correlation) { current_runtime_call = correlation; }

void Activity::submitted(std::uint32_t operation, Kind kind, const std::string& kernel) {
  std::lock_guard hold(lock_);
  if (calls_.size() >= most_calls) calls_.clear();
  auto add = [&](std::uint32_t correlation) {
    if (!correlation) return;
    Call& call = calls_[correlation];
    // Several operations of one call: which is which, nothing tells.
    const bool first = call.operation == 0;
    call = {first ? operation : ~0u, kind, kind == Kind::launch ? hash(kernel) : 0, round_};
  };
  add(current_driver_call);
  if (current_runtime_call != current_driver_call) add(current_runtime_call);
}

void Activity::write(trace::TraceWriter& writer, bool all) {
  if (all) cupti().cuptiActivityFlushAll(0);
  std::vector<trace::OperationTime> times;
  {
    std::lock_guard hold(lock_);
    ++round_;
    std::vector<Seen> later;
    for (Seen& seen : seen_) {
      auto known = calls_.find(seen.correlation);
      if (known == calls_.end()) {
        // The call has not returned yet, or is not the program's.
        if (!all && ++seen.looks < 2) later.push_back(seen);
        continue;
      }
      const Call call = known->second;
      calls_.erase(known);
      if (call.operation == ~0u || call.kind != seen.kind || (seen.kernel && seen.kernel != call.kernel)) {
        ++dropped_;
        continue;
      }
      times.push_back({call.operation, 0, seen.begin, seen.end});
    }
    seen_ = std::move(later);
    if (round_ % rounds == 0) {
      std::erase_if(calls_, [&](const auto& entry) { return entry.second.round + rounds < round_; });
    }
  }
  if (times.empty()) return;
  std::sort(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.operation < b.operation; });
  constexpr std::size_t a_chunk = 40'000;
  for (std::size_t at = 0; at < times.size(); at += a_chunk) {
    const std::span part = std::span(times).subspan(at, std::min(a_chunk, times.size() - at));
    writer.write_chunk(trace::times_chunk, {reinterpret_cast<const std::uint8_t*>(part.data()), part.size_bytes()});
  }
}

}  // namespace deadheat::cupti
