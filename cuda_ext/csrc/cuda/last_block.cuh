// Statistics of all blocks, added in the order of the blocks by the block that ends last: no second launch, no atomic sums.
#pragma once

#include "../add_norm.h"
#include "device.cuh"
#include "launches.h"

namespace sentinel::norm {

// Of a thread, a block or all blocks; the largest magnitude as bits (host_device.h).
struct PartialStats {
  double squares = 0.0;
  unsigned long long nonfinite = 0;
  unsigned long long largest = 0;

  __device__ __forceinline__ void add(const PartialStats& other) {
    squares += other.squares;
    nonfinite += other.nonfinite;
    largest = other.largest > largest ? other.largest : largest;
  }
};

// Valid in thread 0. Every thread of the block must call it.
__device__ __forceinline__ PartialStats block_sum(PartialStats thread) {
  __shared__ PartialStats warp_sums[32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    thread.add(PartialStats{__shfl_xor_sync(0xffffffffu, thread.squares, offset),
                            __shfl_xor_sync(0xffffffffu, thread.nonfinite, offset),
                            __shfl_xor_sync(0xffffffffu, thread.largest, offset)});
  __syncthreads();  // the sums of an earlier call have been read
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = thread;
  __syncthreads();
  PartialStats sum;
  if (threadIdx.x == 0)
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum.add(warp_sums[warp]);
  return sum;
}

static __device__ unsigned finished_blocks[STREAMS];

static __device__ __noinline__ void store_stats(const PartialStats& of_thread, PartialStats* partials, const Counter& counter,
                                                double* stats) {
  if constexpr (!STATISTICS) return;
  __shared__ bool is_last;
  unsigned* finished = counter.exclusive != nullptr ? counter.exclusive : &finished_blocks[counter.stream];
  const PartialStats block = block_sum(of_thread);
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = block;
    __threadfence();
    is_last = atomicAdd(finished, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  PartialStats all;
  for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x)
    all.add(PartialStats{__ldcg(&partials[b].squares), __ldcg(&partials[b].nonfinite), __ldcg(&partials[b].largest)});
  all = block_sum(all);
  if (threadIdx.x != 0) return;
  stats[0] = all.squares;
  stats[1] = double(of_bits(static_cast<uint32_t>(all.largest)));
  stats[2] = double(all.nonfinite);
  *finished = 0;
}

}  // namespace sentinel::norm
