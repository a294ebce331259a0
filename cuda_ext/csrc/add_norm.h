// The arithmetic of add_norm, element by element and row by row. The formulas stand in ops/add_norm.py.
#pragma once

#include "host_device.h"

namespace sentinel::norm {

// Of the average square. On a GPU within 2 ulp, without the slow path of a division.
SENTINEL_HD float rstd_of(float variance, float eps) {
#if defined(__CUDA_ARCH__)
  return rsqrtf(variance + eps);
#else
  return 1.0f / sqrtf(variance + eps);
#endif
}

// RMSNorm is the same with a mean of 0: h - 0 is h, bit by bit.
SENTINEL_HD float normed(float h, float mean, float rstd) { return (h - mean) * rstd; }
SENTINEL_HD float scaled(float normed, float weight, float bias) { return normed * weight + bias; }

// Through the norm: g = dy weight, and the averages of g (0 for RMSNorm) and of g normed over the row.
SENTINEL_HD float gradient(float g, float normed, float average, float average_normed, float rstd) {
  return (g - average - normed * average_normed) * rstd;
}

}  // namespace sentinel::norm
