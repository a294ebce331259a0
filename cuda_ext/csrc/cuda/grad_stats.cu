// grad_stats on a GPU: one read of every gradient, a slot for each chunk, and one sum of the slots.
#include "launches.h"

#include "../grad_stats.h"
#include "tensor_lists.cuh"

namespace sentinel {
namespace {

constexpr const char* OP = "grad_stats";
constexpr int BLOCKS = 4;  // on each multiprocessor: 64 registers a thread hold a whole chunk's loads, 128 KB under way

constexpr int ROWS = 184;
struct Table {
  const void* grad[ROWS];
  int64_t size[ROWS];
  uint32_t before[ROWS + 1];  // chunks of this table before the tensor's own
  Element element[ROWS];
  int rows;
};
static_assert(sizeof(Table) + 64 <= PARAMETERS);

// A thread's numbers in a chunk: those of every THREADS-th pack of 16 bytes.
template <typename T, bool WHOLE>
__device__ __forceinline__ Glance glance(const T* from, int count, float scale) {
  Glance seen{};
  if constexpr (WHOLE) {
#pragma unroll
    for (int step = 0; step < CHUNK / (THREADS * PACKED<T>); ++step) {
      const Pack<T> pack = reinterpret_cast<const Pack<T>*>(from)[step * THREADS + threadIdx.x];
#pragma unroll
      for (int each = 0; each < PACKED<T>; ++each) seen.add(to_float(pack.element[each]) * scale);
    }
  } else {
    for (int at = threadIdx.x * PACKED<T>; at < count; at += THREADS * PACKED<T>)
      for (int each = at; each < min(at + PACKED<T>, count); ++each) seen.add(to_float(from[each]) * scale);
  }
  return seen;
}

// What a warp sees of a chunk; all its threads return the same.
template <typename T>
__device__ __forceinline__ Looked look(const T* from, int count, float scale) {
  const bool is_whole = count == CHUNK && reinterpret_cast<uintptr_t>(from) % 16 == 0;
  const Glance own = is_whole ? glance<T, true>(from, count, scale) : glance<T, false>(from, count, scale);
  const Looked first{warp_sum(double(own.squares)), __reduce_max_sync(0xffffffffu, own.largest), 0};
  if (is_trusted(first.squares, first.largest)) return first;
  Looked second{};
  for (int at = threadIdx.x * PACKED<T>; at < count; at += THREADS * PACKED<T>)
    for (int each = at; each < min(at + PACKED<T>, count); ++each) second.add(to_float(from[each]) * scale);
  return Looked{warp_sum(second.squares), __reduce_max_sync(0xffffffffu, second.largest),
                __reduce_add_sync(0xffffffffu, second.nonfinite)};
}

__global__ void __launch_bounds__(THREADS, BLOCKS)
    grad_stats_chunks(const __grid_constant__ Table table, const float* inv_scale, double* slots) {
  __shared__ Looked parts[2][WARPS];  // of this chunk and the one before: so one barrier a chunk is enough
  const float scale = *inv_scale;
  const uint32_t chunks = table.before[table.rows];
  int row = 0, turn = 0;
  for (uint32_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x, turn ^= 1) {
    while (chunk >= table.before[row + 1]) ++row;
    const int64_t first = int64_t(chunk - table.before[row]) * CHUNK;
    const int count = static_cast<int>(min(CHUNK, table.size[row] - first));
    Looked seen{};
    if (table.element[row] == Element::FLOAT) {
      seen = look(static_cast<const float*>(table.grad[row]) + first, count, scale);
    } else if (table.element[row] == Element::BFLOAT16) {
      seen = look(static_cast<const __nv_bfloat16*>(table.grad[row]) + first, count, scale);
    } else {
      seen = look(static_cast<const __half*>(table.grad[row]) + first, count, scale);
    }
    if (threadIdx.x % 32 == 0) parts[turn][threadIdx.x / 32] = seen;
    __syncthreads();
    if (threadIdx.x == 0) {
      Looked all = parts[turn][0];
      for (int warp = 1; warp < WARPS; ++warp) all.add(parts[turn][warp]);
      all.write(slots + int64_t(chunk) * 3);
    }
  }
}

__global__ void __launch_bounds__(THREADS)
    grad_stats_sums(const __grid_constant__ Slots table, const double* slots, double* out) {
  sum_slots<3, 1>(table, slots, out);
}

}  // namespace

void launch_grad_stats(const Chunks& chunks, const std::vector<Gradient>& grads, const float* inv_scale, double* slots,
                       double* out, int device, cudaStream_t stream) {
  for_tables(chunks, ROWS, false, [&](int64_t begin, int64_t end) {
    Table table;
    table.rows = static_cast<int>(end - begin);
    for (int row = 0; row < table.rows; ++row) {
      table.grad[row] = grads[begin + row].from;
      table.size[row] = chunks.sizes[begin + row];
      table.before[row] = chunks.between(begin, begin + row);
      table.element[row] = grads[begin + row].element;
    }
    const uint32_t count = table.before[table.rows] = chunks.between(begin, end);
    if (count == 0) return;
    grad_stats_chunks<<<blocks_for(count, BLOCKS, device), THREADS, 0, stream>>>(
        table, inv_scale, slots + chunks.before[begin] * 3);
    check_launch(OP);
  });
  for_tables(chunks, SUMMED, false, [&](int64_t begin, int64_t end) {
    grad_stats_sums<<<static_cast<unsigned>(end - begin), THREADS, 0, stream>>>(
        slots_of(chunks, begin, end), slots + chunks.before[begin] * 3, out + begin * 3);
    check_launch(OP);
  });
}

}  // namespace sentinel
