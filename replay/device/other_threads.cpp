#include "replay/device/other_threads.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

namespace deadheat::device {

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
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
