// dweight and dbias out of the blocks' slots (blocks, width). 32 columns a block; each of its warps sums every sixteenth slot,
// then one warp sums the warps: always in the same order.
#pragma once

#include "device.cuh"

namespace sentinel::norm {
namespace {

template <typename W>
__global__ void __launch_bounds__(512)
    sum_slots(const float* dweights, const float* dbiases, W* dweight, W* dbias, int slots, int64_t width) {
  __shared__ float of_warps[16][32];
  const float* from = blockIdx.y == 0 ? dweights : dbiases;
  W* out = blockIdx.y == 0 ? dweight : dbias;
  const int64_t column = int64_t(blockIdx.x) * 32 + threadIdx.x;
  float sum = 0.0f;
  if (column < width)
    for (int slot = threadIdx.y; slot < slots; slot += 16) sum += from[slot * width + column];
  of_warps[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  double all = 0.0;
  for (int warp = 0; warp < 16; ++warp) all += double(of_warps[warp][threadIdx.x]);
  out[column] = from_float<W>(float(all));
}

}  // namespace
}  // namespace sentinel::norm
