// add_norm forward on CUDA: one read of x and residual, one write of h and y. While a group works on a row in registers, its next
// rows are copied into shared memory. Statistics cost a maximum per element: the sum of squares follows from what the norm needs.
#include <algorithm>

#include "forward_rows.cuh"

namespace sentinel::norm {
namespace {

constexpr const char* OP = "add_norm";
constexpr int WARP_BLOCK = 128;         // threads of a block of groups that are warps
constexpr int WARP_WIDTH = 768;         // the longest row of a warp
constexpr int REGISTER_WIDTH = 16384;   // the longest row that a block holds in registers
constexpr int GROUP_ROWS = 4;           // of a group, where there are enough: a processor that is done takes the next (LOG.md)
constexpr int64_t STAGED_TWICE = 8192;  // bytes of the longest row of which two are staged

// W: of weight and bias. Where KEEPS is false they are read again for every row: of 32 or 16 columns a thread has no room for them.
template <typename T, typename W, int PACKS, Team TEAM, bool KEEPS>
__global__ void __launch_bounds__(TEAM == Team::WARP ? WARP_BLOCK : sizeof(W) > sizeof(T) ? 512 : 1024)
    rows_in_registers(const __grid_constant__ Rows<T> args) {
  constexpr int E = PACKED<T>;
  extern __shared__ uint4 shared[];
  __shared__ float2 buffers[2][32];
  const int width = static_cast<int>(args.width);
  const bool has_residual = args.residual != nullptr;
  const Group<TEAM> group(width);
  const OwnRows<T> own(args, group.number, group.groups);
  Sums<TEAM> sums{buffers};
  ThreadStats stats;
  uint32_t largest = 0;  // of all rows, by words
  // Of each thread and stage: PACKS packs of x, then PACKS of residual, strided by the block so that no two threads meet in a bank.
  Vector<T>* const staged = reinterpret_cast<Vector<T>*>(shared) + threadIdx.x;
  const int stage_size = (has_residual ? 2 : 1) * PACKS * int(blockDim.x);
  const auto fetch = [&](int64_t row, int stage) {
    if (row < own.end) {
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        const int column = group.template column<T>(p);
        if (column >= width) continue;
        Vector<T>* const place = staged + stage * stage_size + p * int(blockDim.x);
        copy_async(place, args.x + row * width + column);
        if (has_residual) copy_async(place + PACKS * int(blockDim.x), args.residual + row * width + column);
      }
    }
    commit_copies();
  };
  for (int stage = 0; stage < args.stages; ++stage) fetch(own.begin + stage * own.step, stage);
  Kept<T, W> weights[KEEPS ? PACKS : 1], biases[KEEPS ? PACKS : 1];
  if constexpr (KEEPS) {
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const int column = group.template column<T>(p);
      if (column >= width) continue;
      weights[p] = kept<T, W>(args.weight, column, 1.0f), biases[p] = kept<T, W>(args.bias, column, 0.0f);
    }
  }
  int stage = 0;
  for (int64_t row = own.begin; row < own.end; row += own.step) {
    Vector<T> h[PACKS];
    float sum = 0.0f, mean = 0.0f, squares = 0.0f;
    if (args.stages == 2) wait_for_copies<1>();
    else wait_for_copies<0>();
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const int column = group.template column<T>(p);
      if (column >= width) continue;
      const Vector<T>* const place = staged + stage * stage_size + p * int(blockDim.x);
      h[p] = *place;
      if (has_residual) {
        const Vector<T> other = place[PACKS * int(blockDim.x)];
#pragma unroll
        for (int w = 0; w < Vector<T>::WORDS; ++w) h[p].word[w] = Word<T>::sum(h[p].word[w], other.word[w]);
        *reinterpret_cast<Vector<T>*>(args.h + row * width + column) = h[p];
      }
      h[p].each([&](float value, int) { sum += value; });
      if constexpr (STATISTICS) {
#pragma unroll
        for (int w = 0; w < Vector<T>::WORDS; ++w) largest = Word<T>::larger(Word<T>::magnitudes(h[p].word[w]), largest);
      }
    }
    fetch(row + args.stages * own.step, stage);
    stage = stage + 1 == args.stages ? 0 : stage + 1;
    const auto each = [&](const auto& body) {
#pragma unroll
      for (int p = 0; p < PACKS; ++p)
        if (group.template column<T>(p) < width) h[p].each([&](float value, int) { body(value); });
    };
    if (args.mean != nullptr) mean = sums(sum) * args.inverse_width;
    each([&](float value) { squares += (value - mean) * (value - mean); });
    squares = sums(squares);
    const float rstd = rstd_of(squares * args.inverse_width, args.eps);
    if (group.thread == 0) {
      if (args.mean != nullptr) args.mean[row] = mean;
      args.rstd[row] = rstd;
    }
    stats.end_row(squares + mean * mean * float(width), group.thread == 0, each);
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const int column = group.template column<T>(p);
      if (column >= width) continue;
      float weight[E], bias[E];
      if constexpr (KEEPS) {
#pragma unroll
        for (int i = 0; i < E; ++i) weight[i] = to_float(weights[p].element[i]), bias[i] = to_float(biases[p].element[i]);
      } else {
        args.weight.template pack_at<T>(column, 1.0f, weight);
        args.bias.template pack_at<T>(column, 0.0f, bias);
      }
      float result[E];
      h[p].each([&](float value, int i) { result[i] = scaled(normed(value, mean, rstd), weight[i], bias[i]); });
      Vector<T> y;
#pragma unroll
      for (int w = 0; w < Vector<T>::WORDS; ++w) y.word[w] = Word<T>::pack(result + w * Vector<T>::EACH);
      *reinterpret_cast<Vector<T>*>(args.y + row * width + column) = y;
    }
  }
  stats.largest = bits_of(largest_of<T>(largest));
  store_stats(stats, args.partials, args.counter, args.stats);
}

// Rows of any width and alignment: one element at a time; a row is read again from the cache where it is needed again.
template <typename T>
__global__ void __launch_bounds__(512) rows_of_any_width(const __grid_constant__ Rows<T> args) {
  __shared__ float2 buffers[2][32];
  const OwnRows<T> own(args, int(blockIdx.x), int(gridDim.x));
  Sums<Team::BLOCK> sums{buffers};
  ThreadStats stats;
  for (int64_t row = own.begin; row < own.end; row += own.step) {
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
      if constexpr (STATISTICS) stats.largest = larger(magnitude_of(value), stats.largest);
    }
    const auto each = [&](const auto& body) {
      for (int64_t j = threadIdx.x; j < args.width; j += blockDim.x) body(to_float(stored[j]));
    };
    if (args.mean != nullptr) mean = sums(sum) * args.inverse_width;
    each([&](float value) { squares += (value - mean) * (value - mean); });
    squares = sums(squares);
    const float rstd = rstd_of(squares * args.inverse_width, args.eps);
    if (threadIdx.x == 0) {
      if (args.mean != nullptr) args.mean[row] = mean;
      args.rstd[row] = rstd;
    }
    stats.end_row(squares + mean * mean * float(args.width), threadIdx.x == 0, each);
    for (int64_t j = threadIdx.x; j < args.width; j += blockDim.x) {
      const float value = normed(to_float(stored[j]), mean, rstd);
      const float weight = args.weight.template at<T>(j, 1.0f), bias = args.bias.template at<T>(j, 0.0f);
      args.y[row * args.width + j] = from_float<T>(scaled(value, weight, bias));
    }
  }
  store_stats(stats, args.partials, args.counter, args.stats);
}

// A kernel, and how a row lies in it: `packs` packs of each of its threads.
template <typename T>
struct Way {
  void (*kernel)(Rows<T>);
  int packs, threads;
  bool is_warp, keeps_weight;
};

template <typename T, typename W>
Way<T> way_of(int width) {
  constexpr int PACKS_OF_8 = sizeof(T) == 4 ? 2 : 1;  // packs of eight elements
  constexpr int THREADS_MAX = sizeof(W) > sizeof(T) ? 512 : 1024;
  const auto threads_of = [&](int packs) { return (width + packs * 32 * PACKED<T> - 1) / (packs * 32 * PACKED<T>) * 32; };
  if (width <= 256) return {rows_in_registers<T, W, PACKS_OF_8, Team::WARP, true>, PACKS_OF_8, WARP_BLOCK, true, true};
  if (width <= 512) return {rows_in_registers<T, W, 2 * PACKS_OF_8, Team::WARP, true>, 2 * PACKS_OF_8, WARP_BLOCK, true, true};
  if (width <= WARP_WIDTH)
    return {rows_in_registers<T, W, 3 * PACKS_OF_8, Team::WARP, true>, 3 * PACKS_OF_8, WARP_BLOCK, true, true};
  if (threads_of(2) <= THREADS_MAX) return {rows_in_registers<T, W, 2, Team::BLOCK, true>, 2, threads_of(2), false, true};
  return {rows_in_registers<T, T, 4, Team::BLOCK, false>, 4, threads_of(4), false, false};
}

// Rows in fours where they are enough for all groups that run at once, and for no more blocks than there are counters.
int rows_of_group(int64_t rows, int64_t groups_of_block, int64_t resident) {
  const int64_t fours = (rows + GROUP_ROWS * groups_of_block - 1) / (GROUP_ROWS * groups_of_block);
  if (fours < resident) return 0;
  const int64_t most = groups_of_block * SPAN * SPANS;
  return static_cast<int>(std::max<int64_t>(GROUP_ROWS, (rows + most - 1) / most));
}

template <typename T>
Plan plan_of(const ForwardPointers& pointers) {
  const int width = static_cast<int>(std::min<int64_t>(pointers.width, REGISTER_WIDTH + 1));
  Way<T> way{rows_of_any_width<T>, 0, 512, false, false};
  bool aligned = pointers.width % PACKED<T> == 0;
  for (const void* pointer : {pointers.x, pointers.residual, pointers.weight, pointers.bias, static_cast<const void*>(pointers.y),
                              static_cast<const void*>(pointers.h)})
    aligned = aligned && is_aligned(pointer);
  int stages = 0;
  size_t shared = 0;
  if (aligned && width <= REGISTER_WIDTH) {
    const Way<T> found = pointers.weight_element == Element::FLOAT ? way_of<T, float>(width) : way_of<T, T>(width);
    const int wanted = pointers.width * int64_t(sizeof(T)) <= STAGED_TWICE ? 2 : 1;
    const size_t row = size_t(found.threads) * found.packs * (pointers.residual != nullptr ? 2 : 1) * 16;
    if (row * wanted <= size_t(max_dynamic_shared(OP, pointers.device))) way = found, stages = wanted, shared = row * wanted;
  }
  const int64_t groups_of_block = way.is_warp ? way.threads / 32 : 1;
  const void* function = function_of(way.kernel);
  const int64_t resident =
      blocks_at_once(OP, function, way.threads, shared, pointers.device, 32, way.keeps_weight ? Divided::SHARED : Divided::CACHE);
  // A row that takes a whole processor, and one that is read again from the cache, run best by blocks that stay.
  const bool stays = stages == 0 || way.threads * way.packs > 2048;
  const int of_group = stays ? 0 : rows_of_group(pointers.rows, groups_of_block, resident);
  const int64_t rows_of_block = groups_of_block * std::max(of_group, 1);
  const int64_t needed = (pointers.rows + rows_of_block - 1) / rows_of_block;
  const int64_t blocks = of_group > 0 ? needed : std::min(needed, resident);
  return {function, static_cast<int>(blocks), way.threads, shared, stages, 1, 0, of_group};
}

template <typename T>
Rows<T> rows_of(const ForwardPointers& pointers, const Plan& plan) {
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
          plan.rows,
          plan.stages,
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
    Rows<decltype(zero)> rows = rows_of<decltype(zero)>(pointers, plan);
    launch_rows(OP, plan, rows, pointers.stream);
  });
}

}  // namespace sentinel::norm
