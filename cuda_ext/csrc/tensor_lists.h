// Ops on lists of tensors (grad_stats, adamw_step), for both devices: chunks of tensors, and the checks of arguments.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "chunks.h"
#include "tensors.h"

namespace sentinel {

inline constexpr int64_t CONTROL_SIZE = 7;  // of adamw_step

inline Chunks chunks_of(const std::vector<Tensor>& tensors) {
  std::vector<int64_t> sizes;
  sizes.reserve(tensors.size());
  for (const Tensor& tensor : tensors) sizes.push_back(tensor.numel());
  return Chunks(std::move(sizes));
}

inline std::string indexed_name(const char* argument, size_t number) {
  return std::string(argument) + "[" + std::to_string(number) + "]";
}

inline bool on_same_device(const Tensor& tensor, const Tensor& like) {
  return tensor.is_cuda() == like.is_cuda() && tensor.get_device_index() == like.get_device_index();
}

inline void check_values(const Tensor& tensor, ScalarType expected, int64_t elements, const char* op, const char* argument) {
  check_dtype(tensor, expected, op, argument);
  check_size(tensor, elements, op, argument);
}

inline void check_grad_stats(const std::vector<Tensor>& grads, const Tensor& inv_scale) {
  const char* op = "grad_stats";
  check_values(inv_scale, ScalarType::Float, 1, op, "inv_scale");
  for (size_t number = 0; number < grads.size(); ++number) {
    const Tensor& grad = grads[number];
    if (is_floating(grad.scalar_type()) && grad.is_contiguous() && on_same_device(grad, inv_scale)) continue;
    const std::string name = indexed_name("grads", number);
    check_floating(grad, op, name.c_str());
    check_device(grad, inv_scale, op, name.c_str());
  }
}

inline void check_adamw(const std::vector<Tensor>& params, const std::vector<Tensor>& grads, const std::vector<Tensor>& exp_avgs,
                        const std::vector<Tensor>& exp_avg_sqs, const Tensor& step, const Tensor& control,
                        const std::vector<double>& decays) {
  const char* op = "adamw_step";
  check_values(control, ScalarType::Double, CONTROL_SIZE, op, "control");
  check_values(step, ScalarType::Float, 1, op, "step");
  check_device(step, control, op, "step");
  const std::pair<const char*, size_t> lengths[] = {
      {"grads", grads.size()}, {"exp_avgs", exp_avgs.size()}, {"exp_avg_sqs", exp_avg_sqs.size()}, {"decays", decays.size()}};
  for (const auto& [argument, length] : lengths)
    if (length != params.size()) refuse(op, argument, length, " of them, must be as many as params, ", params.size());
  const std::pair<const char*, const std::vector<Tensor>*> lists[] = {
      {"params", &params}, {"grads", &grads}, {"exp_avgs", &exp_avgs}, {"exp_avg_sqs", &exp_avg_sqs}};
  for (const auto& [argument, tensors] : lists) {
    for (size_t number = 0; number < params.size(); ++number) {
      const Tensor& tensor = (*tensors)[number];
      const ScalarType type = tensor.scalar_type();
      const bool is_accepted = type == ScalarType::Float || (tensors == &grads && type == ScalarType::BFloat16);
      if (is_accepted && tensor.is_contiguous() && tensor.numel() == params[number].numel() && on_same_device(tensor, control))
        continue;
      const std::string name = indexed_name(argument, number);
      const char* accepted = tensors == &grads ? "float32, bfloat16" : "float32";
      if (!is_accepted) refuse(op, name.c_str(), "dtype ", name_of(type), ", must be one of ", accepted);
      check_dtype(tensor, type, op, name.c_str());
      check_device(tensor, control, op, name.c_str());
      check_size(tensor, params[number].numel(), op, name.c_str());
    }
  }
}

}  // namespace sentinel
