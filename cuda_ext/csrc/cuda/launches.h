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
  const void* data;
  Element element;
};

// `slots` has room for Chunks::slot_rows(3) rows of 3 doubles, `out` for 3 of each tensor. There is at least one chunk.
void launch_grad_stats(const Chunks& chunks, const std::vector<Gradient>& grads, const float* inv_scale, double* slots,
                       double* out, int device, cudaStream_t stream);

// adamw_step

// One parameter tensor, its gradient and its moments.
struct ParamState {
  float* param;
  const void* grad;
  float* first;
  float* second;
  float decay;
  Element grad_element;  // FLOAT or BFLOAT16
};

// `slots` has room for Chunks::slot_rows(4) rows of 4 doubles, `out` for 4 of each tensor. Without any tensor the update is still counted.
void launch_adamw_step(const Chunks& chunks, const std::vector<ParamState>& tensors, const double* control, float* step,
                       double* slots, double* out, int device, cudaStream_t stream);

// softmax_xent and scale_

// What a launch counts of its targets before it reads the logits; `finished`: blocks that have ended.
struct XentCounts {
  double counted;  // at least 1
  float weight;    // 1 / counted
  unsigned finished;
};

struct XentArguments {
  const void* logits;   // rows × columns, beginning at 16 bytes, as does the next
  void* dlogits;        // null: no gradient is written; may be the logits
  const int64_t* targets;
  const float* weight;    // a scalar, as the next, on the device; null: 1 / the number of counted targets
  const float* expected;  // null: 1
  float* losses;  // of each row, as the next
  float* lse;
  float* total;  // a scalar, as the next
  float* mean;
  double* stats;  // 4
  double* slots;  // room for xent_slots(device) of them
  XentCounts* counts;
  double z_loss;
  int64_t ignore_index;
  int64_t rows;  // at least 1
  int columns;
};

int64_t xent_slots(int device);

void launch_xent(const XentArguments& arguments, Element element, int device, cudaStream_t stream);

void launch_scale(void* x, int64_t count, Element element, const float* factor, int device, cudaStream_t stream);

// add_norm: make a plan, allocate what its blocks need, launch.
namespace norm {

// Counters of each stream: kernels of one stream follow each other, and the last block leaves them at zero.
inline constexpr int STREAMS = 256;
inline constexpr int SPAN = 256;   // blocks of the forward whose statistics one of them adds
inline constexpr int SPANS = 256;  // at most
inline constexpr int COUNTERS = 1 + SPANS;

// How the blocks of a launch find out which of them ends last (last_block.cuh).
struct Counter {
  unsigned* exclusive = nullptr;  // COUNTERS of them, zeroed for this launch alone; null: the stream's
  int stream = 0;
};

struct ForwardPointers {
  const void *x, *residual, *weight, *bias;  // residual and bias may be null
  void *y, *h;                               // h is null without a residual
  float *mean, *rstd;                        // mean is null for RMSNorm
  double *stats, *partials;                  // room for partial_doubles(plan)
  Counter counter;
  int64_t rows, width;
  float eps;
  Element element, weight_element;
  int device;
  cudaStream_t stream;
};

struct BackwardPointers {
  const void *dy, *dh, *h, *weight;  // dh may be null
  const float *mean, *rstd;          // mean is null for RMSNorm
  void *dx, *dweight, *dbias;        // dbias is null without a bias
  float *dweights, *dbiases;         // a row for each block of the plan, at most; dbiases is null without a bias
  int64_t rows, width;
  Element element, weight_element;
  int device;
  cudaStream_t stream;
};

inline constexpr int PARTIAL_DOUBLES = 3;

struct Plan {
  const void* kernel;
  int blocks, threads;
  size_t shared;  // bytes, of dynamic shared memory
  int stages;     // rows of a group that are staged there
  int cluster = 1;  // blocks on a row
  int half = 0;     // columns of the first of two
  int rows = 0;     // of the forward: those of a group, one behind the other; 0: every so many, as there are groups
};

inline int64_t partial_doubles(const Plan& plan) {
  return int64_t(PARTIAL_DOUBLES) * (plan.blocks + (plan.blocks + SPAN - 1) / SPAN);
}

// Does not read partials, dweights and dbiases: the plan gives their sizes.
Plan plan(const ForwardPointers& pointers);
Plan plan(const BackwardPointers& pointers);
void launch(const ForwardPointers& pointers, const Plan& plan);
void launch(const BackwardPointers& pointers, const Plan& plan);

}  // namespace norm
}  // namespace sentinel
