// A hash table: keys are inserted by compare-and-swap, their sums are added up under a lock for each slot. A plain store
// that gives the lock back races with those who try it, and releases nothing of what was done under it.
#include "check.h"

constexpr unsigned slots = 64, keys = 96;

struct Slot {
  unsigned key;
  int lock, sum;
};

__global__ void insert(Slot* table, const int* values) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, key = values[i] % 11 + 1;
  unsigned at = key * 2654435761u % slots;
  for (;; at = (at + 1) % slots) {
    const unsigned found = atomicCAS(&table[at].key, 0u, key);
    if (found == 0 || found == key) break;
  }
  Slot& slot = table[at];
  for (bool done = false; !done;) {
    if (atomicCAS(&slot.lock, 0, 1) != 0) continue;  // @T
    __threadfence();
    const int sum = slot.sum;  // @A
    slot.sum = sum + values[i];  // @B
    __threadfence();
#ifdef RACY
    slot.lock = 0;  // @U
#else
    atomicExch(&slot.lock, 0);
#endif
    done = true;
  }
}

__global__ void sums(const Slot* table, int* out) { out[threadIdx.x] = table[threadIdx.x].sum; }

int main() {
  const int* values = to_device(numbers(keys));
  Slot* table = zeros<Slot>(slots);
  int* out = zeros<int>(slots);
  insert<<<keys / 32, 32>>>(table, values);
  sums<<<1, slots>>>(table, out);
  report(out, slots);
}
