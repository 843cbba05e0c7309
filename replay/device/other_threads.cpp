#include "replay/device/other_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "deadheat/own_files.h"

namespace deadheat::device {

namespace {

// Empty where there is none, or the thread that it is about has gone.
std::string contents(const std::string& path) {
  const int file = above_standard(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file < 0) return {};
  char text[1024];
  const ssize_t bytes = read(file, text, sizeof text);
  close(file);
  return bytes > 0 ? std::string(text, std::size_t(bytes)) : std::string();
}

} // namespace

void name_own_thread(std::thread& thread, const char* what) {
  pthread_setname_np(thread.native_handle(), (own_thread_prefix + std::string(what)).c_str());
}

OtherThreads::Times OtherThreads::now() {
  Times times;
  const std::string folder = "/proc/self/task/";
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(opendir(folder.c_str()), closedir);
  if (!threads) return {{}, false};
  const auto self = int(syscall(SYS_gettid));
  while (const dirent* entry = readdir(threads.get())) {
    const int thread = std::atoi(entry->d_name);
    if (thread <= 0 || thread == self) continue;
    const std::string of = folder + entry->d_name;
    if (contents(of + "/comm").starts_with(own_thread_prefix)) continue;
    // Of one that runs the time is as of some tick before. The state stands behind the name, which may hold anything.
    const std::string state = contents(of + "/stat"), time = contents(of + "/schedstat");
    const std::size_t name_end = state.rfind(')');
    if (time.empty() || name_end == std::string::npos || name_end + 2 >= state.size() || state[name_end + 2] == 'R')
      return {{}, false};
    times.run[thread] = std::strtoull(time.c_str(), nullptr, 10);
  }
  return times;
}

bool OtherThreads::have_run() const {
  const Times after = now();
  return !before_.known || !after.known || before_.run != after.run;
}

} // namespace deadheat::device
