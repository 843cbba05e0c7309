// A line on a terminal that says how far a piece of work has come: drawn once it has taken two seconds, at most ten
// times a second, and taken away at the end.
//
// Thread-safety: one thread at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

namespace deadheat::tools {

class ProgressBar {
 public:
  using Clock = std::chrono::steady_clock;

  // Draws nothing unless `terminal`. Time begins now.
  explicit ProgressBar(std::FILE* out, bool terminal, std::function<Clock::time_point()> now = Clock::now)
      : out_(out), terminal_(terminal), now_(std::move(now)), begin_(now_()), drawn_(begin_) {}
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() {
    if (!visible_) return;
    std::fputs("\r\033[K", out_);
    std::fflush(out_);
  }

  // `share` of the work is done, 0 to 1; `what` is being done.
  void show(const std::string& what, double share) {
    using namespace std::chrono_literals;
    if (!terminal_) return;
    const Clock::time_point now = now_();
    if (now - begin_ < 2s || now - drawn_ < 100ms) return;
    drawn_ = now;
    visible_ = true;
    share = std::clamp(share, 0.0, 1.0);
    constexpr int width = 30;
    const int full = int(share * width);
    std::fprintf(out_, "\r\033[K%s [%s%s] %3d %%", what.c_str(), std::string(std::size_t(full), '#').c_str(),
                 std::string(std::size_t(width - full), ' ').c_str(), int(share * 100));
    std::fflush(out_);
  }

 private:
  std::FILE* const out_;
  const bool terminal_;
  const std::function<Clock::time_point()> now_;
  const Clock::time_point begin_;
  Clock::time_point drawn_;
  bool visible_ = false;
};

} // namespace deadheat::tools
