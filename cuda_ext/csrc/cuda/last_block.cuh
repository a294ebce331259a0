// Statistics of all blocks, added in the order of the blocks by blocks that end last: no second launch, no atomic sums. Blocks are
// many (a processor takes the next as one ends), so the last of every SPAN adds theirs, and the last of these all.
#pragma once

#include "../add_norm.h"
#include "device.cuh"
#include "launches.h"

namespace sentinel::norm {

// Of a block, of a span of blocks or of all; the largest magnitude as bits (host_device.h).
struct PartialStats {
  double squares = 0.0;
  unsigned long long nonfinite = 0;
  unsigned long long largest = 0;

  __device__ __forceinline__ void add(const PartialStats& other) {
    squares += other.squares;
    nonfinite += other.nonfinite;
    largest = other.largest > largest ? other.largest : largest;
  }
};

// Of a thread. A row's sum of squares is known to all threads on it: one of them adds it, unless it is not finite. Only then does each
// thread look at its elements singly.
struct ThreadStats {
  double squares = 0.0;
  uint32_t largest = 0;  // bits
  uint32_t nonfinite = 0;

  // `each(body)` calls body(value) for each of the thread's elements of the row.
  template <typename Each>
  __device__ __forceinline__ void end_row(float squares_of_row, bool adds, const Each& each) {
    if constexpr (!STATISTICS) return;
    if (is_finite(squares_of_row)) {
      if (adds) squares += double(squares_of_row);
      return;
    }
    each([&](float value) { squares += double(value) * double(value), nonfinite += is_finite(value) ? 0u : 1u; });
  }
};

__device__ __forceinline__ PartialStats over_warp(PartialStats lane) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    lane.add(PartialStats{__shfl_xor_sync(0xffffffffu, lane.squares, offset), __shfl_xor_sync(0xffffffffu, lane.nonfinite, offset),
                          __shfl_xor_sync(0xffffffffu, lane.largest, offset)});
  return lane;
}

// Valid in the lanes of warp 0. Every thread of the block must call it, once in a kernel.
__device__ __forceinline__ PartialStats block_sum(const ThreadStats& thread) {
  __shared__ double squares[32];
  __shared__ uint32_t nonfinite[32], largest[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const double of_warp = warp_sum(thread.squares);
  const uint32_t top = __reduce_max_sync(0xffffffffu, thread.largest);
  const uint32_t count = __reduce_add_sync(0xffffffffu, thread.nonfinite);
  if (lane == 0) squares[warp] = of_warp, nonfinite[warp] = count, largest[warp] = top;
  __syncthreads();
  if (warp != 0 || lane >= int(blockDim.x) / 32) return PartialStats{};
  return PartialStats{squares[lane], nonfinite[lane], largest[lane]};
}

// Of a stream: blocks of each span that have ended, and spans. The last of each leaves its counter at zero.
static __device__ unsigned finished_of_stream[STREAMS][COUNTERS];

__device__ __forceinline__ PartialStats written(const PartialStats* stats) {
  return PartialStats{__ldcg(&stats->squares), __ldcg(&stats->nonfinite), __ldcg(&stats->largest)};
}

// What blocks have written, added by a warp. Loads without a branch, so that AHEAD of them go out together.
__device__ __forceinline__ PartialStats sum_of(const PartialStats* from, unsigned count) {
  constexpr unsigned AHEAD = 8;
  PartialStats sum;
  for (unsigned begin = threadIdx.x; begin < count; begin += AHEAD * 32) {
    PartialStats ahead[AHEAD];
#pragma unroll
    for (unsigned i = 0; i < AHEAD; ++i) ahead[i] = written(from + min(begin + i * 32, count - 1));
#pragma unroll
    for (unsigned i = 0; i < AHEAD; ++i)
      if (begin + i * 32 < count) sum.add(ahead[i]);
  }
  return over_warp(sum);
}

// Called by lane 0: true where the caller is the last of so many.
__device__ __forceinline__ bool ends_last(unsigned* counter, unsigned of) {
  __threadfence();
  if (atomicAdd(counter, 1u) != of - 1) return false;
  *counter = 0;
  return true;
}

static __device__ __noinline__ void store_stats(const ThreadStats of_thread, PartialStats* partials, const Counter counter,
                                                double* stats) {
  if constexpr (!STATISTICS) return;
  PartialStats sum = block_sum(of_thread);
  if (threadIdx.x >= 32) return;
  sum = over_warp(sum);
  const unsigned lane = threadIdx.x, span = blockIdx.x / SPAN, spans = (gridDim.x + SPAN - 1) / SPAN;
  const unsigned begin = span * SPAN, end = min(begin + unsigned(SPAN), gridDim.x);
  unsigned* const finished = counter.exclusive != nullptr ? counter.exclusive : finished_of_stream[counter.stream];
  PartialStats* const of_spans = partials + gridDim.x;
  bool is_last = false;
  if (lane == 0) {
    partials[blockIdx.x] = sum;
    is_last = ends_last(finished + 1 + span, end - begin);
  }
  if (!__any_sync(0xffffffffu, is_last)) return;
  __threadfence();
  sum = sum_of(partials + begin, end - begin);
  is_last = false;
  if (lane == 0) {
    of_spans[span] = sum;
    is_last = ends_last(finished, spans);
  }
  if (!__any_sync(0xffffffffu, is_last)) return;
  __threadfence();
  sum = sum_of(of_spans, spans);
  if (lane != 0) return;
  stats[0] = sum.squares;
  stats[1] = double(of_bits(static_cast<uint32_t>(sum.largest)));
  stats[2] = double(sum.nonfinite);
}

}  // namespace sentinel::norm
