// The launches of all kernels, by plain pointers. The _op.cpp files know torch, check and allocate, and call these; the .cu files
// define them and never include torch, whose headers would take most of the compile time of each architecture. A launch that the
// GPU refuses raises std::runtime_error with the op's name. `device` is the stream's, and must be the current one.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../chunks.h"
#include "../host_device.h"

namespace sentinel {

// grad_stats

struct Gradient {
  const void* from;
  Element element;
};

// `slots` has room for 3 doubles of each chunk, `out` for 3 of each tensor. There is at least one chunk. `device` is the one that
// the stream belongs to, and the current one.
void launch_grad_stats(const Chunks& chunks, const std::vector<Gradient>& grads, const float* inv_scale, double* slots,
                       double* out, int device, cudaStream_t stream);

// adamw_step

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

// softmax_xent and scale_

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

// add_norm. An op asks for a plan, allocates what the plan's blocks need, and launches.
namespace norm {

// One counter per stream: kernels of one stream follow each other, and the last block leaves it at zero.
inline constexpr int STREAMS = 256;

struct Counter {
  unsigned* own = nullptr;  // zeroed for this launch alone; null: the stream's
  int stream = 0;
};

struct ForwardPointers {
  const void *x, *residual, *weight, *bias;  // residual and bias may be null
  void *y, *h;                               // h is null without a residual
  float *mean, *rstd;                        // mean is null for RMSNorm
  double *stats, *shares;                    // SHARE_DOUBLES of shares for each block of the plan
  Counter counter;
  int64_t rows, width;
  float eps;
  Element element, of_weight;
  int device;
  cudaStream_t stream;
};

struct BackwardPointers {
  const void *dy, *dh, *h, *weight;  // dh may be null
  const float *mean, *rstd;          // mean is null for RMSNorm
  void *dx, *dweight, *dbias;        // dbias is null without a bias
  float *dweights, *dbiases;         // a row for each block of the plan; dbiases is null without a bias
  int64_t rows, width;
  Element element, of_weight;
  int device;
  cudaStream_t stream;
};

inline constexpr int SHARE_DOUBLES = 3;

struct Plan {
  const void* kernel;
  int blocks, threads;
  size_t shared;  // bytes, of dynamic shared memory
  int stages;     // rows of a group that wait there
};

// Asks not for shares, dweights and dbiases, whose sizes it tells.
Plan plan(const ForwardPointers& given);
Plan plan(const BackwardPointers& given);
void launch(const ForwardPointers& given, const Plan& plan);
void launch(const BackwardPointers& given, const Plan& plan);

}  // namespace norm
}  // namespace sentinel
