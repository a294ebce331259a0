// CUDA's device on a CPU, for the kernels' own sources: every thread of a block is a fiber, run in random order until it waits for
// others (a barrier, a shuffle). Blocks of a cluster run at the same time, each on a thread of the operating system, so that its
// shared memory is thread-local storage. Included before every source (emulated.py). What it cannot show: speed, and a race that the
// order of fibers does not meet.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

extern thread_local uint3 threadIdx, blockIdx, blockDim, gridDim;  // of the thread that runs now

namespace emulator {

int rank_of_block();
void* dynamic_shared();
void* in_other_block(void* place, int rank);

void wait_for_block();
void wait_for_cluster();
// Gives `value` to the warp, and fills `all` with the values of its 32 lanes.
void exchange(uint64_t value, uint64_t (&all)[32]);

void copy_async(void* to, const void* from);
void commit_copies();
void wait_for_copies(int newest);

cudaError_t run(const cudaLaunchConfig_t& config, const std::function<void()>& kernel);

template <typename... Parameters, typename... Arguments>
cudaError_t launch(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  const std::tuple<Parameters...> all(arguments...);
  return run(*config, [&] { std::apply(kernel, all); });
}

template <typename T>
T of_lane(T value, int lane) {
  uint64_t own = 0, all[32];
  std::memcpy(&own, &value, sizeof value);
  exchange(own, all);
  std::memcpy(&value, &all[lane], sizeof value);
  return value;
}

template <typename T, typename Combine>
T over_warp(T value, const Combine& combine) {
  uint64_t own = 0, all[32];
  std::memcpy(&own, &value, sizeof value);
  exchange(own, all);
  std::memcpy(&value, &all[0], sizeof value);
  for (int lane = 1; lane < 32; ++lane) {
    T other;
    std::memcpy(&other, &all[lane], sizeof other);
    value = combine(value, other);
  }
  return value;
}

}  // namespace emulator

#undef __shared__
#undef __launch_bounds__
#undef __syncthreads
#undef __threadfence
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __grid_constant__
#define cudaLaunchKernelEx emulator::launch
#define __CUDA_ARCH__ 900

using std::max;
using std::min;

template <typename T> T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulator::of_lane(value, int(threadIdx.x % 32) ^ mask);
}
inline bool __any_sync(unsigned, bool value) {
  return emulator::over_warp(int(value), [](int one, int other) { return one | other; }) != 0;
}
inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  return emulator::over_warp(value, [](unsigned one, unsigned other) { return std::max(one, other); });
}
inline unsigned __reduce_add_sync(unsigned, unsigned value) {
  return emulator::over_warp(value, [](unsigned one, unsigned other) { return one + other; });
}
inline void __syncthreads() { emulator::wait_for_block(); }
inline void __syncwarp() { uint64_t all[32]; emulator::exchange(0, all); }
inline void __threadfence() {}
inline float __log2f(float value) { return std::log2(value); }
inline unsigned atomicAdd(unsigned* to, unsigned value) { return __atomic_fetch_add(to, value, __ATOMIC_SEQ_CST); }
template <typename T> T __ldcg(const T* from) { return *from; }
template <typename T> T __ldcs(const T* from) { return *from; }
template <typename T> void __stcs(T* to, T value) { *to = value; }
inline unsigned __float_as_uint(float value) { unsigned bits; std::memcpy(&bits, &value, 4); return bits; }
inline float __uint_as_float(unsigned bits) { float value; std::memcpy(&value, &bits, 4); return value; }
inline float __int_as_float(int bits) { return __uint_as_float(unsigned(bits)); }
inline float __fmul_rn(float one, float other) { return one * other; }
inline float __fadd_rn(float one, float other) { return one + other; }
inline float __fsub_rn(float one, float other) { return one - other; }
inline float __fmaf_rn(float one, float other, float added) { return std::fma(one, other, added); }
inline float __fdiv_rn(float one, float other) { return one / other; }
inline float __fsqrt_rn(float value) { return std::sqrt(value); }
inline float rsqrtf(float value) { return float(1.0 / std::sqrt(double(value))); }
