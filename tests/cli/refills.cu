// A host function refills a page-locked buffer out of which a copy in another stream reads. "waits": its stream waits for
// the copy; "told": so does the host, before the function begins; "mapped": a kernel reaches the buffer, too.
#include <cstdio>
#include <cstring>

constexpr int values = 64;

__global__ void sum(const int* buffer, int* out) {
  for (int i = 0; i < values; ++i) *out += buffer[i];
}

void refill(void* buffer) {
  for (int i = 0; i < values; ++i) static_cast<int*>(buffer)[i] = 1000 + i;
}

int main(int argc, char** argv) {
  const auto asked = [&](const char* what) { return argc > 1 && !std::strcmp(argv[1], what); };
  int *buffer, *copied;
  cudaMallocHost(&buffer, values * sizeof(int));
  for (int i = 0; i < values; ++i) buffer[i] = i;
  cudaMalloc(&copied, (values + 1) * sizeof(int));
  cudaMemset(copied, 0, (values + 1) * sizeof(int));
  cudaDeviceSynchronize();
  cudaStream_t copying, filling;
  cudaStreamCreateWithFlags(&copying, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&filling, cudaStreamNonBlocking);
  if (asked("mapped")) sum<<<1, 1, 0, filling>>>(buffer, copied + values);
  cudaMemcpyAsync(copied, buffer, values * sizeof(int), cudaMemcpyHostToDevice, copying);
  if (asked("waits")) {
    cudaEvent_t read;
    cudaEventCreate(&read);
    cudaEventRecord(read, copying);
    cudaStreamWaitEvent(filling, read, 0);
  }
  if (asked("told")) cudaStreamSynchronize(copying);
  cudaLaunchHostFunc(filling, refill, buffer);
  cudaDeviceSynchronize();
  int result[values + 1];
  if (cudaMemcpy(result, copied, sizeof result, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  std::printf("%d %d\n", result[values - 1], result[values]);
}
