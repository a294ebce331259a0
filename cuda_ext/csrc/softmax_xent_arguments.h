// Arguments of softmax_xent and scale_ checked and results allocated, for both devices.
#pragma once

#include "tensors.h"

namespace sentinel {

struct __attribute__((visibility("hidden"))) XentResults {  // as its members are
  Tensor total, losses, lse, dlogits, stats, mean;

  std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> with_gradient() const {
    return {total, losses, lse, dlogits, stats, mean};
  }
  std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> without_gradient() const { return {total, losses, lse, stats, mean}; }
};

// Where a row's gradient goes.
enum class GradientPlace { NOWHERE, ASIDE, OVER_LOGITS };

inline void check_scalar(const Tensor& tensor, const Tensor& like, const char* op, const char* argument) {
  check_dtype(tensor, ScalarType::Float, op, argument);
  check_size(tensor, 1, op, argument);
  check_device(tensor, like, op, argument);
}

inline void check_xent(const char* op, const Tensor& logits, const Tensor& targets, const Optional& weight, const Optional& expected) {
  check_floating(logits, op, "logits");
  if (logits.dim() != 2) refuse(op, "logits", logits.dim(), " dimensions, must be 2: (tokens, vocabulary)");
  if (logits.size(1) < 1) refuse(op, "logits", "a vocabulary of ", logits.size(1), ", must be at least 1");
  if (logits.size(1) > INT32_MAX) refuse(op, "logits", "a vocabulary of ", logits.size(1), ", must be at most ", INT32_MAX);
  check_dtype(targets, ScalarType::Long, op, "targets");
  check_size(targets, logits.size(0), op, "targets");
  check_device(targets, logits, op, "targets");
  if (weight) check_scalar(*weight, logits, op, "weight");
  if (expected) check_scalar(*expected, logits, op, "expected");
}

inline XentResults empty_results(const Tensor& logits, GradientPlace place) {
  const int64_t rows = logits.size(0);
  return XentResults{
      torch::stable::new_empty(logits, {}, ScalarType::Float),
      torch::stable::new_empty(logits, {rows}, ScalarType::Float),
      torch::stable::new_empty(logits, {rows}, ScalarType::Float),
      place == GradientPlace::ASIDE         ? torch::stable::empty_like(logits)
      : place == GradientPlace::OVER_LOGITS ? logits
                                            : torch::stable::new_empty(logits, {0}),
      torch::stable::new_empty(logits, {4}, ScalarType::Double),
      torch::stable::new_empty(logits, {}, ScalarType::Float),
  };
}

// No rows: zeros rather than −∞, which cannot be plotted.
inline XentResults zero_results(XentResults results) {
  torch::stable::zero_(results.total);
  torch::stable::zero_(results.stats);
  torch::stable::zero_(results.mean);
  return results;
}

inline void check_scale(const Tensor& x, const Tensor& factor) {
  check_floating(x, "scale_", "x");
  check_scalar(factor, x, "scale_", "factor");
}

}  // namespace sentinel
