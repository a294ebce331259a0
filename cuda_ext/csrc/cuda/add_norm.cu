// add_norm forward on CUDA: one read of x and residual, one write of h and y. While a group works on a row out of registers, the
// next one is on its way into shared memory. What the rows hold costs a multiply-add and an integer maximum an element.
#include <algorithm>

#include "add_norm.cuh"
#include "last_block.cuh"

namespace sentinel::norm {
namespace {

constexpr int WARP_BLOCK = 128;    // threads of a block of groups that are warps
constexpr int HELD_WIDTH = 16384;  // the longest row that a block holds in registers

template <typename T>
struct Rows {
  const T *x, *residual;  // residual may be null, h with it
  T *y, *h;
  float *mean, *rstd;  // mean is null for RMSNorm
  Columns weight, bias;
  int64_t rows, width;
  float inverse_width, eps;
  Share* shares;
  Counter counter;
  double* stats;
};

// What one thread saw: of all its rows, and of the present one.
struct Looked {
  double squares = 0.0;
  uint32_t nonfinite = 0, largest = 0, largest_of_row = 0;

  __device__ __forceinline__ void see(float value) {
    if constexpr (TELLS) largest_of_row = larger(magnitude_of(value), largest_of_row);
  }
  template <typename Count>
  __device__ __forceinline__ void end_row(float squares_of_row, const Count& count_nonfinite) {
    if constexpr (!TELLS) return;
    squares += double(squares_of_row);
    if (largest_of_row >= INFINITE) nonfinite += count_nonfinite();
    largest = larger(largest_of_row, largest);
    largest_of_row = 0;
  }
  __device__ __forceinline__ Share share() const { return {squares, nonfinite, largest}; }
};

template <typename T, int PACKS, bool WARP>
__global__ void __launch_bounds__(WARP ? WARP_BLOCK : 1024) held_rows(const __grid_constant__ Rows<T> at) {
  constexpr int E = PACKED<T>;
  extern __shared__ uint4 shared[];
  __shared__ float2 buffers[2][32];
  const Group<WARP> group;
  Sums<WARP> sums{buffers};
  Looked looked;
  const int width = static_cast<int>(at.width);
  // Of each thread: PACKS packs of x, then PACKS of residual, strided by the block so that no two threads meet in a bank.
  Pack<T>* coming = reinterpret_cast<Pack<T>*>(shared) + threadIdx.x;
  const auto fetch = [&](int64_t row) {
    if (row < at.rows) {
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        const int column = group.template column<T>(p);
        if (column >= width) continue;
        copy_async(coming + p * blockDim.x, at.x + row * width + column);
        if (at.residual != nullptr) copy_async(coming + (PACKS + p) * blockDim.x, at.residual + row * width + column);
      }
    }
    end_of_copies();
  };
  fetch(group.number);
  for (int64_t row = group.number; row < at.rows; row += group.groups) {
    Pack<T> held[PACKS];
    float sum = 0.0f, squares = 0.0f, mean = 0.0f;
    wait_for_copies<0>();
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      if (group.template column<T>(p) >= width) continue;
      held[p] = coming[p * blockDim.x];
      if (at.residual != nullptr) {
        const Pack<T> other = coming[(PACKS + p) * blockDim.x];
#pragma unroll
        for (int i = 0; i < E; ++i) held[p].element[i] = from_float<T>(to_float(held[p].element[i]) + to_float(other.element[i]));
        store(at.h + row * width + group.template column<T>(p), held[p]);
      }
#pragma unroll
      for (int i = 0; i < E; ++i) {
        const float value = to_float(held[p].element[i]);
        sum += value;
        if (TELLS || at.mean == nullptr) squares += value * value;
        looked.see(value);
      }
    }
    fetch(row + group.groups);
    const auto each = [&](const auto& body) {
#pragma unroll
      for (int p = 0; p < PACKS; ++p)
        if (group.template column<T>(p) < width)
#pragma unroll
          for (int i = 0; i < E; ++i) body(to_float(held[p].element[i]));
    };
    looked.end_row(squares, [&] {
      uint32_t count = 0;
      each([&](float value) { count += is_finite(value) ? 0u : 1u; });
      return count;
    });
    if (at.mean != nullptr) {
      mean = sums(sum) * at.inverse_width;
      squares = 0.0f;
      each([&](float value) { squares += (value - mean) * (value - mean); });
    }
    const float rstd = rstd_of(sums(squares) * at.inverse_width, at.eps);
    if (group.thread == 0) {
      if (at.mean != nullptr) at.mean[row] = mean;
      at.rstd[row] = rstd;
    }
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const int column = group.template column<T>(p);
      if (column >= width) continue;
      float weight[E], bias[E];
      at.weight.template pack_at<T>(column, 1.0f, weight);
      at.bias.template pack_at<T>(column, 0.0f, bias);
      Pack<T> y;
#pragma unroll
      for (int i = 0; i < E; ++i) {
        const float value = normed(to_float(held[p].element[i]), mean, rstd);
        y.element[i] = from_float<T>(scaled(value, weight[i], bias[i]));
      }
      store(at.y + row * width + column, y);
    }
  }
  tell(looked.share(), at.shares, at.counter, at.stats);
}

// Rows of any width at any address: an element at a time, and again out of the cache where a row is needed again.
template <typename T>
__global__ void __launch_bounds__(512) any_rows(const __grid_constant__ Rows<T> at) {
  __shared__ float2 buffers[2][32];
  Sums<false> sums{buffers};
  Looked looked;
  for (int64_t row = blockIdx.x; row < at.rows; row += gridDim.x) {
    const T *x = at.x + row * at.width, *stored = at.h != nullptr ? at.h + row * at.width : x;
    float sum = 0.0f, squares = 0.0f, mean = 0.0f;
    for (int64_t j = threadIdx.x; j < at.width; j += blockDim.x) {
      T element = x[j];
      if (at.residual != nullptr) {
        element = from_float<T>(to_float(element) + to_float(at.residual[row * at.width + j]));
        at.h[row * at.width + j] = element;
      }
      const float value = to_float(element);
      sum += value;
      if (TELLS || at.mean == nullptr) squares += value * value;
      looked.see(value);
    }
    looked.end_row(squares, [&] {
      uint32_t count = 0;
      for (int64_t j = threadIdx.x; j < at.width; j += blockDim.x) count += is_finite(to_float(stored[j])) ? 0u : 1u;
      return count;
    });
    if (at.mean != nullptr) {
      mean = sums(sum) * at.inverse_width;
      squares = 0.0f;
      for (int64_t j = threadIdx.x; j < at.width; j += blockDim.x) {
        const float away = to_float(stored[j]) - mean;
        squares += away * away;
      }
    }
    const float rstd = rstd_of(sums(squares) * at.inverse_width, at.eps);
    if (threadIdx.x == 0) {
      if (at.mean != nullptr) at.mean[row] = mean;
      at.rstd[row] = rstd;
    }
    for (int64_t j = threadIdx.x; j < at.width; j += blockDim.x) {
      const float value = normed(to_float(stored[j]), mean, rstd);
      at.y[row * at.width + j] = from_float<T>(scaled(value, at.weight.template at<T>(j, 1.0f), at.bias.template at<T>(j, 0.0f)));
    }
  }
  tell(looked.share(), at.shares, at.counter, at.stats);
}

template <typename T>
Plan plan_of(const ForwardPointers& given) {
  constexpr int OF_8 = sizeof(T) == 4 ? 2 : 1;  // packs of eight elements
  using Kernel = void (*)(Rows<T>);
  const Kernel by_warps[] = {held_rows<T, OF_8, true>, held_rows<T, 2 * OF_8, true>, held_rows<T, 3 * OF_8, true>,
                             held_rows<T, 4 * OF_8, true>};
  const int width = static_cast<int>(std::min<int64_t>(given.width, HELD_WIDTH + 1));
  const bool is_warp = width <= 1024;
  const int of_8 = is_warp ? (width + 255) / 256 : 2;  // a thread's packs: a block's has sixteen elements
  int threads = is_warp ? WARP_BLOCK : (width + 16 * 32 - 1) / (16 * 32) * 32;
  Kernel kernel = is_warp ? by_warps[of_8 - 1] : held_rows<T, 2 * OF_8, false>;
  size_t shared = size_t(threads) * of_8 * OF_8 * (given.residual != nullptr ? 2 : 1) * 16;
  bool aligned = given.width % PACKED<T> == 0;
  for (const void* pointer : {given.x, given.residual, given.weight, given.bias, static_cast<const void*>(given.y),
                              static_cast<const void*>(given.h)})
    aligned = aligned && is_aligned(pointer);
  const bool is_held = aligned && width <= HELD_WIDTH && shared <= size_t(room_of_block(given.device));
  if (!is_held) kernel = any_rows<T>, threads = 512, shared = 0;
  const int64_t rows_per_block = is_held && is_warp ? threads / 32 : 1;
  const int64_t wanted = (given.rows + rows_per_block - 1) / rows_per_block;
  const void* chosen = reinterpret_cast<const void*>(kernel);
  const int64_t resident = resident_blocks(chosen, threads, shared, given.device, 32);
  return {chosen, static_cast<int>(std::min(wanted, resident)), threads, shared, 1};
}

template <typename T>
Rows<T> rows_of(const ForwardPointers& given) {
  const bool wide = given.of_weight == Element::FLOAT;
  return {static_cast<const T*>(given.x),
          static_cast<const T*>(given.residual),
          static_cast<T*>(given.y),
          static_cast<T*>(given.h),
          given.mean,
          given.rstd,
          {given.weight, wide},
          {given.bias, wide},
          given.rows,
          given.width,
          1.0f / float(given.width),
          given.eps,
          reinterpret_cast<Share*>(given.shares),
          given.counter,
          given.stats};
}

}  // namespace

static_assert(sizeof(Share) == SHARE_DOUBLES * sizeof(double));

Plan plan(const ForwardPointers& given) {
  Plan plan{};
  by_element(given.element, [&](auto zero) { plan = plan_of<decltype(zero)>(given); });
  return plan;
}

void launch(const ForwardPointers& given, const Plan& plan) {
  by_element(given.element, [&](auto zero) {
    Rows<decltype(zero)> rows = rows_of<decltype(zero)>(given);
    launch_rows(plan, rows, given.stream, "add_norm");
  });
}

}  // namespace sentinel::norm
