// How grad_stats is launched: by pointers alone.
#pragma once

#include <driver_types.h>

#include <vector>

#include "../chunks.h"
#include "../element.h"

namespace sentinel {

struct Gradient {
  const void* from;
  Element element;
};

// `slots` has room for 3 doubles of each chunk, `out` for 3 of each tensor. There is at least one chunk. `device` is the one that
// the stream belongs to, and the current one.
void launch_grad_stats(const Chunks& chunks, const std::vector<Gradient>& grads, const float* inv_scale, double* slots,
                       double* out, int device, cudaStream_t stream);

}  // namespace sentinel
