// Preloaded in front of the runtime, to take one of the calls away by which a program orders its device's work.
//
// Calls are numbered as they come. MUTATE_LIST=FILE writes them there, one a line: its number, its name, and what can
// be done to it, drop (a wait, an event's record, edges of a graph), stream (the work goes to a stream of its own,
// which waits for nobody) or nothing. MUTATE_CALL=NUMBER does it to that call.
//
// Thread-safety: may be called by any thread; the numbers are in the order of the calls.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// As the runtime's headers have them; these are read without a toolkit.
using Stream = void*;
struct Extent {
  unsigned x, y, z;
};
struct LaunchConfig {
  Extent grid, block;
  std::size_t shared_bytes;
  Stream stream;
  void* attributes;
  unsigned attribute_count;
};
constexpr unsigned non_blocking = 1; // cudaStreamNonBlocking
constexpr int default_kind = 4;      // cudaMemcpyDefault

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Is this the call to mutate?
bool chosen(const char* name, const char* what) {
  static std::atomic<long> count{0};
  static std::FILE* const list = std::getenv("MUTATE_LIST") ? std::fopen(std::getenv("MUTATE_LIST"), "w") : nullptr;
  static const long wanted = std::getenv("MUTATE_CALL") ? std::atol(std::getenv("MUTATE_CALL")) : 0;
  const long number = ++count;
  if (list) {
    std::fprintf(list, "%ld %s %s\n", number, name, what);
    std::fflush(list);
  }
  return number == wanted;
}

Stream other_stream() {
  static Stream const stream = [] {
    Stream made = nullptr;
    next<int(Stream*, unsigned)>("cudaStreamCreateWithFlags")(&made, non_blocking);
    return made;
  }();
  return stream;
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Calls that only order: gone, and said to have succeeded. The second form is of programs whose default stream is each
// thread's own.
#define DROPPED(name, parameters, arguments)      \
  EXPORT int name parameters {                    \
    if (chosen(#name, "drop")) return 0;          \
    return next<int parameters>(#name) arguments; \
  }
DROPPED(cudaDeviceSynchronize, (), ())
DROPPED(cudaEventSynchronize, (void* event), (event))
#define BOTH_DROPPED(name, parameters, arguments) \
  DROPPED(name, parameters, arguments)            \
  DROPPED(name##_ptsz, parameters, arguments)
BOTH_DROPPED(cudaStreamSynchronize, (Stream stream), (stream))
BOTH_DROPPED(cudaStreamWaitEvent, (Stream stream, void* event, unsigned flags), (stream, event, flags))
BOTH_DROPPED(cudaEventRecord, (void* event, Stream stream), (event, stream))
// A query that succeeds orders as a wait does; one that is gone succeeds at once.
DROPPED(cudaEventQuery, (void* event), (event))
BOTH_DROPPED(cudaStreamQuery, (Stream stream), (stream))

// Work: goes to another stream.
#define MOVED(name, parameters, arguments)                \
  EXPORT int name parameters {                            \
    if (chosen(#name, "stream")) stream = other_stream(); \
    return next<int parameters>(#name) arguments;         \
  }
#define BOTH_MOVED(name, parameters, arguments) \
  MOVED(name, parameters, arguments)            \
  MOVED(name##_ptsz, parameters, arguments)
BOTH_MOVED(cudaLaunchKernel,
           (const void* kernel, Extent grid, Extent block, void** values, std::size_t shared, Stream stream),
           (kernel, grid, block, values, shared, stream))
BOTH_MOVED(cudaLaunchCooperativeKernel,
           (const void* kernel, Extent grid, Extent block, void** values, std::size_t shared, Stream stream),
           (kernel, grid, block, values, shared, stream))
BOTH_MOVED(cudaMemcpyAsync, (void* to, const void* from, std::size_t bytes, int kind, Stream stream),
           (to, from, bytes, kind, stream))
BOTH_MOVED(cudaMemsetAsync, (void* to, int value, std::size_t bytes, Stream stream), (to, value, bytes, stream))
BOTH_MOVED(cudaMemcpy2DAsync,
           (void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
            std::size_t height, int kind, Stream stream),
           (to, to_pitch, from, from_pitch, width, height, kind, stream))
BOTH_MOVED(cudaMemcpyToSymbolAsync,
           (const void* symbol, const void* from, std::size_t bytes, std::size_t offset, int kind, Stream stream),
           (symbol, from, bytes, offset, kind, stream))
BOTH_MOVED(cudaMemcpyFromSymbolAsync,
           (void* to, const void* symbol, std::size_t bytes, std::size_t offset, int kind, Stream stream),
           (to, symbol, bytes, offset, kind, stream))
BOTH_MOVED(cudaMallocAsync, (void** memory, std::size_t bytes, Stream stream), (memory, bytes, stream))
BOTH_MOVED(cudaFreeAsync, (void* memory, Stream stream), (memory, stream))
BOTH_MOVED(cudaLaunchHostFunc, (Stream stream, void (*function)(void*), void* data), (stream, function, data))
BOTH_MOVED(cudaGraphLaunch, (void* graph, Stream stream), (graph, stream))

#define MOVED_CONFIG(name)                                                                     \
  EXPORT int name(const LaunchConfig* config, const void* kernel, void** values) {             \
    LaunchConfig moved = *config;                                                              \
    if (chosen(#name, "stream")) moved.stream = other_stream();                                \
    return next<int(const LaunchConfig*, const void*, void**)>(#name)(&moved, kernel, values); \
  }
BOTH_MOVED(__cudaLaunchKernel,
           (void* kernel, Extent grid, Extent block, void** values, std::size_t shared, Stream stream),
           (kernel, grid, block, values, shared, stream))

MOVED_CONFIG(cudaLaunchKernelExC)
MOVED_CONFIG(cudaLaunchKernelExC_ptsz)

// Copies and sets that wait: go to another stream, and nobody waits.
EXPORT int cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  if (chosen("cudaMemcpy", "stream")) {
    return next<int(void*, const void*, std::size_t, int, Stream)>("cudaMemcpyAsync")(to, from, bytes, default_kind,
                                                                                      other_stream());
  }
  return next<int(void*, const void*, std::size_t, int)>("cudaMemcpy")(to, from, bytes, kind);
}
EXPORT int cudaMemset(void* to, int value, std::size_t bytes) {
  if (chosen("cudaMemset", "stream")) {
    return next<int(void*, int, std::size_t, Stream)>("cudaMemsetAsync")(to, value, bytes, other_stream());
  }
  return next<int(void*, int, std::size_t)>("cudaMemset")(to, value, bytes);
}

// Nodes of graphs: without the edges that lead to them.
#define WITHOUT_EDGES(name, more_parameters, more_arguments)                                                \
  EXPORT int name(void** node, void* graph, const void* before, std::size_t count more_parameters) {        \
    if (chosen(#name, count ? "drop" : "nothing")) count = 0;                                               \
    return next<int(void**, void*, const void*, std::size_t more_parameters)>(#name)(node, graph, before,   \
                                                                                     count more_arguments); \
  }
#define COMMA ,
WITHOUT_EDGES(cudaGraphAddKernelNode, COMMA const void* what, COMMA what)
WITHOUT_EDGES(cudaGraphAddMemcpyNode, COMMA const void* what, COMMA what)
WITHOUT_EDGES(cudaGraphAddMemsetNode, COMMA const void* what, COMMA what)
WITHOUT_EDGES(cudaGraphAddHostNode, COMMA const void* what, COMMA what)
WITHOUT_EDGES(cudaGraphAddChildGraphNode, COMMA void* child, COMMA child)
WITHOUT_EDGES(cudaGraphAddEmptyNode, , )
