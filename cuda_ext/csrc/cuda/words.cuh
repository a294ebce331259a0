// Numbers as they lie in memory, by 32-bit words: unpacked, packed, added and compared without unpacking.
#pragma once

#include "device.cuh"

namespace sentinel {

// What differs between the dtypes: the elements of a 32-bit word as float32 and back, the largest of words (NaN where one is), the sum
// of words (of 16-bit elements rounded once: the same bits as by float32), their magnitudes, and a word that is zero until an element
// was not finite (x · 0 is NaN then; only where that is seen are elements counted).
template <typename T> struct Word;

template <> struct Word<float> {
  static constexpr int ELEMENTS = 1;
  static __device__ __forceinline__ void unpack(uint32_t word, float* value) { value[0] = __uint_as_float(word); }
  static __device__ __forceinline__ uint32_t pack(const float* value) { return __float_as_uint(value[0]); }
  static __device__ __forceinline__ uint32_t larger(uint32_t one, uint32_t other) {
    return __float_as_uint(larger_or_nan(__uint_as_float(one), __uint_as_float(other)));
  }
  static __device__ __forceinline__ uint32_t sum(uint32_t one, uint32_t other) {
    return __float_as_uint(__uint_as_float(one) + __uint_as_float(other));
  }
  static __device__ __forceinline__ uint32_t magnitudes(uint32_t word) { return word & 0x7fffffffu; }
  static __device__ __forceinline__ uint32_t poisoned(uint32_t word, uint32_t poison) {
    return __float_as_uint(fmaf(__uint_as_float(word), 0.0f, __uint_as_float(poison)));
  }
  static __device__ __forceinline__ bool is_poisoned(uint32_t poison) { return (poison & 0x7fffffffu) != 0; }
};

template <> struct Word<__nv_bfloat16> {
  static constexpr int ELEMENTS = 2;
  static __device__ __forceinline__ void unpack(uint32_t word, float* value) {
    value[0] = __uint_as_float(word << 16);
    value[1] = __uint_as_float(word & 0xffff0000u);
  }
  static __device__ __forceinline__ uint32_t pack(const float* value) { return bfloat16_pair(value[0], value[1]); }
  static __device__ __forceinline__ uint32_t larger(uint32_t one, uint32_t other) { return larger_bfloat16s(one, other); }
  static __device__ __forceinline__ uint32_t sum(uint32_t one, uint32_t other) { return sum_of_bfloat16s(one, other); }
  static __device__ __forceinline__ uint32_t magnitudes(uint32_t word) { return word & 0x7fff7fffu; }
  static __device__ __forceinline__ uint32_t poisoned(uint32_t word, uint32_t poison) { return add_no_bfloat16s(word, poison); }
  static __device__ __forceinline__ bool is_poisoned(uint32_t poison) { return (poison & 0x7fff7fffu) != 0; }
};

template <> struct Word<__half> {
  static constexpr int ELEMENTS = 2;
  static __device__ __forceinline__ void unpack(uint32_t word, float* value) {
    __half2 both;
    memcpy(&both, &word, sizeof both);
    value[0] = __half2float(both.x), value[1] = __half2float(both.y);
  }
  static __device__ __forceinline__ uint32_t pack(const float* value) { return half_pair(value[0], value[1]); }
  static __device__ __forceinline__ uint32_t larger(uint32_t one, uint32_t other) { return larger_halves(one, other); }
  static __device__ __forceinline__ uint32_t sum(uint32_t one, uint32_t other) { return sum_of_halves(one, other); }
  static __device__ __forceinline__ uint32_t magnitudes(uint32_t word) { return word & 0x7fff7fffu; }
  static __device__ __forceinline__ uint32_t poisoned(uint32_t word, uint32_t poison) { return add_no_halves(word, poison); }
  static __device__ __forceinline__ bool is_poisoned(uint32_t poison) { return (poison & 0x7fff7fffu) != 0; }
};

// The largest element of a word as float32, NaN where one is.
template <typename T> __device__ __forceinline__ float largest_of(uint32_t word) {
  float value[2];
  Word<T>::unpack(word, value);
  return Word<T>::ELEMENTS == 1 ? value[0] : larger_or_nan(value[0], value[1]);
}

// COUNT chunks in registers: 4 · COUNT words.
template <typename T, int COUNT> struct Words {
  static constexpr int WORDS = 4 * COUNT, ELEMENTS = WORDS * Word<T>::ELEMENTS;
  uint32_t word[WORDS];

  __device__ __forceinline__ void set(int chunk, uint4 packed) {
    word[4 * chunk] = packed.x, word[4 * chunk + 1] = packed.y, word[4 * chunk + 2] = packed.z, word[4 * chunk + 3] = packed.w;
  }
  __device__ __forceinline__ uint4 chunk(int number) const {
    return make_uint4(word[4 * number], word[4 * number + 1], word[4 * number + 2], word[4 * number + 3]);
  }
  __device__ __forceinline__ float largest() const {
    uint32_t top[4] = {word[0], word[1], word[2], word[3]};
#pragma unroll
    for (int w = 4; w < WORDS; ++w) top[w % 4] = Word<T>::larger(top[w % 4], word[w]);
    top[0] = Word<T>::larger(Word<T>::larger(top[0], top[1]), Word<T>::larger(top[2], top[3]));
    return largest_of<T>(top[0]);
  }
};

}  // namespace sentinel
