// Instructions that CUDA C++ has no word for, all in this file: a machine without a GPU that acts the kernels out (tests/cuda_ext/acted)
// has a file of the same name in its place.
#pragma once

#include <cstdint>

namespace sentinel {

// Copies 16 bytes that this thread alone will read, so it need only wait for its own copies. The clobbers keep the compiler from
// moving reads of shared memory over a copy or a wait, which cuda_pipeline.h leaves to a barrier.
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all but the NEWEST groups of copies have arrived.
template <int NEWEST>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(NEWEST) : "memory");
}

// max_or_nan (host_device.h) in one instruction.
__device__ __forceinline__ float larger_or_nan(float one, float other) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(one), "f"(other));
  return result;
}

// 2^x within 2 ulp, 0 where that is no normal float32.
__device__ __forceinline__ float power_of_two(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

#if __CUDA_ARCH__ >= 900
// As in cooperative_groups, whose header took a third of softmax_xent's compile time. Arriving releases writes, waiting acquires them.
__device__ __forceinline__ void cluster_sync() { asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory"); }

__device__ __forceinline__ int rank_in_cluster() {
  int rank;
  asm volatile("mov.b32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// The address of `place` of this block's shared memory in another block of the cluster.
template <typename T> __device__ __forceinline__ T* in_block(T* place, int rank) {
  T* remote;
  asm("mapa.u64 %0, %1, %2;" : "=l"(remote) : "l"(place), "r"(rank));
  return remote;
}
#endif

}  // namespace sentinel
