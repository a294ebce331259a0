// add_norm for CUDA tensors: checks, allocates, launches on torch's stream.
#include <map>
#include <mutex>
#include <utility>

#include "../add_norm_arguments.h"
#include "launches.h"
#include "launching.cuh"
#include "stream.h"

namespace sentinel::norm {
namespace {

const void* data_of(const Optional& tensor) { return tensor ? tensor->const_data_ptr() : nullptr; }

// A captured launch may be replayed on any stream, beside others: it gets counters of its own, zeroed in the graph. So does each
// launch on the per-thread default stream, and on streams beyond the first STREAMS. Streams are told apart by the number that CUDA
// gives each once: a handle is given again when its stream is destroyed, and that stream's last kernels may still run beside it.
Counter counter_for(cudaStream_t stream, int device, const Tensor& like, Optional& counter_memory) {
  static std::mutex mutex;
  static std::map<std::pair<int, unsigned long long>, int> numbers;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "add_norm", "whether the stream is captured was not told");
  if (status == cudaStreamCaptureStatusNone && stream != cudaStreamPerThread) {
    unsigned long long id = 0;
    check(cudaStreamGetId(stream, &id), "add_norm", "the stream's number was not told");
    const std::lock_guard<std::mutex> guard(mutex);
    const auto known = numbers.find({device, id});
    if (known != numbers.end()) return {nullptr, known->second};
    const int next = static_cast<int>(numbers.size());
    if (next < STREAMS) return {nullptr, numbers[{device, id}] = next};
  }
  counter_memory = torch::stable::new_zeros(like, {COUNTERS}, ScalarType::Int);
  return {reinterpret_cast<unsigned*>(mutable_ptr<int32_t>(*counter_memory)), 0};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> add_norm(const Tensor& x, const Optional& residual, const Tensor& weight,
                                                            const Optional& bias, double eps, bool rms) {
  const Forward results = forward_of(x, residual, weight, bias, rms);
  const int device = x.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  if (results.rows == 0) return results.as_tuple();
  ForwardPointers pointers{};
  pointers.x = x.const_data_ptr(), pointers.residual = data_of(residual);
  pointers.weight = weight.const_data_ptr(), pointers.bias = data_of(bias);
  pointers.y = results.y.mutable_data_ptr(), pointers.h = residual ? results.h.mutable_data_ptr() : nullptr;
  pointers.mean = rms ? nullptr : mutable_ptr<float>(results.mean), pointers.rstd = mutable_ptr<float>(results.rstd);
  pointers.stats = mutable_ptr<double>(results.stats);
  pointers.rows = results.rows, pointers.width = results.width, pointers.eps = float(eps);
  pointers.element = element_of(x.scalar_type()), pointers.weight_element = element_of(weight.scalar_type());
  pointers.device = device, pointers.stream = stream_of(x);
  const Plan plan = norm::plan(pointers);
  const Tensor partials = torch::stable::new_empty(x, {partial_doubles(plan)}, ScalarType::Double);
  pointers.partials = mutable_ptr<double>(partials);
  Optional counter_memory;
  pointers.counter = counter_for(pointers.stream, device, x, counter_memory);
  launch(pointers, plan);
  return results.as_tuple();
}

std::tuple<Tensor, Tensor, Tensor> add_norm_backward(const Tensor& dy, const Optional& dh, const Tensor& h, const Tensor& weight,
                                                     const Tensor& mean, const Tensor& rstd, bool rms, bool has_bias) {
  const Backward results = backward_of(dy, dh, h, weight, mean, rstd, rms, has_bias);
  const int device = h.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  if (results.rows == 0) return results.as_tuple();
  BackwardPointers pointers{};
  pointers.dy = dy.const_data_ptr(), pointers.dh = data_of(dh);
  pointers.h = h.const_data_ptr(), pointers.weight = weight.const_data_ptr();
  pointers.mean = rms ? nullptr : const_ptr<float>(mean), pointers.rstd = const_ptr<float>(rstd);
  pointers.dx = results.dx.mutable_data_ptr(), pointers.dweight = results.dweight.mutable_data_ptr();
  pointers.dbias = has_bias ? results.dbias.mutable_data_ptr() : nullptr;
  pointers.rows = results.rows, pointers.width = results.width;
  pointers.element = element_of(h.scalar_type()), pointers.weight_element = element_of(weight.scalar_type());
  pointers.device = device, pointers.stream = stream_of(h);
  const Plan plan = norm::plan(pointers);
  const int64_t floats = plan.blocks * results.width;
  const Tensor slots = torch::stable::new_empty(h, {has_bias ? 2 * floats : floats}, ScalarType::Float);
  pointers.dweights = mutable_ptr<float>(slots), pointers.dbiases = has_bias ? pointers.dweights + floats : nullptr;
  launch(pointers, plan);
  return results.as_tuple();
}

}  // namespace
}  // namespace sentinel::norm

STABLE_TORCH_LIBRARY_IMPL(sentinel, CUDA, m) {
  m.impl("add_norm", TORCH_BOX(&sentinel::norm::add_norm));
  m.impl("add_norm_backward", TORCH_BOX(&sentinel::norm::add_norm_backward));
}
