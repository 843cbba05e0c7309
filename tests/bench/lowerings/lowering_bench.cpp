// Compares three ways to make a thread of compiled code resumable (RESULTS.md). Every figure is the least of several
// repeats, and is printed beside its ratio to the engine's choice, way (c), in the same run.
//   lowering_bench [seconds that one compilation may take, default 60]
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "lowering.h"

using namespace lowering;
namespace context = boost::context::detail;

namespace {

constexpr std::size_t stack_bytes = 64 << 10;
constexpr std::int64_t endless = std::int64_t(1) << 62;
constexpr unsigned points = 64;  // of the kernels that run

double now() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processor_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

template <typename F>
double least(unsigned repeats, F&& once) {
  double best = 1e300;
  for (unsigned n = 0; n < repeats; ++n) best = std::min(best, once());
  return best;
}

// ---- what compiled code calls

void* allocate(Thread* t, std::uint64_t bytes) {
  void* memory = t->memory + t->used;
  t->used += (bytes + 15) & ~std::uint64_t(15);
  return memory;
}
void release(Thread* t, void* memory) { t->used = std::size_t(static_cast<char*>(memory) - t->memory); }
void switch_out(Thread* t) { t->scheduler = context::jump_fcontext(t->scheduler, nullptr).fctx; }
const Services services{allocate, release, switch_out};

// ---- a function to run as a thread: `kernel`, or `nest` to a depth

struct Entry {
  void* code = nullptr;
  int depth = -1;
};
Entry fiber_entry;  // what new fibers run

struct Plain {
  static void create(Thread&, const Entry&) {}
  static void step(Thread& t, const Entry& e) {
    if (e.depth < 0)
      reinterpret_cast<void (*)(Thread*)>(e.code)(&t);
    else
      reinterpret_cast<void (*)(Thread*, int)>(e.code)(&t, e.depth);
    t.done = 1;
  }
};

struct Coroutine {
  static void create(Thread& t, const Entry& e) {
    t.used = 0;
    t.handle = e.depth < 0 ? reinterpret_cast<void* (*)(Thread*)>(e.code)(&t)
                           : reinterpret_cast<void* (*)(Thread*, int)>(e.code)(&t, e.depth);
  }
  static void step(Thread& t, const Entry&) {
    auto* resume = static_cast<void (**)(void*)>(t.handle);
    (*resume)(t.handle);
    if (!*resume) t.done = 1;  // at its final suspension
  }
};

void run_fiber(context::transfer_t from) {
  Thread& t = *static_cast<Thread*>(from.data);
  t.scheduler = from.fctx;
  Plain::step(t, fiber_entry);
  context::jump_fcontext(t.scheduler, nullptr);
}

struct Fiber {
  static void create(Thread& t, const Entry& e) {
    fiber_entry = e;
    t.handle = context::make_fcontext(t.memory + stack_bytes, stack_bytes, run_fiber);
  }
  static void step(Thread& t, const Entry&) { t.handle = context::jump_fcontext(t.handle, &t).fctx; }
};

struct Machine {
  static void create(Thread& t, const Entry& e) {
    const std::int32_t head[2] = {0, e.depth};
    std::memcpy(t.memory, head, sizeof head);
  }
  static void step(Thread& t, const Entry& e) {
    if (reinterpret_cast<int (*)(Thread*, void*)>(e.code)(&t, t.memory) == 0) t.done = 1;
  }
};

// ---- threads and their memory

class Fleet {
 public:
  Fleet(std::size_t threads, std::size_t bytes, int iterations) : bytes_(threads * bytes), threads_(threads) {
    void* got = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) std::perror("mmap"), std::exit(1);
    memory_ = static_cast<char*>(got);
    for (std::size_t n = 0; n < threads; ++n) {
      Thread& t = threads_[n];
      t.exec = &exec;
      t.seed = std::uint32_t(n * 2654435761u + 12345);
      t.iterations = iterations;
      t.memory = memory_ + n * bytes;
    }
  }
  ~Fleet() { munmap(memory_, bytes_); }
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;
  Thread& operator[](std::size_t n) { return threads_[n]; }
  std::size_t size() const { return threads_.size(); }
  Exec exec;

 private:
  std::size_t bytes_;
  std::vector<Thread> threads_;
  char* memory_ = nullptr;
};

struct Subject {
  const char* name;
  Way way;
  Effort effort;
  Code code{};
  std::size_t state = 0;   // bytes that a suspended thread needs
};

template <typename F>
auto dispatch(Way way, F&& f) {
  switch (way) {
    case Way::coroutine: return f(Coroutine{});
    case Way::fiber: return f(Fiber{});
    case Way::none: return f(Plain{});
    default: return f(Machine{});
  }
}

std::size_t spacing(const Subject& s, bool nested) {
  return s.way == Way::fiber || nested ? stack_bytes : (s.state + 63) / 64 * 64;
}

void stop_once(auto run, Thread& t, const Entry& e) {
  t.exec->quantum = 0;
  run.step(t, e);
}

std::uint32_t finish(auto run, Thread& t, const Entry& e, std::int64_t quantum) {
  while (!t.done) {
    t.exec->quantum = quantum;
    run.step(t, e);
  }
  return t.result;
}

// ns of one suspend and resume.
double round_robin(const Subject& s, const Entry& e, std::size_t threads, bool staggered) {
  return dispatch(s.way, [&](auto run) {
    Fleet fleet(threads, spacing(s, e.depth >= 0), 1 << 30);
    for (std::size_t n = 0; n < threads; ++n) {
      run.create(fleet[n], e);
      for (std::size_t k = 0; k <= (staggered ? n * 7 % points : 0); ++k) stop_once(run, fleet[n], e);
    }
    const std::size_t rounds = 16384 / threads;
    return least(150, [&] {
      double from = now();
      for (std::size_t r = 0; r < rounds; ++r)
        for (std::size_t n = 0; n < threads; ++n) stop_once(run, fleet[n], e);
      return (now() - from) / double(rounds * threads);
    });
  });
}

// ns of a point, with its arithmetic, that does not suspend.
double pass_through(const Subject& s) {
  return dispatch(s.way, [&](auto run) {
    const int iterations = 1000;
    Fleet fleet(1, stack_bytes, iterations);
    const Entry e{s.code.kernel};
    return least(100, [&] {
      fleet[0].done = 0;
      run.create(fleet[0], e);
      double from = now();
      finish(run, fleet[0], e, endless);
      return (now() - from) / (double(iterations) * points);
    });
  });
}

// ns to make a thread and bring it to its first point, in memory that is there already.
double creation(const Subject& s) {
  return dispatch(s.way, [&](auto run) {
    Fleet fleet(1024, spacing(s, false), 1);
    const Entry e{s.code.kernel};
    return least(100, [&] {
      double from = now();
      for (std::size_t n = 0; n < fleet.size(); ++n) {
        run.create(fleet[n], e);
        stop_once(run, fleet[n], e);
      }
      return (now() - from) / double(fleet.size());
    });
  });
}

double fresh_stack() {
  return least(15, [] {
    double from = now();
    for (int n = 0; n < 256; ++n) {
      void* got = mmap(nullptr, stack_bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (got == MAP_FAILED || mprotect(got, 4096, PROT_NONE) != 0) std::perror("stack"), std::exit(1);
      *(static_cast<volatile char*>(got) + stack_bytes) = 1;
      munmap(got, stack_bytes + 4096);
    }
    return (now() - from) / 256;
  });
}

// A thread's state in memory, while it is suspended.
struct Span {
  char* from;
  std::size_t bytes;
};
Span span_of(Way way, const Thread& t, int depth) {
  if (way == Way::fiber) {
    char* top = t.memory + stack_bytes;
    return {static_cast<char*>(t.handle), std::size_t(top - static_cast<char*>(t.handle))};
  }
  return {t.memory, way == Way::coroutine ? t.used : frame_bytes * std::size_t(depth < 0 ? 1 : depth + 1)};
}

double copy(const Subject& s) {
  return dispatch(s.way, [&](auto run) {
    Fleet fleet(1024, spacing(s, false), 1 << 30);
    const Entry e{s.code.kernel};
    for (std::size_t n = 0; n < fleet.size(); ++n) run.create(fleet[n], e), stop_once(run, fleet[n], e);
    std::vector<char> copies(fleet.size() * 1024);
    return least(100, [&] {
      double from = now();
      for (std::size_t n = 0; n < fleet.size(); ++n) {
        Span state = span_of(s.way, fleet[n], -1);
        std::memcpy(copies.data() + n * 1024, state.from, std::min<std::size_t>(state.bytes, 1024));
        asm volatile("" : : "r"(copies.data()) : "memory");
      }
      return (now() - from) / double(fleet.size());
    });
  });
}

// Whether a thread copied half way, then run to its end, goes on from the copy as it did the first time. `moved`: the
// copy goes on at another address, and the original memory is overwritten.
bool copy_works(const Subject& s, const Entry& e, bool moved) {
  return dispatch(s.way, [&](auto run) {
    Fleet fleet(1, stack_bytes, 3);
    Fleet other(1, stack_bytes, 3);
    Thread& t = fleet[0];
    run.create(t, e);
    for (int k = 0; k < 2; ++k) stop_once(run, t, e);
    Span state = span_of(s.way, t, e.depth);
    std::vector<char> kept(state.from, state.from + state.bytes);
    const Thread before = t;
    std::uint32_t first = finish(run, t, e, 0);
    t = before;
    if (moved) {
      std::memset(state.from, 0x11, state.bytes);
      t.memory = other[0].memory;
      if (t.handle) t.handle = t.memory + (static_cast<char*>(before.handle) - before.memory);
      state.from = t.memory + (state.from - before.memory);
    }
    std::memcpy(state.from, kept.data(), kept.size());
    return finish(run, t, e, 0) == first;
  });
}

// The result of thread 5, stopping at each point or at none.
std::uint32_t result(const Subject& s, const Entry& e, std::int64_t quantum) {
  return dispatch(s.way, [&](auto run) {
    Fleet fleet(6, stack_bytes, 3);
    run.create(fleet[5], e);
    return finish(run, fleet[5], e, quantum);
  });
}

void check_results(const Subject& s, const Subject& plain) {
  for (int depth : {-1, 0, 4, 100}) {
    Entry e{depth < 0 ? s.code.kernel : s.code.nest, depth}, p{depth < 0 ? plain.code.kernel : plain.code.nest, depth};
    for (std::int64_t quantum : {std::int64_t(0), std::int64_t(2), endless})
      if (result(s, e, quantum) != result(plain, p, endless)) {
        std::fprintf(stderr, "lowering_bench: %s gives a wrong result (depth %d)\n", s.name, depth);
        std::exit(1);
      }
  }
}

// ---- compile time: each compilation in a process of its own, which may be ended

double compile_seconds(Way way, Effort effort, unsigned size, unsigned limit, std::size_t& object_bytes) {
  int ends[2];
  if (pipe(ends) != 0) std::perror("pipe"), std::exit(1);
  pid_t child = fork();
  if (child == 0) {
    rlimit most{limit, limit};
    setrlimit(RLIMIT_CPU, &most);
    Unit unit = generate(way, size, services);
    double from = processor_seconds();
    Code code = compile(std::move(unit), way, effort, false);
    double answer[2] = {processor_seconds() - from, double(code.object_bytes)};
    _exit(write(ends[1], answer, sizeof answer) == ssize_t(sizeof answer) ? 0 : 1);
  }
  close(ends[1]);
  double answer[2] = {-1, 0};
  if (read(ends[0], answer, sizeof answer) != ssize_t(sizeof answer)) answer[0] = -1;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  object_bytes = std::size_t(answer[1]);
  return answer[0];
}

void compile_times(unsigned limit) {
  struct Row {
    const char* name;
    Way way;
    Effort effort;
  };
  const Row rows[] = {
      {"(c)  engine's list", Way::saved, Effort::brief},
      {"(c2) engine's list", Way::framed, Effort::brief},
      {"(c)  engine's quick list", Way::saved, Effort::quick},
      {"(c2) engine's quick list", Way::framed, Effort::quick},
      {"(c)  O1", Way::saved, Effort::o1},
      {"(b)  engine's list", Way::fiber, Effort::brief},
      {"(b)  quick list", Way::fiber, Effort::quick},
      {"(a)  engine's list", Way::coroutine, Effort::brief},
      {"(a)  O1", Way::coroutine, Effort::o1},
      {"(a)  O2", Way::coroutine, Effort::o2},
      {"no points, engine's list", Way::none, Effort::brief},
  };
  std::printf("\ncompile time in processor seconds (ratio to (c) with the engine's list) and object KiB\n%-28s",
              "points");
  constexpr int count = 4;
  const unsigned sizes[count] = {500, 1000, 4000, 8000};
  for (unsigned size : sizes) std::printf(" | %22u", size);
  std::printf("\n");
  double base[count] = {};
  for (const Row& row : rows) {
    std::printf("%-28s", row.name);
    bool slow = false;
    for (int n = 0; n < count; ++n) {
      std::size_t object = 0;
      double seconds = -1;
      if (!slow) {
        seconds = compile_seconds(row.way, row.effort, sizes[n], limit, object);
        for (int again = 0; again < 2 && seconds >= 0 && seconds < 1; ++again) {
          double other = compile_seconds(row.way, row.effort, sizes[n], limit, object);
          if (other >= 0) seconds = std::min(seconds, other);
        }
      }
      if (&row == rows) base[n] = seconds;
      if (seconds < 0)
        std::printf(" | %22s", slow ? "not tried" : ("> " + std::to_string(limit) + " s").c_str());
      else if (base[n] < 0)
        std::printf(" | %6.2f         %7zu", seconds, object >> 10);
      else
        std::printf(" | %6.2f (%5.2f) %7zu", seconds, seconds / base[n], object >> 10);
      std::fflush(stdout);
      slow = slow || seconds < 0;
    }
    std::printf("\n");
  }
}

// ---- the tables

void row(const char* what, const std::vector<double>& values, std::size_t base) {
  std::printf("%-44s", what);
  for (double v : values) std::printf(" | %8.2f (%6.2f)", v, v / values[base]);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned limit = argc > 1 ? unsigned(std::atoi(argv[1])) : 60;
  Subject plain{"none", Way::none, Effort::brief};
  plain.code = compile(generate(Way::none, points, services), Way::none, Effort::brief, true);
  std::vector<Subject> subjects{{"(a) O2", Way::coroutine, Effort::o2},    {"(a) list", Way::coroutine, Effort::brief},
                                {"(b) list", Way::fiber, Effort::brief},   {"(c) list", Way::saved, Effort::brief},
                                {"(c2) list", Way::framed, Effort::brief}, {"(c2) quick", Way::framed, Effort::quick}};
  const std::size_t base = 3;
  for (Subject& s : subjects) {
    s.code = compile(generate(s.way, points, services), s.way, s.effort, true);
    check_results(s, plain);
    dispatch(s.way, [&](auto run) {
      Fleet fleet(1, stack_bytes, 3);
      run.create(fleet[0], Entry{s.code.kernel});
      stop_once(run, fleet[0], Entry{s.code.kernel});
      s.state = span_of(s.way, fleet[0], -1).bytes;
    });
  }
  std::printf("results agree in all ways, with recursion to depth 100\n\n%-44s", "ns (ratio to (c))");
  for (const Subject& s : subjects) std::printf(" | %-17s", s.name);
  std::printf("\n");
  auto each = [&](const char* what, auto measure) {
    std::vector<double> values;
    for (const Subject& s : subjects) values.push_back(measure(s));
    row(what, values, base);
  };
  auto kernel = [](const Subject& s) { return Entry{s.code.kernel}; };
  each("suspend and resume, 32 threads", [&](auto& s) { return round_robin(s, kernel(s), 32, false); });
  each("suspend and resume, 1024 threads", [&](auto& s) { return round_robin(s, kernel(s), 1024, false); });
  each("the same, threads at different points", [&](auto& s) { return round_robin(s, kernel(s), 1024, true); });
  each("a point that does not suspend", [&](auto& s) { return pass_through(s); });
  each("creation, to the first point", [&](auto& s) { return creation(s); });
  each("state bytes in use at the first point", [&](auto& s) { return double(s.state); });
  each("copying the state", [&](auto& s) { return copy(s); });
  for (int depth : {0, 4}) {
    std::string what = "suspend under " + std::to_string(depth) + " calls, 32 threads";
    each(what.c_str(), [&](auto& s) { return round_robin(s, Entry{s.code.nest, depth}, 32, false); });
  }
  std::printf(
      "arithmetic of a point alone: %.2f ns; (b) adds %zu KiB of stack reserved a thread, and %.0f ns a thread "
      "when stacks with a guard page are made anew\n",
      pass_through(plain), stack_bytes >> 10, fresh_stack());
  for (const Subject& s : subjects) {
    auto answer = [&](const Entry& e, bool moved) {
      // A fiber's stack, and a coroutine's frame that names its callee's, point into themselves: not even tried.
      if (moved && (s.way == Way::fiber || (s.way == Way::coroutine && e.depth > 0))) return "no";
      return copy_works(s, e, moved) ? "yes" : "NO";
    };
    std::printf("%-10s copy resumes in place: %s, at another address: %s; under 4 calls: %s, %s\n", s.name,
                answer({s.code.kernel}, false), answer({s.code.kernel}, true), answer({s.code.nest, 4}, false),
                answer({s.code.nest, 4}, true));
  }
  compile_times(limit);
}
