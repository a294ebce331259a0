// scale_ on CUDA: x · factor in place. The factor is on the device; where it is 1 every block returns having read only that.
#include <algorithm>

#include "device.cuh"
#include "softmax_xent.h"

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

}  // namespace

void launch_scale(void* x, int64_t count, Element element, const float* factor, int device, cudaStream_t stream) {
  int processors = 0;
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  by_element(element, [&](auto zero) {
    using T = decltype(zero);
    const int over = int(reinterpret_cast<uintptr_t>(x) % 16 / sizeof(T));
    const int head = int(std::min<int64_t>((PACKED<T> - over) % PACKED<T>, count));
    const int64_t wanted = (count / PACKED<T> + BLOCK) / BLOCK;
    const int blocks = int(std::min<int64_t>(wanted, int64_t(std::max(processors, 1)) * BLOCKS));
    scale_kernel<T><<<blocks, BLOCK, 0, stream>>>(static_cast<T*>(x), count, head, factor);
  });
  check_launch("scale_");
}

}  // namespace sentinel
