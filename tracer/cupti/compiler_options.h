// Options as NVRTC and nvJitLink are given them, functions as they are looked up, and what is known of both.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace deadheat::cupti {

template <typename Function>
void set_function(Function*& to, void* function) {
  to = reinterpret_cast<Function*>(function);
}

// Throws where one of them is null.
inline std::vector<const char*> compiler_options(std::int64_t count, const char* const* options) {
  if (!options || count <= 0) return {};
  std::vector<const char*> all(options, options + count);
  if (std::find(all.begin(), all.end(), nullptr) != all.end()) throw std::invalid_argument("no option");
  return all;
}

// The least that any of them says: --maxrregcount=N, -maxrregcount N (NVRTC 3.1, "Supported Compile Options"), and the
// same among ptxas' options (-Xptxas=-maxrregcount=N). 0: not limited.
inline unsigned max_registers(const std::vector<const char*>& options) {
  std::string all;
  for (const char* option : options) all.append(option).push_back(' ');
  const std::string name = "maxrregcount";
  unsigned least = 0;
  for (std::size_t at = all.find(name); at != std::string::npos; at = all.find(name, at)) {
    at = all.find_first_not_of("= ", at + name.size());
    if (at == std::string::npos) break;
    const unsigned most = unsigned(std::strtoul(all.c_str() + at, nullptr, 10));
    if (most && (!least || most < least)) least = most;
  }
  return least;
}

// What all threads know, under a lock that a fork leaves free in the child. Never destroyed: threads may use it while
// the process ends.
template <typename Known>
class SharedKnowledge {
 public:
  static SharedKnowledge& get() {
    static SharedKnowledge& all = *[] {
      pthread_atfork([] { get().lock.lock(); }, [] { get().lock.unlock(); }, [] { get().lock.unlock(); });
      return new SharedKnowledge;
    }();
    return all;
  }

  std::mutex lock; // nobody who holds it takes another
  Known known;
};

} // namespace deadheat::cupti
