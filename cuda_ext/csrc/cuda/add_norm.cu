// add_norm forward on CUDA: one read of x and residual, one write of h and y. While a group works on a row out of registers, the
// next one is on its way into shared memory. What the rows hold costs a multiply-add and an integer maximum an element.
#include <algorithm>

#include "add_norm_rows.cuh"
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

struct Launch {
  const Tensor& like;
  cudaStream_t stream;
  int device;

  template <typename T, typename Kernel>
  void operator()(Kernel kernel, Rows<T> rows, int threads, int rows_per_block, size_t shared) const {
    const int64_t wanted = (rows.rows + rows_per_block - 1) / rows_per_block;
    const int blocks = static_cast<int>(std::min<int64_t>(wanted, resident_blocks(kernel, threads, shared, device, 32)));
    const Tensor shares = torch::stable::new_empty(like, {blocks * 3}, ScalarType::Double);
    std::optional<Tensor> own;
    rows.shares = reinterpret_cast<Share*>(write<double>(shares));
    rows.counter = counter_for(stream, device, like, own);
    kernel<<<blocks, threads, shared, stream>>>(rows);
    check_launch("add_norm");
  }
};

template <typename T>
void launch(const Rows<T>& rows, const Launch& launch, bool aligned) {
  const int width = static_cast<int>(std::min<int64_t>(rows.width, HELD_WIDTH + 1));
  const auto shared = [&](int threads, int packs) { return size_t(threads) * packs * (rows.residual != nullptr ? 2 : 1) * 16; };
  constexpr int OF_8 = sizeof(T) == 4 ? 2 : 1;  // packs of eight elements
  const auto by_warps = [&](auto kernel, int packs) {
    launch(kernel, rows, WARP_BLOCK, WARP_BLOCK / 32, shared(WARP_BLOCK, packs));
  };
  const int threads = (width + 16 * 32 - 1) / (16 * 32) * 32;  // sixteen elements each
  if (!aligned || width > HELD_WIDTH || shared(threads, 2 * OF_8) > room_of_block(launch.device))
    launch(any_rows<T>, rows, 512, 1, 0);
  else if (width <= 256) by_warps(held_rows<T, OF_8, true>, OF_8);
  else if (width <= 512) by_warps(held_rows<T, 2 * OF_8, true>, 2 * OF_8);
  else if (width <= 768) by_warps(held_rows<T, 3 * OF_8, true>, 3 * OF_8);
  else if (width <= 1024) by_warps(held_rows<T, 4 * OF_8, true>, 4 * OF_8);
  else launch(held_rows<T, 2 * OF_8, false>, rows, threads, 1, shared(threads, 2 * OF_8));
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> add_norm(const Tensor& x, const Optional& residual, const Tensor& weight,
                                                            const Optional& bias, double eps, bool rms) {
  const Forward to = forward_of(x, residual, weight, bias, rms);
  const int device = x.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  if (to.rows == 0) return to.results();
  by_cuda_dtype(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> rows{read<T>(x),
                       residual ? read<T>(*residual) : nullptr,
                       write<T>(to.y),
                       residual ? write<T>(to.h) : nullptr,
                       rms ? nullptr : write<float>(to.mean),
                       write<float>(to.rstd),
                       columns_of(weight),
                       columns_of(bias),
                       to.rows,
                       to.width,
                       1.0f / float(to.width),
                       float(eps),
                       nullptr,
                       {},
                       write<double>(to.stats)};
    const bool aligned = to.width % PACKED<T> == 0 && is_aligned(rows.x) && is_aligned(rows.residual) && is_aligned(rows.y) &&
                         is_aligned(rows.h) && is_aligned(rows.weight.data) && is_aligned(rows.bias.data);
    launch(rows, Launch{x, stream_of(x), device}, aligned);
  });
  return to.results();
}

}  // namespace
}  // namespace sentinel::norm

STABLE_TORCH_LIBRARY_IMPL(sentinel, CUDA, m) { m.impl("add_norm", TORCH_BOX(&sentinel::norm::add_norm)); }
