// Many tensors in one call, for both libraries: how they are cut into chunks, and what is refused.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tensors.h"

namespace sentinel {

// Elements of a chunk. Each has a slot of its own for what is told of it, and the slots of a tensor are added up in their order:
// so sums are the same bits whoever works on which chunk, and when. 8192 elements are 229 KB of traffic for 32 bytes of a slot.
inline constexpr int64_t CHUNK = 8192;

inline constexpr int64_t CONTROLS = 7;  // of adamw_step

inline int64_t chunks_in(int64_t elements) { return elements / CHUNK + (elements % CHUNK != 0); }

// The chunks of several tensors, numbered through: tensor t has those from before[t] up to before[t + 1].
struct Chunks {
  std::vector<int64_t> before{0};

  explicit Chunks(const std::vector<Tensor>& tensors) {
    before.reserve(tensors.size() + 1);
    for (const Tensor& tensor : tensors) before.push_back(before.back() + chunks_in(tensor.numel()));
  }

  int64_t rows() const { return static_cast<int64_t>(before.size()) - 1; }
  int64_t count() const { return before.back(); }
  // Of the tensors from `begin` up to `end`. 2^32 of them are 2^45 elements.
  uint32_t between(int64_t begin, int64_t end) const { return static_cast<uint32_t>(before[end] - before[begin]); }

  // Which tensor has this chunk: the last that begins at or before it, since those before it may be empty.
  size_t tensor_of(int64_t chunk) const { return std::upper_bound(before.begin(), before.end(), chunk) - before.begin() - 1; }
};

// Calls body(tensor, first element, elements) for each chunk of a range.
template <typename Body>
void for_chunks(const Chunks& chunks, const std::vector<Tensor>& tensors, int64_t begin, int64_t end, const Body& body) {
  size_t tensor = chunks.tensor_of(begin);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    while (chunk >= chunks.before[tensor + 1]) ++tensor;
    const int64_t first = (chunk - chunks.before[tensor]) * CHUNK;
    body(chunk, tensor, first, std::min(CHUNK, tensors[tensor].numel() - first));
  }
}

inline std::string numbered(const char* argument, size_t number) {
  return std::string(argument) + "[" + std::to_string(number) + "]";
}

inline bool is_beside(const Tensor& tensor, const Tensor& like) {
  return tensor.is_cuda() == like.is_cuda() && tensor.get_device_index() == like.get_device_index();
}

inline void check_filled(const Tensor& tensor, ScalarType wanted, int64_t elements, const char* op, const char* argument) {
  check_dtype(tensor, wanted, op, argument);
  check_size(tensor, elements, op, argument);
}

// What the ops refuse, on either device.
inline void check_grad_stats(const std::vector<Tensor>& grads, const Tensor& inv_scale) {
  const char* op = "grad_stats";
  check_filled(inv_scale, ScalarType::Float, 1, op, "inv_scale");
  for (size_t number = 0; number < grads.size(); ++number) {
    const Tensor& grad = grads[number];
    if (is_floating(grad.scalar_type()) && grad.is_contiguous() && is_beside(grad, inv_scale)) continue;
    const std::string name = numbered("grads", number);
    check_floating(grad, op, name.c_str());
    check_device(grad, inv_scale, op, name.c_str());
  }
}

inline void check_adamw(const std::vector<Tensor>& params, const std::vector<Tensor>& grads, const std::vector<Tensor>& exp_avgs,
                        const std::vector<Tensor>& exp_avg_sqs, const Tensor& step, const Tensor& control,
                        const std::vector<double>& decays) {
  const char* op = "adamw_step";
  check_filled(control, ScalarType::Double, CONTROLS, op, "control");
  check_filled(step, ScalarType::Float, 1, op, "step");
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
      const bool is_taken = type == ScalarType::Float || (tensors == &grads && type == ScalarType::BFloat16);
      if (is_taken && tensor.is_contiguous() && tensor.numel() == params[number].numel() && is_beside(tensor, control)) continue;
      const std::string name = numbered(argument, number);
      const char* taken = tensors == &grads ? "float32, bfloat16" : "float32";
      if (!is_taken) refuse(op, name.c_str(), "dtype ", name_of(type), ", must be one of ", taken);
      check_dtype(tensor, type, op, name.c_str());
      check_device(tensor, control, op, name.c_str());
      check_size(tensor, params[number].numel(), op, name.c_str());
    }
  }
}

}  // namespace sentinel
