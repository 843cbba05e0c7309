// Has any thread of this process but the caller run for a while? Where none has, what changed in the meantime is the
// caller's doing. By what Linux says of each thread in /proc/self/task (proc(5): stat, schedstat); threads whose names
// begin with own_thread_prefix are deadheat's, and do not count.
//
// Thread-safety: none is needed; an object is its thread's.
#pragma once

#include <cstdint>
#include <map>
#include <thread>

namespace deadheat::device {

inline constexpr char own_thread_prefix[] = "deadheat-";
// By whoever makes the thread, so that it has its name before it runs. Six letters at most: names have fifteen.
void name_own_thread(std::thread& thread, const char* what);

class OtherThreads {
 public:
  OtherThreads() : before_(now()) {} // the while begins
  bool have_run() const; // since; true also where nobody can tell

 private:
  struct Times {
    std::map<int, std::uint64_t> run; // nanoseconds on a processor, of each that waits for something
    bool known = true; // and none is running, or may at any time
  };
  static Times now();

  Times before_;
};

} // namespace deadheat::device
