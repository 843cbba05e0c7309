// Message passing between blocks through a flag of block scope. The flag's own accesses race too, being outside each
// other's scope; that pair alone changes nothing, since the loop ends with the same value in every schedule.
#include <cuda/atomic>

#include "check.h"

#ifdef RACY
constexpr cuda::thread_scope scope = cuda::thread_scope_block;
#else
constexpr cuda::thread_scope scope = cuda::thread_scope_device;
#endif

__global__ void pass(const int* in, int* data, int* flag, int* out) {
  if (threadIdx.x != 0) return;
  cuda::atomic_ref<int, scope> ready(*flag);
  if (blockIdx.x == 0) {
    data[0] = 3 * in[0];                         // @A
    ready.store(1, cuda::memory_order_release);  // @C
  } else {
    while (ready.load(cuda::memory_order_acquire) == 0) {  // @D
    }
    out[0] = data[0];  // @B
  }
}

int main() {
  int* in = to_device(numbers(1));
  int* data = zeros<int>(1);
  int* flag = zeros<int>(1);
  int* out = zeros<int>(1);
  pass<<<2, 32>>>(in, data, flag, out);
  report(out, 1);
}
