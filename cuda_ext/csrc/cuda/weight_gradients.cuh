// The gradients of a norm's weight and bias beyond one thread: over the warps of a block, and over the blocks.
#pragma once

#include "add_norm.cuh"

namespace sentinel::norm {
namespace {

// Adds the block's warps in their order into the block's slot. `shared` holds `width` floats per warp.
__device__ __forceinline__ void write_slot(const float* shared, int width, float* slot) {
  for (int column = threadIdx.x; column < width; column += blockDim.x) {
    float sum = 0.0f;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += shared[warp * width + column];
    slot[column] = sum;
  }
}

// dweight and dbias from the blocks' slots (blocks, width). 32 columns per block; each of its warps sums every sixteenth slot,
// then one warp sums the warps: always in the same order.
template <typename W>
__global__ void __launch_bounds__(512)
    sum_weight_gradients(const float* dweights, const float* dbiases, W* dweight, W* dbias, int slots, int64_t width) {
  __shared__ float warp_sums[16][32];
  const float* from = blockIdx.y == 0 ? dweights : dbiases;
  W* out = blockIdx.y == 0 ? dweight : dbias;
  const int64_t column = int64_t(blockIdx.x) * 32 + threadIdx.x;
  float sum = 0.0f;
  if (column < width)
    for (int slot = threadIdx.y; slot < slots; slot += 16) sum += from[slot * width + column];
  warp_sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  double all = 0.0;
  for (int warp = 0; warp < 16; ++warp) all += double(warp_sums[warp][threadIdx.x]);
  out[column] = from_float<W>(float(all));
}

}  // namespace
}  // namespace sentinel::norm
