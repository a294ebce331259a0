// The stream that torch works on.
#pragma once

#include <driver_types.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include "../tensors.h"

// Absent from a torch without CUDA: weak, so that the library loads there too and its registrations can be checked.
#pragma weak aoti_torch_get_current_cuda_stream

namespace sentinel {

inline cudaStream_t stream_of(const Tensor& tensor) {
  if (&aoti_torch_get_current_cuda_stream == nullptr) throw std::runtime_error("sentinel: this torch has no CUDA streams");
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
  return static_cast<cudaStream_t>(stream);
}

}  // namespace sentinel
