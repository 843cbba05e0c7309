// The kernels of kernels.cu in OpenCL C, for the comparison with POCL.
#define TILE 16

kernel void sgemm(global const float* a, global const float* b, global float* c, int n) {
  local float as[TILE][TILE], bs[TILE][TILE];
  int x = get_local_id(0), y = get_local_id(1);
  int row = get_group_id(1) * TILE + y, column = get_group_id(0) * TILE + x;
  float sum = 0;
  for (int k = 0; k < n; k += TILE) {
    as[y][x] = a[row * n + k + x];
    bs[y][x] = b[(k + y) * n + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < TILE; ++i) sum += as[y][i] * bs[i][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + column] = sum;
}

kernel void reduce(global const float* in, global float* out, int n) {
  local float partial[256];
  int t = get_local_id(0);
  float sum = 0;
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) sum += in[i];
  partial[t] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_ = 128; half_ > 0; half_ /= 2) {
    if (t < half_) partial[t] += partial[t + half_];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (t == 0) out[get_group_id(0)] = partial[0];
}

kernel void histogram(global const uchar* in, global uint* bins, int n) {
  local uint counts[256];
  int t = get_local_id(0);
  counts[t] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) atomic_inc(&counts[in[i]]);
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&bins[t], counts[t]);
}

// OpenCL C has no atomic addition of floats: compare and swap, as its users write it.
void add(global float* to, float value) {
  union { uint bits; float number; } old, sum;
  do {
    old.number = *to;
    sum.number = old.number + value;
  } while (atomic_cmpxchg((volatile global uint*)to, old.bits, sum.bits) != old.bits);
}

kernel void embedding(global const int* tokens, global const float* gradient, global float* table, int channels) {
  int token = tokens[get_group_id(0)];
  for (int c = get_local_id(0); c < channels; c += get_local_size(0))
    add(&table[token * channels + c], gradient[get_group_id(0) * channels + c]);
}

kernel void jacobi(global const float* in, global float* out, int n) {
  local float cells[TILE + 2][TILE + 2];
  int x = get_global_id(0), y = get_global_id(1), lx = get_local_id(0) + 1, ly = get_local_id(1) + 1;
  cells[ly][lx] = in[y * n + x];
  if (lx == 1 && x > 0) cells[ly][0] = in[y * n + x - 1];
  if (lx == TILE && x < n - 1) cells[ly][TILE + 1] = in[y * n + x + 1];
  if (ly == 1 && y > 0) cells[0][lx] = in[(y - 1) * n + x];
  if (ly == TILE && y < n - 1) cells[TILE + 1][lx] = in[(y + 1) * n + x];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (x > 0 && x < n - 1 && y > 0 && y < n - 1)
    out[y * n + x] = 0.25f * (cells[ly][lx - 1] + cells[ly][lx + 1] + cells[ly - 1][lx] + cells[ly + 1][lx]);
}

kernel void saxpy(int n, float a, global const float* x, global float* y) {
  int i = get_global_id(0);
  if (i < n) y[i] = a * x[i] + y[i];
}

kernel void strided(int n, float a, global const float* x, global float* y) {
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = a * x[i] + y[i];
}
