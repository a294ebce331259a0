// Vectors of sixteen lanes. A sum goes into the lanes in a fixed order, so its bits depend neither on the width of the processor's
// registers nor on the number of threads. Written out, because a compiler may not reorder a plain sum of floats by itself.
#pragma once

#include <cstring>
#include <type_traits>

#include "../host_device.h"

namespace sentinel {

inline constexpr int64_t LANES = 16;
// Elements worked on at once. What lies between two passes over them stays in the L1 cache, and a lane adds up 64
// squares in float32 at most.
inline constexpr int64_t BLOCK = 1024;

typedef float Floats __attribute__((vector_size(64)));
typedef double Doubles __attribute__((vector_size(64)));  // half as many: a block's elements are added up by two of them
typedef uint32_t Words __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef float HalfFloats __attribute__((vector_size(32)));

template <typename Vector, typename Number>
inline Vector lanes_at(const Number* from) {
  Vector lanes;
  std::memcpy(&lanes, from, sizeof(Vector));
  return lanes;
}

// The lanes from element j of a row of n on; `padding` stands for elements beyond its end.
SENTINEL_INLINE void load_lanes(Floats& lanes, const float* row, int64_t j, int64_t n, float padding) {
  if (j + LANES <= n) {
    std::memcpy(&lanes, row + j, sizeof lanes);
  } else {
    lanes = Floats{} + padding;
    std::memcpy(&lanes, row + j, size_t(n - j) * sizeof(float));
  }
}

inline Words words_of(const Floats& lanes) {
  Words words;
  std::memcpy(&words, &lanes, sizeof words);
  return words;
}

// In double, one lane after the other.
template <typename Vector>
inline double sum_of(const Vector& lanes) {
  double sum = 0.0;
  for (size_t lane = 0; lane < sizeof(Vector) / sizeof(lanes[0]); ++lane) sum += double(lanes[lane]);
  return sum;
}

// In float32, pairwise.
SENTINEL_INLINE float pairwise_sum(const Floats& lanes) {
  float eight[8], four[4];
  for (int i = 0; i < 8; ++i) eight[i] = lanes[i] + lanes[i + 8];
  for (int i = 0; i < 4; ++i) four[i] = eight[i] + eight[i + 4];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

inline uint32_t largest_of(const Words& lanes) {
  uint32_t largest = 0;
  for (int64_t lane = 0; lane < LANES; ++lane) largest = lanes[lane] > largest ? lanes[lane] : largest;
  return largest;
}

}  // namespace sentinel
