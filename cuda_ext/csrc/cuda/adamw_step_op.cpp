// adamw_step for CUDA tensors: checks, allocates, launches on torch's stream.
#include "../tensor_lists.h"
#include "launches.h"
#include "stream.h"

namespace sentinel {
namespace {

Tensor adamw_step(std::vector<Tensor> params, std::vector<Tensor> grads, std::vector<Tensor> exp_avgs,
                  std::vector<Tensor> exp_avg_sqs, Tensor step, Tensor control, std::vector<double> decays) {
  check_adamw(params, grads, exp_avgs, exp_avg_sqs, step, control, decays);
  const int64_t rows = static_cast<int64_t>(params.size());
  const Chunks chunks = chunks_of(params);
  const torch::stable::accelerator::DeviceGuard guard(control.get_device_index());
  const Tensor slots = torch::stable::new_empty(control, {chunks.slot_rows(4), 4}, ScalarType::Double);
  Tensor out = STATISTICS ? torch::stable::new_empty(control, {rows, 4}, ScalarType::Double)
                          : torch::stable::new_zeros(control, {rows, 4}, ScalarType::Double);
  std::vector<ParamState> tensors;
  tensors.reserve(params.size());
  for (size_t row = 0; row < params.size(); ++row) {
    const Element element = element_of(grads[row].scalar_type());
    tensors.push_back({mutable_ptr<float>(params[row]), grads[row].const_data_ptr(), mutable_ptr<float>(exp_avgs[row]),
                       mutable_ptr<float>(exp_avg_sqs[row]), static_cast<float>(decays[row]), element});
  }
  launch_adamw_step(chunks, tensors, const_ptr<double>(control), mutable_ptr<float>(step), mutable_ptr<double>(slots),
                    mutable_ptr<double>(out), control.get_device_index(), stream_of(control));
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sentinel, CUDA, m) { m.impl("adamw_step", TORCH_BOX(&adamw_step)); }

}  // namespace sentinel
