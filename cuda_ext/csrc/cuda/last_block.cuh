// What all blocks saw, summed by the block that ends last, in the order of the blocks: no second launch and no sum by atomics.
#pragma once

#include "../add_norm.h"
#include "device.cuh"
#include "launches.h"

namespace sentinel::norm {

// A thread's, a block's, all blocks': the magnitude as bits (add_norm.h).
struct Share {
  double squares = 0.0;
  unsigned long long nonfinite = 0;
  unsigned long long largest = 0;

  __device__ __forceinline__ void add(const Share& other) {
    squares += other.squares;
    nonfinite += other.nonfinite;
    largest = other.largest > largest ? other.largest : largest;
  }
};

// Thread 0 gets the block's. Every thread must come.
__device__ __forceinline__ Share block_share(Share share) {
  __shared__ Share of_warps[32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    share.add(Share{__shfl_xor_sync(0xffffffffu, share.squares, offset), __shfl_xor_sync(0xffffffffu, share.nonfinite, offset),
                    __shfl_xor_sync(0xffffffffu, share.largest, offset)});
  __syncthreads();  // a share that came before has been read
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = share;
  __syncthreads();
  Share sum;
  if (threadIdx.x == 0)
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum.add(of_warps[warp]);
  return sum;
}

static __device__ unsigned ended_blocks[STREAMS];

static __device__ __noinline__ void tell(const Share& mine, Share* shares, const Counter& counter, double* stats) {
  if constexpr (!TELLS) return;
  __shared__ bool is_last;
  unsigned* ended = counter.own != nullptr ? counter.own : &ended_blocks[counter.stream];
  const Share block = block_share(mine);
  if (threadIdx.x == 0) {
    shares[blockIdx.x] = block;
    __threadfence();
    is_last = atomicAdd(ended, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  Share all;
  for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x)
    all.add(Share{__ldcg(&shares[b].squares), __ldcg(&shares[b].nonfinite), __ldcg(&shares[b].largest)});
  all = block_share(all);
  if (threadIdx.x != 0) return;
  stats[0] = all.squares;
  stats[1] = double(of_bits(static_cast<uint32_t>(all.largest)));
  stats[2] = double(all.nonfinite);
  *ended = 0;
}

}  // namespace sentinel::norm
