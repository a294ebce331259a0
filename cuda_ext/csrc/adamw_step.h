// AdamW's arithmetic for one element, and the scalars of a step that all elements share. As torch's fused kernel: decoupled
// weight decay first.
#pragma once

#include "host_device.h"

namespace sentinel {

// The scalars of one update. Computed in double once per block, used in float32.
struct StepScalars {
  bool applies;  // false: the update changes not one bit
  float grad_factor;  // gradients are multiplied by it
  float lerp_weight;  // of the step from the first moment towards the gradient, or back from the gradient if that is nearer
  bool from_moment;
  float beta2, one_minus_beta2;
  float step_size, root_correction, eps;
  double lr_decay;

  SENTINEL_HD float decay_factor(float decay) const { return float(1.0 - lr_decay * double(decay)); }
};

// `control`: lr, beta1, beta2, eps, weight_decay, grad_factor, gate. `count`: updates applied before this one.
SENTINEL_HD StepScalars scalars_of(const double* control, float count) {
  const double lr = control[0], beta1 = control[1], beta2 = control[2], steps = double(count) + 1.0;
  const float grad_factor = float(control[5]), one_minus_beta1 = float(1.0 - beta1);
  StepScalars scalars;
  scalars.applies = control[6] == 0.0 && is_finite(grad_factor);
  scalars.grad_factor = grad_factor;
  scalars.from_moment = one_minus_beta1 < 0.5f;
  scalars.lerp_weight = scalars.from_moment ? one_minus_beta1 : one_minus_beta1 - 1.0f;
  scalars.beta2 = float(beta2);
  scalars.one_minus_beta2 = float(1.0 - beta2);
  scalars.step_size = float(lr / (1.0 - pow(beta1, steps)));
  scalars.root_correction = float(1.0 / sqrt(1.0 - pow(beta2, steps)));
  scalars.eps = float(control[3]);
  scalars.lr_decay = lr * control[4];
  return scalars;
}

// Every product and sum is rounded by itself: nvcc fuses some of them and others not, even within a kernel. So an update gives the
// same bits on every device and at every memory alignment.
SENTINEL_HD float mul_rn(float one, float other) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(one, other);
#else
  return one * other;
#endif
}

SENTINEL_HD float add_rn(float one, float other) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(one, other);
#else
  return one + other;
#endif
}

struct ElementState {
  float param, first, second;  // the parameter and its two moments
};

// `decay_factor`: what a parameter is multiplied by for weight decay.
SENTINEL_HD ElementState updated(const StepScalars& scalars, float decay_factor, const ElementState& state, float gradient) {
  const float scaled = mul_rn(gradient, scalars.grad_factor);
  const float from = scalars.from_moment ? state.first : scaled;
  ElementState next;
  next.first = add_rn(from, mul_rn(scalars.lerp_weight, add_rn(scaled, -state.first)));
  next.second = add_rn(mul_rn(state.second, scalars.beta2), mul_rn(mul_rn(scalars.one_minus_beta2, scaled), scaled));
  const float root = add_rn(mul_rn(sqrtf(next.second), scalars.root_correction), scalars.eps);
  next.param = add_rn(mul_rn(state.param, decay_factor), -(mul_rn(scalars.step_size, next.first) / root));
  return next;
}

// Statistics of a part of a tensor. Sums are in double: Adam's second moments are squares already, and they are squared again.
struct StepStats {
  double updates, params, seconds;
  uint32_t largest;  // magnitude_of the largest second moment; they are never negative

  SENTINEL_HD void add(float update, float param, float second) {
    if constexpr (!STATISTICS) return;
    updates += double(update) * double(update);
    params += double(param) * double(param);
    seconds += double(second) * double(second);
    largest = larger(largest, magnitude_of(second));
  }

  SENTINEL_HD void add(const StepStats& other) {
    updates += other.updates;
    params += other.params;
    seconds += other.seconds;
    largest = larger(largest, other.largest);
  }

  SENTINEL_HD void write(double* out) const {
    out[0] = updates;
    out[1] = params;
    out[2] = seconds;
    out[3] = double(of_bits(largest));
  }
};

}  // namespace sentinel
