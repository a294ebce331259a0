// The statistics of a gradient, in one or two passes. The fast pass takes a float32 sum of squares and the largest magnitude. Only
// if these cannot be trusted (an element is not finite, or the squares left float32's range while the elements did not) does an
// exact pass read the same elements again, in double. So the sum is finite exactly where every element is, at no cost for healthy
// gradients.
#pragma once

#include "host_device.h"

namespace sentinel {

// Squares below float32's smallest normal number lose their digits. In a sum of a chunk that is larger than this (2^-80) they are
// less than its last digit.
inline constexpr float TRUSTED_MIN = 8.271806125530277e-25f;

// These begin as Glance{}: shared memory takes no constructors.
struct FastStats {
  float squares;
  uint32_t largest;  // magnitude_of

  SENTINEL_HD void add(float value) {
#if defined(__CUDA_ARCH__)
    squares = __fmaf_rn(value, value, squares);  // explicit: nvcc may fuse one copy of a loop and not another
#else
    squares += value * value;
#endif
    largest = larger(largest, magnitude_of(value));
  }
};

// Whether a float32 sum of squares and its largest magnitude need no exact pass.
SENTINEL_HD bool is_trusted(double squares, uint32_t largest) {
  return largest == 0 || (largest < INFINITY_BITS && squares >= double(TRUSTED_MIN) && squares <= 3.4e38);
}

// Statistics of a part of a tensor. The largest magnitude is kept as bits until it is written.
struct GradStats {
  double squares;
  uint32_t largest, nonfinite;

  // The exact pass.
  SENTINEL_HD void add(float value) {
    const uint32_t magnitude = magnitude_of(value);
    squares += double(value) * double(value);
    largest = larger(largest, magnitude);
    nonfinite += magnitude >= INFINITY_BITS;
  }

  SENTINEL_HD void add(const GradStats& other) {
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
