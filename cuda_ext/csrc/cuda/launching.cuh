// Around a launch: the stream torch works on, and what a launch said.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include "../host_device.h"
#include "../tensors.h"

// Not there in a torch without CUDA: the library still loads, so that a machine without a GPU can check what it registers.
#pragma weak aoti_torch_get_current_cuda_stream

namespace sentinel {

inline cudaStream_t stream_of(const Tensor& tensor) {
  if (&aoti_torch_get_current_cuda_stream == nullptr) throw std::runtime_error("sentinel: this torch has no CUDA streams");
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
  return static_cast<cudaStream_t>(stream);
}

inline void check_launch(const char* op) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) throw std::runtime_error(std::string(op) + ": the kernel could not be launched: " + cudaGetErrorString(error));
}

// float of an element and back. In registers everything is float32.
__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
template <typename T> __device__ __forceinline__ T from_float(float value);
template <> __device__ __forceinline__ float from_float<float>(float value) { return value; }
template <> __device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) { return __float2bfloat16_rn(value); }
template <> __device__ __forceinline__ __half from_float<__half>(float value) { return __float2half_rn(value); }

// As by_dtype of tensors.h, with CUDA's own types.
template <typename Body>
void by_cuda_dtype(ScalarType type, const Body& body) {
  switch (type) {
    case ScalarType::Float: body(float{}); break;
    case ScalarType::BFloat16: body(__nv_bfloat16{}); break;
    case ScalarType::Half: body(__half{}); break;
    default: throw std::invalid_argument("sentinel: a dtype nobody checked");
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

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = max_or_nan(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

__device__ __forceinline__ uint32_t warp_sum(uint32_t value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__device__ __forceinline__ Seen warp_seen(Seen seen) {
  if constexpr (!TELLS) return seen;
  return Seen{warp_sum(seen.squares), warp_max(seen.largest), warp_sum(seen.nonfinite)};
}

}  // namespace sentinel
