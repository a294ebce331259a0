// grad_stats on a GPU: one read of every gradient, a slot for each chunk, and one sum of the slots.
#include "launches.h"

#include "../grad_stats.h"
#include "tensor_lists.cuh"

namespace sentinel {
namespace {

constexpr const char* OP = "grad_stats";
// On each multiprocessor: of 16-bit gradients 32 registers a thread hold a whole chunk's loads, 128 KB under way. On an A100 32 spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int BLOCKS = 6;
#else
constexpr int BLOCKS = 8;
#endif

constexpr int TABLE_ROWS = 184;
struct Table {
  const void* grad[TABLE_ROWS];
  int64_t size[TABLE_ROWS];
  uint32_t before[TABLE_ROWS + 1];  // chunks of this table before the tensor's
  Element element[TABLE_ROWS];
  int rows;
};
static_assert(sizeof(Table) + 64 <= PARAMETER_BYTES);

// The fast pass over a thread's elements of a chunk: every THREADS-th pack of 16 bytes.
template <typename T, bool WHOLE>
__device__ __forceinline__ FastStats fast_stats(const T* from, int count, float scale) {
  FastStats stats{};
  if constexpr (WHOLE) {
#pragma unroll
    for (int step = 0; step < CHUNK / (THREADS * PACKED<T>); ++step) {
      const Pack<T> pack = reinterpret_cast<const Pack<T>*>(from)[step * THREADS + threadIdx.x];
#pragma unroll
      for (int each = 0; each < PACKED<T>; ++each) stats.add(to_float(pack.element[each]) * scale);
    }
  } else {
    for (int at = threadIdx.x * PACKED<T>; at < count; at += THREADS * PACKED<T>)
      for (int each = at; each < min(at + PACKED<T>, count); ++each) stats.add(to_float(from[each]) * scale);
  }
  return stats;
}

// The statistics of a warp's elements of a chunk, the same in all its threads.
template <typename T>
__device__ __forceinline__ GradStats warp_stats(const T* from, int count, float scale) {
  const bool is_whole = count == CHUNK && reinterpret_cast<uintptr_t>(from) % 16 == 0;
  const FastStats thread = is_whole ? fast_stats<T, true>(from, count, scale) : fast_stats<T, false>(from, count, scale);
  const GradStats fast{warp_sum(double(thread.squares)), __reduce_max_sync(0xffffffffu, thread.largest), 0};
  if (is_trusted(fast.squares, fast.largest)) return fast;
  GradStats exact{};
  for (int at = threadIdx.x * PACKED<T>; at < count; at += THREADS * PACKED<T>)
    for (int each = at; each < min(at + PACKED<T>, count); ++each) exact.add(to_float(from[each]) * scale);
  return GradStats{warp_sum(exact.squares), __reduce_max_sync(0xffffffffu, exact.largest),
                   __reduce_add_sync(0xffffffffu, exact.nonfinite)};
}

__global__ void __launch_bounds__(THREADS, BLOCKS)
    grad_stats_chunks(const __grid_constant__ Table table, const float* inv_scale, double* slots, const Counters counters) {
  __shared__ GradStats parts[2][WARPS];  // of this chunk and the one before: so one barrier per chunk is enough
  let_next_kernel_begin();
  wait_for_kernels_before();
  zero_counters(counters);
  const float scale = *inv_scale;
  const uint32_t chunks = table.before[table.rows];
  int row = 0, turn = 0;
  for (uint32_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x, turn ^= 1) {
    while (chunk >= table.before[row + 1]) ++row;
    const int64_t start = int64_t(chunk - table.before[row]) * CHUNK;
    const int count = static_cast<int>(min(CHUNK, table.size[row] - start));
    GradStats stats{};
    if (table.element[row] == Element::FLOAT) {
      stats = warp_stats(static_cast<const float*>(table.grad[row]) + start, count, scale);
    } else if (table.element[row] == Element::BFLOAT16) {
      stats = warp_stats(static_cast<const __nv_bfloat16*>(table.grad[row]) + start, count, scale);
    } else {
      stats = warp_stats(static_cast<const __half*>(table.grad[row]) + start, count, scale);
    }
    if (threadIdx.x % 32 == 0) parts[turn][threadIdx.x / 32] = stats;
    __syncthreads();
    if (threadIdx.x == 0) {
      GradStats block = parts[turn][0];
      for (int warp = 1; warp < WARPS; ++warp) block.add(parts[turn][warp]);
      block.write(slots + int64_t(chunk) * 3);
    }
  }
}

__global__ void __launch_bounds__(SUM_THREADS, 1)
    grad_stats_sums(const __grid_constant__ Slots table, const double* slots, const SumRoom room, double* out) {
  wait_for_kernels_before();
  sum_tensor_slots<3, 1>(table, slots, room, out);
}

}  // namespace

void launch_grad_stats(const Chunks& chunks, const std::vector<Gradient>& grads, const float* inv_scale, double* slots,
                       double* out, int device, cudaStream_t stream) {
  Counters counters{sum_room(chunks, slots, 3, 0).finished, static_cast<uint32_t>(chunks.rows())};
  const bool is_early = attribute_of(OP, cudaDevAttrComputeCapabilityMajor, device) >= 9;
  for_tables(chunks, TABLE_ROWS, false, [&](int64_t begin, int64_t end) {
    Table table;
    table.rows = static_cast<int>(end - begin);
    for (int row = 0; row < table.rows; ++row) {
      table.grad[row] = grads[begin + row].data;
      table.size[row] = chunks.sizes[begin + row];
      table.before[row] = chunks.between(begin, begin + row);
      table.element[row] = grads[begin + row].element;
    }
    const uint32_t count = table.before[table.rows] = chunks.between(begin, end);
    if (count == 0) return;
    const LaunchShape shape{dim3(blocks_for(OP, function_of(grad_stats_chunks), count, 1, device)), dim3(THREADS), 0, 1, is_early};
    launch_kernel(OP, shape, stream, grad_stats_chunks, table, inv_scale, slots + chunks.before[begin] * 3, counters);
    counters.counters = nullptr;
  });
  for_tables(chunks, SLOT_ROWS, false, [&](int64_t begin, int64_t end) {
    const Slots table = slots_of(chunks, begin, end);
    LaunchShape shape = sum_shape(table, end - begin);
    shape.is_early = is_early;
    launch_kernel(OP, shape, stream, grad_stats_sums, table, slots + chunks.before[begin] * 3, sum_room(chunks, slots, 3, begin),
                  out + begin * 3);
  });
}

}  // namespace sentinel
