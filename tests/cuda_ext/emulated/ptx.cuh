// In place of csrc/cuda/ptx.cuh: the same functions on the emulator's device.
#pragma once

namespace sentinel {

inline void copy_async(void* shared, const void* global) { emulator::copy_async(shared, global); }
struct SharedPlace {
  char* address;
  SharedPlace operator+(int bytes) const { return SharedPlace{address + bytes}; }
};
inline SharedPlace shared_place(const void* shared) { return SharedPlace{static_cast<char*>(const_cast<void*>(shared))}; }
inline uint4 load_shared(SharedPlace place) { return *reinterpret_cast<const uint4*>(place.address); }
inline void copy_async(SharedPlace place, const void* global) { emulator::copy_async(place.address, global); }
inline void commit_copies() { emulator::commit_copies(); }
template <int NEWEST> void wait_for_copies() { emulator::wait_for_copies(NEWEST); }

inline float larger_or_nan(float one, float other) { return one != one || one > other ? one : other; }
// As the special function unit: what is no normal float32 becomes 0.
inline float power_of_two(float x) {
  const float power = std::exp2(x);
  return power < 1.17549435e-38f ? 0.0f : power;
}

template <typename Pair, typename Function> uint32_t of_pairs(uint32_t one, uint32_t other, const Function& function) {
  Pair a, b, result;
  std::memcpy(&a, &one, 4), std::memcpy(&b, &other, 4);
  result.x = function(float(a.x), float(b.x)), result.y = function(float(a.y), float(b.y));
  std::memcpy(&one, &result, 4);
  return one;
}
inline uint32_t bfloat16_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  uint32_t word;
  std::memcpy(&word, &pair, 4);
  return word;
}
inline uint32_t half_pair(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  uint32_t word;
  std::memcpy(&word, &pair, 4);
  return word;
}
inline uint32_t larger_bfloat16s(uint32_t one, uint32_t other) {
  return of_pairs<__nv_bfloat162>(one, other, [](float a, float b) { return larger_or_nan(a, b); });
}
inline uint32_t larger_halves(uint32_t one, uint32_t other) {
  return of_pairs<__half2>(one, other, [](float a, float b) { return larger_or_nan(a, b); });
}
inline uint32_t sum_of_bfloat16s(uint32_t one, uint32_t other) {
  return of_pairs<__nv_bfloat162>(one, other, [](float a, float b) { return a + b; });
}
inline uint32_t sum_of_halves(uint32_t one, uint32_t other) {
  return of_pairs<__half2>(one, other, [](float a, float b) { return a + b; });
}
inline uint32_t add_no_bfloat16s(uint32_t word, uint32_t sum) {
  return of_pairs<__nv_bfloat162>(word, sum, [](float a, float b) { return a * 0.0f + b; });
}
inline uint32_t add_no_halves(uint32_t word, uint32_t sum) {
  return of_pairs<__half2>(word, sum, [](float a, float b) { return a * 0.0f + b; });
}

inline void wait_for_kernels_before() {}  // launches run one after the other here
inline void let_next_kernel_begin() {}
inline void cluster_sync() { emulator::wait_for_cluster(); }
inline int rank_in_cluster() { return emulator::rank_of_block(); }
template <typename T> T* in_block(T* place, int rank) { return static_cast<T*>(emulator::in_other_block(place, rank)); }

}  // namespace sentinel
