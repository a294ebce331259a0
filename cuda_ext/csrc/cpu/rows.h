// Rows of numbers on a CPU: plain loops where elements go their own ways, sixteen sums where they are added up.
// Which lane an element falls into is fixed, so the sums are the same bits whatever the vectors' width or the number of threads.
#pragma once

#include <cstring>
#include <memory>

#include "../add_norm.h"
#include "../tensors.h"

#define SENTINEL_INLINE inline __attribute__((always_inline))

namespace sentinel::norm {

inline constexpr int LANES = 16;
// Sixteen numbers at once, in however many registers they take. A compiler may not split a float's sum into lanes by itself.
using Lanes = float __attribute__((vector_size(LANES * sizeof(float))));
using LaneBits = int32_t __attribute__((vector_size(LANES * sizeof(int32_t))));

// The lanes from j on; `beyond` stands for what would lie behind the row.
SENTINEL_INLINE void load(Lanes& lanes, const float* row, int64_t j, int64_t n, float beyond) {
  if (j + LANES <= n) {
    std::memcpy(&lanes, row + j, sizeof lanes);
  } else {
    lanes = Lanes{} + beyond;
    std::memcpy(&lanes, row + j, size_t(n - j) * sizeof(float));
  }
}

SENTINEL_INLINE float sum_of(const Lanes& lanes) {
  float eight[8], four[4];
  for (int i = 0; i < 8; ++i) eight[i] = lanes[i] + lanes[i + 8];
  for (int i = 0; i < 4; ++i) four[i] = eight[i] + eight[i + 4];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// float of an element and back, without a branch, rounding to nearest even as torch does.
SENTINEL_INLINE float widen(float value) { return value; }
SENTINEL_INLINE float widen(BFloat16 value) { return of_bits(uint32_t(value.x) << 16); }
SENTINEL_INLINE float widen(Half value) {
  const uint32_t twice = uint32_t(value.x) << 17;  // without its sign
  const float normal = of_bits((twice >> 4) + 0x70000000u) * 0x1.0p-112f;
  const float subnormal = of_bits((twice >> 17) | 0x3f000000u) - 0.5f;
  return of_bits((uint32_t(value.x & 0x8000u) << 16) | bits_of(twice < 0x08000000u ? subnormal : normal));
}

template <typename T> SENTINEL_INLINE T narrow(float value);
template <> SENTINEL_INLINE float narrow<float>(float value) { return value; }
template <> SENTINEL_INLINE BFloat16 narrow<BFloat16>(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return BFloat16(uint16_t(magnitude_of(value) > INFINITE ? 0x7fc0u : rounded), BFloat16::from_bits());
}
template <> SENTINEL_INLINE Half narrow<Half>(float value) {
  // The sum below rounds: its larger summand has the exponent at which float32's last bit stands where float16's does.
  const float saturated = (of_bits(magnitude_of(value)) * 0x1.0p+112f) * 0x1.0p-110f;
  const uint32_t twice = bits_of(value) << 1, exponent = twice & 0xff000000u;
  const uint32_t rounded = bits_of(of_bits(((exponent < 0x71000000u ? 0x71000000u : exponent) >> 1) + 0x07800000u) + saturated);
  const uint32_t magnitude = twice > 0xff000000u ? 0x7e00u : ((rounded >> 13) & 0x7c00u) + (rounded & 0x0fffu);
  return Half(uint16_t(((bits_of(value) >> 16) & 0x8000u) | magnitude), Half::from_bits());
}

// Work in parts that depend on the shape alone: threads share them out, and what they sum is summed part by part.
// body(part, buffer): the buffer of so many floats is the thread's own, and holds anything.
template <typename Body>
void for_parts(int64_t parts, int64_t floats, const Body& body) {
  torch::stable::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<float[]> buffer(new float[floats]);
    for (int64_t part = begin; part < end; ++part) body(part, buffer.get());
  });
}

}  // namespace sentinel::norm
