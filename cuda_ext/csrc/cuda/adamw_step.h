// How adamw_step is launched: by pointers alone.
#pragma once

#include <driver_types.h>

#include <vector>

#include "../chunks.h"
#include "../element.h"

namespace sentinel {

// One tensor of a model, and what the optimizer holds of it.
struct Trained {
  float* param;
  const void* grad;
  float* first;
  float* second;
  float decay;
  Element grad_element;  // FLOAT or BFLOAT16
};

// `slots` has room for 4 doubles of each chunk, `out` for 4 of each tensor. There may be no tensor at all: the update is counted.
// `device` is the one that the stream belongs to, and the current one.
void launch_adamw_step(const Chunks& chunks, const std::vector<Trained>& tensors, const double* control, float* step,
                       double* slots, double* out, int device, cudaStream_t stream);

}  // namespace sentinel
