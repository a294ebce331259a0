// softmax_xent and scale_ for CUDA tensors: checks, allocates, launches on torch's stream.
#include "../softmax_xent_arguments.h"
#include "launches.h"
#include "stream.h"

namespace sentinel {
namespace {

bool is_aligned_to_16(const Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0; }

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> softmax_xent(
    const Tensor& input, const Tensor& targets, const Tensor& weight, const Tensor& expected, double z_loss,
    int64_t ignore_index) {
  check_xent(input, targets, weight, expected);
  const int device = input.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  XentResults results = empty_results(input);
  if (input.size(0) == 0) return zero_results(results);
  // A view may begin anywhere: its chunks would not be aligned as those of the gradient are.
  const Tensor logits = is_aligned_to_16(input) ? input : torch::stable::clone(input);
  const Tensor slots = torch::stable::new_empty(logits, {xent_slots(device)}, ScalarType::Double);
  const XentArguments arguments{
      logits.const_data_ptr(), results.dlogits.mutable_data_ptr(), const_ptr<int64_t>(targets), const_ptr<float>(weight),
      const_ptr<float>(expected), mutable_ptr<float>(results.losses), mutable_ptr<float>(results.lse), mutable_ptr<double>(slots),
      z_loss, ignore_index, logits.size(0), int(logits.size(1))};
  launch_xent(arguments, element_of(logits.scalar_type()), mutable_ptr<float>(results.total), mutable_ptr<double>(results.stats),
              device, stream_of(logits));
  return {results.total, results.losses, results.lse, results.dlogits, results.stats};
}

void scale_(Tensor x, const Tensor& factor) {
  check_scale(x, factor);
  if (x.numel() == 0) return;
  const int device = x.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  launch_scale(x.mutable_data_ptr(), x.numel(), element_of(x.scalar_type()), const_ptr<float>(factor), device, stream_of(x));
}

}  // namespace
}  // namespace sentinel

STABLE_TORCH_LIBRARY_IMPL(sentinel, CUDA, m) {
  m.impl("softmax_xent", TORCH_BOX(&sentinel::softmax_xent));
  m.impl("scale_", TORCH_BOX(&sentinel::scale_));
}
