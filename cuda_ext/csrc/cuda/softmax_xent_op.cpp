// softmax_xent and scale_ for CUDA tensors: checks, allocates, launches on torch's stream.
#include "../softmax_xent_arguments.h"
#include "launches.h"
#include "stream.h"

namespace sentinel {
namespace {

bool is_aligned_to_16(const Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0; }

const float* scalar_of(const Optional& tensor) { return tensor ? const_ptr<float>(*tensor) : nullptr; }

XentResults computed(const char* op, const Tensor& input, const Tensor& targets, const Optional& weight, const Optional& expected,
                     double z_loss, int64_t ignore_index, GradientPlace place) {
  check_xent(op, input, targets, weight, expected);
  const int device = input.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  const XentResults results = empty_results(input, place);
  if (input.size(0) == 0) return zero_results(results);
  // A view may begin anywhere: its chunks would not be aligned as those of the gradient are.
  const bool lies_well = is_aligned_to_16(input);
  const Tensor logits = lies_well ? input : torch::stable::clone(input);
  const bool overwrites = place == GradientPlace::OVER_LOGITS;
  static_assert(sizeof(XentCounts) == 2 * sizeof(double));
  const Tensor slots = torch::stable::new_empty(logits, {xent_slots(device) + 2}, ScalarType::Double);
  double* const of_counts = mutable_ptr<double>(slots);
  XentArguments arguments{};
  arguments.logits = logits.const_data_ptr();
  arguments.dlogits = place == GradientPlace::NOWHERE ? nullptr : (overwrites ? logits : results.dlogits).mutable_data_ptr();
  arguments.targets = const_ptr<int64_t>(targets);
  arguments.weight = scalar_of(weight), arguments.expected = scalar_of(expected);
  arguments.losses = mutable_ptr<float>(results.losses), arguments.lse = mutable_ptr<float>(results.lse);
  arguments.total = mutable_ptr<float>(results.total), arguments.mean = mutable_ptr<float>(results.mean);
  arguments.stats = mutable_ptr<double>(results.stats);
  arguments.slots = of_counts + 2, arguments.counts = reinterpret_cast<XentCounts*>(of_counts);
  arguments.z_loss = z_loss, arguments.ignore_index = ignore_index;
  arguments.rows = logits.size(0), arguments.columns = int(logits.size(1));
  launch_xent(arguments, element_of(logits.scalar_type()), device, stream_of(logits));
  if (overwrites && !lies_well) {
    Tensor over = input;
    torch::stable::copy_(over, logits);
  }
  return results;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> softmax_xent(
    const Tensor& logits, const Tensor& targets, const Optional& weight, const Optional& expected, double z_loss,
    int64_t ignore_index, bool wants_gradient) {
  const GradientPlace place = wants_gradient ? GradientPlace::ASIDE : GradientPlace::NOWHERE;
  return computed("softmax_xent", logits, targets, weight, expected, z_loss, ignore_index, place).with_gradient();
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> softmax_xent_(Tensor logits, const Tensor& targets, const Optional& weight,
                                                                 const Optional& expected, double z_loss, int64_t ignore_index) {
  return computed("softmax_xent_", logits, targets, weight, expected, z_loss, ignore_index, GradientPlace::OVER_LOGITS)
      .without_gradient();
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
  m.impl("softmax_xent_", TORCH_BOX(&sentinel::softmax_xent_));
  m.impl("scale_", TORCH_BOX(&sentinel::scale_));
}
