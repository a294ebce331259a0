// add_norm backward on CUDA: dy, h and dh are read once, dx is written once. A group stays with its columns over all its rows, so
// that their shares of dweight and dbias need no memory until the end; then each block writes one slot, and sum_slots adds the
// slots in their order. A row waits in shared memory, is read from there twice, and makes room for a later one as it is read the
// second time.
#include <algorithm>

#include "add_norm.cuh"

namespace sentinel::norm {
namespace {

constexpr int WARP_BLOCK = 256;    // threads of a block of groups that are warps
constexpr int HELD_WIDTH = 16384;  // the longest row whose weight gradients a block holds in registers

template <typename T>
struct Rows {
  const T *dy, *dh, *h;      // dh may be null
  const float *mean, *rstd;  // mean is null for RMSNorm
  Columns weight;
  T* dx;
  float *dweights, *dbiases;  // (blocks, width); dbiases is null without a bias
  int64_t rows, width;
  float inverse_width;
  int stages;  // rows of a group in shared memory: 1 or 2
};

// The sums of the block's warps, in their order, into the block's slot. `shared` takes width floats a warp.
__device__ __forceinline__ void write_slot(const float* shared, int width, float* slot) {
  for (int column = threadIdx.x; column < width; column += blockDim.x) {
    float sum = 0.0f;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += shared[warp * width + column];
    slot[column] = sum;
  }
}

template <typename T, int PACKS, bool WARP>
__global__ void __launch_bounds__(WARP ? WARP_BLOCK : 512) held_rows(const __grid_constant__ Rows<T> at) {
  constexpr int E = PACKED<T>;
  extern __shared__ uint4 shared[];
  __shared__ float2 buffers[2][32];
  const Group<WARP> group;
  Sums<WARP> sums{buffers};
  const int width = static_cast<int>(at.width);
  const int arrays = at.dh != nullptr ? 3 : 2;
  // Of each thread and stage: PACKS packs of dy, of h, of dh, strided by the block so that no two threads meet in a bank.
  const auto place = [&](int stage, int array, int p) {
    return reinterpret_cast<Pack<T>*>(shared) + ((stage * arrays + array) * PACKS + p) * blockDim.x + threadIdx.x;
  };
  const auto fetch = [&](int stage, int p, int64_t row) {
    const int column = group.template column<T>(p);
    if (row >= at.rows || column >= width) return;
    copy_async(place(stage, 0, p), at.dy + row * width + column);
    copy_async(place(stage, 1, p), at.h + row * width + column);
    if (at.dh != nullptr) copy_async(place(stage, 2, p), at.dh + row * width + column);
  };
  const auto mean_at = [&](int64_t row) { return at.mean != nullptr && row < at.rows ? at.mean[row] : 0.0f; };
  const auto rstd_at = [&](int64_t row) { return row < at.rows ? at.rstd[row] : 0.0f; };

  for (int stage = 0; stage < at.stages; ++stage) {
#pragma unroll
    for (int p = 0; p < PACKS; ++p) fetch(stage, p, group.number + int64_t(stage) * group.groups);
    end_of_copies();
  }
  // Thirty-two columns' gradients leave no registers for their weights: those come again and again, out of the first cache.
  constexpr bool HOLDS_WEIGHT = PACKS * E < 32;
  float held[HOLDS_WEIGHT ? PACKS : 1][E], dweight[PACKS][E] = {}, dbias[PACKS][E] = {};
  if constexpr (HOLDS_WEIGHT)
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
      if (group.template column<T>(p) < width) at.weight.template pack_at<T>(group.template column<T>(p), 1.0f, held[p]);
  const auto weight_of = [&](int p, float (&weight)[E]) {
    if constexpr (HOLDS_WEIGHT) {
#pragma unroll
      for (int i = 0; i < E; ++i) weight[i] = held[p][i];
    } else {
      at.weight.template pack_at<T>(group.template column<T>(p), 1.0f, weight);
    }
  };

  int stage = 0;
  float mean = mean_at(group.number), rstd = rstd_at(group.number);
  for (int64_t row = group.number; row < at.rows; row += group.groups) {
    const float next_mean = mean_at(row + group.groups), next_rstd = rstd_at(row + group.groups);
    float sum = 0.0f, sum_normed = 0.0f;
    if (at.stages == 2) wait_for_copies<1>();
    else wait_for_copies<0>();
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      if (group.template column<T>(p) >= width) continue;
      const Pack<T> dy = *place(stage, 0, p), h = *place(stage, 1, p);
      float weight[E];
      weight_of(p, weight);
#pragma unroll
      for (int i = 0; i < E; ++i) {
        const float upstream = to_float(dy.element[i]), norm = normed(to_float(h.element[i]), mean, rstd);
        const float g = upstream * weight[i];
        sum += g;
        sum_normed += g * norm;
        dweight[p][i] += upstream * norm;
        dbias[p][i] += upstream;
      }
    }
    const float2 both = sums(sum, sum_normed);
    const float average = at.mean != nullptr ? both.x * at.inverse_width : 0.0f, average_normed = both.y * at.inverse_width;
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const int column = group.template column<T>(p);
      if (column >= width) continue;
      const Pack<T> dy = *place(stage, 0, p), h = *place(stage, 1, p);
      Pack<T> dx;
      float weight[E], added[E] = {};
      weight_of(p, weight);
      if (at.dh != nullptr) {
        const Pack<T> dh = *place(stage, 2, p);
#pragma unroll
        for (int i = 0; i < E; ++i) added[i] = to_float(dh.element[i]);
      }
#pragma unroll
      for (int i = 0; i < E; ++i) {
        const float norm = normed(to_float(h.element[i]), mean, rstd), g = to_float(dy.element[i]) * weight[i];
        dx.element[i] = from_float<T>(gradient(g, norm, average, average_normed, rstd) + added[i]);
      }
      fetch(stage, p, row + int64_t(at.stages) * group.groups);
      store(at.dx + row * width + column, dx);
    }
    end_of_copies();
    stage = stage + 1 == at.stages ? 0 : stage + 1;
    mean = next_mean, rstd = next_rstd;
  }

  const int64_t slot = int64_t(blockIdx.x) * width;
  float* slots[2] = {at.dweights + slot, at.dbiases != nullptr ? at.dbiases + slot : nullptr};
  float* own = reinterpret_cast<float*>(shared) + threadIdx.x / 32 * width;
  const auto put = [&](float (&held)[PACKS][E], float* to) {
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
      if (group.template column<T>(p) < width)
#pragma unroll
        for (int i = 0; i < E; i += 4)
          reinterpret_cast<float4*>(to + group.template column<T>(p))[i / 4] =
              float4{held[p][i], held[p][i + 1], held[p][i + 2], held[p][i + 3]};
  };
  if constexpr (WARP) {
    wait_for_copies<0>();
    __syncthreads();  // no other warp still reads its rows out of this memory
    put(dweight, own);
    __syncthreads();
    write_slot(reinterpret_cast<float*>(shared), width, slots[0]);
    if (slots[1] == nullptr) return;
    __syncthreads();
    put(dbias, own);
    __syncthreads();
    write_slot(reinterpret_cast<float*>(shared), width, slots[1]);
  } else {
    put(dweight, slots[0]);
    if (slots[1] != nullptr) put(dbias, slots[1]);
  }
}

// Rows of any width at any address: an element at a time, the weight gradients in the slot itself. A column is one thread's.
template <typename T>
__global__ void __launch_bounds__(512) any_rows(const __grid_constant__ Rows<T> at) {
  __shared__ float2 buffers[2][32];
  Sums<false> sums{buffers};
  float* dweight = at.dweights + int64_t(blockIdx.x) * at.width;
  float* dbias = at.dbiases != nullptr ? at.dbiases + int64_t(blockIdx.x) * at.width : nullptr;
  for (int64_t row = blockIdx.x; row < at.rows; row += gridDim.x) {
    const bool first = row == blockIdx.x;
    const T *dy = at.dy + row * at.width, *h = at.h + row * at.width;
    const float mean = at.mean != nullptr ? at.mean[row] : 0.0f, rstd = at.rstd[row];
    float sum = 0.0f, sum_normed = 0.0f;
    for (int64_t j = threadIdx.x; j < at.width; j += blockDim.x) {
      const float upstream = to_float(dy[j]), norm = normed(to_float(h[j]), mean, rstd);
      const float g = upstream * at.weight.template at<T>(j, 1.0f);
      sum += g;
      sum_normed += g * norm;
      dweight[j] = (first ? 0.0f : dweight[j]) + upstream * norm;
      if (dbias != nullptr) dbias[j] = (first ? 0.0f : dbias[j]) + upstream;
    }
    const float2 both = sums(sum, sum_normed);
    const float average = at.mean != nullptr ? both.x * at.inverse_width : 0.0f, average_normed = both.y * at.inverse_width;
    for (int64_t j = threadIdx.x; j < at.width; j += blockDim.x) {
      const float norm = normed(to_float(h[j]), mean, rstd), g = to_float(dy[j]) * at.weight.template at<T>(j, 1.0f);
      const float added = at.dh != nullptr ? to_float(at.dh[row * at.width + j]) : 0.0f;
      at.dx[row * at.width + j] = from_float<T>(gradient(g, norm, average, average_normed, rstd) + added);
    }
  }
}

// dweight and dbias out of the blocks' slots (blocks, width). 32 columns a block; each of its warps sums every sixteenth slot,
// then one warp sums the warps: always in the same order.
template <typename W>
__global__ void __launch_bounds__(512)
    sum_slots(const float* dweights, const float* dbiases, W* dweight, W* dbias, int slots, int64_t width) {
  __shared__ float of_warps[16][32];
  const float* from = blockIdx.y == 0 ? dweights : dbiases;
  W* out = blockIdx.y == 0 ? dweight : dbias;
  const int64_t column = int64_t(blockIdx.x) * 32 + threadIdx.x;
  float sum = 0.0f;
  if (column < width)
    for (int slot = threadIdx.y; slot < slots; slot += 16) sum += from[slot * width + column];
  of_warps[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  double all = 0.0;
  for (int warp = 0; warp < 16; ++warp) all += double(of_warps[warp][threadIdx.x]);
  out[column] = from_float<W>(float(all));
}

template <typename T>
Plan plan_of(const BackwardPointers& given) {
  constexpr int OF_8 = sizeof(T) == 4 ? 2 : 1;  // packs of eight elements
  using Kernel = void (*)(Rows<T>);
  const Kernel by_warps[] = {held_rows<T, OF_8, true>, held_rows<T, 2 * OF_8, true>, held_rows<T, 3 * OF_8, true>,
                             held_rows<T, 4 * OF_8, true>};
  const Kernel by_blocks[] = {held_rows<T, 2 * OF_8, false>, held_rows<T, 4 * OF_8, false>};
  const int width = static_cast<int>(std::min<int64_t>(given.width, HELD_WIDTH + 1));
  const bool is_warp = width <= 1024;
  // A block a row: sixteen elements a thread, thirty-two where those were too many threads. Some 512 threads a processor.
  const int of_8 = is_warp ? (width + 255) / 256 : width <= 8192 ? 2 : 4;
  int threads = is_warp ? WARP_BLOCK : (width + of_8 * 256 - 1) / (of_8 * 256) * 32;
  Kernel kernel = is_warp ? by_warps[of_8 - 1] : by_blocks[of_8 / 2 - 1];
  size_t row = size_t(threads) * of_8 * OF_8 * (given.dh != nullptr ? 3 : 2) * 16;
  int per_processor = is_warp ? 2 : std::max(1, 512 / threads);
  bool aligned = given.width % PACKED<T> == 0;
  for (const void* pointer : {given.dy, given.dh, given.h, given.weight, static_cast<const void*>(given.dx)})
    aligned = aligned && is_aligned(pointer);
  const size_t room = room_of_block(given.device);
  const bool is_held = aligned && width <= HELD_WIDTH && row <= room;
  if (!is_held) kernel = any_rows<T>, threads = 512, row = 0, per_processor = 2;
  // Two rows in shared memory where that leaves room for a second block, or where there is only one anyway.
  const int stages = 2 * row <= (per_processor > 1 ? room / 2 : room) ? 2 : 1;
  const int64_t rows_per_block = is_held && is_warp ? threads / 32 : 1;
  int64_t wanted = (given.rows + rows_per_block - 1) / rows_per_block;
  if (!is_held) wanted = std::min(wanted, std::max<int64_t>(1, (int64_t(64) << 20) / (8 * given.width)));  // 64 MB of slots at most
  const void* chosen = reinterpret_cast<const void*>(kernel);
  const int64_t resident = resident_blocks(chosen, threads, row * stages, given.device, per_processor);
  return {chosen, static_cast<int>(std::min(wanted, resident)), threads, row * stages, stages};
}

template <typename T>
Rows<T> rows_of(const BackwardPointers& given, int stages) {
  return {static_cast<const T*>(given.dy),
          static_cast<const T*>(given.dh),
          static_cast<const T*>(given.h),
          given.mean,
          given.rstd,
          {given.weight, given.of_weight == Element::FLOAT},
          static_cast<T*>(given.dx),
          given.dweights,
          given.dbiases,
          given.rows,
          given.width,
          1.0f / float(given.width),
          stages};
}

}  // namespace

Plan plan(const BackwardPointers& given) {
  Plan plan{};
  by_element(given.element, [&](auto zero) { plan = plan_of<decltype(zero)>(given); });
  return plan;
}

void launch(const BackwardPointers& given, const Plan& plan) {
  by_element(given.element, [&](auto zero) {
    Rows<decltype(zero)> rows = rows_of<decltype(zero)>(given, plan.stages);
    launch_rows(plan, rows, given.stream, "add_norm_backward");
  });
  by_element(given.of_weight, [&](auto zero) {
    using W = decltype(zero);
    const dim3 grid(static_cast<unsigned>((given.width + 31) / 32), given.dbiases != nullptr ? 2 : 1);
    W *dweight = static_cast<W*>(given.dweight), *dbias = static_cast<W*>(given.dbias);
    sum_slots<W><<<grid, dim3(32, 16), 0, given.stream>>>(given.dweights, given.dbiases, dweight, dbias, plan.blocks, given.width);
  });
  check_launch("add_norm_backward");
}

}  // namespace sentinel::norm
