// What the kernels of add_norm are given, in plain pointers. add_norm_op.cpp fills it in, asks for a plan, allocates what the plan's
// blocks share, and launches; add_norm.cu and add_norm_backward.cu plan and launch.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>

#include "../element.h"
#include "last_block.h"

namespace sentinel::norm {

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

}  // namespace sentinel::norm
