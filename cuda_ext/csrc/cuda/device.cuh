// What every kernel needs of CUDA: conversions, packs of 16 bytes, sums over a warp, asynchronous copies. No .cu file includes torch
// (launches.h).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "../host_device.h"
#include "launching.cuh"
#include "ptx.cuh"

namespace sentinel {

// float of an element and back. In registers everything is float32.
__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
template <typename T> __device__ __forceinline__ T from_float(float value);
template <> __device__ __forceinline__ float from_float<float>(float value) { return value; }
template <> __device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) { return __float2bfloat16_rn(value); }
template <> __device__ __forceinline__ __half from_float<__half>(float value) { return __float2half_rn(value); }

// Calls `body` with a value of CUDA's own type: by_element(element, [&](auto zero) { using T = decltype(zero); …}).
template <typename Body>
void by_element(Element element, const Body& body) {
  switch (element) {
    case Element::FLOAT: body(float{}); break;
    case Element::BFLOAT16: body(__nv_bfloat16{}); break;
    case Element::HALF: body(__half{}); break;
  }
}

// 16 bytes at a time, where a pointer allows it.
template <typename T> struct alignas(16) Pack { T element[16 / sizeof(T)]; };
template <typename T> inline constexpr int PACKED = 16 / sizeof(T);
inline bool is_aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__device__ __forceinline__ double warp_sum(double value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__device__ __forceinline__ uint32_t warp_sum(uint32_t value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

}  // namespace sentinel
