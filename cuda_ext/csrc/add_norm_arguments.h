// Arguments of add_norm checked and its results allocated, for both devices.
#pragma once

#include "tensors.h"

namespace sentinel::norm {


inline void check_like(const Tensor& tensor, const Tensor& x, const char* op, const char* argument) {
  check_dtype(tensor, x.scalar_type(), op, argument);
  check_size(tensor, x.numel(), op, argument);
  check_device(tensor, x, op, argument);
}

inline void check_weight(const Tensor& weight, const Tensor& x, int64_t width, const char* op, const char* argument) {
  if (weight.scalar_type() != ScalarType::Float) check_dtype(weight, x.scalar_type(), op, argument);
  check_dtype(weight, weight.scalar_type(), op, argument);
  check_size(weight, width, op, argument);
  check_device(weight, x, op, argument);
}

inline int64_t width_of(const Tensor& x, const char* op, const char* argument) {
  check_floating(x, op, argument);
  if (x.dim() < 1 || x.size(x.dim() - 1) < 1) refuse(op, argument, "must have a last dimension of at least 1");
  return x.size(x.dim() - 1);
}

// Sums over rows: zero where there are no rows, since then no kernel writes them.
inline Tensor empty_or_zeros(const Tensor& like, int64_t count, int64_t rows, ScalarType type) {
  return rows == 0 ? torch::stable::new_zeros(like, {count}, type) : torch::stable::new_empty(like, {count}, type);
}

struct __attribute__((visibility("hidden"))) Forward {
  int64_t width, rows;
  Tensor y, h, mean, rstd, stats;

  std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> as_tuple() const { return {y, h, mean, rstd, stats}; }
};

inline Forward forward_of(const Tensor& x, const Optional& residual, const Tensor& weight, const Optional& bias, bool rms) {
  constexpr const char* op = "add_norm";
  const int64_t width = width_of(x, op, "x"), rows = x.numel() / width;
  if (residual) check_like(*residual, x, op, "residual");
  check_weight(weight, x, width, op, "weight");
  if (bias) {
    check_dtype(*bias, weight.scalar_type(), op, "bias");
    check_weight(*bias, x, width, op, "bias");
  }
  using torch::stable::new_empty;
  return {width,
          rows,
          new_empty(x, x.sizes()),
          residual ? new_empty(x, x.sizes()) : new_empty(x, {0}),
          new_empty(x, {rms ? 0 : rows}, ScalarType::Float),
          new_empty(x, {rows}, ScalarType::Float),
          empty_or_zeros(x, 3, rows, ScalarType::Double)};
}

struct __attribute__((visibility("hidden"))) Backward {
  int64_t width, rows;
  Tensor dx, dweight, dbias;

  std::tuple<Tensor, Tensor, Tensor> as_tuple() const { return {dx, dweight, dbias}; }
};

inline Backward backward_of(const Tensor& dy, const Optional& dh, const Tensor& h, const Tensor& weight, const Tensor& mean,
                            const Tensor& rstd, bool rms, bool has_bias) {
  constexpr const char* op = "add_norm_backward";
  const int64_t width = width_of(h, op, "h"), rows = h.numel() / width;
  check_like(dy, h, op, "dy");
  if (dh) check_like(*dh, h, op, "dh");
  check_weight(weight, h, width, op, "weight");
  check_dtype(mean, ScalarType::Float, op, "mean");
  check_size(mean, rms ? 0 : rows, op, "mean");
  check_dtype(rstd, ScalarType::Float, op, "rstd");
  check_size(rstd, rows, op, "rstd");
  check_device(mean, h, op, "mean");
  check_device(rstd, h, op, "rstd");
  return {width, rows, torch::stable::new_empty(h, h.sizes()), empty_or_zeros(weight, width, rows, weight.scalar_type()),
          empty_or_zeros(weight, has_bias ? width : 0, rows, weight.scalar_type())};
}

}  // namespace sentinel::norm
