// The launches of softmax_xent and scale_, by plain pointers: what the file that knows torch asks of those that know the GPU. They
// raise std::runtime_error with the op's name where the GPU refuses. The device that is named must be the current one.
#pragma once

#include <driver_types.h>

#include <cstdint>

#include "../element.h"

namespace sentinel {

struct XentArguments {
  const void* logits;  // rows × columns, beginning at 16 bytes, as does the next
  void* dlogits;
  const int64_t* targets;
  const float* weight;  // a scalar each, on the device
  const float* expected;
  float* losses;  // of each row, as the next
  float* lse;
  double* slots;  // room for xent_slots(device) of them
  double z_loss;
  int64_t ignore_index;
  int64_t rows;  // at least 1
  int columns;
};

int64_t xent_slots(int device);

void launch_xent(const XentArguments& arguments, Element element, float* total, double* stats, int device, cudaStream_t stream);

void launch_scale(void* x, int64_t count, Element element, const float* factor, int device, cudaStream_t stream);

}  // namespace sentinel
