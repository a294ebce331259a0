// A row of logits as threads see it: its 16-byte chunks, what is left at its edges, and how parts of a softmax are put together.
#pragma once

#include <cooperative_groups.h>

#include "../softmax_xent.h"
#include "launching.cuh"

namespace sentinel {

constexpr int MAX_PARTS = 8;  // blocks on a row: the largest cluster every device with clusters can run

__device__ __forceinline__ float larger(float one, float other) {  // max_or_nan in one instruction
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(one), "f"(other));
  return most;
}

// Row starts are aligned as the vocabulary allows, so a row is: fewer than a chunk of elements, whole chunks, fewer than a chunk.
template <typename T> struct Span {
  static constexpr int WIDTH = PACKED<T>;
  int64_t begin;  // of the row, in elements
  int head;       // elements before the first whole chunk
  int chunks;
  int edges;      // elements before and after the chunks: fewer than 2 · WIDTH, so one for each of the first lanes

  __device__ __forceinline__ Span(const T* logits, int64_t row, int columns) {
    begin = row * columns;
    const int over = int(reinterpret_cast<uintptr_t>(logits + begin) % 16) / int(sizeof(T));
    head = min((WIDTH - over) % WIDTH, columns);
    chunks = (columns - head) / WIDTH;
    edges = columns - chunks * WIDTH;
  }

  __device__ __forceinline__ int64_t chunk(int index) const { return begin + head + int64_t(index) * WIDTH; }
  __device__ __forceinline__ int edge_column(int edge) const { return edge < head ? edge : chunks * WIDTH + edge; }
};

template <typename T> struct Chunk {
  float value[PACKED<T>];

  __device__ __forceinline__ explicit Chunk(uint4 packed) {
    Pack<T> pack;
    *reinterpret_cast<uint4*>(&pack) = packed;
#pragma unroll
    for (int i = 0; i < PACKED<T>; ++i) value[i] = to_float(pack.element[i]);
  }

  __device__ __forceinline__ uint4 packed() const {
    uint4 packed;
    if constexpr (sizeof(T) == 4) {
      packed = make_uint4(__float_as_uint(value[0]), __float_as_uint(value[1]), __float_as_uint(value[2]), __float_as_uint(value[3]));
    } else {
      uint32_t* word = &packed.x;
#pragma unroll
      for (int i = 0; i < 4; ++i) word[i] = pair(value[2 * i], value[2 * i + 1]);
    }
    return packed;
  }

  static __device__ __forceinline__ uint32_t pair(float low, float high) {
    if constexpr (std::is_same_v<T, __half>) {
      const __half2 both = __floats2half2_rn(low, high);
      return *reinterpret_cast<const uint32_t*>(&both);
    } else {
      const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
      return *reinterpret_cast<const uint32_t*>(&both);
    }
  }
};

// What a thread has seen of its row.
struct Looked {
  Softmax softmax;
  float poison = 0.0f;  // NaN once anything was not finite: one multiply-add an element, and they are counted only then

  template <int COUNT> __device__ __forceinline__ void add(const float (&value)[COUNT]) {
    float top = value[0];
#pragma unroll
    for (int i = 1; i < COUNT; ++i) top = larger(top, value[i]);
    softmax.raise_to(larger(top, softmax.largest));
    const float shift = softmax.shift();
    float power[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      poison = fmaf(value[i], 0.0f, poison);
      power[i] = exp_below(value[i] - shift);
    }
#pragma unroll
    for (int half = COUNT / 2; half > 0; half /= 2)
#pragma unroll
      for (int i = 0; i < half; ++i) power[i] += power[i + half];
    softmax.sum += power[0];
  }
};

template <typename T> __device__ __forceinline__ uint32_t nonfinite_of(uint4 packed) {
  const Chunk<T> chunk(packed);
  uint32_t count = 0;
#pragma unroll
  for (int i = 0; i < PACKED<T>; ++i) count += is_finite(chunk.value[i]) ? 0u : 1u;
  return count;
}

// A part of a row, as a warp leaves it for the others; and the row.
struct Part {
  float largest;
  float sum;
  uint32_t nonfinite;
};

__device__ __forceinline__ Part of_warp(Softmax softmax, uint32_t nonfinite) {
  float top = softmax.largest;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) top = larger(top, __shfl_xor_sync(0xffffffffu, top, offset));
  softmax.raise_to(top);
  return Part{top, warp_sum(softmax.sum), warp_sum(nonfinite)};
}

// Puts `mine`, the same in every lane of a warp, and the parts of all warps of all blocks on the row together: every thread gets the
// same bits. `board` is where warps leave their parts; it is another one at every other row, so one barrier a row is enough.
template <int WARPS> __device__ __forceinline__ Part of_all(const Part& mine, Part* board, int parts) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
#if __CUDA_ARCH__ >= 900
  if (parts > 1) {
    const auto cluster = cooperative_groups::this_cluster();
    if (lane < parts) cluster.map_shared_rank(board, lane)[int(cluster.block_rank()) * WARPS + warp] = mine;
    cluster.sync();
  } else
#endif
  {
    if (lane == 0) board[warp] = mine;
    __syncthreads();
  }
  Softmax whole;
  uint32_t nonfinite = 0;
  for (int i = lane; i < WARPS * parts; i += 32) {
    const Part part = board[i];
    Softmax other{part.largest, part.sum};
    const float top = larger(whole.largest, other.largest);
    whole.raise_to(top);
    other.raise_to(top);
    whole.sum += other.sum;
    nonfinite += part.nonfinite;
  }
  return of_warp(whole, nonfinite);
}

}  // namespace sentinel
