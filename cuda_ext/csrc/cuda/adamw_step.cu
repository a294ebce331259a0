// adamw_step on a GPU: gradients read once, parameters and moments read and written once, their statistics kept in registers.
#include "launches.h"

#include "../adamw_step.h"
#include "tensor_lists.cuh"

namespace sentinel {
namespace {

constexpr const char* OP = "adamw_step";
constexpr int BLOCKS = 3;  // on each multiprocessor: at most 80 registers a thread, so that loads go out ahead of their use

constexpr int WAVES = 8;   // blocks launched for each that runs: processors differ in speed, and the fast take what is left

constexpr int TABLE_ROWS = 160;  // all of GPT-2 124M
struct Table {
  float* param[TABLE_ROWS];
  const void* grad[TABLE_ROWS];
  float* first[TABLE_ROWS];
  float* second[TABLE_ROWS];
  int64_t size[TABLE_ROWS];
  float decay[TABLE_ROWS];
  uint32_t before[TABLE_ROWS + 1];  // chunks of this table before the tensor's
  bool is_bfloat16[TABLE_ROWS];
  int rows;
};
static_assert(sizeof(Table) + 64 <= PARAMETER_BYTES);

// One tensor's pointers, at the first element of a chunk.
struct StatePointers {
  float* param;
  float* first;
  float* second;
};

__device__ __forceinline__ void update_element(const StepScalars& scalars, float decay_factor, float& param, float grad,
                                               float& first, float& second, StepStats& stats) {
  const ElementState state{param, first, second};
  const ElementState next = updated(scalars, decay_factor, state, grad);
  stats.add(next.param - state.param, next.param, next.second);
  param = next.param;
  first = next.first;
  second = next.second;
}

// Four elements at a time where parameter and moments are aligned to 16 bytes, else one by one. The gradient's alignment is
// checked separately: gradients of a sharded model begin anywhere in a collective's buffer.
template <typename Grad>
__device__ __forceinline__ void update_chunk(const StepScalars& scalars, float decay_factor, const StatePointers& pointers,
                                             const Grad* grads, int elements, StepStats& stats) {
  const bool are_packed = is_packed(pointers.param) && is_packed(pointers.first) && is_packed(pointers.second);
  const bool grad_packed = is_packed(grads);
#pragma unroll 1
  for (int at = threadIdx.x * 4; at < elements; at += THREADS * 4) {
    if (are_packed && at + 4 <= elements) {
      Four param = load_four(pointers.param + at), first = load_four(pointers.first + at), second = load_four(pointers.second + at);
      const Four grad = grad_packed ? load_four(grads + at) : load_each(grads + at);
#pragma unroll
      for (int each = 0; each < 4; ++each)
        update_element(scalars, decay_factor, param.value[each], grad.value[each], first.value[each], second.value[each], stats);
      store_four(pointers.param + at, param);
      store_four(pointers.first + at, first);
      store_four(pointers.second + at, second);
    } else {
#pragma unroll 1
      for (int each = at; each < min(at + 4, elements); ++each)
        update_element(scalars, decay_factor, pointers.param[each], to_float(grads[each]), pointers.first[each],
                       pointers.second[each], stats);
    }
  }
}

// The statistics of a state that is not changed.
__device__ __forceinline__ void measure_chunk(const StatePointers& pointers, int elements, StepStats& stats) {
  const bool are_packed = is_packed(pointers.param) && is_packed(pointers.second);
#pragma unroll 1
  for (int at = threadIdx.x * 4; at < elements; at += THREADS * 4) {
    if (are_packed && at + 4 <= elements) {
      const Four param = load_four(pointers.param + at), second = load_four(pointers.second + at);
#pragma unroll
      for (int each = 0; each < 4; ++each) stats.add(0.0f, param.value[each], second.value[each]);
    } else {
#pragma unroll 1
      for (int each = at; each < min(at + 4, elements); ++each) stats.add(0.0f, pointers.param[each], pointers.second[each]);
    }
  }
}

__device__ __forceinline__ StepStats warp_stats(const StepStats& thread) {
  return StepStats{warp_sum(thread.updates), warp_sum(thread.params), warp_sum(thread.seconds),
                   __reduce_max_sync(0xffffffffu, thread.largest)};
}

// From the last chunk to the first: the gradients that grad_stats read last are still in the L2 cache.
__global__ void __launch_bounds__(THREADS, BLOCKS)
    adamw_chunks(const __grid_constant__ Table table, const double* control, const float* step, double* slots,
                 const Counters counters) {
  __shared__ StepScalars shared;
  __shared__ StepStats parts[2][WARPS];  // of this chunk and the one before: so one barrier per chunk is enough
  zero_counters(counters);
  if (threadIdx.x == 0) shared = scalars_of(control, *step);
  __syncthreads();
  const StepScalars& scalars = shared;  // left in shared memory, to save registers
  const uint32_t chunks = table.before[table.rows];
  int row = table.rows - 1, turn = 0;
  for (uint32_t done = blockIdx.x; done < chunks; done += gridDim.x, turn ^= 1) {
    const uint32_t chunk = chunks - 1 - done;
    while (chunk < table.before[row]) --row;
    const int64_t begin = int64_t(chunk - table.before[row]) * CHUNK;
    const int elements = static_cast<int>(min(CHUNK, table.size[row] - begin));
    const StatePointers pointers{table.param[row] + begin, table.first[row] + begin, table.second[row] + begin};
    const float decay_factor = scalars.decay_factor(table.decay[row]);
    StepStats stats{};
    if (!scalars.applies) {
      measure_chunk(pointers, elements, stats);
    } else if (table.is_bfloat16[row]) {
      update_chunk(scalars, decay_factor, pointers, static_cast<const __nv_bfloat16*>(table.grad[row]) + begin, elements, stats);
    } else {
      update_chunk(scalars, decay_factor, pointers, static_cast<const float*>(table.grad[row]) + begin, elements, stats);
    }
    if constexpr (!STATISTICS) continue;
    const StepStats warp_total = warp_stats(stats);
    if (threadIdx.x % 32 == 0) parts[turn][threadIdx.x / 32] = warp_total;
    __syncthreads();
    if (threadIdx.x == 0) {
      StepStats block = parts[turn][0];
      for (int warp = 1; warp < WARPS; ++warp) block.add(parts[turn][warp]);
      block.write(slots + int64_t(chunk) * 4);
    }
  }
}

__global__ void __launch_bounds__(SUM_THREADS, 1)
    adamw_sums(const __grid_constant__ Slots table, const double* slots, const SumRoom room, double* out) {
  sum_tensor_slots<4, 3>(table, slots, room, out);
}

// Launched after every kernel that reads the step.
__global__ void adamw_count(const double* control, float* step) {
  const bool applies = control[6] == 0.0 && is_finite(float(control[5]));
  if (applies) *step += 1.0f;
}

}  // namespace

void launch_adamw_step(const Chunks& chunks, const std::vector<ParamState>& tensors, const double* control, float* step,
                       double* slots, double* out, int device, cudaStream_t stream) {
  Counters counters{sum_room(chunks, slots, 4, 0).finished, static_cast<uint32_t>(chunks.rows())};
  for_tables(chunks, TABLE_ROWS, true, [&](int64_t begin, int64_t end) {
    Table table;
    table.rows = static_cast<int>(end - begin);
    for (int row = 0; row < table.rows; ++row) {
      const ParamState& tensor = tensors[begin + row];
      table.param[row] = tensor.param;
      table.grad[row] = tensor.grad;
      table.first[row] = tensor.first;
      table.second[row] = tensor.second;
      table.size[row] = chunks.sizes[begin + row];
      table.decay[row] = tensor.decay;
      table.before[row] = chunks.between(begin, begin + row);
      table.is_bfloat16[row] = tensor.grad_element == Element::BFLOAT16;
    }
    const uint32_t count = table.before[table.rows] = chunks.between(begin, end);
    if (count == 0) return;
    launch_kernel(OP, {blocks_for(OP, function_of(adamw_chunks), count, WAVES, device), THREADS}, stream, adamw_chunks, table, control, step,
                  slots + chunks.before[begin] * 4, counters);
    counters.counters = nullptr;
  });
  for_tables(chunks, SLOT_ROWS, false, [&](int64_t begin, int64_t end) {
    if constexpr (!STATISTICS) return;
    const Slots table = slots_of(chunks, begin, end);
    launch_kernel(OP, sum_shape(table, end - begin), stream, adamw_sums, table, slots + chunks.before[begin] * 4,
                  sum_room(chunks, slots, 4, begin), out + begin * 4);
  });
  launch_kernel(OP, {1, 1}, stream, adamw_count, control, step);
}

}  // namespace sentinel
