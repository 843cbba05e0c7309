// The kernels that engine_bench measures: as one finds them in tutorials and training code.
extern "C" {

constexpr int tile = 16;

// C = A·B, square, row-major, shared-memory tiles of 16×16. One block a tile of C.
__global__ void sgemm(const float* a, const float* b, float* c, int n) {
  __shared__ float as[tile][tile], bs[tile][tile];
  int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += tile) {
    as[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < tile; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// Partial sums: a grid-stride loop, then a tree in shared memory. Blocks of 256 threads.
__global__ void reduce(const float* in, float* out, int n) {
  __shared__ float partial[256];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}

// 256 bins in shared memory, merged with global atomics. Blocks of 256 threads.
__global__ void histogram(const unsigned char* in, unsigned* bins, int n) {
  __shared__ unsigned local[256];
  local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[in[i]], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

// Gradient of an embedding table: one block a token, one thread a channel.
__global__ void embedding(const int* tokens, const float* gradient, float* table, int channels) {
  int token = tokens[blockIdx.x];
  for (int c = threadIdx.x; c < channels; c += blockDim.x) {
    atomicAdd(&table[token * channels + c], gradient[blockIdx.x * channels + c]);
  }
}

// One step of a five-point stencil, square, a shared tile with its halo. Blocks of 16×16.
__global__ void jacobi(const float* in, float* out, int n) {
  __shared__ float cells[tile + 2][tile + 2];
  int x = blockIdx.x * tile + threadIdx.x, y = blockIdx.y * tile + threadIdx.y;
  int lx = threadIdx.x + 1, ly = threadIdx.y + 1;
  cells[ly][lx] = in[y * n + x];
  if (lx == 1 && x > 0) cells[ly][0] = in[y * n + x - 1];
  if (lx == tile && x < n - 1) cells[ly][tile + 1] = in[y * n + x + 1];
  if (ly == 1 && y > 0) cells[0][lx] = in[(y - 1) * n + x];
  if (ly == tile && y < n - 1) cells[tile + 1][lx] = in[(y + 1) * n + x];
  __syncthreads();
  if (x > 0 && x < n - 1 && y > 0 && y < n - 1)
    out[y * n + x] = 0.25f * (cells[ly][lx - 1] + cells[ly][lx + 1] + cells[ly - 1][lx] + cells[ly + 1][lx]);
}

__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

// The same with fewer threads than elements: each takes every so-manieth.
__global__ void strided(int n, float a, const float* x, float* y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}

} // extern "C"
