// cuRAND's device generators, their skipping ahead and their distributions: each thread goes on with a sequence of its
// own. The reference is the same header compiled for the host.
#define QUALIFIERS static inline __host__ __device__
#include <curand_kernel.h>

#include <type_traits>

#include "agree.h"

using namespace agree;

constexpr unsigned long long seed = 20240611;
constexpr int draws = 6;  // of each kind, a thread

struct Direction {
  unsigned words[32];
};

// Directions of the van der Corput sequence, with bits above each that keep them independent.
__host__ __device__ inline Direction direction_of() {
  Direction v;
  for (int i = 0; i < 32; ++i) v.words[i] = (1u << (31 - i)) | (i > 0 ? 0x5bd1e995u >> (32 - i) << (32 - i) : 0);
  return v;
}

__host__ __device__ inline void start(curandStateXORWOW_t& state, int thread) { curand_init(seed, thread, 3, &state); }
__host__ __device__ inline void start(curandStateMRG32k3a_t& state, int thread) { curand_init(seed, thread, 5, &state); }
__host__ __device__ inline void start(curandStatePhilox4_32_10_t& state, int thread) { curand_init(seed, thread, 2, &state); }
__host__ __device__ inline void start(curandStateSobol32_t& state, int thread) {
  Direction v = direction_of();
  curand_init(v.words, static_cast<unsigned>(thread * draws), &state);
}
__host__ __device__ inline void start(curandStateScrambledSobol32_t& state, int thread) {
  Direction v = direction_of();
  curand_init(v.words, 0xabcdefu, static_cast<unsigned>(thread * draws), &state);
}

template <class State>
__host__ __device__ void draw(int thread, unsigned* whole, float* reals, double* wide) {
  State state;
  start(state, thread);
  for (int i = 0; i < draws; ++i) whole[thread * draws + i] = static_cast<unsigned>(curand(&state));
  skipahead(static_cast<unsigned>(thread % 7 + 1000), &state);
  for (int i = 0; i < draws; ++i) reals[thread * 3 * draws + i] = curand_uniform(&state);
  for (int i = 0; i < draws; ++i) {
    // The inverse normal distribution, which Sobol sequences go through, is missing from the header's host side.
    float *normal = reals + thread * 3 * draws + draws + i, *log_normal = normal + draws;
    if constexpr (std::is_same_v<State, curandStateSobol32_t> || std::is_same_v<State, curandStateScrambledSobol32_t>) {
      *normal = curand_uniform(&state), *log_normal = curand_uniform(&state);
    } else {
      *normal = curand_normal(&state), *log_normal = curand_log_normal(&state, 0.5f, 0.25f);
    }
  }
  for (int i = 0; i < draws; ++i) wide[thread * draws + i] = curand_uniform_double(&state);
}

template <class State>
__global__ void draw_kernel(int threads, unsigned* whole, float* reals, double* wide) {
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread < threads) draw<State>(thread, whole, reals, wide);
}

template <class State>
void generator(const char* name, int threads) {
  std::vector<unsigned> whole(threads * draws);
  std::vector<float> reals(threads * 3 * draws);
  std::vector<double> wide(threads * draws);
  for (int thread = 0; thread < threads; ++thread) draw<State>(thread, whole.data(), reals.data(), wide.data());
  Array<unsigned> device_whole(whole.size());
  Array<float> device_reals(reals.size());
  Array<double> device_wide(wide.size());
  draw_kernel<State><<<(threads + 63) / 64, 64>>>(threads, device_whole, device_reals, device_wide);
  equal(name, threads, device_whole.host(), whole);
  near(name, threads, device_reals.host(), reals, 2e-5);
  equal(name, threads, device_wide.host(), wide);
}

// Random123's published first block of Philox 4x32-10 for counter and key 0, which no header of NVIDIA's is needed for.
__global__ void philox_kernel(uint4* out) {
  curandStatePhilox4_32_10_t state;
  curand_init(0, 0, 0, &state);
  *out = curand4(&state);
}

void philox() {
  Array<uint4> out(1);
  philox_kernel<<<1, 1>>>(out);
  uint4 first = out.host()[0];
  equal("Philox of zeros", 4, std::vector<unsigned>{first.x, first.y, first.z, first.w},
        {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
}

int main(int argument_count, char** arguments) {
  philox();
  for (int threads : sizes(argument_count, arguments, {1, 33, 200})) {
    generator<curandStateXORWOW_t>("XORWOW", threads);
    generator<curandStateMRG32k3a_t>("MRG32k3a", threads);
    generator<curandStatePhilox4_32_10_t>("Philox 4x32-10", threads);
    generator<curandStateSobol32_t>("Sobol 32", threads);
    generator<curandStateScrambledSobol32_t>("scrambled Sobol 32", threads);
  }
  return conclude();
}
