// The stream that torch works on.
#pragma once

#include <driver_types.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

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

}  // namespace sentinel
