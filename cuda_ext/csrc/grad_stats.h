// What grad_stats tells of a gradient, in two looks. The first is as cheap as can be: a float32 sum of squares and the largest
// magnitude. Only where these show that it cannot be trusted (an element is not finite, or the squares left float32's range while
// the elements did not) are the same elements looked at again, in double and one by one. So the sum is finite exactly where every
// element is, and nothing is paid for it while all is well.
#pragma once

#include "host_device.h"

namespace sentinel {

// Squares below float32's smallest normal number lose their digits. In a sum of a chunk that is larger than this (2^-80) they are
// less than its last digit.
inline constexpr float TRUSTED_FROM = 8.271806125530277e-25f;

// These begin as Glance{}: shared memory takes no constructors.
struct Glance {
  float squares;
  uint32_t largest;  // magnitude_of

  SENTINEL_HD void add(float value) {
#if defined(__CUDA_ARCH__)
    squares = __fmaf_rn(value, value, squares);  // said, because nvcc need not do it alike in every copy of a loop
#else
    squares += value * value;
#endif
    largest = larger(largest, magnitude_of(value));
  }
};

// Whether a sum of squares of float32, and the largest magnitude in it, tell all there is.
SENTINEL_HD bool is_trusted(double squares, uint32_t largest) {
  return largest == 0 || (largest < INFINITE && squares >= double(TRUSTED_FROM) && squares <= 3.4e38);
}

// What is told of a part of a tensor. Its largest magnitude stays bits until it is written.
struct Looked {
  double squares;
  uint32_t largest, nonfinite;

  // The second look.
  SENTINEL_HD void add(float value) {
    const uint32_t magnitude = magnitude_of(value);
    squares += double(value) * double(value);
    largest = larger(largest, magnitude);
    nonfinite += magnitude >= INFINITE;
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
