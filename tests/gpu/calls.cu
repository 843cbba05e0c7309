// What calls of the runtime cost the thread that makes them: calls ROUNDS
//
// A launch of an empty kernel, an event's recording, a small copy on the device and a question that the library does not
// watch (whether a stream is captured, which PyTorch's allocator asks), each with what it needs in the caches (hot), and
// with other data and code in them (cold), as where a job has done something else since its last call. Under the preload
// library with each of its layers in turn (tracer/cupti/layers.h), in random order; the layer -1 is the process without
// CUPTI (deadheat_detach). Prints "CALL LAYER NANOSECONDS" for each of them, medians over all calls; without the library
// as of layer 0.
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "checked_calls.h"

__global__ void nothing(int*, int) {}

namespace {

constexpr int all_layers = 7, calls_of_a_block = 200, warm_calls = 20; // fewer than launches that may wait on a device

// Drives everything else out of the caches and of what the processor remembers of branches and pages.
class Other {
 public:
  Other() : data_(std::size_t(3) << 20) {
    void* const pages = mmap(nullptr, code_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    code_ = static_cast<std::uint8_t*>(pages);
    for (std::size_t at = 0; at < code_bytes; at += line) {
      code_[at] = at + line < code_bytes ? 0xeb : 0xc3; // jmp to the next line; ret
      code_[at + 1] = line - 2;
    }
    mprotect(code_, code_bytes, PROT_READ | PROT_EXEC);
  }
  void run() {
    volatile char* const data = data_.data();
    for (std::size_t at = 0; at < data_.size(); at += line) data[at] = char(data[at] + 1);
    reinterpret_cast<void (*)()>(code_)();
  }

 private:
  static constexpr std::size_t line = 64, code_bytes = std::size_t(512) << 10;
  std::vector<char> data_;
  std::uint8_t* code_ = nullptr;
};

double now() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename Call>
void measure(Call&& call, Other* other, std::vector<double>& took) {
  for (int i = -warm_calls; i < calls_of_a_block; ++i) {
    if (other) other->run();
    const double begin = now();
    call();
    if (i >= 0) took.push_back(now() - begin);
  }
  CHECK(cudaDeviceSynchronize());
}

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2), values.end());
  return values[values.size() / 2];
}

} // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  cudaStream_t stream;
  cudaEvent_t event;
  int* memory;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaMalloc(&memory, 4096));
  nothing<<<1, 32, 0, stream>>>(memory, 0); // loads the code
  CHECK(cudaDeviceSynchronize());
  const auto change = reinterpret_cast<void (*)(unsigned)>(dlsym(RTLD_DEFAULT, "deadheat_layers"));
  const auto detach = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "deadheat_detach"));
  std::vector<int> order{0};
  if (change) order = {-1, 0, 1, 2, 3, 4, 5, 6, 7};
  Other other;
  std::mt19937 chance(1);
  std::map<std::pair<std::string, int>, std::vector<double>> took;
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), chance);
    for (const int layer : order) {
      if (change) {
        change(1); // CUPTI is there
        layer < 0 ? detach() : change(unsigned(layer));
      }
      for (const bool cold : {false, true}) {
        const std::string how = cold ? "-cold" : "-hot";
        Other* const between = cold ? &other : nullptr;
        measure([&] { nothing<<<1, 32, 0, stream>>>(memory, 1); }, between, took[{"launch" + how, layer}]);
        measure([&] { CHECK(cudaEventRecord(event, stream)); }, between, took[{"event" + how, layer}]);
        measure([&] { CHECK(cudaMemcpyAsync(memory, memory + 512, 4, cudaMemcpyDeviceToDevice, stream)); }, between,
                took[{"copy" + how, layer}]);
        cudaStreamCaptureStatus status{};
        measure([&] { CHECK(cudaStreamIsCapturing(stream, &status)); }, between, took[{"question" + how, layer}]);
      }
    }
  }
  for (auto& [of, values] : took) std::printf("%s %d %.0f\n", of.first.c_str(), of.second, median(values));
  if (change) change(all_layers);
  CHECK(cudaDeviceSynchronize());
  std::puts("done");
  return 0;
}
