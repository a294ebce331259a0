// float32 from and to the 16-bit formats in plain arithmetic: no branch, no call, so that loops over them are vectorised.
#pragma once

#include "../tensors.h"

namespace sentinel {

SENTINEL_INLINE float widen(float value) { return value; }
SENTINEL_INLINE float widen(BFloat16 value) { return of_bits(uint32_t(value.x) << 16); }
SENTINEL_INLINE float widen(Half value) {
  const uint32_t twice = uint32_t(value.x) << 17;  // without its sign
  const float normal = of_bits((twice >> 4) + 0x70000000u) * 0x1.0p-112f;
  const float subnormal = of_bits((twice >> 17) | 0x3f000000u) - 0.5f;
  return of_bits((uint32_t(value.x & 0x8000u) << 16) | bits_of(twice < 0x08000000u ? subnormal : normal));
}

// Rounds to nearest, ties to even, as torch does.
template <typename T> SENTINEL_INLINE T narrow(float value);
template <> SENTINEL_INLINE float narrow<float>(float value) { return value; }
template <> SENTINEL_INLINE BFloat16 narrow<BFloat16>(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return BFloat16(uint16_t(magnitude_of(value) > INFINITY_BITS ? 0x7fc0u : rounded), BFloat16::from_bits());
}
template <> SENTINEL_INLINE Half narrow<Half>(float value) {
  // The sum below rounds: its larger summand has the exponent at which float32's last bit stands where float16's does.
  const float saturated = (of_bits(magnitude_of(value)) * 0x1.0p+112f) * 0x1.0p-110f;
  const uint32_t twice = bits_of(value) << 1, exponent = twice & 0xff000000u;
  const uint32_t rounded = bits_of(of_bits(((exponent < 0x71000000u ? 0x71000000u : exponent) >> 1) + 0x07800000u) + saturated);
  const uint32_t magnitude = twice > 0xff000000u ? 0x7e00u : ((rounded >> 13) & 0x7c00u) + (rounded & 0x0fffu);
  return Half(uint16_t(((bits_of(value) >> 16) & 0x8000u) | magnitude), Half::from_bits());
}

}  // namespace sentinel
