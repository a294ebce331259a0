// float32 from and to the 16-bit formats in plain integer arithmetic: no branch, no call, so that loops over them are vectorised.
#pragma once

#include <cstdint>

#include "../host_device.h"
#include "../tensors.h"

namespace sentinel {

// By masks: a choice with arithmetic on one side would be compiled to a branch, which no vector has.
inline uint32_t choose(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = 0u - uint32_t(condition);
  return (yes & mask) | (no & ~mask);
}

inline float widen(float value) { return value; }

inline float widen(BFloat16 value) { return of_bits(uint32_t(value.x) << 16); }

inline float widen(Half value) {
  const uint32_t magnitude = uint32_t(value.x & 0x7fffu) << 13;
  const uint32_t exponent = magnitude & 0x0f800000u;
  // Small: 2^-14 and what is below it, where the exponent is 0; taking 2^-14 off again normalises it.
  const float small = of_bits(magnitude + (113u << 23)) - of_bits(113u << 23);
  const uint32_t normal = magnitude + (112u << 23);
  const uint32_t special = magnitude | 0x7f800000u;  // inf or NaN
  const uint32_t bits = choose(exponent == 0, bits_of(small), choose(exponent == 0x0f800000u, special, normal));
  return of_bits(bits | (uint32_t(value.x & 0x8000u) << 16));
}

template <typename T> T narrow(float value);

template <> inline float narrow<float>(float value) { return value; }

// To the nearest, ties to even.
template <> inline BFloat16 narrow<BFloat16>(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return BFloat16(uint16_t((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded), BFloat16::from_bits());
}

template <> inline Half narrow<Half>(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Below 2^-14: adding 2^-1 lets the adder round at the last bit a subnormal has (2^-24).
  const uint32_t small = bits_of(of_bits(magnitude) + 0.5f) - bits_of(0.5f);
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t large = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t rounded = choose(magnitude >= 0x47800000u, large, choose(magnitude < (113u << 23), small, normal));
  return Half(uint16_t(rounded | ((bits >> 16) & 0x8000u)), Half::from_bits());
}

}  // namespace sentinel
