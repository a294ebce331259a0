// Arithmetic that both libraries share: g++ compiles it for the CPU, nvcc for the GPU, so that tests on a machine without a GPU
// cover what a GPU computes. cuda/ adds only how warps and blocks share the work.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define SENTINEL_HD __host__ __device__ __forceinline__
#else
#define SENTINEL_HD inline
#endif
#define SENTINEL_INLINE inline __attribute__((always_inline))  // where g++ would not inline

namespace sentinel {

// The dtypes that the ops accept, for code that does not include torch's headers.
enum class Element : uint8_t { FLOAT, BFLOAT16, HALF };

// False in the library that the benchmark compares with: the same kernels, their statistics compiled out by `if constexpr`.
#if defined(SENTINEL_BARE)
inline constexpr bool STATISTICS = false;
#else
inline constexpr bool STATISTICS = true;
#endif

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

// The bits of magnitudes order as the magnitudes do, infinity above every number and NaN above infinity: an integer maximum finds
// the largest, lets NaN through, and shows whether anything was not finite. Only then are such elements counted.
inline constexpr uint32_t INFINITY_BITS = 0x7f800000u;
SENTINEL_HD uint32_t magnitude_of(float value) { return bits_of(value) & 0x7fffffffu; }
SENTINEL_HD uint32_t larger(uint32_t one, uint32_t other) { return one > other ? one : other; }

// Not std::isfinite: no flag and no compiler may reason it away.
SENTINEL_HD bool is_finite(float value) { return magnitude_of(value) < INFINITY_BITS; }

// The larger of two, and NaN where either is: as torch's amax.
SENTINEL_HD float max_or_nan(float one, float other) { return (one != one || one > other) ? one : other; }

// Statistics of up to a few thousand elements: longer sums of squares are in double (Stats). NaN and infinity show in the first two.
struct RowStats {
  float squares = 0.0f;
  float largest = 0.0f;  // of the magnitudes; NaN where one was
  uint32_t nonfinite = 0;
};

// [sum of squares, largest magnitude, count of non-finite elements], as an op returns them; parts are added in a fixed order.
struct Stats {
  double squares = 0.0;
  double largest = 0.0;
  double nonfinite = 0.0;

  SENTINEL_HD void add(const RowStats& row) { add(Stats{double(row.squares), double(row.largest), double(row.nonfinite)}); }

  SENTINEL_HD void add(const Stats& other) {
    squares += other.squares;
    largest = (other.largest != other.largest || other.largest > largest) ? other.largest : largest;
    nonfinite += other.nonfinite;
  }

  SENTINEL_HD void write(double* out) const {
    out[0] = squares;
    out[1] = largest;
    out[2] = nonfinite;
  }
};

}  // namespace sentinel
