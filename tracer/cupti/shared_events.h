// Events that other processes may record and wait for, too (CUDA driver API, cuIpcGetEventHandle,
// cuIpcOpenEventHandle). What they do with them is in nobody's log of this process. So whoever waits for such an event
// counts as waiting for all that this process has recorded with any of them: another process may have waited for that
// before it recorded.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace deadheat::cupti {

class SharedEvents {
 public:
  struct Record {
    std::uint32_t event = 0, operation = 0;
  };

  void share(std::uint32_t event) { events_.insert(event); }
  void forget(std::uint32_t event) { events_.erase(event); }
  bool has(std::uint32_t event) const { return !events_.empty() && events_.count(event); }
  void recorded(std::uint32_t event, std::uint32_t stream, std::uint32_t operation) {
    if (has(event)) records_[stream] = {event, operation};
  }
  // The last of each stream: by it the stream's earlier ones are told, too.
  const std::map<std::uint32_t, Record>& records() const { return records_; }

 private:
  std::set<std::uint32_t> events_;
  std::map<std::uint32_t, Record> records_; // by stream
};

} // namespace deadheat::cupti
