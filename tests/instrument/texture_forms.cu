// Fetches and accesses of surfaces in all their forms, for the test of the instrumenter: what instrumented kernels
// report of them, and the reader of the log makes of that, is compared with what the engine itself saw.
#include "check.h"

constexpr int threads = 64, width = 16, height = 12, slices = 6;

__device__ int next_place(int* place) { return (*place)++ * threads + threadIdx.x; }
__device__ float spread(int seed, float size) { return (threadIdx.x * 37 + seed * 11) % 64 * size / 48 - size / 6; }

// Linear and pitched memory, lines, planes, space, layers.
__global__ void fetch(cudaTextureObject_t memory, cudaTextureObject_t plane, cudaTextureObject_t line,
                      cudaTextureObject_t image, cudaTextureObject_t space, cudaTextureObject_t lines,
                      cudaTextureObject_t images, float* out) {
  int at = 0;
  const float x = spread(1, width), y = spread(2, height), z = spread(3, slices);
  const int layer = threadIdx.x % 7;
  out[next_place(&at)] = tex1Dfetch<float>(memory, int(threadIdx.x) * 5 - 20);
  out[next_place(&at)] = tex2D<float>(plane, x, y);
  out[next_place(&at)] = tex1D<float>(line, x);
  out[next_place(&at)] = tex2D<float>(image, x, y);
  out[next_place(&at)] = tex3D<float>(space, x, y, z);
  out[next_place(&at)] = tex1DLayered<float>(lines, x, layer);
  if (threadIdx.x % 3) out[next_place(&at)] = tex2DLayered<float>(images, x, y, layer);
}

// Levels, gradients and offsets; normalized coordinates.
__global__ void levels(cudaTextureObject_t object, float* out) {
  int at = 0;
  const float x = spread(4, 1), y = spread(5, 1), d = float(threadIdx.x) / 512;
  out[next_place(&at)] = tex2DLod<float>(object, x, y, float(threadIdx.x) / 16 - 0.5f);
  out[next_place(&at)] = tex2DGrad<float>(object, x, y, make_float2(d, 0), make_float2(0, 2 * d));
  float4 v;
  asm volatile("tex.level.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}], 0f3F800000, {2, -1};"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(object), "f"(x), "f"(y));
  out[next_place(&at)] = v.x;
}

__global__ void cubes(cudaTextureObject_t cube, cudaTextureObject_t cube_layers, float* out) {
  int at = 0;
  const float x = spread(6, 2) - 1, y = spread(7, 2) - 1, z = spread(8, 2) - 1;
  out[next_place(&at)] = texCubemap<float>(cube, x, y, z);
  out[next_place(&at)] = texCubemapLayered<float>(cube_layers, x, y, z, threadIdx.x % 2);
}

__global__ void gather(cudaTextureObject_t object, float* out) {
  int at = 0;
  const float4 red = tex2Dgather<float4>(object, spread(9, width), spread(10, height), 0);
  const float4 green = tex2Dgather<float4>(object, spread(11, width), spread(12, height), 1);
  out[next_place(&at)] = red.x + red.w + green.y;
}

// Guards, halves, an object for each lane, coordinates that are no registers.
__global__ void written_out(cudaTextureObject_t one, cudaTextureObject_t other, float* out) {
  int at = 0;
  const cudaTextureObject_t mine = threadIdx.x % 2 ? one : other;
  const float x = spread(13, width), y = spread(14, height);
  float4 v = make_float4(0, 0, 0, 0);
  asm volatile("{ .reg .pred p; setp.lt.f32 p, %5, 0f40800000;"
               "  @p tex.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}]; }"
               : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w)
               : "l"(mine), "f"(x), "f"(y));
  out[next_place(&at)] = v.x;
  asm volatile("{ .reg .b16 h<4>; tex.2d.v4.f16.f32 {h0, h1, h2, h3}, [%1, {0f40000000, %2}]; cvt.f32.f16 %0, h0; }"
               : "=f"(v.x)
               : "l"(one), "f"(y));
  out[next_place(&at)] = v.x;
  int bits;
  asm volatile("{ .reg .b32 r<3>; tex.2d.v4.s32.s32 {%0, r0, r1, r2}, [%1, {%2, 3}]; }"
               : "=r"(bits)
               : "l"(other), "r"(int(threadIdx.x)));
  out[next_place(&at)] = float(bits & 1023);
}

// Between operations that are put in order.
__global__ void counted(cudaTextureObject_t memory, int* counts, float* out) {
  const int before = atomicAdd(&counts[threadIdx.x], 1);
  out[threadIdx.x] = tex1Dfetch<float>(memory, before + int(threadIdx.x));
  atomicAdd(&counts[threadIdx.x], 1);
}

template <typename T>
__global__ void copy_surface(cudaSurfaceObject_t from, cudaSurfaceObject_t to) {
  const int x = threadIdx.x % width, y = threadIdx.x / width;
  surf2Dwrite(surf2Dread<T>(from, x * int(sizeof(T)), y), to, x * int(sizeof(T)), y + 4);
}

__global__ void surfaces(cudaSurfaceObject_t line, cudaSurfaceObject_t space, cudaSurfaceObject_t layers,
                         cudaSurfaceObject_t bytes) {
  const int x = threadIdx.x % width, y = threadIdx.x / width;
  int value = surf1Dread<int>(line, (x - 2) * 4, cudaBoundaryModeZero);
  value += surf2DLayeredread<int>(layers, x * 4, y, 2);
  surf3Dwrite(value + x, space, x * 4, y, 1 + y);
  surf2DLayeredwrite(value - x, layers, (x - 3) * 4, y + 4, 3, cudaBoundaryModeClamp);
  if (x < 2) surf1Dwrite(value, line, (x + 14) * 4); // which nobody reads
  // Formatted: four values, of which the surface has one byte each.
  asm volatile("sust.p.2d.v4.b32.zero [%0, {%1, %2}], {%3, %4, %5, %6};" ::"l"(bytes), "r"(x), "r"(y - 1), "r"(value),
               "r"(x), "r"(300 + y), "r"(7)
               : "memory");
}

static cudaArray_t array_of(const cudaChannelFormatDesc& format, cudaExtent extent, unsigned flags) {
  cudaArray_t array;
  CHECK(cudaMalloc3DArray(&array, &format, extent, flags));
  const size_t bytes = size_t(format.x + format.y + format.z + format.w) / 8;
  const cudaExtent all = make_cudaExtent(extent.width, extent.height ? extent.height : 1, extent.depth ? extent.depth : 1);
  std::vector<float> values(all.width * all.height * all.depth * bytes / 4 + 1);
  for (size_t n = 0; n < values.size(); ++n) values[n] = float(n % 97);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(values.data(), all.width * bytes, all.width, all.height);
  copy.dstArray = array;
  copy.extent = all;
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&copy));
  return array;
}

static cudaResourceDesc over(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  return resource;
}

static cudaTextureObject_t texture(const cudaResourceDesc& resource, cudaTextureAddressMode mode, bool linear,
                                   bool normalized = false) {
  cudaTextureDesc sampling = {};
  for (cudaTextureAddressMode& m : sampling.addressMode) m = mode;
  sampling.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
  sampling.mipmapFilterMode = cudaFilterModeLinear;
  sampling.normalizedCoords = normalized;
  sampling.maxMipmapLevelClamp = 10;
  cudaTextureObject_t object;
  CHECK(cudaCreateTextureObject(&object, &resource, &sampling, nullptr));
  return object;
}

static cudaSurfaceObject_t surface(cudaArray_t array) {
  const cudaResourceDesc resource = over(array);
  cudaSurfaceObject_t object;
  CHECK(cudaCreateSurfaceObject(&object, &resource));
  return object;
}

int main() {
  const cudaChannelFormatDesc one = cudaCreateChannelDesc<float>(), two = cudaCreateChannelDesc<float2>(),
                              number = cudaCreateChannelDesc<int>();
  float* out = zeros<float>(8 * threads);
  float* memory = zeros<float>(width * height);
  cudaResourceDesc line_of_memory = {}, plane_of_memory = {};
  line_of_memory.resType = cudaResourceTypeLinear;
  line_of_memory.res.linear = {memory, one, width * height * sizeof(float)};
  plane_of_memory.resType = cudaResourceTypePitch2D;
  plane_of_memory.res.pitch2D = {memory, one, width, height, width * sizeof(float)};

  const cudaArray_t line = array_of(one, make_cudaExtent(width, 0, 0), 0),
                    image = array_of(one, make_cudaExtent(width, height, 0), 0),
                    space = array_of(one, make_cudaExtent(width, height, slices), 0),
                    lines = array_of(one, make_cudaExtent(width, 0, slices), cudaArrayLayered),
                    images = array_of(one, make_cudaExtent(width, height, slices), cudaArrayLayered);
  for (const cudaTextureAddressMode mode : {cudaAddressModeClamp, cudaAddressModeBorder})
    for (const bool linear : {false, true})
      fetch<<<1, threads>>>(texture(line_of_memory, mode, false), texture(plane_of_memory, mode, linear),
                            texture(over(line), mode, linear), texture(over(image), mode, linear),
                            texture(over(space), mode, linear), texture(over(lines), mode, linear),
                            texture(over(images), mode, linear), out);

  counted<<<1, threads>>>(texture(line_of_memory, cudaAddressModeClamp, false), zeros<int>(threads), out);

  cudaMipmappedArray_t pyramid;
  CHECK(cudaMallocMipmappedArray(&pyramid, &one, make_cudaExtent(32, 32, 0), 4));
  const std::vector<float> rows(32 * 32, 1.5f);
  for (unsigned n = 0; n < 4; ++n) {
    cudaArray_t level;
    CHECK(cudaGetMipmappedArrayLevel(&level, pyramid, n));
    CHECK(cudaMemcpy2DToArray(level, 0, 0, rows.data(), 128, (32 >> n) * sizeof(float), 32 >> n,
                              cudaMemcpyHostToDevice));
  }
  cudaResourceDesc of_levels = {};
  of_levels.resType = cudaResourceTypeMipmappedArray;
  of_levels.res.mipmap.mipmap = pyramid;
  for (const cudaTextureAddressMode mode : {cudaAddressModeWrap, cudaAddressModeMirror})
    levels<<<1, threads>>>(texture(of_levels, mode, true, true), out);

  const cudaArray_t cube = array_of(one, make_cudaExtent(8, 8, 6), cudaArrayCubemap),
                    cube_layers = array_of(one, make_cudaExtent(8, 8, 12), cudaArrayCubemap | cudaArrayLayered);
  cubes<<<1, threads>>>(texture(over(cube), cudaAddressModeClamp, true, true),
                        texture(over(cube_layers), cudaAddressModeClamp, false, true), out);

  const cudaArray_t pairs = array_of(two, make_cudaExtent(width, height, 0), cudaArrayTextureGather);
  gather<<<1, threads>>>(texture(over(pairs), cudaAddressModeClamp, false), out);

  const cudaArray_t numbers_there = array_of(number, make_cudaExtent(width, height, 0), 0);
  written_out<<<1, threads>>>(texture(over(image), cudaAddressModeClamp, true),
                              texture(over(numbers_there), cudaAddressModeClamp, false), out);

  const unsigned both = cudaArraySurfaceLoadStore;
  const cudaExtent plane = make_cudaExtent(width, height, 0);
  const cudaChannelFormatDesc byte = cudaCreateChannelDesc<unsigned char>(), bytes4 = cudaCreateChannelDesc<uchar4>(),
                              quad = cudaCreateChannelDesc<int4>(), half = cudaCreateChannelDesc<short2>();
  copy_surface<unsigned char><<<1, threads>>>(surface(array_of(byte, plane, both)), surface(array_of(byte, plane, both)));
  copy_surface<short2><<<1, threads>>>(surface(array_of(half, plane, both)), surface(array_of(half, plane, both)));
  copy_surface<int2><<<1, threads>>>(surface(array_of(cudaCreateChannelDesc<int2>(), plane, both)),
                                     surface(array_of(cudaCreateChannelDesc<int2>(), plane, both)));
  copy_surface<int4><<<1, threads>>>(surface(array_of(quad, plane, both)), surface(array_of(quad, plane, both)));
  surfaces<<<1, threads>>>(surface(array_of(number, make_cudaExtent(width, 0, 0), both)),
                           surface(array_of(number, make_cudaExtent(width, height, slices), both)),
                           surface(array_of(number, make_cudaExtent(width, height, slices), both | cudaArrayLayered)),
                           surface(array_of(bytes4, plane, both)));
  CHECK(cudaGetLastError());
  report(out, 8 * threads);
}
