// Global memory in runs of pages that have one history: what copies, sets and opaque kernels touched, whole pages at
// once. An access costs by the runs that it meets, however long they are.
//
// Invariant: runs do not overlap.
// Thread-safety: none; also find() remembers where it looked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace deadheat::detect {

template <typename T>
class PageRuns {
 public:
  bool empty() const { return runs_.empty(); }
  std::uint64_t bytes() const { return runs_.size() * (sizeof(Run) + 48); } // 48: a node of the tree, about
  // The history of the page's run; null: it has none.
  T* find(std::uint64_t page) {
    if (runs_.empty()) return nullptr;
    if (page - recent_first_ >= recent_end_ - recent_first_) look_up(page);
    return recent_;
  }
  // Ends runs before that page, so that none has pages on both sides. Where one had, returns the history that was
  // copied.
  T* cut(std::uint64_t page) {
    const auto behind = runs_.lower_bound(page);
    if (behind == runs_.begin()) return nullptr;
    const auto at = std::prev(behind);
    if (at->second.end <= page) return nullptr;
    forget_recent();
    const auto rest = runs_.emplace_hint(behind, page, at->second);
    at->second.end = page;
    return &rest->second.history;
  }
  // Calls each(first, end, history) for the runs of those pages, in order. What has none gets one.
  template <typename Each>
  void over(std::uint64_t first, std::uint64_t end, Each&& each) {
    cut(first);
    cut(end);
    forget_recent();
    for (auto at = runs_.lower_bound(first); first < end; ++at) {
      if (at == runs_.end() || at->first > first)
        at = runs_.emplace_hint(at, first, Run{at == runs_.end() ? end : std::min(end, at->first), T()});
      each(at->first, at->second.end, at->second.history);
      first = at->second.end;
    }
  }
  // Runs of those pages, and the two beside them, that follow one another and have equal histories become one.
  void join(std::uint64_t first, std::uint64_t end) {
    forget_recent();
    auto at = runs_.upper_bound(first);
    if (at != runs_.begin()) --at;
    if (at != runs_.begin()) --at;
    while (at != runs_.end() && at->first <= end) {
      const auto next = std::next(at);
      if (next == runs_.end()) return;
      if (next->first == at->second.end && next->second.history == at->second.history) {
        at->second.end = next->second.end;
        runs_.erase(next);
      } else {
        at = next;
      }
    }
  }
  // Calls gone(history) for each run that goes.
  template <typename Gone>
  void erase(std::uint64_t first, std::uint64_t end, Gone&& gone) {
    forget_recent();
    for (auto at = runs_.lower_bound(first); at != runs_.end() && at->first < end; at = runs_.erase(at))
      gone(at->second.history);
  }
  template <typename Each>
  void each(Each&& each) {
    for (auto& [first, run] : runs_) each(run.history);
  }
  template <typename Each>
  void each(Each&& each) const {
    for (const auto& [first, run] : runs_) each(run.history);
  }

 private:
  struct Run {
    std::uint64_t end = 0; // a page
    T history;
  };
  void forget_recent() { recent_first_ = recent_end_ = 0; }
  // Remembers the page's run, or the pages between two.
  void look_up(std::uint64_t page) {
    const auto behind = runs_.upper_bound(page);
    recent_first_ = 0;
    recent_end_ = behind == runs_.end() ? ~std::uint64_t(0) : behind->first;
    recent_ = nullptr;
    if (behind == runs_.begin()) return;
    const auto at = std::prev(behind);
    recent_first_ = at->second.end;
    if (at->second.end <= page) return;
    recent_first_ = at->first;
    recent_end_ = at->second.end;
    recent_ = &at->second.history;
  }

  std::map<std::uint64_t, Run> runs_; // by their first page
  std::uint64_t recent_first_ = 0, recent_end_ = 0;
  T* recent_ = nullptr;
};

} // namespace deadheat::detect
