// add_norm backward on CUDA: dy, h and dh are read once, dx is written once. A group keeps the same columns over all its rows,
// so that their dweight and dbias stay in registers until the end; then each block writes one slot, and sum_weight_gradients adds
// the slots in their order. A row is staged in shared memory and read there twice; the second read frees its place for a later row.
#include <algorithm>

#include "weight_gradients.cuh"

namespace sentinel::norm {
namespace {

constexpr const char* OP = "add_norm_backward";
constexpr int WARP_BLOCK = 256;        // threads of a block of groups that are warps
constexpr int REGISTER_WIDTH = 16384;  // the longest row whose weight gradients a block holds in registers

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
  int half;    // columns of the first block of a pair
};

// What a kernel is compiled for, so that it sums no gradient of a bias that is not there and subtracts no mean of 0. ANY looks at
// `mean`, and serves an RMSNorm with a bias, too.
enum class Kind { ANY, LAYER_WITHOUT_BIAS, RMS_WITHOUT_BIAS };

template <typename T, int PACKS, Team TEAM, Kind KIND>
__global__ void __launch_bounds__(TEAM == Team::WARP ? WARP_BLOCK : 512) rows_in_registers(const __grid_constant__ Rows<T> args) {
  constexpr int E = PACKED<T>;
  constexpr bool WARP = TEAM == Team::WARP, BIAS = KIND == Kind::ANY, MAY_BE_CENTRED = KIND != Kind::RMS_WITHOUT_BIAS;
  extern __shared__ uint4 shared[];
  __shared__ float2 buffers[2][32];
  const int width = static_cast<int>(args.width);
  const Group<TEAM> group(width, args.half);
  Sums<TEAM> sums{buffers};
#if __CUDA_ARCH__ >= 900
  if constexpr (TEAM == Team::PAIR) cluster_sync();  // no block may write to another before that one runs
#endif
  const int arrays = args.dh != nullptr ? 3 : 2;
  // Of each thread and stage: PACKS packs of dy, of h, of dh, strided by the block so that no two threads meet in a bank.
  const auto staged = [&](int stage, int array, int p) {
    return reinterpret_cast<Pack<T>*>(shared) + ((stage * arrays + array) * PACKS + p) * blockDim.x + threadIdx.x;
  };
  const auto fetch = [&](int stage, int p, int64_t row) {
    const int column = group.template column<T>(p);
    if (row >= args.rows || column >= group.end) return;
    copy_async(staged(stage, 0, p), args.dy + row * width + column);
    copy_async(staged(stage, 1, p), args.h + row * width + column);
    if (args.dh != nullptr) copy_async(staged(stage, 2, p), args.dh + row * width + column);
  };
  const auto mean_at = [&](int64_t row) { return MAY_BE_CENTRED && args.mean != nullptr && row < args.rows ? args.mean[row] : 0.0f; };
  const auto rstd_at = [&](int64_t row) { return row < args.rows ? args.rstd[row] : 0.0f; };

  for (int stage = 0; stage < args.stages; ++stage) {
#pragma unroll
    for (int p = 0; p < PACKS; ++p) fetch(stage, p, group.number + int64_t(stage) * group.groups);
    commit_copies();
  }
  // With 32 columns' gradients in registers there is no room for their weights: those are read again each time, from the L1 cache.
  constexpr bool KEEPS_WEIGHT = PACKS * E < 32;
  float kept_weight[KEEPS_WEIGHT ? PACKS : 1][E], dweight[PACKS][E] = {}, dbias[BIAS ? PACKS : 1][E] = {};
  if constexpr (KEEPS_WEIGHT)
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
      if (group.template column<T>(p) < group.end) args.weight.template pack_at<T>(group.template column<T>(p), 1.0f, kept_weight[p]);
  const auto weight_of = [&](int p, float (&weight)[E]) {
    if constexpr (KEEPS_WEIGHT) {
#pragma unroll
      for (int i = 0; i < E; ++i) weight[i] = kept_weight[p][i];
    } else {
      args.weight.template pack_at<T>(group.template column<T>(p), 1.0f, weight);
    }
  };

  int stage = 0;
  float mean = mean_at(group.number), rstd = rstd_at(group.number);
  for (int64_t row = group.number; row < args.rows; row += group.groups) {
    const float next_mean = mean_at(row + group.groups), next_rstd = rstd_at(row + group.groups);
    float sum = 0.0f, sum_normed = 0.0f;
    if (args.stages == 2) wait_for_copies<1>();
    else wait_for_copies<0>();
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      if (group.template column<T>(p) >= group.end) continue;
      const Pack<T> dy = *staged(stage, 0, p), h = *staged(stage, 1, p);
      float weight[E];
      weight_of(p, weight);
#pragma unroll
      for (int i = 0; i < E; ++i) {
        const float upstream = to_float(dy.element[i]), norm = normed(to_float(h.element[i]), mean, rstd);
        const float g = upstream * weight[i];
        if constexpr (MAY_BE_CENTRED) sum += g;
        sum_normed += g * norm;
        dweight[p][i] += upstream * norm;
        if constexpr (BIAS) dbias[p][i] += upstream;
      }
    }
    float average = 0.0f, average_normed;
    if constexpr (MAY_BE_CENTRED) {
      const float2 both = sums(sum, sum_normed);
      if (args.mean != nullptr) average = both.x * args.inverse_width;
      average_normed = both.y * args.inverse_width;
    } else {
      average_normed = sums(sum_normed) * args.inverse_width;
    }
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const int column = group.template column<T>(p);
      if (column >= group.end) continue;
      const Pack<T> dy = *staged(stage, 0, p), h = *staged(stage, 1, p);
      Pack<T> dx;
      float weight[E], added[E] = {};
      weight_of(p, weight);
      if (args.dh != nullptr) {
        const Pack<T> dh = *staged(stage, 2, p);
#pragma unroll
        for (int i = 0; i < E; ++i) added[i] = to_float(dh.element[i]);
      }
#pragma unroll
      for (int i = 0; i < E; ++i) {
        const float norm = normed(to_float(h.element[i]), mean, rstd), g = to_float(dy.element[i]) * weight[i];
        dx.element[i] = from_float<T>(gradient(g, norm, average, average_normed, rstd) + added[i]);
      }
      fetch(stage, p, row + int64_t(args.stages) * group.groups);
      store(args.dx + row * width + column, dx);
    }
    commit_copies();
    stage = stage + 1 == args.stages ? 0 : stage + 1;
    mean = next_mean, rstd = next_rstd;
  }

  const int64_t slot = int64_t(WARP ? int(blockIdx.x) : group.number) * width;
  float* warp_slot = reinterpret_cast<float*>(shared) + threadIdx.x / 32 * width;
  const auto store_columns = [&](const auto& columns, float* to) {
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
      if (group.template column<T>(p) < group.end)
#pragma unroll
        for (int i = 0; i < E; i += 4)
          reinterpret_cast<float4*>(to + group.template column<T>(p))[i / 4] =
              float4{columns[p][i], columns[p][i + 1], columns[p][i + 2], columns[p][i + 3]};
  };
  if constexpr (WARP) {
    wait_for_copies<0>();
    __syncthreads();  // no other warp still reads its rows out of this memory
    store_columns(dweight, warp_slot);
    __syncthreads();
    write_slot(reinterpret_cast<float*>(shared), width, args.dweights + slot);
    if constexpr (BIAS) {
      if (args.dbiases == nullptr) return;
      __syncthreads();
      store_columns(dbias, warp_slot);
      __syncthreads();
      write_slot(reinterpret_cast<float*>(shared), width, args.dbiases + slot);
    }
  } else {
    store_columns(dweight, args.dweights + slot);
    if constexpr (BIAS)
      if (args.dbiases != nullptr) store_columns(dbias, args.dbiases + slot);
  }
}

// Rows of any width and alignment: one element at a time, the weight gradients in the slot itself. One thread per column.
template <typename T>
__global__ void __launch_bounds__(512) rows_of_any_width(const __grid_constant__ Rows<T> args) {
  __shared__ float2 buffers[2][32];
  Sums<Team::BLOCK> sums{buffers};
  float* dweight = args.dweights + int64_t(blockIdx.x) * args.width;
  float* dbias = args.dbiases != nullptr ? args.dbiases + int64_t(blockIdx.x) * args.width : nullptr;
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const bool first = row == blockIdx.x;
    const T *dy = args.dy + row * args.width, *h = args.h + row * args.width;
    const float mean = args.mean != nullptr ? args.mean[row] : 0.0f, rstd = args.rstd[row];
    float sum = 0.0f, sum_normed = 0.0f;
    for (int64_t j = threadIdx.x; j < args.width; j += blockDim.x) {
      const float upstream = to_float(dy[j]), norm = normed(to_float(h[j]), mean, rstd);
      const float g = upstream * args.weight.template at<T>(j, 1.0f);
      sum += g;
      sum_normed += g * norm;
      dweight[j] = (first ? 0.0f : dweight[j]) + upstream * norm;
      if (dbias != nullptr) dbias[j] = (first ? 0.0f : dbias[j]) + upstream;
    }
    const float2 both = sums(sum, sum_normed);
    const float average = args.mean != nullptr ? both.x * args.inverse_width : 0.0f, average_normed = both.y * args.inverse_width;
    for (int64_t j = threadIdx.x; j < args.width; j += blockDim.x) {
      const float norm = normed(to_float(h[j]), mean, rstd), g = to_float(dy[j]) * args.weight.template at<T>(j, 1.0f);
      const float added = args.dh != nullptr ? to_float(args.dh[row * args.width + j]) : 0.0f;
      args.dx[row * args.width + j] = from_float<T>(gradient(g, norm, average, average_normed, rstd) + added);
    }
  }
}

template <typename T, Kind KIND>
Plan plan_of(const BackwardPointers& pointers) {
  constexpr int PACKS_OF_8 = sizeof(T) == 4 ? 2 : 1;  // packs of eight elements
  using Kernel = void (*)(Rows<T>);
  const Kernel by_warps[] = {
      rows_in_registers<T, PACKS_OF_8, Team::WARP, KIND>, rows_in_registers<T, 2 * PACKS_OF_8, Team::WARP, KIND>,
      rows_in_registers<T, 3 * PACKS_OF_8, Team::WARP, KIND>, rows_in_registers<T, 4 * PACKS_OF_8, Team::WARP, KIND>};
  const Kernel by_blocks[] = {rows_in_registers<T, 2 * PACKS_OF_8, Team::BLOCK, KIND>,
                              rows_in_registers<T, 4 * PACKS_OF_8, Team::BLOCK, KIND>};
  const int width = static_cast<int>(std::min<int64_t>(pointers.width, REGISTER_WIDTH + 1));
  const bool is_warp = width <= 1024;
  const size_t available = max_dynamic_shared(OP, pointers.device);
  bool aligned = pointers.width % PACKED<T> == 0;
  for (const void* pointer : {pointers.dy, pointers.dh, pointers.h, pointers.weight, static_cast<const void*>(pointers.dx)})
    aligned = aligned && is_aligned(pointer);
  const int arrays = pointers.dh != nullptr ? 3 : 2;
  const auto row_bytes = [&](int threads, int eights) { return size_t(threads) * eights * PACKS_OF_8 * arrays * 16; };

  // A row too long for 16 elements a thread is a pair's where the device has clusters: so the weights stay in registers.
  if (aligned && width > 8192 && width <= REGISTER_WIDTH &&
      attribute_of(OP, cudaDevAttrComputeCapabilityMajor, pointers.device) >= 9) {
    const int half = (width / PACKED<T> + 1) / 2 * PACKED<T>;
    const int threads = (half + 2 * 256 - 1) / (2 * 256) * 32;
    const size_t row = row_bytes(threads, 2);
    const int stages = 2 * row <= available ? 2 : 1;
    const Kernel kernel = rows_in_registers<T, 2 * PACKS_OF_8, Team::PAIR, KIND>;
    allow_shared(OP, function_of(kernel), int(available), Divided::SHARED);
    const int clusters = resident_clusters(function_of(kernel), {dim3(2), dim3(threads), row * stages, 2});
    if (row * stages <= available && clusters > 0)
      return {function_of(kernel), int(std::min<int64_t>(pointers.rows, clusters)) * 2, threads, row * stages, stages, 2, half};
  }

  // A block per row: 16 elements per thread, or 32 where that takes too many threads. Some 512 threads per multiprocessor.
  const int eights = is_warp ? (width + 255) / 256 : width <= 8192 ? 2 : 4;
  int threads = is_warp ? WARP_BLOCK : (width + eights * 256 - 1) / (eights * 256) * 32;
  Kernel kernel = is_warp ? by_warps[eights - 1] : by_blocks[eights / 2 - 1];
  size_t row = row_bytes(threads, eights);
  int per_processor = is_warp ? 2 : std::max(1, 512 / threads);
  const bool in_registers = aligned && width <= REGISTER_WIDTH && row <= available;
  if (!in_registers) kernel = rows_of_any_width<T>, threads = 512, row = 0, per_processor = 2;
  // Two rows in shared memory where that leaves space for a second block, or where there is only one anyway.
  const int stages = 2 * row <= (per_processor > 1 ? available / 2 : available) ? 2 : 1;
  const int64_t rows_per_block = in_registers && is_warp ? threads / 32 : 1;
  int64_t needed = (pointers.rows + rows_per_block - 1) / rows_per_block;
  if (!in_registers)  // 64 MB of slots at most
    needed = std::min(needed, std::max<int64_t>(1, (int64_t(64) << 20) / (8 * pointers.width)));
  const void* function = function_of(kernel);
  const bool keeps_weight = in_registers && eights < 4;  // of 32 elements a thread has no registers left for it: KEEPS_WEIGHT
  const int64_t resident = blocks_at_once(OP, function, threads, row * stages, pointers.device, per_processor,
                                          keeps_weight ? Divided::SHARED : Divided::CACHE);
  return {function, static_cast<int>(std::min(needed, resident)), threads, row * stages, stages};
}

template <typename T>
Rows<T> rows_of(const BackwardPointers& pointers, const Plan& plan) {
  return {static_cast<const T*>(pointers.dy),
          static_cast<const T*>(pointers.dh),
          static_cast<const T*>(pointers.h),
          pointers.mean,
          pointers.rstd,
          {pointers.weight, pointers.weight_element == Element::FLOAT},
          static_cast<T*>(pointers.dx),
          pointers.dweights,
          pointers.dbiases,
          pointers.rows,
          pointers.width,
          1.0f / float(pointers.width),
          plan.stages,
          plan.half};
}

}  // namespace

Plan plan(const BackwardPointers& pointers) {
  Plan plan{};
  by_element(pointers.element, [&](auto zero) {
    using T = decltype(zero);
    if (pointers.dbias != nullptr) plan = plan_of<T, Kind::ANY>(pointers);
    else if (pointers.mean != nullptr) plan = plan_of<T, Kind::LAYER_WITHOUT_BIAS>(pointers);
    else plan = plan_of<T, Kind::RMS_WITHOUT_BIAS>(pointers);
  });
  return plan;
}

void launch(const BackwardPointers& pointers, const Plan& plan) {
  by_element(pointers.element, [&](auto zero) {
    Rows<decltype(zero)> rows = rows_of<decltype(zero)>(pointers, plan);
    launch_rows(OP, plan, rows, pointers.stream);
  });
  by_element(pointers.weight_element, [&](auto zero) {
    using W = decltype(zero);
    const dim3 grid(static_cast<unsigned>((pointers.width + 31) / 32), pointers.dbiases != nullptr ? 2 : 1);
    W *dweight = static_cast<W*>(pointers.dweight), *dbias = static_cast<W*>(pointers.dbias);
    launch_kernel(OP, {grid, dim3(32, 16)}, pointers.stream, sum_weight_gradients<W>, pointers.dweights, pointers.dbiases, dweight,
                  dbias, plan.blocks / plan.cluster, pointers.width);
  });
}

}  // namespace sentinel::norm
