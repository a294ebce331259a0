// What grad_stats tells of a gradient, in two looks. The first is as cheap as can be: a float32 sum of squares and the largest
// magnitude. Only where these show that it cannot be trusted (an element is not finite, or the squares left float32's range while
// the elements did not) are the same elements looked at again, in double and one by one. So the sum is finite exactly where every
// element is, and nothing is paid for it while all is well.
#pragma once

#include "host_device.h"

namespace sentinel {

inline constexpr uint32_t INFINITE_BITS = 0x7f800000u;
// Squares below float32's smallest normal number lose their digits. In a sum of a chunk that is larger than this (2^-80) they are
// less than its last digit.
inline constexpr float TRUSTED_FROM = 8.271806125530277e-25f;

SENTINEL_HD uint32_t bits_of(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  union { float number; uint32_t bits; } same{value};
  return same.bits;
#endif
}

SENTINEL_HD float of_bits(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  union { uint32_t bits; float number; } same{bits};
  return same.number;
#endif
}

// Ordered as magnitudes are, infinity above every number and NaN above infinity: one comparison of integers keeps the largest and NaN.
SENTINEL_HD uint32_t magnitude_bits(float value) { return bits_of(value) & 0x7fffffffu; }
SENTINEL_HD uint32_t larger(uint32_t one, uint32_t other) { return one > other ? one : other; }

// These begin as Glance{}: shared memory takes no constructors.
struct Glance {
  float squares;
  uint32_t largest;  // magnitude_bits

  SENTINEL_HD void add(float value) {
#if defined(__CUDA_ARCH__)
    squares = __fmaf_rn(value, value, squares);  // said, because nvcc need not do it alike in every copy of a loop
#else
    squares += value * value;
#endif
    largest = larger(largest, magnitude_bits(value));
  }
};

// Whether a sum of squares of float32, and the largest magnitude in it, tell all there is.
SENTINEL_HD bool is_trusted(double squares, uint32_t largest) {
  return largest == 0 || (largest < INFINITE_BITS && squares >= double(TRUSTED_FROM) && squares <= 3.4e38);
}

// What is told of a part of a tensor. Its largest magnitude stays bits until it is written.
struct Looked {
  double squares;
  uint32_t largest, nonfinite;

  // The second look.
  SENTINEL_HD void add(float value) {
    const uint32_t magnitude = magnitude_bits(value);
    squares += double(value) * double(value);
    largest = larger(largest, magnitude);
    nonfinite += magnitude >= INFINITE_BITS;
  }

  SENTINEL_HD void add(const Looked& other) {
    squares += other.squares;
    largest = larger(largest, other.largest);
    nonfinite += other.nonfinite;
  }

  SENTINEL_HD void write(double* out) const {
    out[0] = squares;
    out[1] = double(of_bits(largest));
    out[2] = double(nonfinite);
  }
};

}  // namespace sentinel
