// Many tensors in one launch. Their pointers are kernel parameters: no copy to the device, no synchronisation, and a captured
// graph holds them. Parameters are at most 8 KB of the 32 that CUDA allows (4 before 12.1), so that many tensors take several launches.
#pragma once

#include "../chunks.h"
#include "device.cuh"

namespace sentinel {

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr size_t PARAMETER_BYTES = 8192;

// Blocks each of which takes every gridDim-th chunk, so that at any time they work on neighbouring memory: `waves` times as many as
// run at once.
inline unsigned blocks_for(const char* op, const void* kernel, int64_t chunks, int waves, int device) {
  const int64_t processors = attribute_of(op, cudaDevAttrMultiProcessorCount, device);
  const int64_t at_once = processors * std::max(1, resident_blocks(op, kernel, {dim3(1), dim3(THREADS)}));
  return static_cast<unsigned>(std::min(chunks, at_once * waves));
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

// What the sums need beside the slots, for the tensors from one on: behind the slots in memory (Chunks::slot_rows).
struct SumRoom {
  double* parts;       // SUM_PARTS rows for each tensor
  unsigned* finished;  // parts of each tensor that are added up; zeroed by an earlier launch (zero_counters)
};

inline SumRoom sum_room(const Chunks& chunks, double* slots, int columns, int64_t first_tensor) {
  double* const parts = slots + chunks.count() * columns;
  unsigned* const finished = reinterpret_cast<unsigned*>(parts + chunks.rows() * SUM_PARTS * columns);
  return SumRoom{parts + first_tensor * SUM_PARTS * columns, finished + first_tensor};
}

// `counters` is null in all launches of a call but one.
struct Counters {
  unsigned* counters;
  uint32_t count;
};

__device__ __forceinline__ void zero_counters(const Counters& all) {
  if (all.counters == nullptr) return;
  for (uint32_t at = blockIdx.x * THREADS + threadIdx.x; at < all.count; at += gridDim.x * THREADS) all.counters[at] = 0;
}

SENTINEL_HD uint32_t parts_of(uint32_t slots) {
  const uint32_t parts = (slots + uint32_t(PART_SLOTS) - 1) / uint32_t(PART_SLOTS);
  return parts < 1 ? 1 : parts > SUM_PARTS ? SUM_PARTS : parts;
}

// Threads that add up a tensor's slots, and slots that each reads at once: few where no tensor of a table has many.
constexpr int SUM_THREADS = 1024, FEW_THREADS = 256, AHEAD = 5;

// The row of a tensor: its slots added up, a part by each of several blocks; each thread's in their order, then the threads' in a fixed
// one, then the parts in theirs by the block that ends last. Column LARGEST is a maximum. Block (x, y) has part y of tensor x.
template <int COLUMNS, int LARGEST>
__device__ __forceinline__ void sum_tensor_slots(const Slots& table, const double* slots, const SumRoom& room, double* out) {
  __shared__ double warps[SUM_THREADS / 32][COLUMNS];
  const uint32_t begin = table.before[blockIdx.x], count = table.before[blockIdx.x + 1] - begin;
  const uint32_t parts = parts_of(count), each = (count + parts - 1) / parts;
  if (blockIdx.y >= parts) return;
  const auto add = [](int column, double value, double sum) {
    return column == LARGEST ? larger_or_nan(value, sum) : sum + value;
  };
  double sums[COLUMNS] = {};
  const auto over_warp = [&] {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
#pragma unroll
      for (int column = 0; column < COLUMNS; ++column)
        sums[column] = add(column, __shfl_xor_sync(0xffffffffu, sums[column], offset), sums[column]);
    }
  };
  const uint32_t end = begin + min(count, (blockIdx.y + 1) * each);
  for (uint32_t slot = begin + blockIdx.y * each + threadIdx.x; slot < end; slot += AHEAD * blockDim.x) {
    double values[AHEAD][COLUMNS];
#pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) {
      const uint32_t at = min(slot + ahead * blockDim.x, end - 1);  // without a branch, so that all go out together
#pragma unroll
      for (int column = 0; column < COLUMNS; ++column) values[ahead][column] = slots[int64_t(at) * COLUMNS + column];
    }
#pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) {
      const bool is_own = slot + ahead * blockDim.x < end;
#pragma unroll
      for (int column = 0; column < COLUMNS; ++column) sums[column] = add(column, is_own ? values[ahead][column] : 0.0, sums[column]);
    }
  }
  over_warp();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) {
#pragma unroll
    for (int column = 0; column < COLUMNS; ++column) warps[warp][column] = sums[column];
  }
  __syncthreads();
  if (warp != 0) return;
#pragma unroll
  for (int column = 0; column < COLUMNS; ++column) sums[column] = lane < int(blockDim.x) / 32 ? warps[lane][column] : 0.0;
  over_warp();
  if (lane != 0) return;
  double* const of_tensor = out + int64_t(blockIdx.x) * COLUMNS;
  double* const of_parts = room.parts + int64_t(blockIdx.x) * SUM_PARTS * COLUMNS;
#pragma unroll
  for (int column = 0; column < COLUMNS; ++column) (parts == 1 ? of_tensor : of_parts + blockIdx.y * COLUMNS)[column] = sums[column];
  if (parts == 1) return;
  __threadfence();
  if (atomicAdd(&room.finished[blockIdx.x], 1u) != parts - 1) return;
  __threadfence();
#pragma unroll
  for (int column = 0; column < COLUMNS; ++column) {
    double sum = __ldcg(&of_parts[column]);
    for (uint32_t part = 1; part < parts; ++part) sum = add(column, __ldcg(&of_parts[part * COLUMNS + column]), sum);
    of_tensor[column] = sum;
  }
}

// A block for each tensor of a table, and as many beside it as the longest has parts.
inline LaunchShape sum_shape(const Slots& table, int64_t tensors) {
  uint32_t longest = 0;
  for (int64_t tensor = 0; tensor < tensors; ++tensor) longest = std::max(longest, table.before[tensor + 1] - table.before[tensor]);
  const int threads = longest > uint32_t(FEW_THREADS * AHEAD) ? SUM_THREADS : FEW_THREADS;
  return {dim3(static_cast<unsigned>(tensors), parts_of(longest)), dim3(static_cast<unsigned>(threads))};
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
