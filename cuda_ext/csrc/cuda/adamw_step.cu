// adamw_step on a GPU: gradients read once, parameters and moments read and written once, what they amount to kept in registers.
#include "../adamw_step.h"

#include "many.cuh"

namespace sentinel {
namespace {

constexpr const char* OP = "adamw_step";
constexpr int BLOCKS = 4;  // on each multiprocessor: up to 64 registers a thread, 64 KB of loads under way

constexpr int ROWS = 80;
struct Table {
  float* param[ROWS];
  const void* grad[ROWS];
  float* first[ROWS];
  float* second[ROWS];
  int64_t size[ROWS];
  float decay[ROWS];
  uint32_t before[ROWS + 1];  // chunks of this table before the tensor's own
  bool is_bfloat16[ROWS];
  int rows;
};
static_assert(sizeof(Table) + 64 <= PARAMETERS);

// One tensor's pointers, at the first element of a chunk.
struct Place {
  float* param;
  float* first;
  float* second;
};

__device__ __forceinline__ void advance_four(const Rates& rates, float keep, Four& param, const Four& grad, Four& first, Four& second,
                                             int count, Advance& told) {
#pragma unroll
  for (int each = 0; each < 4; ++each) {
    const Element now{param.of[each], first.of[each], second.of[each]};
    const Element next = advanced(rates, keep, now, grad.of[each]);
    if (each < count) told.add(next.param - now.param, next.param, next.second);
    param.of[each] = next.param;
    first.of[each] = next.first;
    second.of[each] = next.second;
  }
}

// A chunk that is whole and lies on 16 bytes throughout: nothing to ask.
template <typename Grad>
__device__ __forceinline__ void advance_whole(const Rates& rates, float keep, const Place& to, const Grad* grads, Advance& told) {
#pragma unroll 1
  for (int at = threadIdx.x * 4; at < CHUNK; at += THREADS * 4) {
    Four param = load_four(to.param + at), first = load_four(to.first + at), second = load_four(to.second + at);
    const Four grad = load_four(grads + at);
    advance_four(rates, keep, param, grad, first, second, 4, told);
    store_four(to.param + at, param);
    store_four(to.first + at, first);
    store_four(to.second + at, second);
  }
}

// Any chunk: what lies on 16 bytes is still read so, as parameters are whose gradients do not.
template <typename Grad>
__device__ __forceinline__ void advance_any(const Rates& rates, float keep, const Place& to, const Grad* grads, int elements,
                                            Advance& told) {
  const bool param_packed = is_packed(to.param), first_packed = is_packed(to.first), second_packed = is_packed(to.second);
  const bool grad_packed = is_packed(grads);
#pragma unroll 1
  for (int at = threadIdx.x * 4; at < elements; at += THREADS * 4) {
    const int count = min(4, elements - at);
    Four param = load_some(to.param + at, count, param_packed), first = load_some(to.first + at, count, first_packed);
    Four second = load_some(to.second + at, count, second_packed);
    const Four grad = load_some(grads + at, count, grad_packed);
    advance_four(rates, keep, param, grad, first, second, count, told);
    store_some(to.param + at, param, count, param_packed);
    store_some(to.first + at, first, count, first_packed);
    store_some(to.second + at, second, count, second_packed);
  }
}

// What stands there, where nothing is to be changed.
__device__ __forceinline__ void look(const Place& at_place, int elements, Advance& told) {
  const bool param_packed = is_packed(at_place.param), second_packed = is_packed(at_place.second);
#pragma unroll 1
  for (int at = threadIdx.x * 4; at < elements; at += THREADS * 4) {
    const int count = min(4, elements - at);
    const Four param = load_some(at_place.param + at, count, param_packed);
    const Four second = load_some(at_place.second + at, count, second_packed);
    for (int each = 0; each < 4; ++each)
      if (each < count) told.add(0.0f, param.of[each], second.of[each]);
  }
}

template <typename Grad>
__device__ __forceinline__ void advance(const Rates& rates, float keep, const Place& to, const Grad* grads, int elements,
                                        Advance& told) {
  const bool is_whole = elements == CHUNK && is_packed(to.param) && is_packed(to.first) && is_packed(to.second) && is_packed(grads);
  if (is_whole) {
    advance_whole(rates, keep, to, grads, told);
  } else {
    advance_any(rates, keep, to, grads, elements, told);
  }
}

__device__ __forceinline__ Advance warp_advance(const Advance& own) {
  return Advance{warp_sum(own.updates), warp_sum(own.params), warp_sum(own.seconds), __reduce_max_sync(0xffffffffu, own.largest)};
}

// From the last chunk to the first: the gradients that grad_stats read last are still in the second-level cache.
__global__ void __launch_bounds__(THREADS, BLOCKS)
    adamw_chunks(const __grid_constant__ Table table, const double* control, const float* step, double* slots) {
  __shared__ Rates rates;
  __shared__ Advance parts[2][WARPS];  // of this chunk and the one before: so one barrier a chunk is enough
  if (threadIdx.x == 0) rates = rates_of(control, *step);
  __syncthreads();
  const Rates& own = rates;  // left in shared memory: registers are for what is under way
  const uint32_t chunks = table.before[table.rows];
  int row = table.rows - 1, turn = 0;
  for (uint32_t done = blockIdx.x; done < chunks; done += gridDim.x, turn ^= 1) {
    const uint32_t chunk = chunks - 1 - done;
    while (chunk < table.before[row]) --row;
    const int64_t begin = int64_t(chunk - table.before[row]) * CHUNK;
    const int elements = static_cast<int>(min(CHUNK, table.size[row] - begin));
    const Place place{table.param[row] + begin, table.first[row] + begin, table.second[row] + begin};
    const float keep = own.keep(table.decay[row]);
    Advance told{};
    if (!own.applies) {
      look(place, elements, told);
    } else if (table.is_bfloat16[row]) {
      advance(own, keep, place, static_cast<const __nv_bfloat16*>(table.grad[row]) + begin, elements, told);
    } else {
      advance(own, keep, place, static_cast<const float*>(table.grad[row]) + begin, elements, told);
    }
    if constexpr (!TELLS) continue;
    const Advance seen = warp_advance(told);
    if (threadIdx.x % 32 == 0) parts[turn][threadIdx.x / 32] = seen;
    __syncthreads();
    if (threadIdx.x == 0) {
      Advance all = parts[turn][0];
      for (int warp = 1; warp < WARPS; ++warp) all.add(parts[turn][warp]);
      all.write(slots + int64_t(chunk) * 4);
    }
  }
}

__global__ void __launch_bounds__(THREADS) adamw_sums(const __grid_constant__ Slots table, const double* slots, double* out) {
  sum_slots<4, 3>(table, slots, out);
}

// Behind all that read it.
__global__ void adamw_count(const double* control, float* step) {
  const bool applies = control[6] == 0.0 && is_finite(float(control[5]));
  if (applies) *step += 1.0f;
}

}  // namespace

Tensor adamw_step(std::vector<Tensor> params, std::vector<Tensor> grads, std::vector<Tensor> exp_avgs,
                  std::vector<Tensor> exp_avg_sqs, Tensor step, Tensor control, std::vector<double> decays) {
  check_adamw(params, grads, exp_avgs, exp_avg_sqs, step, control, decays);
  const int64_t rows = static_cast<int64_t>(params.size());
  const Chunks chunks(params);
  const torch::stable::accelerator::DeviceGuard guard(control.get_device_index());
  const cudaStream_t stream = stream_of(control);
  const Tensor slots = torch::stable::new_empty(control, {chunks.count(), 4}, ScalarType::Double);
  Tensor out = torch::stable::new_zeros(control, {rows, 4}, ScalarType::Double);
  for_tables(chunks, ROWS, true, [&](int64_t begin, int64_t end) {
    Table table;
    table.rows = static_cast<int>(end - begin);
    for (int row = 0; row < table.rows; ++row) {
      const int64_t tensor = begin + row;
      table.param[row] = write<float>(params[tensor]);
      table.grad[row] = grads[tensor].const_data_ptr();
      table.first[row] = write<float>(exp_avgs[tensor]);
      table.second[row] = write<float>(exp_avg_sqs[tensor]);
      table.size[row] = params[tensor].numel();
      table.decay[row] = static_cast<float>(decays[tensor]);
      table.before[row] = chunks.between(begin, tensor);
      table.is_bfloat16[row] = grads[tensor].scalar_type() == ScalarType::BFloat16;
    }
    const uint32_t count = table.before[table.rows] = chunks.between(begin, end);
    if (count == 0) return;
    adamw_chunks<<<blocks_for(count, BLOCKS, control), THREADS, 0, stream>>>(
        table, read<double>(control), read<float>(step), write<double>(slots) + chunks.before[begin] * 4);
    check_launch(OP);
  });
  for_tables(chunks, SUMMED, false, [&](int64_t begin, int64_t end) {
    if constexpr (!TELLS) return;
    adamw_sums<<<static_cast<unsigned>(end - begin), THREADS, 0, stream>>>(
        slots_of(chunks, begin, end), read<double>(slots) + chunks.before[begin] * 4, write<double>(out) + begin * 4);
    check_launch(OP);
  });
  adamw_count<<<1, 1, 0, stream>>>(read<double>(control), write<float>(step));
  check_launch(OP);
  return out;
}

STABLE_TORCH_LIBRARY_IMPL(sentinel, CUDA, m) { m.impl("adamw_step", TORCH_BOX(&adamw_step)); }

}  // namespace sentinel
