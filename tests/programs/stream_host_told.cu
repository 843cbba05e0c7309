// A host function blocks until the host tells it to go on, and then fills a page-locked buffer again out of which a copy
// in another stream reads; what follows the function in its stream overwrites what that copy brought. The host tells it
// once it has waited for the copy, or before.
#include <condition_variable>
#include <mutex>

#include "check.h"

constexpr int count = 256;

struct Refill {
  int* buffer;
  std::mutex guard;
  std::condition_variable changed;
  bool may_go_on = false;

  static void run(void* of) {
    auto* refill = static_cast<Refill*>(of);
    std::unique_lock<std::mutex> hold(refill->guard);
    refill->changed.wait(hold, [&] { return refill->may_go_on; });
    for (int i = 0; i < count; ++i) refill->buffer[i] = 5000 + i;
  }
  void tell() {
    const std::lock_guard<std::mutex> hold(guard);
    may_go_on = true;
    changed.notify_one();
  }
};

int main() {
  Refill refill;
  refill.buffer = pinned(numbers(count));
  int* batch = zeros<int>(count);
  std::vector<int> received(count);
  int* host = pinned(received);
  cudaStream_t filling = make_stream(cudaStreamNonBlocking), uploading = make_stream(cudaStreamNonBlocking);
  CHECK(cudaMemcpyAsync(batch, refill.buffer, count * sizeof(int), cudaMemcpyHostToDevice, uploading));
  CHECK(cudaMemcpyAsync(host, batch, count * sizeof(int), cudaMemcpyDeviceToHost, uploading));
  CHECK(cudaLaunchHostFunc(filling, Refill::run, &refill));
  CHECK(cudaMemcpyAsync(batch, refill.buffer, count * sizeof(int), cudaMemcpyHostToDevice, filling));
#ifdef RACY
  refill.tell();
  CHECK(cudaStreamSynchronize(filling));
#else
  CHECK(cudaStreamSynchronize(uploading));
  refill.tell();
  CHECK(cudaStreamSynchronize(filling));
#endif
  CHECK(cudaDeviceSynchronize());
  print_checksum(host, count);
  report(batch, count);
}
