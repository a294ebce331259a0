// Instructions that CUDA C++ has no word for, all in this file: a machine without a GPU that acts the kernels out (tests/cuda_ext/emulated)
// has a file of the same name in its place.
#pragma once

#include <cstdint>

namespace sentinel {

// An address of shared memory in a register of its own. The compiler does not see where it comes from: else it would make it anew
// before each use.
struct SharedPlace {
  uint32_t address;
  __device__ __forceinline__ SharedPlace operator+(int bytes) const { return SharedPlace{address + uint32_t(bytes)}; }
};
__device__ __forceinline__ SharedPlace shared_place(const void* shared) {
  SharedPlace place;
  asm volatile("mov.b32 %0, %1;" : "=r"(place.address) : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))));
  return place;
}
__device__ __forceinline__ uint4 load_shared(SharedPlace place) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(place.address));
  return value;
}

// Copies 16 bytes that this thread alone will read, so it need only wait for its own copies. The clobbers keep the compiler from
// moving reads of shared memory over a copy or a wait, which cuda_pipeline.h leaves to a barrier.
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}
__device__ __forceinline__ void copy_async(SharedPlace place, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place.address), "l"(global) : "memory");
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

// Pairs of 16-bit numbers in a word, the first in its low half: rounded from float32; the larger of each, NaN where either is; and
// word · 0 + sum, which leaves a sum of 0 as it is until an element is not finite.
__device__ __forceinline__ uint32_t bfloat16_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ __forceinline__ uint32_t half_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ __forceinline__ uint32_t larger_bfloat16s(uint32_t one, uint32_t other) {
  uint32_t larger;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(one), "r"(other));
  return larger;
}
__device__ __forceinline__ uint32_t larger_halves(uint32_t one, uint32_t other) {
  uint32_t larger;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(one), "r"(other));
  return larger;
}
// By one multiply-add each, of 1: exact but for the one rounding.
__device__ __forceinline__ uint32_t sum_of_bfloat16s(uint32_t one, uint32_t other) {
  uint32_t sum;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(one), "r"(0x3f803f80u), "r"(other));
  return sum;
}
__device__ __forceinline__ uint32_t sum_of_halves(uint32_t one, uint32_t other) {
  uint32_t sum;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(one), "r"(other));
  return sum;
}
__device__ __forceinline__ uint32_t add_no_bfloat16s(uint32_t word, uint32_t sum) {
  uint32_t result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(word), "r"(0u), "r"(sum));
  return result;
}
__device__ __forceinline__ uint32_t add_no_halves(uint32_t word, uint32_t sum) {
  uint32_t result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(word), "r"(0u), "r"(sum));
  return result;
}

// Of a kernel that was launched EARLY (launching.cuh): waits until the kernels before it have ended and what they wrote is seen. And
// of the kernel before it: from here on the next may begin.
__device__ __forceinline__ void wait_for_kernels_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
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
