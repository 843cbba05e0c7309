#include "tracer/cupti/nvtx.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "tracer/cupti/layers.h"
#include "tracer/cupti/recorder.h"
#include "tracer/cupti/session.h"
#include "tracer/cupti/thread.h"

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

constexpr std::size_t most_ranges = 64;  // inside one another; reports do not name deeper ones
constexpr std::size_t most_names = 100'000;

std::atomic<std::size_t> names_made{0};

// A range inside of others. Each thread has a tree of them, so that a range that comes again costs a look-up. Never
// destroyed: what was launched in it is written later, and exit handlers of the program may still come here.
struct Range {
  std::string name, path;
  Range* outer = nullptr;
  std::map<std::string, std::unique_ptr<Range>, std::less<>> inner;

  Range* inside(const char* what) {  // null: there are too many
    auto found = inner.find(std::string_view(what));
    if (found != inner.end()) return found->second.get();
    if (names_made.fetch_add(1, std::memory_order_relaxed) >= most_names) return nullptr;
    auto made = std::make_unique<Range>();
    made->name = what;
    made->path = outer ? path + " / " + what : what;
    made->outer = this;
    return (inner[what] = std::move(made)).get();
  }
};

}  // namespace

struct Ranges {  // of a thread
  Range none;
  Range* now = &none;
  std::size_t depth = 0;
  std::vector<std::string> deeper;  // ranges inside of it that reports do not name
};

void reset(Ranges& ranges) {
  ranges.now = &ranges.none;
  ranges.depth = 0;
  ranges.deeper.clear();
}

namespace {

Ranges& ranges() { return own(here.ranges); }

void captured(std::string_view name, bool begins) {
  Session* session = Session::get();
  if (!session) return;
  constexpr std::string_view prefix = "nvtx=";
  const std::string_view wanted = session->options().capture_range;
  if (wanted.substr(0, prefix.size()) != prefix || wanted.substr(prefix.size()) != name) return;
  session->recorder().capture_range(session->options().capture_range, begins);
}

int push(const char* name) noexcept try {
  if (!layer_on(Layer::ranges)) return 0;
  Ranges& mine = ranges();
  if (!name) name = "";
  Range* inner = mine.deeper.empty() && mine.depth < most_ranges ? mine.now->inside(name) : nullptr;
  if (inner) {
    mine.now = inner;
    ++mine.depth;
  } else {
    mine.deeper.emplace_back(name);
  }
  captured(name, true);
  return int(mine.depth + mine.deeper.size()) - 1;
} catch (...) {
  return 0;
}

int pop() noexcept try {
  if (!layer_on(Layer::ranges)) return 0;
  Ranges& mine = ranges();
  if (!mine.deeper.empty()) {
    captured(mine.deeper.back(), false);
    mine.deeper.pop_back();
  } else if (!mine.depth) {
    return -1;
  } else {
    const Range& ended = *mine.now;
    mine.now = ended.outer;
    --mine.depth;
    captured(ended.name, false);
  }
  return int(mine.depth + mine.deeper.size());
} catch (...) {
  return 0;
}

// Ranges that may end on another thread: they say what is captured, and belong to no launch.
std::mutex& started_lock = *new std::mutex;
auto& started = *new std::map<std::uint64_t, std::string>;

std::uint64_t start(const char* name) noexcept try {
  if (!layer_on(Layer::ranges)) return 0;
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
  if (!layer_on(Layer::ranges)) return;
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
  if (!layer_on(Layer::ranges)) return nullptr;
  static std::mutex& lock = *new std::mutex;
  static auto& names = *new std::set<std::string>;
  std::lock_guard hold(lock);
  return names.size() < most_names ? names.insert(name ? name : "").first->c_str() : nullptr;
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

[[gnu::hot]] const std::string* nvtx_ranges() {
  return here.ranges && here.ranges->depth ? &here.ranges->now->path : nullptr;
}

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
