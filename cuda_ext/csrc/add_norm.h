// The arithmetic of add_norm, element by element and row by row. The formulas stand in ops/add_norm.py.
#pragma once

#include "host_device.h"

namespace sentinel::norm {

SENTINEL_HD uint32_t bits_of(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  union { float number; uint32_t bits; } same{value};
  return same.bits;
#endif
}

SENTINEL_HD float float_of(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  union { uint32_t bits; float number; } same{bits};
  return same.number;
#endif
}

// The bits of magnitudes order as the magnitudes do, infinity above every number and NaN above infinity: an integer maximum finds
// the largest, lets NaN through, and tells whether anything was not finite at all. Only then is it worth counting.
inline constexpr uint32_t INFINITE = 0x7f800000u;
SENTINEL_HD uint32_t magnitude_of(float value) { return bits_of(value) & 0x7fffffffu; }
SENTINEL_HD uint32_t larger(uint32_t one, uint32_t other) { return one > other ? one : other; }

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
