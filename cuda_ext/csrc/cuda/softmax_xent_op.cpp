// softmax_xent and scale_ on CUDA, as torch sees them: checked, given their results, and handed to the launches.
#include "../softmax_xent_arguments.h"
#include "launches.h"
#include "stream.h"

namespace sentinel {
namespace {

bool begins_at_16_bytes(const Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0; }

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> softmax_xent(
    const Tensor& given, const Tensor& targets, const Tensor& weight, const Tensor& expected, double z_loss, int64_t ignore_index) {
  check_xent(given, targets, weight, expected);
  const int device = given.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  XentResults results = empty_results(given);
  if (given.size(0) == 0) return of_no_rows(results);
  // A view may begin anywhere: its chunks would not lie as those of the gradient do.
  const Tensor logits = begins_at_16_bytes(given) ? given : torch::stable::clone(given);
  const Tensor slots = torch::stable::new_empty(logits, {xent_slots(device)}, ScalarType::Double);
  const XentArguments arguments{
      logits.const_data_ptr(), results.dlogits.mutable_data_ptr(), read<int64_t>(targets), read<float>(weight),
      read<float>(expected), write<float>(results.losses), write<float>(results.lse), write<double>(slots),
      z_loss, ignore_index, logits.size(0), int(logits.size(1))};
  launch_xent(arguments, element_of(logits.scalar_type()), write<float>(results.total), write<double>(results.stats), device,
              stream_of(logits));
  return {results.total, results.losses, results.lse, results.dlogits, results.stats};
}

void scale_(Tensor x, const Tensor& factor) {
  check_scale(x, factor);
  if (x.numel() == 0) return;
  const int device = x.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  launch_scale(x.mutable_data_ptr(), x.numel(), element_of(x.scalar_type()), read<float>(factor), device, stream_of(x));
}

}  // namespace
}  // namespace sentinel

STABLE_TORCH_LIBRARY_IMPL(sentinel, CUDA, m) {
  m.impl("softmax_xent", TORCH_BOX(&sentinel::softmax_xent));
  m.impl("scale_", TORCH_BOX(&sentinel::scale_));
}
