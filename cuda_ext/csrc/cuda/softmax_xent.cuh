// One row of logits on a GPU: its 16-byte chunks, and the reduction of its softmax over a warp, a block and a cluster of blocks.
#pragma once

#include <type_traits>

#include "../softmax_xent.h"
#include "device.cuh"

namespace sentinel {

constexpr int MAX_PARTS = 8;  // blocks on a row: the largest cluster every device with clusters can run

// The reduction of a part of a row, by a warp, or of the whole row.
struct RowPart {
  float largest;
  float sum;
  uint32_t nonfinite;
};

__device__ __forceinline__ RowPart reduce_warp(Softmax softmax, uint32_t nonfinite) {
  float top = softmax.largest;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) top = larger_or_nan(top, __shfl_xor_sync(0xffffffffu, top, offset));
  softmax.raise_to(top);
  return RowPart{top, warp_sum(softmax.sum), warp_sum(nonfinite)};
}

// Reduces the parts of all warps of all blocks on the row; `of_warp` is the same in every lane of a warp, and every thread gets the
// same bits. Warps write their parts to `exchange`. Two of those alternate from row to row, so one barrier per row is enough.
template <int WARPS> __device__ __forceinline__ RowPart reduce_row(const RowPart& of_warp, RowPart* exchange, int parts) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
#if __CUDA_ARCH__ >= 900
  if (parts > 1) {
    if (lane < parts) in_block(exchange, lane)[rank_in_cluster() * WARPS + warp] = of_warp;
    cluster_sync();
  } else
#endif
  {
    if (lane == 0) exchange[warp] = of_warp;
    __syncthreads();
  }
  Softmax whole;
  uint32_t nonfinite = 0;
  for (int i = lane; i < WARPS * parts; i += 32) {
    const RowPart part = exchange[i];
    Softmax other{part.largest, part.sum};
    const float top = larger_or_nan(whole.largest, other.largest);
    whole.raise_to(top);
    other.raise_to(top);
    whole.sum += other.sum;
    nonfinite += part.nonfinite;
  }
  return reduce_warp(whole, nonfinite);
}

constexpr int BATCHES = 4;  // groups of copies that a row arrives in: the first is reduced while the last is in flight

// Row starts are aligned as the vocabulary allows, so a row is: fewer than a chunk of elements, whole chunks, fewer than a chunk.
template <typename T> struct Span {
  static constexpr int WIDTH = PACKED<T>;
  int64_t begin;  // of the row, in elements
  int head;       // elements before the first whole chunk
  int chunks;
  int edge_count;  // elements before and after the chunks: fewer than 2 · WIDTH, so one for each of the first lanes

  __device__ __forceinline__ Span(const T* logits, int64_t row, int columns) {
    begin = row * columns;
    const int over = int(reinterpret_cast<uintptr_t>(logits + begin) % 16) / int(sizeof(T));
    head = min((WIDTH - over) % WIDTH, columns);
    chunks = (columns - head) / WIDTH;
    edge_count = columns - chunks * WIDTH;
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
      packed = make_uint4(__float_as_uint(value[0]), __float_as_uint(value[1]), __float_as_uint(value[2]),
                          __float_as_uint(value[3]));
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

// The softmax of a thread's chunks of a row.
struct ThreadSoftmax {
  Softmax softmax;
  float poison = 0.0f;  // NaN once an element was not finite, for one multiply-add per element; only then are they counted

  template <int COUNT> __device__ __forceinline__ void add(const float (&value)[COUNT]) {
    float top = value[0];
#pragma unroll
    for (int i = 1; i < COUNT; ++i) top = larger_or_nan(top, value[i]);
    softmax.raise_to(larger_or_nan(top, softmax.largest));
    const float shift = softmax.shift();
    float power[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      if constexpr (STATISTICS) poison = fmaf(value[i], 0.0f, poison);
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

// Waits until a group of copies has arrived: batch 0 is the oldest.
__device__ __forceinline__ void wait_for_batch(int batch) {
  static_assert(BATCHES == 4, "one case each");
  switch (batch) {
    case 0: wait_for_copies<3>(); break;
    case 1: wait_for_copies<2>(); break;
    case 2: wait_for_copies<1>(); break;
    default: wait_for_copies<0>();
  }
}

// A thread's chunks of a row: number k is chunk worker + k · workers, its place in shared memory k · blockDim + thread. No other
// thread touches them, so a thread need only wait for its own copies.
template <typename T, bool RESIDENT> struct ThreadChunks {
  const T* logits;
  uint4* place;
  int worker, workers, chunks_per_thread;

  __device__ __forceinline__ void prefetch(const Span<T>& span, int k) const {
    const int index = worker + k * workers;
    if (RESIDENT && index < span.chunks) copy_async(place + k * blockDim.x, logits + span.chunk(index));
  }

  __device__ __forceinline__ uint4 load(const Span<T>& span, int k) const {
    if constexpr (RESIDENT) return place[k * blockDim.x];
    return *reinterpret_cast<const uint4*>(logits + span.chunk(worker + k * workers));
  }

  __device__ __forceinline__ int count(const Span<T>& span) const {
    return worker < span.chunks ? (span.chunks - worker + workers - 1) / workers : 0;
  }
};

template <typename T, bool RESIDENT>
__device__ __forceinline__ ThreadSoftmax reduce_chunks(const ThreadChunks<T, RESIDENT>& chunks, const Span<T>& span, float edge) {
  ThreadSoftmax result;
  const int count = chunks.count(span);
  if constexpr (RESIDENT) {
    const int batch = (chunks.chunks_per_thread + BATCHES - 1) / BATCHES;
    for (int b = 0; b < BATCHES; ++b) {
      wait_for_batch(b);
      for (int k = b * batch; k < min((b + 1) * batch, count); ++k) result.add(Chunk<T>(chunks.load(span, k)).value);
    }
  } else {
#pragma unroll 4
    for (int k = 0; k < count; ++k) result.add(Chunk<T>(chunks.load(span, k)).value);
  }
  if (chunks.worker < span.edge_count) {
    const float one_edge[1] = {edge};
    result.add(one_edge);
  }
  return result;
}

template <typename T, bool RESIDENT>
__device__ __forceinline__ uint32_t count_nonfinite(const ThreadChunks<T, RESIDENT>& chunks, const Span<T>& span, float edge) {
  uint32_t nonfinite = chunks.worker < span.edge_count && !is_finite(edge) ? 1 : 0;
  for (int k = 0; k < chunks.count(span); ++k) nonfinite += nonfinite_of<T>(chunks.load(span, k));
  return nonfinite;
}

// Writes the row's gradient, and prefetches the next row into the places that become free.
template <typename T, bool RESIDENT>
__device__ __forceinline__ void write_gradient(
    const ThreadChunks<T, RESIDENT>& chunks, const Span<T>& span, const Span<T>& next, bool has_next, T* out, const Row& row,
    float largest, int target) {
  const int at = row.counted && !row.outside && target >= span.head ? target - span.head : -1;
  const int target_chunk = at >= 0 ? at / Span<T>::WIDTH : -1;
  const int count = chunks.count(span);
  const int batch = (chunks.chunks_per_thread + BATCHES - 1) / BATCHES;
  for (int b = 0; b < BATCHES; ++b) {
    for (int k = b * batch; k < min((b + 1) * batch, chunks.chunks_per_thread); ++k) {
      if (k < count) {
        Chunk<T> chunk(chunks.load(span, k));
#pragma unroll
        for (int i = 0; i < Span<T>::WIDTH; ++i) chunk.value[i] = row.slope * exp_below(chunk.value[i] - largest);
        const int index = chunks.worker + k * chunks.workers;
        if (index == target_chunk)
#pragma unroll
          for (int i = 0; i < Span<T>::WIDTH; ++i) chunk.value[i] -= i == at % Span<T>::WIDTH ? row.pull : 0.0f;
        __stcs(reinterpret_cast<uint4*>(out + span.chunk(index)), row.counted ? chunk.packed() : make_uint4(0, 0, 0, 0));
      }
      if (has_next) chunks.prefetch(next, k);  // after the store, so after this place was read
    }
    if (RESIDENT) commit_copies();
  }
}

}  // namespace sentinel
