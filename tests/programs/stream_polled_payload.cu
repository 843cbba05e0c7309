// A kernel in another stream waits for the payload itself: it is there when it is not 0. The racy twin writes it by plain
// stores, which nobody need ever see; an event would let the reader begin too late to be of use.
#include "check.h"

constexpr int threads = 64;

__global__ void send(const int* in, int* payload) {
  const int value = in[threadIdx.x];
#ifdef RACY
  payload[threadIdx.x] = value;  // @A
#else
  *const_cast<volatile int*>(payload + threadIdx.x) = value;
#endif
}

__global__ void receive(const int* payload, int* out) {
  int value;
  do value = *const_cast<const volatile int*>(payload + threadIdx.x);  // @B
  while (value == 0);
  out[threadIdx.x] = value;
}

int main() {
  int* in = to_device(numbers(threads));
  int* payload = zeros<int>(threads);
  int* out = zeros<int>(threads);
  cudaStream_t first = make_stream(), second = make_stream();
  send<<<1, threads, 0, first>>>(in, payload); // first, or a GPU might load it only when the other is over
  receive<<<1, threads, 0, second>>>(payload, out);
  report(out, threads);
}
