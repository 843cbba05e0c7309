#include "tracer/cupti/nvtx.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "tracer/cupti/recorder.h"
#include "tracer/cupti/session.h"

namespace deadheat::cupti {

namespace {

// What the headers of NVTX 3 agree on with such a library.
using Function = void (*)();
struct Callbacks {
  std::size_t bytes;
  int (*module_table)(int module, Function*** table, unsigned* size);
};
struct Attributes {  // nvtxEventAttributes_t, version 2
  std::uint16_t version, bytes;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type, reserved;
  std::uint64_t payload;
  std::int32_t message_type;
  const char* message;
};
enum : int { exported_callbacks = 1, core = 1, core2 = 5, text = 1, registered = 3 };
enum Core : int { start_ex = 4, start_a = 5, range_end = 7, push_ex = 8, push_a = 9, pop_core = 11 };
enum Core2 : int { domain_start = 2, domain_end = 3, domain_push = 4, domain_pop = 5, register_a = 10, create_a = 12 };

constexpr std::size_t most_ranges = 64;  // inside one another; deeper ones are counted, and not named
constexpr std::size_t most_names = 100'000;

// Never destroyed: exit handlers of the program may still come here.
const std::string* keep(const std::string& name) {
  static std::mutex& lock = *new std::mutex;
  static auto& names = *new std::set<std::string>;
  std::lock_guard hold(lock);
  if (names.size() >= most_names) return nullptr;
  return &*names.insert(name).first;
}

struct Ranges {
  std::vector<std::string> names;
  std::size_t deeper = 0;
  const std::string* path = nullptr;
  void changed() {
    std::string joined;
    for (const std::string& name : names) joined += (joined.empty() ? "" : " / ") + name;
    path = names.empty() ? nullptr : keep(joined);
  }
};
Ranges& ranges() {
  static thread_local auto* mine = new Ranges;
  return *mine;
}

void captured(const std::string& name, bool begins) {
  if (Session* session = Session::get()) session->recorder().capture_range("nvtx=" + name, begins);
}

int push(const char* name) noexcept try {
  Ranges& mine = ranges();
  if (mine.names.size() == most_ranges) {
    ++mine.deeper;
  } else {
    mine.names.emplace_back(name ? name : "");
    mine.changed();
    captured(mine.names.back(), true);
  }
  return int(mine.names.size() + mine.deeper) - 1;
} catch (...) {
  return 0;
}

int pop() noexcept try {
  Ranges& mine = ranges();
  if (mine.deeper) {
    --mine.deeper;
  } else if (mine.names.empty()) {
    return -1;
  } else {
    captured(mine.names.back(), false);
    mine.names.pop_back();
    mine.changed();
  }
  return int(mine.names.size() + mine.deeper);
} catch (...) {
  return 0;
}

// Ranges that may end on another thread: they say what is captured, and belong to no launch.
std::mutex& started_lock = *new std::mutex;
auto& started = *new std::map<std::uint64_t, std::string>;

std::uint64_t start(const char* name) noexcept try {
  static std::atomic<std::uint64_t> next{1};
  const std::uint64_t id = next++;
  {
    std::lock_guard hold(started_lock);
    if (started.size() < most_names) started[id] = name ? name : "";
  }
  captured(name ? name : "", true);
  return id;
} catch (...) {
  return 0;
}

void end(std::uint64_t id) noexcept try {
  std::string name;
  {
    std::lock_guard hold(started_lock);
    auto found = started.find(id);
    if (found == started.end()) return;
    name = std::move(found->second);
    started.erase(found);
  }
  captured(name, false);
} catch (...) {
}

const char* message_of(const Attributes* a) {
  return a && a->bytes >= sizeof(Attributes) && (a->message_type == text || a->message_type == registered) ? a->message
                                                                                                           : nullptr;
}
int push_attributes(const Attributes* a) { return push(message_of(a)); }
std::uint64_t start_attributes(const Attributes* a) { return start(message_of(a)); }
int push_in_domain(void*, const Attributes* a) { return push(message_of(a)); }
std::uint64_t start_in_domain(void*, const Attributes* a) { return start(message_of(a)); }
int pop_in_domain(void*) { return pop(); }
void end_in_domain(void*, std::uint64_t id) { end(id); }
const void* register_text(void*, const char* name) noexcept try {  // a handle: the text itself
  const std::string* kept = keep(name ? name : "");
  return kept ? kept->c_str() : nullptr;
} catch (...) {
  return nullptr;
}
void* create_domain(const char*) {
  static char domain;
  return &domain;
}

template <typename F>
void put(Function** table, unsigned size, int id, F function) {
  if (unsigned(id) < size && table[id]) *table[id] = reinterpret_cast<Function>(function);
}

}  // namespace

const std::string* nvtx_ranges() { return ranges().path; }

}  // namespace deadheat::cupti

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*get_table)(std::uint32_t)) {
  using namespace deadheat::cupti;
  const auto* callbacks = static_cast<const Callbacks*>(get_table(exported_callbacks));
  if (!callbacks || callbacks->bytes < sizeof(Callbacks)) return 0;
  Function** table = nullptr;
  unsigned size = 0;
  if (callbacks->module_table(core, &table, &size)) {
    put(table, size, push_a, push);
    put(table, size, push_ex, push_attributes);
    put(table, size, pop_core, pop);
    put(table, size, start_a, start);
    put(table, size, start_ex, start_attributes);
    put(table, size, range_end, end);
  }
  if (callbacks->module_table(core2, &table, &size)) {
    put(table, size, domain_push, push_in_domain);
    put(table, size, domain_pop, pop_in_domain);
    put(table, size, domain_start, start_in_domain);
    put(table, size, domain_end, end_in_domain);
    put(table, size, register_a, register_text);
    put(table, size, create_a, create_domain);
  }
  return 1;
}
