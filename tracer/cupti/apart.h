// Another program, run to its end from inside of somebody's process, which does not notice.
//
// The process may be huge, have handlers for fork and for SIGCHLD, and wait for any of its children. So nothing is
// forked: no page tables are copied and no handlers of pthread_atfork run (clone(2), CLONE_VM and CLONE_VFORK). The
// program is not the process's child: between the two stands a child that ends without a signal, for which waitpid(-1)
// does not wait (wait(2), __WCLONE); it runs no program, since execve(2) makes the signal SIGCHLD again, but waits for
// the one that does. Both end with the process. The thread that calls waits in a way that handlers of signals
// interrupt, which it could not do within a vfork: another thread, which takes no signals, does that.
//
// The program starts as a new one expects: no signal blocked or ignored, a session of its own, no descriptors but five
// (0: /dev/null; 1 and 2: what it says; 3: input; 4: output, all three files in memory), no core dumps.
//
// Thread-safety: may be called by several threads at the same time.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace deadheat::cupti {

inline constexpr const char* apart_input = "/proc/self/fd/3";
inline constexpr const char* apart_output = "/proc/self/fd/4";

struct Program {
  std::string path;
  std::vector<std::string> arguments; // without its name
  std::vector<std::string> environment; // "NAME=value"
  std::string_view input;
  std::chrono::milliseconds most{}; // after which it is ended
};

struct Ended {
  enum class How {
    exited, // with a status
    by_signal, // that nobody here sent
    late, // it was ended
    not_begun, // no thread, process, descriptor or memory for it, or no such program
  };
  How how = How::not_begun;
  int status = 0; // exit status, signal, or errno
  std::string output;
  std::string said; // the first 16 KiB
};

Ended run_apart(const Program& program); // never throws but std::bad_alloc

} // namespace deadheat::cupti
