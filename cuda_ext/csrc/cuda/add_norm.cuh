// How rows are distributed over threads. A row belongs to a group: one warp, or for long rows one block or a cluster of two, each of
// which has half of the row. Thread t of a warp or a block of G holds the packs t, t + G, t + 2 G … of every row that its group works
// on: the same columns in every row.
#pragma once

#include <algorithm>

#include "../add_norm.h"
#include "launches.h"
#include "device.cuh"

namespace sentinel::norm {

enum class Team { WARP, BLOCK, PAIR };

template <Team TEAM>
struct Group {
  static constexpr bool WARP = TEAM == Team::WARP, PAIR = TEAM == Team::PAIR;
  int thread, threads, number, groups;  // in the warp or block; of all groups of the grid
  int begin, end;                       // columns of this block

  // `half`: columns of the first block of a pair.
  __device__ explicit Group(int width, int half = 0)
      : thread(WARP ? threadIdx.x % 32 : threadIdx.x),
        threads(WARP ? 32 : blockDim.x),
        number(WARP ? blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32 : PAIR ? blockIdx.x / 2 : blockIdx.x),
        groups(WARP ? gridDim.x * (blockDim.x / 32) : PAIR ? gridDim.x / 2 : gridDim.x),
        begin(PAIR && blockIdx.x % 2 == 1 ? half : 0),
        end(PAIR && blockIdx.x % 2 == 0 ? half : width) {}

  template <typename T> __device__ int column(int pack) const {
    return (PAIR ? begin : 0) + (pack * threads + thread) * PACKED<T>;
  }
};

// Sums over a group, the same bits in every thread. Two buffers alternate: between two writes to one lies a barrier that every
// reader has passed.
template <Team TEAM>
struct Sums {
  static constexpr bool WARP = TEAM == Team::WARP;
  float2 (*buffers)[32];
  int turn = 0;

  __device__ float operator()(float one) {
    one = warp_sum(one);
    return WARP ? one : warp_sum(exchange({one, 0.0f}).x);
  }

  __device__ float2 operator()(float one, float other) {
    const float2 sum{warp_sum(one), warp_sum(other)};
    if constexpr (WARP) return sum;
    const float2 part = exchange(sum);
    return {warp_sum(part.x), warp_sum(part.y)};
  }

  // The sum of warp number `lane`, 0 beyond the last; of a pair's second block after those of the first, 16 warps each at most.
  __device__ float2 exchange(float2 sum) {
    float2* buffer = buffers[turn];
    turn ^= 1;
#if __CUDA_ARCH__ >= 900
    if constexpr (TEAM == Team::PAIR) {
      const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
      if (lane < 2) in_block(buffer, lane)[rank_in_cluster() * warps + threadIdx.x / 32] = sum;
      cluster_sync();
      return lane < 2 * warps ? buffer[lane] : float2{0.0f, 0.0f};
    }
#endif
    if (threadIdx.x % 32 == 0) buffer[threadIdx.x / 32] = sum;
    __syncthreads();
    return threadIdx.x % 32 < blockDim.x / 32 ? buffer[threadIdx.x % 32] : float2{0.0f, 0.0f};
  }
};

// Weight or bias, float32 or of the rows' dtype. Where `data` is null every column is `fallback`.
struct Columns {
  const void* data;
  bool is_float32;

  template <typename T>
  __device__ __forceinline__ float at(int64_t column, float fallback) const {
    if (data == nullptr) return fallback;
    return is_float32 ? static_cast<const float*>(data)[column] : to_float(static_cast<const T*>(data)[column]);
  }

  template <typename T>
  __device__ __forceinline__ void pack_at(int column, float fallback, float (&out)[PACKED<T>]) const {
    if (data == nullptr) {
#pragma unroll
      for (int i = 0; i < PACKED<T>; ++i) out[i] = fallback;
    } else if (is_float32) {
      const float4* from = reinterpret_cast<const float4*>(static_cast<const float*>(data) + column);
#pragma unroll
      for (int i = 0; i < PACKED<T>; i += 4) {
        const float4 four = from[i / 4];
        out[i] = four.x, out[i + 1] = four.y, out[i + 2] = four.z, out[i + 3] = four.w;
      }
    } else {
      const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(static_cast<const T*>(data) + column);
#pragma unroll
      for (int i = 0; i < PACKED<T>; ++i) out[i] = to_float(pack.element[i]);
    }
  }
};

template <typename T>
__device__ __forceinline__ void store(T* address, const Pack<T>& pack) {
  *reinterpret_cast<Pack<T>*>(address) = pack;
}

// Bytes of dynamic shared memory that a block may use beside its static.
inline int max_dynamic_shared(const char* op, int device) {
  return std::max(0, attribute_of(op, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) - 2048);
}

// As many blocks as run at once; each loops over rows. The same GPU gives the same blocks and so the same sums.
inline int64_t blocks_at_once(const char* op, const void* kernel, int threads, size_t shared, int device, int max_per_processor,
                              Divided divided) {
  allow_shared(op, kernel, max_dynamic_shared(op, device), divided);
  const int each = resident_blocks(op, kernel, {dim3(1), dim3(threads), shared});
  return int64_t(attribute_of(op, cudaDevAttrMultiProcessorCount, device)) * std::max(1, std::min(each, max_per_processor));
}

template <typename Rows>
void launch_rows(const char* op, const Plan& plan, const Rows& rows, cudaStream_t stream) {
  const auto kernel = reinterpret_cast<void (*)(Rows)>(const_cast<void*>(plan.kernel));
  launch_kernel(op, {dim3(plan.blocks), dim3(plan.threads), plan.shared, plan.cluster}, stream, kernel, rows);
}

}  // namespace sentinel::norm
