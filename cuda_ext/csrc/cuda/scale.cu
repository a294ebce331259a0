// scale_ on CUDA: x · factor in place. The factor is on the device; where it is 1 every block returns having read only that.
#include "../softmax_xent_arguments.h"
#include "launching.cuh"

#include <algorithm>

namespace sentinel {
namespace {

constexpr int BLOCK = 256;
constexpr int BLOCKS = 8;  // of a processor

template <typename T> __global__ void __launch_bounds__(BLOCK) scale_kernel(T* x, int64_t count, int head, const float* factor) {
  const float by = *factor;
  if (by == 1.0f) return;
  const int64_t worker = int64_t(blockIdx.x) * BLOCK + threadIdx.x;
  const int64_t workers = int64_t(gridDim.x) * BLOCK;
  const int64_t packs = (count - head) / PACKED<T>;
  Pack<T>* const body = reinterpret_cast<Pack<T>*>(x + head);
  for (int64_t i = worker; i < packs; i += workers) {
    Pack<T> pack;
    *reinterpret_cast<uint4*>(&pack) = *reinterpret_cast<const uint4*>(body + i);
#pragma unroll
    for (int k = 0; k < PACKED<T>; ++k) pack.element[k] = from_float<T>(to_float(pack.element[k]) * by);
    *reinterpret_cast<uint4*>(body + i) = *reinterpret_cast<const uint4*>(&pack);
  }
  const int64_t edges = count - packs * PACKED<T>;
  if (worker < edges) {
    T* const edge = x + (worker < head ? worker : packs * PACKED<T> + worker);
    *edge = from_float<T>(to_float(*edge) * by);
  }
}

void scale_(Tensor x, const Tensor& factor) {
  check_scale(x, factor);
  const int64_t count = x.numel();
  if (count == 0) return;
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  int processors = 0;
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, x.get_device_index());
  by_cuda_dtype(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    T* const elements = write<T>(x);
    const int64_t over = int64_t(reinterpret_cast<uintptr_t>(elements) % 16 / sizeof(T));
    const int head = int(std::min<int64_t>((PACKED<T> - over) % PACKED<T>, count));
    const int64_t wanted = (count / PACKED<T> + BLOCK) / BLOCK;
    const int blocks = int(std::min<int64_t>(wanted, int64_t(std::max(processors, 1)) * BLOCKS));
    scale_kernel<T><<<blocks, BLOCK, 0, stream_of(x)>>>(elements, count, head, read<float>(factor));
  });
  check_launch("scale_");
}

}  // namespace
}  // namespace sentinel

STABLE_TORCH_LIBRARY_IMPL(sentinel, CUDA, m) { m.impl("scale_", TORCH_BOX(&sentinel::scale_)); }
