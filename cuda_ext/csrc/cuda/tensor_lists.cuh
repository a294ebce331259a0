// Many tensors in one launch. Their pointers are kernel parameters: no copy to the device, no synchronisation, and a captured
// graph holds them. Parameters are at most 4 KB, so that many tensors take several launches.
#pragma once

#include "../chunks.h"
#include "device.cuh"

namespace sentinel {

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr size_t PARAMETER_BYTES = 4096;

// Persistent blocks, each of which takes every gridDim-th chunk, so that at any time they work on neighbouring memory.
inline unsigned blocks_for(const char* op, int64_t chunks, int per_processor, int device) {
  const int processors = attribute_of(op, cudaDevAttrMultiProcessorCount, device);
  return static_cast<unsigned>(std::min<int64_t>(chunks, int64_t(processors) * per_processor));
}

// Four consecutive numbers as float32, by one load or store where they are aligned to their size (is_packed). Loads and stores are
// streaming: the data is not read again, and leaves the L2 cache to data that is.
struct Four { float value[4]; };

template <typename T> __device__ __forceinline__ Four load_four(const T* from);
template <> __device__ __forceinline__ Four load_four<float>(const float* from) {
  const float4 all = __ldcs(reinterpret_cast<const float4*>(from));
  return Four{{all.x, all.y, all.z, all.w}};
}
template <> __device__ __forceinline__ Four load_four<__nv_bfloat16>(const __nv_bfloat16* from) {
  const uint2 all = __ldcs(reinterpret_cast<const uint2*>(from));
  return Four{{__uint_as_float(all.x << 16), __uint_as_float(all.x & 0xffff0000u), __uint_as_float(all.y << 16),
               __uint_as_float(all.y & 0xffff0000u)}};
}
template <typename T> __device__ __forceinline__ Four load_each(const T* from) {
  return Four{{to_float(from[0]), to_float(from[1]), to_float(from[2]), to_float(from[3])}};
}

__device__ __forceinline__ void store_four(float* to, const Four& four) {
  __stcs(reinterpret_cast<float4*>(to), make_float4(four.value[0], four.value[1], four.value[2], four.value[3]));
}

template <typename T> __device__ __forceinline__ bool is_packed(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % (4 * sizeof(T)) == 0;
}

// Rows of slots, one row of COLUMNS doubles a chunk; those of tensor t are before[t] … before[t + 1].
constexpr int SLOT_ROWS = 1000;
struct Slots {
  uint32_t before[SLOT_ROWS + 1];
};
static_assert(sizeof(Slots) + 64 <= PARAMETER_BYTES);

__device__ __forceinline__ double larger_or_nan(double one, double other) { return (one != one || one > other) ? one : other; }

// The row of a tensor: its slots added up, each thread's in their order, then the threads' in theirs. Column LARGEST is a
// maximum.
template <int COLUMNS, int LARGEST>
__device__ __forceinline__ void sum_tensor_slots(const Slots& table, const double* slots, double* out) {
  __shared__ double parts[THREADS / 32][COLUMNS];
  double sums[COLUMNS] = {};
  for (uint32_t slot = table.before[blockIdx.x] + threadIdx.x; slot < table.before[blockIdx.x + 1]; slot += THREADS) {
#pragma unroll
    for (int column = 0; column < COLUMNS; ++column) {
      const double value = slots[int64_t(slot) * COLUMNS + column];
      sums[column] = column == LARGEST ? larger_or_nan(value, sums[column]) : sums[column] + value;
    }
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
#pragma unroll
    for (int column = 0; column < COLUMNS; ++column) {
      const double other = __shfl_xor_sync(0xffffffffu, sums[column], offset);
      sums[column] = column == LARGEST ? larger_or_nan(other, sums[column]) : sums[column] + other;
    }
  }
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int column = 0; column < COLUMNS; ++column) parts[threadIdx.x / 32][column] = sums[column];
  }
  __syncthreads();
  if (threadIdx.x < COLUMNS) {
    const int column = threadIdx.x;
    double sum = parts[0][column];
    for (int warp = 1; warp < WARPS; ++warp) {
      const double other = parts[warp][column];
      sum = column == LARGEST ? larger_or_nan(other, sum) : sum + other;
    }
    out[int64_t(blockIdx.x) * COLUMNS + column] = sum;
  }
}

inline Slots slots_of(const Chunks& chunks, int64_t begin, int64_t end) {
  Slots table;
  for (int64_t row = begin; row <= end; ++row) table.before[row - begin] = chunks.between(begin, row);
  return table;
}

// Calls launch(begin, end) for as many rows at a time as a table holds, from the last if `is_backwards`.
template <typename Launch>
void for_tables(const Chunks& chunks, int64_t capacity, bool is_backwards, const Launch& launch) {
  const int64_t rows = chunks.rows(), tables = (rows + capacity - 1) / capacity;
  for (int64_t number = 0; number < tables; ++number) {
    const int64_t begin = (is_backwards ? tables - 1 - number : number) * capacity;
    launch(begin, std::min(rows, begin + capacity));
  }
}

}  // namespace sentinel
