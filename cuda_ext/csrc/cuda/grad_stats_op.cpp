// grad_stats for CUDA tensors: checks, allocates, launches on torch's stream.
#include "../tensor_lists.h"
#include "launches.h"
#include "stream.h"

namespace sentinel {
namespace {

Tensor grad_stats(std::vector<Tensor> grads, Tensor inv_scale) {
  check_grad_stats(grads, inv_scale);
  const int64_t rows = static_cast<int64_t>(grads.size());
  const Chunks chunks = chunks_of(grads);
  if (chunks.count() == 0) return torch::stable::new_zeros(inv_scale, {rows, 3}, ScalarType::Double);
  const torch::stable::accelerator::DeviceGuard guard(inv_scale.get_device_index());
  const Tensor slots = torch::stable::new_empty(inv_scale, {chunks.slot_rows(3), 3}, ScalarType::Double);
  Tensor out = torch::stable::new_empty(inv_scale, {rows, 3}, ScalarType::Double);
  std::vector<Gradient> gradients;
  gradients.reserve(grads.size());
  for (const Tensor& grad : grads) gradients.push_back({grad.const_data_ptr(), element_of(grad.scalar_type())});
  launch_grad_stats(chunks, gradients, const_ptr<float>(inv_scale), mutable_ptr<double>(slots), mutable_ptr<double>(out),
                    inv_scale.get_device_index(), stream_of(inv_scale));
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sentinel, CUDA, m) { m.impl("grad_stats", TORCH_BOX(&grad_stats)); }

}  // namespace sentinel
