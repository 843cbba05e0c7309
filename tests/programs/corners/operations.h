// A program of many cases, each two operations on the same bytes: in races_* nothing orders them, in ordered_*
// something does. CASE(name) { … } works with `room`. corners.py reads the names.
#pragma once

#include "check.h"

constexpr int count = 64;
constexpr std::size_t bytes = count * sizeof(int);

// What a case works with: memory of its own and two streams that wait for nobody.
struct Room {
  int* data = zeros<int>(count);
  int* out = zeros<int>(count);
  std::vector<int> pageable = std::vector<int>(count, 1);
  cudaStream_t a = make_stream(cudaStreamNonBlocking), b = make_stream(cudaStreamNonBlocking);
  cudaEvent_t event = nullptr;
  Room() { CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)); }
  ~Room() { CHECK(cudaDeviceSynchronize()); }
};

inline std::vector<void (*)(Room&)>& cases() {
  static std::vector<void (*)(Room&)> all;
  return all;
}

// Kernels of its own for each case: a race is known by its source lines.
#define CASE(name)                                                                         \
  namespace name {                                                                         \
  __global__ void set(int* d, int value) { d[threadIdx.x] = value; }                       \
  __global__ void get(const int* d, int* o) { o[threadIdx.x] = d[threadIdx.x]; }           \
  void write(int* d, cudaStream_t s, int value = 7) { set<<<1, count, 0, s>>>(d, value); } \
  void read(const int* d, int* o, cudaStream_t s) { get<<<1, count, 0, s>>>(d, o); }       \
  void run(Room& room);                                                                    \
  const bool listed = (cases().push_back(run), true);                                      \
  }                                                                                        \
  void name::run(Room& room)

inline int run_cases() {
  for (void (*run)(Room&) : cases()) {
    Room room;
    run(room);
  }
  std::printf("%zu cases\n", cases().size());
  return 0;
}
