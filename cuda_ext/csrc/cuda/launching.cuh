// Around a launch, for sources that know torch.
#pragma once

#include "device.cuh"
#include "stream.h"

namespace sentinel {

// As by_dtype of tensors.h, with CUDA's own types.
template <typename Body>
void by_cuda_dtype(ScalarType type, const Body& body) {
  by_element(element_of(type), body);
}

}  // namespace sentinel
