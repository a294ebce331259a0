// Sixteen sums side by side, so that a processor adds sixteen elements at once: as wide as its registers are, and always in the
// same order. Written out, because no compiler may reorder a plain sum of floats by itself.
#pragma once

#include <cstring>
#include <type_traits>

#include "../host_device.h"

namespace sentinel {

inline constexpr int64_t LANES = 16;
// Elements worked on at once. What lies between two passes over them stays in the first-level cache, and a lane adds up 64
// squares in float32 at most.
inline constexpr int64_t BLOCK = 1024;

typedef float Floats __attribute__((vector_size(64)));
typedef double Doubles __attribute__((vector_size(64)));  // half as many: a block's elements are added up by two of them
typedef uint32_t Words __attribute__((vector_size(64)));
typedef float HalfFloats __attribute__((vector_size(32)));

template <typename Vector, typename Number>
inline Vector lanes_at(const Number* from) {
  Vector lanes;
  std::memcpy(&lanes, from, sizeof(Vector));
  return lanes;
}

inline Words words_of(const Floats& lanes) {
  Words words;
  std::memcpy(&words, &lanes, sizeof words);
  return words;
}

template <typename Vector>
inline double sum_of(const Vector& lanes) {
  double sum = 0.0;
  for (size_t lane = 0; lane < sizeof(Vector) / sizeof(lanes[0]); ++lane) sum += double(lanes[lane]);
  return sum;
}

inline uint32_t largest_of(const Words& lanes) {
  uint32_t largest = 0;
  for (int64_t lane = 0; lane < LANES; ++lane) largest = lanes[lane] > largest ? lanes[lane] : largest;
  return largest;
}

}  // namespace sentinel
