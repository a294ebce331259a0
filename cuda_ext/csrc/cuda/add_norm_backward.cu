// add_norm backward on CUDA: dy, h and dh are read once, dx is written once. A group stays with its columns over all its rows, so
// that their shares of dweight and dbias need no memory until the end; then each block writes one slot, and sum_slots adds the
// slots in their order. A row waits in shared memory, is read from there twice, and makes room for a later one as it is read the
// second time.
#include <algorithm>

#include "add_norm_rows.cuh"
#include "add_norm_slots.cuh"

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

template <typename T>
size_t bytes_of_row(const Rows<T>& rows, int threads, int packs) {
  return size_t(threads) * packs * (rows.dh != nullptr ? 3 : 2) * 16;
}

struct Launch {
  const Backward& to;
  const Tensor& like;
  bool has_bias;
  cudaStream_t stream;
  int device;
  size_t room;  // shared memory that a block may have

  template <typename T, typename Kernel>
  void operator()(Kernel kernel, Rows<T> rows, int threads, int rows_per_block, int packs, int per_processor,
                  int64_t at_most) const {
    // Two rows in shared memory where that leaves room for a second block, or where there is only one anyway.
    const size_t row = bytes_of_row(rows, threads, packs);
    rows.stages = 2 * row <= (per_processor > 1 ? room / 2 : room) ? 2 : 1;
    const size_t shared = row * rows.stages;
    const int64_t resident = resident_blocks(kernel, threads, shared, device, per_processor);
    const int64_t wanted = std::min((rows.rows + rows_per_block - 1) / rows_per_block, at_most);
    const int blocks = static_cast<int>(std::min(wanted, resident));
    const int64_t floats = blocks * rows.width;
    const Tensor slots = torch::stable::new_empty(like, {has_bias ? 2 * floats : floats}, ScalarType::Float);
    rows.dweights = write<float>(slots);
    rows.dbiases = has_bias ? rows.dweights + floats : nullptr;
    kernel<<<blocks, threads, shared, stream>>>(rows);
    check_launch("add_norm_backward");
    by_cuda_dtype(to.dweight.scalar_type(), [&](auto zero) {
      using W = decltype(zero);
      const dim3 grid(static_cast<unsigned>((rows.width + 31) / 32), has_bias ? 2 : 1);
      W *dweight = write<W>(to.dweight), *dbias = write<W>(to.dbias);
      sum_slots<W><<<grid, dim3(32, 16), 0, stream>>>(rows.dweights, rows.dbiases, dweight, dbias, blocks, rows.width);
    });
    check_launch("add_norm_backward");
  }
};

template <typename T>
void launch(const Rows<T>& rows, const Launch& launch, bool aligned) {
  const int width = static_cast<int>(std::min<int64_t>(rows.width, HELD_WIDTH + 1));
  constexpr int OF_8 = sizeof(T) == 4 ? 2 : 1;  // packs of eight elements
  const auto by_warps = [&](auto kernel, int packs) { launch(kernel, rows, WARP_BLOCK, WARP_BLOCK / 32, packs, 2, rows.rows); };
  // A block a row: sixteen elements a thread, thirty-two where those were too many threads. Some 512 threads a processor.
  const int packs = width <= 8192 ? 2 * OF_8 : 4 * OF_8, of_warp = packs * PACKED<T> * 32;
  const int threads = (width + of_warp - 1) / of_warp * 32;
  const auto by_blocks = [&](auto kernel) { launch(kernel, rows, threads, 1, packs, std::max(1, 512 / threads), rows.rows); };
  if (!aligned || width > HELD_WIDTH || bytes_of_row(rows, threads, packs) > launch.room)  // 64 MB of slots at most
    launch(any_rows<T>, rows, 512, 1, 0, 2, std::max<int64_t>(1, (int64_t(64) << 20) / (8 * rows.width)));
  else if (width <= 256) by_warps(held_rows<T, OF_8, true>, OF_8);
  else if (width <= 512) by_warps(held_rows<T, 2 * OF_8, true>, 2 * OF_8);
  else if (width <= 768) by_warps(held_rows<T, 3 * OF_8, true>, 3 * OF_8);
  else if (width <= 1024) by_warps(held_rows<T, 4 * OF_8, true>, 4 * OF_8);
  else if (width <= 8192) by_blocks(held_rows<T, 2 * OF_8, false>);
  else by_blocks(held_rows<T, 4 * OF_8, false>);
}

std::tuple<Tensor, Tensor, Tensor> add_norm_backward(const Tensor& dy, const Optional& dh, const Tensor& h, const Tensor& weight,
                                                     const Tensor& mean, const Tensor& rstd, bool rms, bool has_bias) {
  const Backward to = backward_of(dy, dh, h, weight, mean, rstd, rms, has_bias);
  const int device = h.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  if (to.rows == 0) return to.results();
  by_cuda_dtype(h.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> rows{read<T>(dy), dh ? read<T>(*dh) : nullptr, read<T>(h), rms ? nullptr : read<float>(mean),
                       read<float>(rstd), columns_of(weight), write<T>(to.dx), nullptr, nullptr, to.rows, to.width,
                       1.0f / float(to.width), 1};
    const bool aligned = to.width % PACKED<T> == 0 && is_aligned(rows.dy) && is_aligned(rows.dh) && is_aligned(rows.h) &&
                         is_aligned(rows.dx) && is_aligned(rows.weight.data);
    launch(rows, Launch{to, h, has_bias, stream_of(h), device, room_of_block(device)}, aligned);
  });
  return to.results();
}

}  // namespace
}  // namespace sentinel::norm

STABLE_TORCH_LIBRARY_IMPL(sentinel, CUDA, m) { m.impl("add_norm_backward", TORCH_BOX(&sentinel::norm::add_norm_backward)); }
