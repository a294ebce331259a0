// One arithmetic for both libraries: what stands here is compiled by g++ for the CPU and by nvcc for both, so that the parity tests
// of a machine without a GPU cover what a GPU computes. Only the plumbing of warps and blocks is left to cuda/.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define SENTINEL_HD __host__ __device__ __forceinline__
#else
#define SENTINEL_HD inline
#endif
#define SENTINEL_INLINE inline __attribute__((always_inline))  // where g++ would rather call

namespace sentinel {

// The dtypes that the ops accept, for code that does not include torch's headers.
enum class Element : uint8_t { FLOAT, BFLOAT16, HALF };

// False in the library that the bench compares with: the same kernels, their statistics compiled away. A kernel that gathers
// statistics otherwise than by Seen asks it with `if constexpr (TELLS)`.
#if defined(SENTINEL_BARE)
inline constexpr bool TELLS = false;
#else
inline constexpr bool TELLS = true;
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
// the largest, lets NaN through, and tells whether anything was not finite at all. Only then is it worth counting.
inline constexpr uint32_t INFINITE = 0x7f800000u;
SENTINEL_HD uint32_t magnitude_of(float value) { return bits_of(value) & 0x7fffffffu; }
SENTINEL_HD uint32_t larger(uint32_t one, uint32_t other) { return one > other ? one : other; }

// Not std::isfinite: no flag and no compiler may reason it away.
SENTINEL_HD bool is_finite(float value) { return magnitude_of(value) < INFINITE; }

// The larger of two, and NaN where either is: as torch's amax.
SENTINEL_HD float max_or_nan(float one, float other) { return (one != one || one > other) ? one : other; }

// What is told of a tensor's elements. Sums of squares are of float32 over a few thousand elements at most and of double beyond:
// the square of a large float32 overflows while every element is finite. NaN and infinity come through in both first numbers.
struct Seen {
  float squares = 0.0f;
  float largest = 0.0f;  // of the magnitudes; NaN where one was
  uint32_t nonfinite = 0;
};

// Of many Seen, in a fixed order: [sum of squares, largest magnitude, how many are not finite], as an op returns them.
struct Told {
  double squares = 0.0;
  double largest = 0.0;
  double nonfinite = 0.0;

  SENTINEL_HD void add(const Seen& seen) { add(Told{double(seen.squares), double(seen.largest), double(seen.nonfinite)}); }

  SENTINEL_HD void add(const Told& other) {
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
