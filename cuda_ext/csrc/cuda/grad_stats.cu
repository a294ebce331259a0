// grad_stats on a GPU: one read of every gradient, a slot for each chunk, and one sum of the slots.
#include "../grad_stats.h"

#include "many.cuh"

namespace sentinel {
namespace {

constexpr const char* OP = "grad_stats";
constexpr int BLOCKS = 4;  // on each multiprocessor: 64 registers a thread hold a whole chunk's loads, 128 KB under way

constexpr int ROWS = 184;
struct Table {
  const void* grad[ROWS];
  int64_t size[ROWS];
  uint32_t before[ROWS + 1];  // chunks of this table before the tensor's own
  uint8_t type[ROWS];
  int rows;
};
static_assert(sizeof(Table) + 64 <= PARAMETERS);
enum Type : uint8_t { FLOAT, BFLOAT16, HALF };

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
    if (table.type[row] == FLOAT) {
      seen = look(static_cast<const float*>(table.grad[row]) + first, count, scale);
    } else if (table.type[row] == BFLOAT16) {
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

uint8_t type_of(const Tensor& grad) {
  const ScalarType type = grad.scalar_type();
  return type == ScalarType::Float ? FLOAT : type == ScalarType::BFloat16 ? BFLOAT16 : HALF;
}

Tensor grad_stats(std::vector<Tensor> grads, Tensor inv_scale) {
  check_grad_stats(grads, inv_scale);
  const int64_t rows = static_cast<int64_t>(grads.size());
  const Chunks chunks(grads);
  if (chunks.count() == 0) return torch::stable::new_zeros(inv_scale, {rows, 3}, ScalarType::Double);
  const torch::stable::accelerator::DeviceGuard guard(inv_scale.get_device_index());
  const cudaStream_t stream = stream_of(inv_scale);
  const Tensor slots = torch::stable::new_empty(inv_scale, {chunks.count(), 3}, ScalarType::Double);
  Tensor out = torch::stable::new_empty(inv_scale, {rows, 3}, ScalarType::Double);
  for_tables(chunks, ROWS, false, [&](int64_t begin, int64_t end) {
    Table table;
    table.rows = static_cast<int>(end - begin);
    for (int row = 0; row < table.rows; ++row) {
      const Tensor& grad = grads[begin + row];
      table.grad[row] = grad.const_data_ptr();
      table.size[row] = grad.numel();
      table.before[row] = chunks.between(begin, begin + row);
      table.type[row] = type_of(grad);
    }
    const uint32_t count = table.before[table.rows] = chunks.between(begin, end);
    if (count == 0) return;
    grad_stats_chunks<<<blocks_for(count, BLOCKS, inv_scale), THREADS, 0, stream>>>(
        table, read<float>(inv_scale), write<double>(slots) + chunks.before[begin] * 3);
    check_launch(OP);
  });
  for_tables(chunks, SUMMED, false, [&](int64_t begin, int64_t end) {
    grad_stats_sums<<<static_cast<unsigned>(end - begin), THREADS, 0, stream>>>(
        slots_of(chunks, begin, end), read<double>(slots) + chunks.before[begin] * 3, write<double>(out) + begin * 3);
    check_launch(OP);
  });
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sentinel, CUDA, m) { m.impl("grad_stats", TORCH_BOX(&grad_stats)); }

}  // namespace sentinel
