// adamw_step on a GPU: gradients read once, parameters and moments read and written once, what they amount to kept in registers.
#include "launches.h"

#include "../adamw_step.h"
#include "tensor_lists.cuh"

namespace sentinel {
namespace {

constexpr const char* OP = "adamw_step";
constexpr int BLOCKS = 4;  // on each multiprocessor: at most 64 registers a thread, 64 KB of loads under way

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

__device__ __forceinline__ void advance_one(const Rates& rates, float keep, float& param, float grad, float& first,
                                            float& second, Advance& told) {
  const State now{param, first, second};
  const State next = advanced(rates, keep, now, grad);
  told.add(next.param - now.param, next.param, next.second);
  param = next.param;
  first = next.first;
  second = next.second;
}

// Four elements at a time where parameter and moments lie on 16 bytes, and one by one elsewhere. Gradients are asked by
// themselves: those of a sharded model begin anywhere in the buffer of a collective.
template <typename Grad>
__device__ __forceinline__ void advance(const Rates& rates, float keep, const Place& to, const Grad* grads, int elements,
                                        Advance& told) {
  const bool are_packed = is_packed(to.param) && is_packed(to.first) && is_packed(to.second), grad_packed = is_packed(grads);
#pragma unroll 1
  for (int at = threadIdx.x * 4; at < elements; at += THREADS * 4) {
    if (are_packed && at + 4 <= elements) {
      Four param = load_four(to.param + at), first = load_four(to.first + at), second = load_four(to.second + at);
      const Four grad = grad_packed ? load_four(grads + at) : load_each(grads + at);
#pragma unroll
      for (int each = 0; each < 4; ++each)
        advance_one(rates, keep, param.of[each], grad.of[each], first.of[each], second.of[each], told);
      store_four(to.param + at, param);
      store_four(to.first + at, first);
      store_four(to.second + at, second);
    } else {
#pragma unroll 1
      for (int each = at; each < min(at + 4, elements); ++each)
        advance_one(rates, keep, to.param[each], to_float(grads[each]), to.first[each], to.second[each], told);
    }
  }
}

// What stands there, where nothing is to be changed.
__device__ __forceinline__ void look(const Place& there, int elements, Advance& told) {
  const bool are_packed = is_packed(there.param) && is_packed(there.second);
#pragma unroll 1
  for (int at = threadIdx.x * 4; at < elements; at += THREADS * 4) {
    if (are_packed && at + 4 <= elements) {
      const Four param = load_four(there.param + at), second = load_four(there.second + at);
#pragma unroll
      for (int each = 0; each < 4; ++each) told.add(0.0f, param.of[each], second.of[each]);
    } else {
#pragma unroll 1
      for (int each = at; each < min(at + 4, elements); ++each) told.add(0.0f, there.param[each], there.second[each]);
    }
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

void launch_adamw_step(const Chunks& chunks, const std::vector<Trained>& tensors, const double* control, float* step,
                       double* slots, double* out, int device, cudaStream_t stream) {
  for_tables(chunks, ROWS, true, [&](int64_t begin, int64_t end) {
    Table table;
    table.rows = static_cast<int>(end - begin);
    for (int row = 0; row < table.rows; ++row) {
      const Trained& tensor = tensors[begin + row];
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
    adamw_chunks<<<blocks_for(count, BLOCKS, device), THREADS, 0, stream>>>(
        table, control, step, slots + chunks.before[begin] * 4);
    check_launch(OP);
  });
  for_tables(chunks, SUMMED, false, [&](int64_t begin, int64_t end) {
    if constexpr (!TELLS) return;
    adamw_sums<<<static_cast<unsigned>(end - begin), THREADS, 0, stream>>>(
        slots_of(chunks, begin, end), slots + chunks.before[begin] * 4, out + begin * 4);
    check_launch(OP);
  });
  adamw_count<<<1, 1, 0, stream>>>(control, step);
  check_launch(OP);
}

}  // namespace sentinel
