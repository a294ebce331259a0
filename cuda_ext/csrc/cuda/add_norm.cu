// add_norm forward on CUDA: one read of x and residual, one write of h and y. While a group works on a row in registers, the next
// row is copied into shared memory. Statistics cost a multiply-add and an integer maximum per element.
#include <algorithm>

#include "add_norm.cuh"
#include "last_block.cuh"

namespace sentinel::norm {
namespace {

constexpr const char* OP = "add_norm";
constexpr int WARP_BLOCK = 128;        // threads of a block of groups that are warps
constexpr int WARP_BLOCKS = 4;         // of them on a multiprocessor, at least: room for the registers of 24 columns' weights
constexpr int WARP_WIDTH = 768;        // the longest row of a warp
constexpr int REGISTER_WIDTH = 16384;  // the longest row that a block holds in registers

template <typename T>
struct Rows {
  const T *x, *residual;  // residual may be null, h with it
  T *y, *h;
  float *mean, *rstd;  // mean is null for RMSNorm
  Columns weight, bias;
  int64_t rows, width;
  float inverse_width, eps;
  PartialStats* partials;
  Counter counter;
  double* stats;
};

// Statistics of one thread: of all its rows, and of the current one.
struct ThreadStats {
  double squares = 0.0;
  uint32_t nonfinite = 0, largest = 0, largest_of_row = 0;

  __device__ __forceinline__ void add(float value) {
    if constexpr (STATISTICS) largest_of_row = larger(magnitude_of(value), largest_of_row);
  }
  template <typename Count>
  __device__ __forceinline__ void end_row(float squares_of_row, const Count& count_nonfinite) {
    if constexpr (!STATISTICS) return;
    squares += double(squares_of_row);
    if (largest_of_row >= INFINITY_BITS) nonfinite += count_nonfinite();
    largest = larger(largest_of_row, largest);
    largest_of_row = 0;
  }
  __device__ __forceinline__ PartialStats partial() const { return {squares, nonfinite, largest}; }
};

// Where they fit beside the row, a thread holds weight and bias of its columns over all rows. Read again for every row, from the
// first-level cache, they cost 768 columns 4 % (H100, LOG.md).
template <typename T, int PACKS, Team TEAM>
constexpr bool KEEPS_WEIGHT = PACKS * PACKED<T> <= (TEAM == Team::WARP ? 24 : 8);

template <typename T, int PACKS, Team TEAM>
__global__ void __launch_bounds__(TEAM == Team::WARP ? WARP_BLOCK : 1024, TEAM == Team::WARP ? WARP_BLOCKS : 1)
    rows_in_registers(const __grid_constant__ Rows<T> args) {
  constexpr int E = PACKED<T>;
  constexpr bool KEEPS = KEEPS_WEIGHT<T, PACKS, TEAM>;
  extern __shared__ uint4 shared[];
  __shared__ float2 buffers[2][32];
  const int width = static_cast<int>(args.width);
  const Group<TEAM> group(width);
  Sums<TEAM> sums{buffers};
  ThreadStats stats;
  // Of each thread: PACKS packs of x, then PACKS of residual, strided by the block so that no two threads meet in a bank.
  Pack<T>* staged = reinterpret_cast<Pack<T>*>(shared) + threadIdx.x;
  const auto fetch = [&](int64_t row) {
    if (row < args.rows) {
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        const int column = group.template column<T>(p);
        if (column >= width) continue;
        copy_async(staged + p * blockDim.x, args.x + row * width + column);
        if (args.residual != nullptr) copy_async(staged + (PACKS + p) * blockDim.x, args.residual + row * width + column);
      }
    }
    commit_copies();
  };
  fetch(group.number);
  float kept_weight[KEEPS ? PACKS : 1][E], kept_bias[KEEPS ? PACKS : 1][E];
  const auto read_weights = [&](int p, float (&weight)[E], float (&bias)[E]) {
    args.weight.template pack_at<T>(group.template column<T>(p), 1.0f, weight);
    args.bias.template pack_at<T>(group.template column<T>(p), 0.0f, bias);
  };
  if constexpr (KEEPS)
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
      if (group.template column<T>(p) < width) read_weights(p, kept_weight[p], kept_bias[p]);
  for (int64_t row = group.number; row < args.rows; row += group.groups) {
    Pack<T> packs[PACKS];
    float sum = 0.0f, squares = 0.0f, mean = 0.0f;
    wait_for_copies<0>();
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      if (group.template column<T>(p) >= width) continue;
      packs[p] = staged[p * blockDim.x];
      if (args.residual != nullptr) {
        const Pack<T> other = staged[(PACKS + p) * blockDim.x];
#pragma unroll
        for (int i = 0; i < E; ++i)
          packs[p].element[i] = from_float<T>(to_float(packs[p].element[i]) + to_float(other.element[i]));
        store(args.h + row * width + group.template column<T>(p), packs[p]);
      }
#pragma unroll
      for (int i = 0; i < E; ++i) {
        const float value = to_float(packs[p].element[i]);
        sum += value;
        if (STATISTICS || args.mean == nullptr) squares += value * value;
        stats.add(value);
      }
    }
    fetch(row + group.groups);
    const auto each = [&](const auto& body) {
#pragma unroll
      for (int p = 0; p < PACKS; ++p)
        if (group.template column<T>(p) < width)
#pragma unroll
          for (int i = 0; i < E; ++i) body(to_float(packs[p].element[i]));
    };
    stats.end_row(squares, [&] {
      uint32_t count = 0;
      each([&](float value) { count += is_finite(value) ? 0u : 1u; });
      return count;
    });
    if (args.mean != nullptr) {
      mean = sums(sum) * args.inverse_width;
      squares = 0.0f;
      each([&](float value) { squares += (value - mean) * (value - mean); });
    }
    const float rstd = rstd_of(sums(squares) * args.inverse_width, args.eps);
    if (group.thread == 0) {
      if (args.mean != nullptr) args.mean[row] = mean;
      args.rstd[row] = rstd;
    }
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const int column = group.template column<T>(p);
      if (column >= width) continue;
      float weight[E], bias[E];
      if constexpr (KEEPS) {
#pragma unroll
        for (int i = 0; i < E; ++i) weight[i] = kept_weight[p][i], bias[i] = kept_bias[p][i];
      } else {
        read_weights(p, weight, bias);
      }
      Pack<T> y;
#pragma unroll
      for (int i = 0; i < E; ++i) {
        const float value = normed(to_float(packs[p].element[i]), mean, rstd);
        y.element[i] = from_float<T>(scaled(value, weight[i], bias[i]));
      }
      store(args.y + row * width + column, y);
    }
  }
  store_stats(stats.partial(), args.partials, args.counter, args.stats);
}

// Rows of any width and alignment: one element at a time; a row is read again from the cache where it is needed again.
template <typename T>
__global__ void __launch_bounds__(512) rows_of_any_width(const __grid_constant__ Rows<T> args) {
  __shared__ float2 buffers[2][32];
  Sums<Team::BLOCK> sums{buffers};
  ThreadStats stats;
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const T *x = args.x + row * args.width, *stored = args.h != nullptr ? args.h + row * args.width : x;
    float sum = 0.0f, squares = 0.0f, mean = 0.0f;
    for (int64_t j = threadIdx.x; j < args.width; j += blockDim.x) {
      T element = x[j];
      if (args.residual != nullptr) {
        element = from_float<T>(to_float(element) + to_float(args.residual[row * args.width + j]));
        args.h[row * args.width + j] = element;
      }
      const float value = to_float(element);
      sum += value;
      if (STATISTICS || args.mean == nullptr) squares += value * value;
      stats.add(value);
    }
    stats.end_row(squares, [&] {
      uint32_t count = 0;
      for (int64_t j = threadIdx.x; j < args.width; j += blockDim.x) count += is_finite(to_float(stored[j])) ? 0u : 1u;
      return count;
    });
    if (args.mean != nullptr) {
      mean = sums(sum) * args.inverse_width;
      squares = 0.0f;
      for (int64_t j = threadIdx.x; j < args.width; j += blockDim.x) {
        const float deviation = to_float(stored[j]) - mean;
        squares += deviation * deviation;
      }
    }
    const float rstd = rstd_of(sums(squares) * args.inverse_width, args.eps);
    if (threadIdx.x == 0) {
      if (args.mean != nullptr) args.mean[row] = mean;
      args.rstd[row] = rstd;
    }
    for (int64_t j = threadIdx.x; j < args.width; j += blockDim.x) {
      const float value = normed(to_float(stored[j]), mean, rstd);
      const float weight = args.weight.template at<T>(j, 1.0f), bias = args.bias.template at<T>(j, 0.0f);
      args.y[row * args.width + j] = from_float<T>(scaled(value, weight, bias));
    }
  }
  store_stats(stats.partial(), args.partials, args.counter, args.stats);
}

template <typename T>
Plan plan_of(const ForwardPointers& pointers) {
  constexpr int PACKS_OF_8 = sizeof(T) == 4 ? 2 : 1;  // packs of eight elements
  using Kernel = void (*)(Rows<T>);
  const Kernel by_warps[] = {rows_in_registers<T, PACKS_OF_8, Team::WARP>, rows_in_registers<T, 2 * PACKS_OF_8, Team::WARP>,
                             rows_in_registers<T, 3 * PACKS_OF_8, Team::WARP>};
  const Kernel by_blocks[] = {rows_in_registers<T, PACKS_OF_8, Team::BLOCK>, rows_in_registers<T, 2 * PACKS_OF_8, Team::BLOCK>};
  const int width = static_cast<int>(std::min<int64_t>(pointers.width, REGISTER_WIDTH + 1));
  const bool is_warp = width <= WARP_WIDTH;
  // Groups of eight elements of a thread: of a block as few as a block's 1024 threads allow.
  const int eights = is_warp ? (width + 255) / 256 : width <= 8192 ? 1 : 2;
  int threads = is_warp ? WARP_BLOCK : (width + eights * 256 - 1) / (eights * 256) * 32;
  Kernel kernel = is_warp ? by_warps[eights - 1] : by_blocks[eights - 1];
  size_t shared = size_t(threads) * eights * PACKS_OF_8 * (pointers.residual != nullptr ? 2 : 1) * 16;
  bool aligned = pointers.width % PACKED<T> == 0;
  for (const void* pointer : {pointers.x, pointers.residual, pointers.weight, pointers.bias, static_cast<const void*>(pointers.y),
                              static_cast<const void*>(pointers.h)})
    aligned = aligned && is_aligned(pointer);
  const bool in_registers = aligned && width <= REGISTER_WIDTH && shared <= size_t(max_dynamic_shared(OP, pointers.device));
  if (!in_registers) kernel = rows_of_any_width<T>, threads = 512, shared = 0;
  const int64_t rows_per_block = in_registers && is_warp ? threads / 32 : 1;
  const int64_t needed = (pointers.rows + rows_per_block - 1) / rows_per_block;
  const void* function = reinterpret_cast<const void*>(kernel);
  const bool keeps_weight = in_registers && (is_warp || eights == 1);
  const int64_t resident = blocks_at_once(OP, function, threads, shared, pointers.device, 32,
                                          keeps_weight ? Divided::SHARED : Divided::CACHE);
  return {function, static_cast<int>(std::min(needed, resident)), threads, shared, 1};
}

template <typename T>
Rows<T> rows_of(const ForwardPointers& pointers) {
  const bool is_float32 = pointers.weight_element == Element::FLOAT;
  return {static_cast<const T*>(pointers.x),
          static_cast<const T*>(pointers.residual),
          static_cast<T*>(pointers.y),
          static_cast<T*>(pointers.h),
          pointers.mean,
          pointers.rstd,
          {pointers.weight, is_float32},
          {pointers.bias, is_float32},
          pointers.rows,
          pointers.width,
          1.0f / float(pointers.width),
          pointers.eps,
          reinterpret_cast<PartialStats*>(pointers.partials),
          pointers.counter,
          pointers.stats};
}

}  // namespace

static_assert(sizeof(PartialStats) == PARTIAL_DOUBLES * sizeof(double));

Plan plan(const ForwardPointers& pointers) {
  Plan plan{};
  by_element(pointers.element, [&](auto zero) { plan = plan_of<decltype(zero)>(pointers); });
  return plan;
}

void launch(const ForwardPointers& pointers, const Plan& plan) {
  by_element(pointers.element, [&](auto zero) {
    Rows<decltype(zero)> rows = rows_of<decltype(zero)>(pointers);
    launch_rows(OP, plan, rows, pointers.stream);
  });
}

}  // namespace sentinel::norm
