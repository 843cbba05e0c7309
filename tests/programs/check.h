// What all programs of this folder share: error checks, input, and the way results reach standard output.
//
// Every helper leaves the device idle, so that the only unordered accesses are the ones that a program shows.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call) check_status((call), #call, __FILE__, __LINE__)

inline void check_status(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, cudaGetErrorString(status));
  std::exit(3);
}

// 1 to 101 in a scattered order.
inline std::vector<int> numbers(int count) {
  std::vector<int> values(count);
  for (int i = 0; i < count; ++i) values[i] = (i * 37 + 11) % 101 + 1;
  return values;
}

template <class T>
T* to_device(const std::vector<T>& values) {
  T* device = nullptr;
  CHECK(cudaMalloc(&device, values.size() * sizeof(T)));
  CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());
  return device;
}

template <class T>
T* zeros(std::size_t count) {
  T* device = nullptr;
  CHECK(cudaMalloc(&device, count * sizeof(T)));
  CHECK(cudaMemset(device, 0, count * sizeof(T)));
  CHECK(cudaDeviceSynchronize());
  return device;
}

// Page-locked host memory, as asynchronous copies need it.
template <class T>
T* pinned(const std::vector<T>& values) {
  T* host = nullptr;
  CHECK(cudaMallocHost(&host, values.size() * sizeof(T)));
  for (std::size_t i = 0; i < values.size(); ++i) host[i] = values[i];
  return host;
}

template <class T>
std::vector<T> to_host(const T* device, std::size_t count) {
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::vector<T> values(count);
  CHECK(cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

// Weighs the values by their places: swapped elements show.
template <class T>
void print_checksum(const T* values, std::size_t count) {
  long long sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<long long>(values[i]) * static_cast<long long>(i % 13 + 1);
  std::printf("checksum %lld\n", sum);
}

template <class T>
void report(const T* device, std::size_t count) {
  print_checksum(to_host(device, count).data(), count);
}

inline cudaStream_t make_stream(unsigned flags = cudaStreamDefault) {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

inline cudaEvent_t make_event() {
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}
