// A row of logits on a GPU: its 16-byte chunks as threads see them, and how parts of a softmax are put together, of the threads of a
// warp, of warps, of the blocks of a cluster.
#pragma once

#include <type_traits>

#include "../softmax_xent.h"
#include "device.cuh"

namespace sentinel {

constexpr int MAX_PARTS = 8;  // blocks on a row: the largest cluster every device with clusters can run

__device__ __forceinline__ float larger(float one, float other) {  // max_or_nan in one instruction
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(one), "f"(other));
  return most;
}

#if __CUDA_ARCH__ >= 900
// As cooperative_groups has them, whose header was a third of the time it took to compile all this. Arriving releases what was
// written, waiting acquires it.
__device__ __forceinline__ void cluster_sync() { asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory"); }

__device__ __forceinline__ int rank_in_cluster() {
  int rank;
  asm volatile("mov.b32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Where another block of the cluster has what this block has at `place` of its shared memory.
template <typename T> __device__ __forceinline__ T* of_block(T* place, int rank) {
  T* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(place), "r"(rank));
  return there;
}
#endif

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
    if (lane < parts) of_block(board, lane)[rank_in_cluster() * WARPS + warp] = mine;
    cluster_sync();
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

constexpr int BATCHES = 4;  // a row arrives in so many groups: the first is looked at while the last is under way

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
      if constexpr (TELLS) poison = fmaf(value[i], 0.0f, poison);
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
// thread touches them, so waiting for one's own copies is all the synchronisation they need.
template <typename T, bool RESIDENT> struct Mine {
  const T* logits;
  uint4* place;
  int worker, workers, held;

  __device__ __forceinline__ void start(const Span<T>& span, int k) const {
    const int index = worker + k * workers;
    if (RESIDENT && index < span.chunks) copy_async(place + k * blockDim.x, logits + span.chunk(index));
  }

  __device__ __forceinline__ uint4 get(const Span<T>& span, int k) const {
    if constexpr (RESIDENT) return place[k * blockDim.x];
    return *reinterpret_cast<const uint4*>(logits + span.chunk(worker + k * workers));
  }

  __device__ __forceinline__ int count(const Span<T>& span) const {
    return worker < span.chunks ? (span.chunks - worker + workers - 1) / workers : 0;
  }
};

template <typename T, bool RESIDENT>
__device__ __forceinline__ Looked look(const Mine<T, RESIDENT>& mine, const Span<T>& span, float edge) {
  Looked looked;
  const int count = mine.count(span);
  if constexpr (RESIDENT) {
    const int batch = (mine.held + BATCHES - 1) / BATCHES;
    for (int b = 0; b < BATCHES; ++b) {
      wait_for_batch(b);
      for (int k = b * batch; k < min((b + 1) * batch, count); ++k) looked.add(Chunk<T>(mine.get(span, k)).value);
    }
  } else {
#pragma unroll 4
    for (int k = 0; k < count; ++k) looked.add(Chunk<T>(mine.get(span, k)).value);
  }
  if (mine.worker < span.edges) {
    const float only[1] = {edge};
    looked.add(only);
  }
  return looked;
}

template <typename T, bool RESIDENT>
__device__ __forceinline__ uint32_t count_nonfinite(const Mine<T, RESIDENT>& mine, const Span<T>& span, float edge) {
  uint32_t nonfinite = mine.worker < span.edges && !is_finite(edge) ? 1 : 0;
  for (int k = 0; k < mine.count(span); ++k) nonfinite += nonfinite_of<T>(mine.get(span, k));
  return nonfinite;
}

// Writes the row's gradient and starts the copies of the row that comes next into the places left.
template <typename T, bool RESIDENT>
__device__ __forceinline__ void give(
    const Mine<T, RESIDENT>& mine, const Span<T>& span, const Span<T>& next, bool more, T* out, const Row& row, float largest, int target) {
  const int at = row.counted && !row.outside && target >= span.head ? target - span.head : -1;
  const int target_chunk = at >= 0 ? at / Span<T>::WIDTH : -1;
  const int count = mine.count(span);
  const int batch = (mine.held + BATCHES - 1) / BATCHES;
  for (int b = 0; b < BATCHES; ++b) {
    for (int k = b * batch; k < min((b + 1) * batch, mine.held); ++k) {
      if (k < count) {
        Chunk<T> chunk(mine.get(span, k));
#pragma unroll
        for (int i = 0; i < Span<T>::WIDTH; ++i) chunk.value[i] = row.slope * exp_below(chunk.value[i] - largest);
        const int index = mine.worker + k * mine.workers;
        if (index == target_chunk)
#pragma unroll
          for (int i = 0; i < Span<T>::WIDTH; ++i) chunk.value[i] -= i == at % Span<T>::WIDTH ? row.pull : 0.0f;
        __stcs(reinterpret_cast<uint4*>(out + span.chunk(index)), row.counted ? chunk.packed() : make_uint4(0, 0, 0, 0));
      }
      if (more) mine.start(next, k);  // after the store, so after this place was read
    }
    if (RESIDENT) end_of_copies();
  }
}

}  // namespace sentinel
