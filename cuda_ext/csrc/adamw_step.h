// AdamW's arithmetic for one element, and what of it is the same for all: as torch's fused kernel, decoupled decay first.
#pragma once

#include "host_device.h"

namespace sentinel {

// What an update needs beside the tensors. Computed in double once per block, used in float32.
struct Rates {
  bool applies;  // false: nothing is to be changed, not one bit
  float factor;  // on gradients
  float towards;  // how far the first moment goes to the gradient, from whichever of the two is nearer to where it arrives
  bool from_moment;
  float keep_second, square;
  float step_size, unbias_root, eps;
  double lr_decay;

  SENTINEL_HD float keep(float decay) const { return float(1.0 - lr_decay * double(decay)); }
};

// `control`: lr, beta1, beta2, eps, weight_decay, grad_factor, gate. `count`: updates applied before this one.
SENTINEL_HD Rates rates_of(const double* control, float count) {
  const double lr = control[0], beta1 = control[1], beta2 = control[2], number = double(count) + 1.0;
  const float factor = float(control[5]), weight = float(1.0 - beta1);
  Rates rates;
  rates.applies = control[6] == 0.0 && is_finite(factor);
  rates.factor = factor;
  rates.from_moment = weight < 0.5f;
  rates.towards = rates.from_moment ? weight : weight - 1.0f;
  rates.keep_second = float(beta2);
  rates.square = float(1.0 - beta2);
  rates.step_size = float(lr / (1.0 - pow(beta1, number)));
  rates.unbias_root = float(1.0 / sqrt(1.0 - pow(beta2, number)));
  rates.eps = float(control[3]);
  rates.lr_decay = lr * control[4];
  return rates;
}

// Rounded one by one: nvcc joins a product and a sum into one rounding where it likes, and elsewhere in the same kernel not. So
// an update is the same bits on every device, and wherever in memory a tensor begins.
SENTINEL_HD float times(float one, float other) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(one, other);
#else
  return one * other;
#endif
}

SENTINEL_HD float plus(float one, float other) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(one, other);
#else
  return one + other;
#endif
}

// Of one element.
struct State {
  float param, first, second;
};

// `keep`: what decay leaves of a parameter.
SENTINEL_HD State advanced(const Rates& rates, float keep, const State& now, float gradient) {
  const float scaled = times(gradient, rates.factor);
  const float from = rates.from_moment ? now.first : scaled;
  State next;
  next.first = plus(from, times(rates.towards, plus(scaled, -now.first)));
  next.second = plus(times(now.second, rates.keep_second), times(times(rates.square, scaled), scaled));
  const float root = plus(times(sqrtf(next.second), rates.unbias_root), rates.eps);
  next.param = plus(times(now.param, keep), -(times(rates.step_size, next.first) / root));
  return next;
}

// What is told of a part of a tensor: squares in double, because Adam's second moments are squares already.
struct Advance {
  double updates, params, seconds;
  uint32_t largest;  // magnitude_of of the second moments, which are never negative

  SENTINEL_HD void add(float update, float param, float second) {
    if constexpr (!TELLS) return;
    updates += double(update) * double(update);
    params += double(param) * double(param);
    seconds += double(second) * double(second);
    largest = larger(largest, magnitude_of(second));
  }

  SENTINEL_HD void add(const Advance& other) {
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
