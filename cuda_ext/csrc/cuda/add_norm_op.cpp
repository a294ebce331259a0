// add_norm on CUDA, as torch calls it: checks, allocates, launches on torch's stream.
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <utility>

#include "../add_norm_arguments.h"
#include "launches.h"
#include "stream.h"

namespace sentinel::norm {
namespace {

const void* data_of(const Optional& tensor) { return tensor ? tensor->const_data_ptr() : nullptr; }

// Under capture the launch may be replayed on any stream, beside others: it gets a counter of its own, zeroed in the graph. So does
// each launch on the stream that is another one in every thread, and on a stream beyond those that there are counters for.
Counter counter_for(cudaStream_t stream, int device, const Tensor& like, Optional& own) {
  static std::mutex mutex;
  static std::map<std::pair<int, cudaStream_t>, int> numbers;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &status);
  if (status == cudaStreamCaptureStatusNone && stream != cudaStreamPerThread) {
    const std::lock_guard<std::mutex> held(mutex);
    const auto known = numbers.find({device, stream});
    if (known != numbers.end()) return {nullptr, known->second};
    const int next = static_cast<int>(numbers.size());
    if (next < STREAMS) return {nullptr, numbers[{device, stream}] = next};
  }
  own = torch::stable::new_zeros(like, {1}, ScalarType::Int);
  return {reinterpret_cast<unsigned*>(write<int32_t>(*own)), 0};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> add_norm(const Tensor& x, const Optional& residual, const Tensor& weight,
                                                            const Optional& bias, double eps, bool rms) {
  const Forward to = forward_of(x, residual, weight, bias, rms);
  const int device = x.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  if (to.rows == 0) return to.results();
  ForwardPointers given{};
  given.x = x.const_data_ptr(), given.residual = data_of(residual);
  given.weight = weight.const_data_ptr(), given.bias = data_of(bias);
  given.y = to.y.mutable_data_ptr(), given.h = residual ? to.h.mutable_data_ptr() : nullptr;
  given.mean = rms ? nullptr : write<float>(to.mean), given.rstd = write<float>(to.rstd);
  given.stats = write<double>(to.stats);
  given.rows = to.rows, given.width = to.width, given.eps = float(eps);
  given.element = element_of(x.scalar_type()), given.of_weight = element_of(weight.scalar_type());
  given.device = device, given.stream = stream_of(x);
  const Plan plan = norm::plan(given);
  const Tensor shares = torch::stable::new_empty(x, {int64_t(plan.blocks) * SHARE_DOUBLES}, ScalarType::Double);
  given.shares = write<double>(shares);
  Optional own;
  given.counter = counter_for(given.stream, device, x, own);
  launch(given, plan);
  return to.results();
}

std::tuple<Tensor, Tensor, Tensor> add_norm_backward(const Tensor& dy, const Optional& dh, const Tensor& h, const Tensor& weight,
                                                     const Tensor& mean, const Tensor& rstd, bool rms, bool has_bias) {
  const Backward to = backward_of(dy, dh, h, weight, mean, rstd, rms, has_bias);
  const int device = h.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  if (to.rows == 0) return to.results();
  BackwardPointers given{};
  given.dy = dy.const_data_ptr(), given.dh = data_of(dh), given.h = h.const_data_ptr(), given.weight = weight.const_data_ptr();
  given.mean = rms ? nullptr : read<float>(mean), given.rstd = read<float>(rstd);
  given.dx = to.dx.mutable_data_ptr(), given.dweight = to.dweight.mutable_data_ptr();
  given.dbias = has_bias ? to.dbias.mutable_data_ptr() : nullptr;
  given.rows = to.rows, given.width = to.width;
  given.element = element_of(h.scalar_type()), given.of_weight = element_of(weight.scalar_type());
  given.device = device, given.stream = stream_of(h);
  const Plan plan = norm::plan(given);
  const int64_t floats = plan.blocks * to.width;
  const Tensor slots = torch::stable::new_empty(h, {has_bias ? 2 * floats : floats}, ScalarType::Float);
  given.dweights = write<float>(slots), given.dbiases = has_bias ? given.dweights + floats : nullptr;
  launch(given, plan);
  return to.results();
}

}  // namespace
}  // namespace sentinel::norm

STABLE_TORCH_LIBRARY_IMPL(sentinel, CUDA, m) {
  m.impl("add_norm", TORCH_BOX(&sentinel::norm::add_norm));
  m.impl("add_norm_backward", TORCH_BOX(&sentinel::norm::add_norm_backward));
}
