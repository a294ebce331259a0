// One row of logits on a GPU: its 16-byte chunks, and the reduction of its softmax over a warp, a block and a cluster of blocks.
#pragma once

#include "../softmax_xent.h"
#include "words.cuh"

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
constexpr int GROUP = 4;    // chunks of a thread that are worked on together, in registers

// Row starts are aligned as the vocabulary allows, so a row is: fewer than a chunk of elements, whole chunks, fewer than a chunk.
// Of the whole chunks each block of a cluster has a segment, and each of its threads every TEAM-th of that.
template <typename T, int TEAM> struct Span {
  static constexpr int WIDTH = PACKED<T>;
  int64_t begin;   // of the row, in elements
  int head;        // elements before the first whole chunk
  int chunks;      // of the row
  int edge_count;  // elements before and after the chunks: fewer than 2 · WIDTH, so one for each of the first lanes
  int count;       // chunks of this thread

  __device__ __forceinline__ Span(const T* logits, int64_t row, int columns, int first, int segment, int thread) {
    begin = row * columns;
    const int over = int(reinterpret_cast<uintptr_t>(logits + begin) % 16) / int(sizeof(T));
    head = min((WIDTH - over) % WIDTH, columns);
    chunks = (columns - head) / WIDTH;
    edge_count = columns - chunks * WIDTH;
    const int own = min(chunks - first, segment) - thread;
    count = own > 0 ? (own + TEAM - 1) / TEAM : 0;  // TEAM is a power of two
  }

  __device__ __forceinline__ int edge_column(int edge) const { return edge < head ? edge : chunks * WIDTH + edge; }
};

// e^(x − largest) by one fused multiply-add and the special function unit: 2^(x · scale − origin), of which 2^rest is that of
// x = largest. The origin is a whole number, so it is exact however large the logits are, and `rest` takes up what rounding it left;
// log2 e in float32 makes of every logit x (1 − 1.3e-8), less than half a unit in its last place. Where even two neighbouring logits
// are 64 apart, beyond 2^30, powers of two stand for those of e: both are nought but for the largest logit itself.
struct PowerBase {
  float scale, origin, rest;

  __device__ __forceinline__ explicit PowerBase(float largest) {
    constexpr float LOG2_E = 1.44269504f;
    scale = LOG2_E, origin = rintf(largest * LOG2_E), rest = fmaf(largest, LOG2_E, -origin);
    if (!(fabsf(rest) <= 64.0f)) scale = 1.0f, origin = largest, rest = 0.0f;  // NaN and infinity, too: they make the sum NaN
    if (largest == negative_infinity()) scale = LOG2_E, origin = 0.0f, rest = 0.0f;  // nothing yet, or nothing but −∞
  }
};

// The softmax of a thread's chunks of a row. The sum is of 2^(x · scale − origin).
template <typename T> struct ThreadSoftmax {
  float largest = negative_infinity();
  PowerBase base{negative_infinity()};
  float sum = 0.0f;
  uint32_t poison = 0;

  __device__ __forceinline__ float relative_sum() const { return sum * power_of_two(-base.rest); }

  // Begins to count from a larger logit. Where nothing was finite before, the sum is 0 and stays so.
  __device__ __forceinline__ void raise_to(float top) {
    const PowerBase next(top);
    const float before = largest == negative_infinity() ? 0.0f : relative_sum() * exp_below(largest - top);
    sum = before * power_of_two(next.rest);
    base = next, largest = top;
  }

  template <int COUNT> __device__ __forceinline__ void add(const Words<T, COUNT>& words) {
    const float top = larger_or_nan(words.largest(), largest);
    if (top != largest) raise_to(top);
    float sums[4] = {};
#pragma unroll
    for (int w = 0; w < Words<T, COUNT>::WORDS; ++w) {
      float value[2];
      Word<T>::unpack(words.word[w], value);
      if constexpr (STATISTICS) poison = Word<T>::poisoned(words.word[w], poison);
#pragma unroll
      for (int i = 0; i < Word<T>::ELEMENTS; ++i) {
        const float power = power_of_two(fmaf(value[i], base.scale, -base.origin));
        float& into = sums[(w * Word<T>::ELEMENTS + i) % 4];
        into = w * Word<T>::ELEMENTS + i < 4 ? power : into + power;
      }
    }
    sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  __device__ __forceinline__ void add_edge(float value) {
    const float top = larger_or_nan(value, largest);
    if (top != largest) raise_to(top);
    if (STATISTICS && !is_finite(value)) poison = ~0u;
    sum += power_of_two(fmaf(value, base.scale, -base.origin));
  }

  __device__ __forceinline__ Softmax softmax() const { return Softmax{largest, relative_sum()}; }
};

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

// A thread's chunks of a row, at strides that the compiler knows: number k is TEAM · k chunks behind the first in memory, and
// THREADS · k behind `place` in shared memory. No other thread touches them, so a thread need only wait for its own copies.
template <typename T, int TEAM, int THREADS, bool RESIDENT> struct ThreadChunks {
  using Place = Span<T, TEAM>;
  static constexpr int STEP = THREADS * 16;  // bytes of shared memory
  SharedPlace place;
  int first;  // chunk of the row
  int per_thread, batch;

  __device__ __forceinline__ const uint4* row(const T* logits, const Place& span) const {
    return reinterpret_cast<const uint4*>(logits + span.begin + span.head) + first;
  }

  // The next GROUP chunks of a row, or those of them that there are.
  static __device__ __forceinline__ void prefetch(SharedPlace at, const uint4* from, int left) {
    if constexpr (RESIDENT) {
      if (left >= GROUP) {
#pragma unroll
        for (int j = 0; j < GROUP; ++j) copy_async(at + j * STEP, from + j * TEAM);
      } else {
#pragma unroll
        for (int j = 0; j < GROUP - 1; ++j)
          if (j < left) copy_async(at + j * STEP, from + j * TEAM);
      }
    }
  }

  // Calls body(words, j) for the next GROUP chunks together, or for those of them that there are singly; j counts from 0.
  template <typename Body>
  static __device__ __forceinline__ void group(SharedPlace at, const uint4* from, int left, const Body& body) {
    if (left >= GROUP) {
      Words<T, GROUP> words;
#pragma unroll
      for (int j = 0; j < GROUP; ++j) words.set(j, RESIDENT ? load_shared(at + j * STEP) : from[j * TEAM]);
      body(words, 0);
    } else {
#pragma unroll 1
      for (int j = 0; j < left; ++j) {
        Words<T, 1> words;
        words.set(0, RESIDENT ? load_shared(at + j * STEP) : from[j * TEAM]);
        body(words, j);
      }
    }
  }

  // Calls body(place, how many chunks lie before it) for each group of a batch, `limit` chunks in all.
  template <typename Body> __device__ __forceinline__ void groups_of(int b, int limit, const Body& body) const {
    const int end = min((b + 1) * batch, limit);
    SharedPlace at = place + b * batch * STEP;
#pragma unroll 1
    for (int k = b * batch; k < end; k += GROUP, at = at + GROUP * STEP) body(at, k);
  }

  __device__ __forceinline__ ThreadSoftmax<T> reduce(const uint4* from, int count) const {
    ThreadSoftmax<T> result;
#pragma unroll 1
    for (int b = 0; b < BATCHES; ++b) {
      if (RESIDENT) wait_for_batch(b);
      groups_of(b, count, [&](SharedPlace at, int k) {
        group(at, from, count - k, [&](const auto& words, int) { result.add(words); });
        if constexpr (!RESIDENT) from += GROUP * TEAM;
      });
    }
    return result;
  }

  __device__ __forceinline__ uint32_t count_nonfinite(const uint4* from, int count) const {
    uint32_t nonfinite = 0;
#pragma unroll 1
    for (int k = 0; k < count; ++k) {
      Words<T, 1> words;
      words.set(0, RESIDENT ? load_shared(place + k * STEP) : from[k * TEAM]);
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        float value[2];
        Word<T>::unpack(words.word[w], value);
#pragma unroll
        for (int i = 0; i < Word<T>::ELEMENTS; ++i) nonfinite += is_finite(value[i]) ? 0u : 1u;
      }
    }
    return nonfinite;
  }

  // Writes f(x) for each logit x of the row (none where `to` is null), and fetches the next row into the places that become free.
  template <typename Function>
  __device__ __forceinline__ void write(const uint4* from, uint4* to, int count, const uint4* next, int next_count,
                                        const Function& f) const {
    const int written = to != nullptr ? count : 0;
#pragma unroll 1
    for (int b = 0; b < BATCHES; ++b) {
      groups_of(b, per_thread, [&](SharedPlace at, int k) {
        group(at, from, written - k, [&](auto& words, int first_of) {
          constexpr int CHUNKS = sizeof(words) / 16;
#pragma unroll
          for (int w = 0; w < 4 * CHUNKS; ++w) {
            float value[2];
            Word<T>::unpack(words.word[w], value);
#pragma unroll
            for (int i = 0; i < Word<T>::ELEMENTS; ++i) value[i] = f(value[i]);
            words.word[w] = Word<T>::pack(value);
          }
#pragma unroll
          for (int j = 0; j < CHUNKS; ++j) to[(first_of + j) * TEAM] = words.chunk(j);
        });
        prefetch(at, next, next_count - k);  // after the loads, so after these places were read
        to += GROUP * TEAM, next += GROUP * TEAM;
        if constexpr (!RESIDENT) from += GROUP * TEAM;
      });
      if (RESIDENT) commit_copies();
    }
  }
};

// The gradient of a row's logits: slope · e^(x − largest), less pull at the target.
template <typename T> struct RowGradient {
  PowerBase base;
  float slope;     // of 2^(x · scale − origin)
  float exponent;  // − origin + log2 slope, where that is exact enough for T
  bool is_folded;

  __device__ __forceinline__ RowGradient(const Row& row, float largest) : base(largest) {
    slope = row.slope * power_of_two(-base.rest);
    exponent = __log2f(slope) - base.origin;
    // Rounding the exponent costs 2^-25 of it: nothing beside the 2^-12 that a half's rounding may take.
    is_folded = sizeof(T) == 2 && slope > 0.0f && fabsf(exponent) < 1024.0f;
  }
  __device__ __forceinline__ float folded(float x) const { return power_of_two(fmaf(x, base.scale, exponent)); }
  __device__ __forceinline__ float whole(float x) const { return slope * power_of_two(fmaf(x, base.scale, -base.origin)); }
};

}  // namespace sentinel
