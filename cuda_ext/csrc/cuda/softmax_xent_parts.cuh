// How parts of a softmax are put together: of the threads of a warp, of warps, of the blocks of a cluster.
#pragma once

#include "../softmax_xent.h"
#include "device.cuh"

namespace sentinel {

constexpr int MAX_PARTS = 8;  // blocks on a row: the largest cluster every device with clusters can run

__device__ __forceinline__ float larger(float one, float other) {  // max_or_nan in one instruction
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(one), "f"(other));
  return most;
}

#if __CUDA_ARCH__ >= 900
// As cooperative_groups has them, whose header was a third of the time it took to compile all this. Arriving releases what was
// written, waiting acquires it.
__device__ __forceinline__ void cluster_sync() { asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory"); }

__device__ __forceinline__ int rank_in_cluster() {
  int rank;
  asm volatile("mov.b32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Where another block of the cluster has what this block has at `place` of its shared memory.
template <typename T> __device__ __forceinline__ T* of_block(T* place, int rank) {
  T* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(place), "r"(rank));
  return there;
}
#endif

// A part of a row, as a warp leaves it for the others; and the row.
struct Part {
  float largest;
  float sum;
  uint32_t nonfinite;
};

__device__ __forceinline__ Part of_warp(Softmax softmax, uint32_t nonfinite) {
  float top = softmax.largest;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) top = larger(top, __shfl_xor_sync(0xffffffffu, top, offset));
  softmax.raise_to(top);
  return Part{top, warp_sum(softmax.sum), warp_sum(nonfinite)};
}

// Puts `mine`, the same in every lane of a warp, and the parts of all warps of all blocks on the row together: every thread gets the
// same bits. `board` is where warps leave their parts; it is another one at every other row, so one barrier a row is enough.
template <int WARPS> __device__ __forceinline__ Part of_all(const Part& mine, Part* board, int parts) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
#if __CUDA_ARCH__ >= 900
  if (parts > 1) {
    if (lane < parts) of_block(board, lane)[rank_in_cluster() * WARPS + warp] = mine;
    cluster_sync();
  } else
#endif
  {
    if (lane == 0) board[warp] = mine;
    __syncthreads();
  }
  Softmax whole;
  uint32_t nonfinite = 0;
  for (int i = lane; i < WARPS * parts; i += 32) {
    const Part part = board[i];
    Softmax other{part.largest, part.sum};
    const float top = larger(whole.largest, other.largest);
    whole.raise_to(top);
    other.raise_to(top);
    whole.sum += other.sum;
    nonfinite += part.nonfinite;
  }
  return of_warp(whole, nonfinite);
}

}  // namespace sentinel
