// A GPT of one layer trained in plain CUDA: forward, backward and AdamW on a stream, batches brought by another. At the
// end the gradient must say how the loss changes along it.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cmath>

#include "check.h"

namespace cg = cooperative_groups;

constexpr int sequences = 2, length = 8, channels = 32, heads = 2, words = 37, hidden = 4 * channels;
constexpr int depth = channels / heads, rows = sequences * length, tile = 16;

__global__ void embed(const int* tokens, const float* table, const float* places, float* out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * channels; i += gridDim.x * blockDim.x) {
    const int row = i / channels, c = i % channels;
    out[i] = table[tokens[row] * channels + c] + places[row % length * channels + c];
  }
}

__global__ void embed_back(const int* tokens, const float* dout, float* dtable, float* dplaces) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * channels; i += gridDim.x * blockDim.x) {
    const int row = i / channels, c = i % channels;
    atomicAdd(&dtable[tokens[row] * channels + c], dout[i]);
    atomicAdd(&dplaces[row % length * channels + c], dout[i]);
  }
}

__global__ void norm(const float* in, const float* weight, const float* bias, float* out, float* mean, float* rstd) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank(), first = row * channels;
  if (row >= rows) return;
  float sum = 0, squares = 0;
  for (int c = warp.thread_rank(); c < channels; c += 32) sum += in[first + c];
  const float m = cg::reduce(warp, sum, cg::plus<float>()) / channels;
  for (int c = warp.thread_rank(); c < channels; c += 32) squares += (in[first + c] - m) * (in[first + c] - m);
  const float r = rsqrtf(cg::reduce(warp, squares, cg::plus<float>()) / channels + 1e-5f);
  if (warp.thread_rank() == 0) mean[row] = m, rstd[row] = r;
  for (int c = warp.thread_rank(); c < channels; c += 32)
    out[first + c] = (in[first + c] - m) * r * weight[c] + bias[c];
}

// Adds to din; the gradients of weight and bias meet in shared memory first.
__global__ void norm_back(const float* dout, const float* in, const float* weight, const float* mean, const float* rstd,
                          float* din, float* dweight, float* dbias) {
  __shared__ float of_weight[channels], of_bias[channels];
  for (int c = threadIdx.x; c < channels; c += blockDim.x) of_weight[c] = of_bias[c] = 0;
  __syncthreads();
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank(), first = row * channels;
  if (row < rows) {
    float plain = 0, scaled = 0;
    for (int c = warp.thread_rank(); c < channels; c += 32) {
      const float x = (in[first + c] - mean[row]) * rstd[row], g = dout[first + c];
      plain += g * weight[c];
      scaled += g * weight[c] * x;
      atomicAdd(&of_weight[c], g * x);
      atomicAdd(&of_bias[c], g);
    }
    plain = cg::reduce(warp, plain, cg::plus<float>()) / channels;
    scaled = cg::reduce(warp, scaled, cg::plus<float>()) / channels;
    for (int c = warp.thread_rank(); c < channels; c += 32) {
      const float x = (in[first + c] - mean[row]) * rstd[row];
      din[first + c] += rstd[row] * (dout[first + c] * weight[c] - plain - x * scaled);
    }
  }
  __syncthreads();
  for (int c = threadIdx.x; c < channels; c += blockDim.x) {
    atomicAdd(&dweight[c], of_weight[c]);
    atomicAdd(&dbias[c], of_bias[c]);
  }
}

// out[m, n] (+)= a b: two stages of tiles, the next of which is loaded while the other is used.
template <bool transposed_a, bool transposed_b>
__global__ void product(const float* a, const float* b, const float* bias, float* out, int m, int n, int k, bool add) {
  __shared__ float of_a[2][tile][tile + 1], of_b[2][tile][tile + 1];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * tile + y, column = blockIdx.x * tile + x;
  auto load = [&](int first, int stage) {
    const int ka = first + x, kb = first + y;
    of_a[stage][y][x] = row < m && ka < k ? a[transposed_a ? ka * m + row : row * k + ka] : 0;
    of_b[stage][y][x] = column < n && kb < k ? b[transposed_b ? column * k + kb : kb * n + column] : 0;
  };
  float sum = 0;
  load(0, 0);
  __syncthreads();
  for (int first = 0, stage = 0; first < k; first += tile, stage ^= 1) {
    if (first + tile < k) load(first + tile, stage ^ 1);
    for (int i = 0; i < tile; ++i) sum += of_a[stage][y][i] * of_b[stage][i][x];
    __syncthreads();
  }
  if (row >= m || column >= n) return;
  const float value = sum + (bias ? bias[column] : 0);
  out[row * n + column] = add ? out[row * n + column] + value : value;
}

__global__ void column_sums(const float* in, float* out, int m, int n) {
  __shared__ float part[8][33];
  const int column = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  for (int row = threadIdx.y; row < m && column < n; row += 8) sum += in[row * n + column];
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  for (int half = 4; half > 0; half /= 2) {
    if (threadIdx.y < half) part[threadIdx.y][threadIdx.x] += part[threadIdx.y + half][threadIdx.x];
    __syncthreads();
  }
  if (threadIdx.y == 0 && column < n) out[column] += part[0][threadIdx.x];
}

// Over the block's warps; `warps` is used again by the next call.
__device__ float over_block(float value, bool largest, float* warps) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(~0u, value, offset);
    value = largest ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = warps[0];
  for (int i = 1; i < blockDim.x / 32; ++i) value = largest ? fmaxf(value, warps[i]) : value + warps[i];
  return value;
}

// A block for each query of each head of each sequence.
__global__ void attention(const float* qkv, float* weights, float* out) {
  extern __shared__ float scores[];
  __shared__ float warps[2];
  const int at = blockIdx.x % length, head = blockIdx.x / length % heads, sequence = blockIdx.x / length / heads;
  const float* base = qkv + sequence * length * 3 * channels + head * depth;
  float most = -1e30f, sum = 0;
  for (int j = threadIdx.x; j <= at; j += blockDim.x) {
    float score = 0;
    for (int d = 0; d < depth; ++d) score += base[at * 3 * channels + d] * base[j * 3 * channels + channels + d];
    most = fmaxf(most, scores[j] = score * rsqrtf(float(depth)));
  }
  most = over_block(most, true, warps);
  for (int j = threadIdx.x; j <= at; j += blockDim.x) sum += scores[j] = expf(scores[j] - most);
  sum = over_block(sum, false, warps);
  float* row = weights + blockIdx.x * length;
  for (int j = threadIdx.x; j < length; j += blockDim.x) row[j] = j <= at ? scores[j] / sum : 0;
  __syncthreads();
  for (int d = threadIdx.x; d < depth; d += blockDim.x) {
    float value = 0;
    for (int j = 0; j <= at; ++j) value += row[j] * base[j * 3 * channels + 2 * channels + d];
    out[(sequence * length + at) * channels + head * depth + d] = value;
  }
}

__global__ void attention_back(const float* qkv, const float* weights, const float* dout, float* dqkv) {
  __shared__ float dweights[length], dot;
  const int at = blockIdx.x % length, head = blockIdx.x / length % heads, sequence = blockIdx.x / length / heads;
  const int first = sequence * length * 3 * channels + head * depth;
  const float *base = qkv + first, *row = weights + blockIdx.x * length;
  const float* g = dout + (sequence * length + at) * channels + head * depth;
  float* dbase = dqkv + first;
  if (threadIdx.x == 0) dot = 0;
  __syncthreads();
  float mine = 0;
  for (int j = threadIdx.x; j <= at; j += blockDim.x) {
    float sum = 0;
    for (int d = 0; d < depth; ++d) {
      sum += g[d] * base[j * 3 * channels + 2 * channels + d];
      atomicAdd(&dbase[j * 3 * channels + 2 * channels + d], row[j] * g[d]);
    }
    dweights[j] = sum;
    mine += sum * row[j];
  }
  auto together = cg::coalesced_threads();
  mine = cg::reduce(together, mine, cg::plus<float>());
  if (together.thread_rank() == 0) atomicAdd(&dot, mine);
  __syncthreads();
  for (int j = threadIdx.x; j <= at; j += blockDim.x) {
    const float dscore = row[j] * (dweights[j] - dot) * rsqrtf(float(depth));
    for (int d = 0; d < depth; ++d) {
      atomicAdd(&dbase[at * 3 * channels + d], dscore * base[j * 3 * channels + channels + d]);
      atomicAdd(&dbase[j * 3 * channels + channels + d], dscore * base[at * 3 * channels + d]);
    }
  }
}

__device__ float inner(float x) { return 0.79788456f * (x + 0.044715f * x * x * x); }
__global__ void gelu(const float* in, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = 0.5f * in[i] * (1 + tanhf(inner(in[i])));
}
__global__ void gelu_back(const float* in, const float* dout, float* din, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float x = in[i], t = tanhf(inner(x));
  din[i] = dout[i] * (0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.79788456f * (1 + 3 * 0.044715f * x * x));
}

__global__ void add(float* out, const float* a, const float* b, int count) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i + 3 < count) {
    const float4 x = *reinterpret_cast<const float4*>(a + i), y = *reinterpret_cast<const float4*>(b + i);
    *reinterpret_cast<float4*>(out + i) = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  } else {
    for (; i < count; ++i) out[i] = a[i] + b[i];
  }
}

// A block a row turns its logits into their gradients; the last block of all adds up the losses.
__device__ unsigned done;
__global__ void cross_entropy(float* logits, const int* target, float* losses, float* loss) {
  __shared__ float warps[2];
  __shared__ bool last;
  float* row = logits + blockIdx.x * words;
  const int right = target[blockIdx.x];
  float most = -1e30f, sum = 0;
  for (int w = threadIdx.x; w < words; w += blockDim.x) most = fmaxf(most, row[w]);
  most = over_block(most, true, warps);
  for (int w = threadIdx.x; w < words; w += blockDim.x) sum += expf(row[w] - most);
  sum = over_block(sum, false, warps);
  if (threadIdx.x == 0) losses[blockIdx.x] = most + logf(sum) - row[right];
  __syncthreads();
  for (int w = threadIdx.x; w < words; w += blockDim.x) row[w] = (expf(row[w] - most) / sum - (w == right)) / rows;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(&done, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  sum = 0;
  for (int i = threadIdx.x; i < rows; i += blockDim.x) sum += losses[i];
  sum = over_block(sum, false, warps);
  if (threadIdx.x == 0) *loss = sum / rows;
}

__global__ void adamw(float* weights, const float* g, float* m, float* v, int count, int step) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.95f * v[i] + 0.05f * g[i] * g[i];
    const float mean = m[i] / (1 - powf(0.9f, step)), square = v[i] / (1 - powf(0.95f, step));
    weights[i] -= 1e-2f * (mean / (sqrtf(square) + 1e-8f) + 0.01f * weights[i]);
  }
}
__global__ void step_along(float* weights, const float* g, float far, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) weights[i] += far * g[i];
}

enum Part {
  table,
  places,
  norm1_w,
  norm1_b,
  qkv_w,
  qkv_b,
  out_w,
  out_b,
  norm2_w,
  norm2_b,
  up_w,
  up_b,
  down_w,
  down_b,
  norm3_w,
  norm3_b,
  parts
};
constexpr int part_sizes[parts] = {
    words * channels,   length* channels, channels, channels, 3 * channels* channels, 3 * channels,
    channels* channels, channels,         channels, channels, hidden* channels,       hidden,
    channels* hidden,   channels,         channels, channels};

class Model {
 public:
  explicit Model(cudaStream_t stream) : stream_(stream) {
    for (int part = 0; part < parts; ++part) begin_[part] = count_, count_ += part_sizes[part];
    std::vector<float> values(count_);
    const std::vector<int> scattered = numbers(count_);
    for (int i = 0; i < count_; ++i) values[i] = (scattered[(i * 7 + i / 101) % count_] - 51) * 4e-3f;
    for (Part part : {norm1_w, norm2_w, norm3_w}) {
      for (int c = 0; c < channels; ++c) values[begin_[part] + c] = 1;
    }
    weights_ = to_device(values);
    for (float** each : {&gradient_, &first_, &second_}) *each = zeros<float>(count_);
    for (float** each : {&x0_, &n1_, &mixed_, &x1_, &n2_, &x2_, &n3_, &sum_, &dx_, &dn_, &dmixed_}) {
      *each = zeros<float>(rows * channels);
    }
    for (float** each : {&qkv_, &dqkv_}) *each = zeros<float>(rows * 3 * channels);
    for (float** each : {&up_, &active_, &dup_, &dactive_}) *each = zeros<float>(rows * hidden);
    for (float** each : {&m1_, &r1_, &m2_, &r2_, &m3_, &r3_, &losses_}) *each = zeros<float>(rows);
    attended_ = zeros<float>(sequences * heads * length * length);
    logits_ = zeros<float>(rows * words);
    loss_ = zeros<float>(1);
  }

  void forward(const int* tokens) {
    embed<<<2, 128, 0, stream_>>>(tokens, w(table), w(places), x0_);
    norm<<<rows / 4, 128, 0, stream_>>>(x0_, w(norm1_w), w(norm1_b), n1_, m1_, r1_);
    linear(n1_, qkv_w, qkv_b, qkv_, 3 * channels, channels);
    attention<<<sequences * heads * length, 64, length * sizeof(float), stream_>>>(qkv_, attended_, mixed_);
    linear(mixed_, out_w, out_b, sum_, channels, channels);
    add<<<(rows * channels + 511) / 512, 128, 0, stream_>>>(x1_, x0_, sum_, rows * channels);
    norm<<<rows / 4, 128, 0, stream_>>>(x1_, w(norm2_w), w(norm2_b), n2_, m2_, r2_);
    linear(n2_, up_w, up_b, up_, hidden, channels);
    gelu<<<(rows * hidden + 127) / 128, 128, 0, stream_>>>(up_, active_, rows * hidden);
    linear(active_, down_w, down_b, sum_, channels, hidden);
    add<<<(rows * channels + 511) / 512, 128, 0, stream_>>>(x2_, x1_, sum_, rows * channels);
    norm<<<rows / 4, 128, 0, stream_>>>(x2_, w(norm3_w), w(norm3_b), n3_, m3_, r3_);
    product<false, true>
        <<<grid(rows, words), block, 0, stream_>>>(n3_, w(table), nullptr, logits_, rows, words, channels, false);
    cross_entropy<<<rows, 64, 0, stream_>>>(logits_, tokens + rows, losses_, loss_);
  }

  void backward(const int* tokens) {
    CHECK(cudaMemsetAsync(gradient_, 0, count_ * sizeof(float), stream_));
    CHECK(cudaMemsetAsync(dx_, 0, rows * channels * sizeof(float), stream_));
    CHECK(cudaMemsetAsync(dqkv_, 0, rows * 3 * channels * sizeof(float), stream_));
    product<false, false>
        <<<grid(rows, channels), block, 0, stream_>>>(logits_, w(table), nullptr, dn_, rows, channels, words, false);
    product<true, false>
        <<<grid(words, channels), block, 0, stream_>>>(logits_, n3_, nullptr, g(table), words, channels, rows, true);
    norm_back<<<rows / 4, 128, 0, stream_>>>(dn_, x2_, w(norm3_w), m3_, r3_, dx_, g(norm3_w), g(norm3_b));
    linear_back(dx_, active_, down_w, down_b, dactive_, channels, hidden);
    gelu_back<<<(rows * hidden + 127) / 128, 128, 0, stream_>>>(up_, dactive_, dup_, rows * hidden);
    linear_back(dup_, n2_, up_w, up_b, dn_, hidden, channels);
    norm_back<<<rows / 4, 128, 0, stream_>>>(dn_, x1_, w(norm2_w), m2_, r2_, dx_, g(norm2_w), g(norm2_b));
    linear_back(dx_, mixed_, out_w, out_b, dmixed_, channels, channels);
    attention_back<<<sequences * heads * length, 64, 0, stream_>>>(qkv_, attended_, dmixed_, dqkv_);
    linear_back(dqkv_, n1_, qkv_w, qkv_b, dn_, 3 * channels, channels);
    norm_back<<<rows / 4, 128, 0, stream_>>>(dn_, x0_, w(norm1_w), m1_, r1_, dx_, g(norm1_w), g(norm1_b));
    embed_back<<<2, 128, 0, stream_>>>(tokens, dx_, g(table), g(places));
  }

  void update(int step) { adamw<<<4, 128, 0, stream_>>>(weights_, gradient_, first_, second_, count_, step); }

  float loss() {
    float value;
    CHECK(cudaMemcpyAsync(&value, loss_, sizeof value, cudaMemcpyDeviceToHost, stream_));
    CHECK(cudaStreamSynchronize(stream_));
    return value;
  }
  void walk(float far) { step_along<<<(count_ + 255) / 256, 256, 0, stream_>>>(weights_, gradient_, far, count_); }
  double squared_gradient() {
    std::vector<float> values(count_);
    CHECK(cudaMemcpyAsync(values.data(), gradient_, count_ * sizeof(float), cudaMemcpyDeviceToHost, stream_));
    CHECK(cudaStreamSynchronize(stream_));
    double sum = 0;
    for (float value : values) sum += double(value) * value;
    return sum;
  }

 private:
  static constexpr dim3 block{tile, tile};
  static dim3 grid(int m, int n) { return dim3((n + tile - 1) / tile, (m + tile - 1) / tile); }
  float* w(Part part) { return weights_ + begin_[part]; }
  float* g(Part part) { return gradient_ + begin_[part]; }
  void linear(const float* in, Part weight, Part bias, float* out, int to, int from) {
    product<false, true><<<grid(rows, to), block, 0, stream_>>>(in, w(weight), w(bias), out, rows, to, from, false);
  }
  void linear_back(const float* dout, const float* in, Part weight, Part bias, float* din, int to, int from) {
    product<false, false>
        <<<grid(rows, from), block, 0, stream_>>>(dout, w(weight), nullptr, din, rows, from, to, false);
    product<true, false><<<grid(to, from), block, 0, stream_>>>(dout, in, nullptr, g(weight), to, from, rows, true);
    column_sums<<<(to + 31) / 32, dim3(32, 8), 0, stream_>>>(dout, g(bias), rows, to);
  }

  cudaStream_t stream_;
  int begin_[parts], count_ = 0;
  float *weights_, *gradient_, *first_, *second_, *x0_, *n1_, *qkv_, *attended_, *mixed_, *x1_, *n2_, *up_, *active_,
      *x2_, *n3_, *sum_, *logits_, *losses_, *loss_, *m1_, *r1_, *m2_, *r2_, *m3_, *r3_, *dx_, *dn_, *dqkv_, *dmixed_,
      *dup_, *dactive_;
};

// Two at a time: one is trained on while the other arrives.
class Batches {
 public:
  Batches() {
    CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (Slot& slot : slots_) {
      slot.tokens = zeros<int>(2 * rows);
      CHECK(cudaMallocHost(&slot.staged, 2 * rows * sizeof(int)));
      CHECK(cudaEventCreateWithFlags(&slot.arrived, cudaEventDisableTiming));
      CHECK(cudaEventCreateWithFlags(&slot.used, cudaEventDisableTiming));
    }
  }
  void fetch(int step) {
    Slot& slot = slots_[step % 2];
    CHECK(cudaEventSynchronize(slot.arrived)); // the staged bytes were copied
    for (int i = 0; i < 2 * rows; ++i) slot.staged[i] = (i * 37 + step * 11) % 101 % words;
    CHECK(cudaStreamWaitEvent(stream_, slot.used, 0));
    CHECK(cudaMemcpyAsync(slot.tokens, slot.staged, 2 * rows * sizeof(int), cudaMemcpyHostToDevice, stream_));
    CHECK(cudaEventRecord(slot.arrived, stream_));
  }
  const int* take(int step, cudaStream_t user) {
    CHECK(cudaStreamWaitEvent(user, slots_[step % 2].arrived, 0));
    return slots_[step % 2].tokens;
  }
  void give_back(int step, cudaStream_t user) { CHECK(cudaEventRecord(slots_[step % 2].used, user)); }

 private:
  struct Slot {
    int *tokens, *staged;
    cudaEvent_t arrived, used;
  } slots_[2];
  cudaStream_t stream_;
};

int main() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Model model(stream);
  Batches batches;
  constexpr int steps = 3;
  batches.fetch(0);
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) batches.fetch(step + 1);
    const int* tokens = batches.take(step, stream);
    model.forward(tokens);
    model.backward(tokens);
    batches.give_back(step, stream);
    model.update(step + 1);
    if (!std::isfinite(model.loss())) return std::printf("the loss of step %d is no number\n", step), 1;
  }
  batches.fetch(steps);
  const int* tokens = batches.take(steps, stream);
  model.forward(tokens);
  model.backward(tokens);
  const double expected = model.squared_gradient();
  const float far = 1e-2f / float(std::sqrt(expected));
  model.walk(far);
  model.forward(tokens);
  const float above = model.loss();
  model.walk(-2 * far);
  model.forward(tokens);
  const double slope = (above - model.loss()) / (2.0 * far);
  if (std::fabs(slope - expected) > 0.03 * expected) return std::printf("slope %g, not %g\n", slope, expected), 1;
  std::printf("ok %d steps\n", steps);
}
