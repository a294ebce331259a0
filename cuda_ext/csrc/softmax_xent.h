// The arithmetic of softmax_xent: cross-entropy, its gradient and their statistics, for one row of logits and over rows.
#pragma once

#include "host_device.h"
#if defined(__CUDACC__) || defined(__CUDA_ARCH__)
#include "cuda/ptx.cuh"
#endif

#include <cstring>

namespace sentinel {

inline constexpr float LOWEST_EXPONENT = -87.33654f;  // ln 2^-126: below it e^x is no normal float32

// e^x for x ≤ 0, all that a softmax needs; 0 below LOWEST_EXPONENT, NaN for NaN. On the CPU within 2 ulp, without a branch or a
// call, so that a loop over it is vectorised: x = n·ln 2 + r, |r| ≤ ln 2 / 2, e^r by a polynomial fitted at Chebyshev nodes. On
// the GPU the special function unit: |x| / 2 + 2 ulp, of a number that is then summed or rounded to the logits' dtype.
SENTINEL_HD float exp_below(float x) {
#if defined(__CUDA_ARCH__)
  return power_of_two(x * 1.44269504f);
#else
  constexpr float ROUND = 12582912.0f;       // 1.5 · 2^23: adding it rounds to a whole number, in the low bits
  constexpr float LN2_HIGH = 0.693359375f;   // 9 bits: n times it is exact
  constexpr float LN2_LOW = -2.12194442e-4f;
  const float shifted = x * 1.44269502f + ROUND;
  const float n = shifted - ROUND;
  const float r = (x - n * LN2_HIGH) - n * LN2_LOW;
  float p = 1.392621347e-3f;
  p = p * r + 8.363202972e-3f;
  p = p * r + 4.166655444e-2f;
  p = p * r + 1.666657685e-1f;
  p = p * r + 0.5f;
  uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127u) << 23;  // 2^n
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  float power = (1.0f + (r + r * r * p)) * scale;
  std::memcpy(&bits, &power, sizeof bits);
  bits &= x < LOWEST_EXPONENT ? 0u : ~0u;  // a mask, not a choice of values, which a compiler may turn into a branch
  std::memcpy(&power, &bits, sizeof power);
  return power;
#endif
}

SENTINEL_HD float not_a_number() {
#if defined(__CUDA_ARCH__)
  return __int_as_float(0x7fc00000);
#else
  return NAN;
#endif
}

SENTINEL_HD float negative_infinity() {
#if defined(__CUDA_ARCH__)
  return __int_as_float(0xff800000);
#else
  return -INFINITY;
#endif
}

// A row's largest logit (NaN where one is), and Σ e^(logit − largest): of a part of a row, of parts put together, of the whole.
struct Softmax {
  float largest = negative_infinity();
  float sum = 0.0f;

  // What to subtract before exp: −∞ − −∞ would be NaN while a later part of the row may still be finite.
  SENTINEL_HD float shift() const { return largest == negative_infinity() ? 0.0f : largest; }

  SENTINEL_HD void raise_to(float larger_logit) {
    if (larger_logit == largest) return;
    sum = largest == negative_infinity() ? 0.0f : sum * exp_below(largest - larger_logit);
    largest = larger_logit;
  }
};

// The caller's settings: how rows make the total.
struct LossSettings {
  float weight;    // of each token in the total
  float expected;  // the upstream gradient of the total, so that a gradient in float16 is scaled before it is rounded
  double z_loss;
  int64_t ignore_index;
};

// A whole row. Its gradient is slope · e^(logit − largest), less pull at the target; zero, whatever the logits, where not counted.
struct Row {
  float lse, loss, slope, pull;
  bool counted;
  bool outside;  // the target is no column: loss and gradient NaN, never a read out of bounds
};

SENTINEL_HD bool is_column(int64_t target, int64_t columns) { return target >= 0 && target < columns; }

SENTINEL_HD Row finish_row(Softmax softmax, float at_target, int64_t target, int64_t columns, const LossSettings& settings) {
  Row row;
  row.counted = target != settings.ignore_index;
  row.outside = row.counted && !is_column(target, columns);
  const float sum = is_finite(softmax.largest) ? softmax.sum : not_a_number();  // NaN, +∞, or nothing but −∞: no softmax
  const float log_sum = logf(sum);
  row.lse = softmax.largest + log_sum;
  row.loss = !row.counted ? 0.0f : row.outside ? not_a_number() : log_sum - (at_target - softmax.largest);
  row.pull = row.outside ? not_a_number() : settings.weight * settings.expected;
  row.slope = row.pull * float(1.0 + 2.0 * settings.z_loss * double(row.lse)) / sum;
  return row;
}

// Over rows, in double and in a fixed order.
struct Totals {
  double total = 0.0;
  double largest = negative_infinity();  // of all logits; NaN where one is
  double nonfinite = 0.0;                // logits that are not finite, and targets that are no column
  double losses = 0.0;                   // the last two over the rows counted
  double squares = 0.0;                  // of the log-sum-exp

  SENTINEL_HD void add(const Row& row, const LossSettings& settings, float largest_logit, double nonfinite_logits) {
    Totals one;
    one.largest = double(largest_logit);
    one.nonfinite = nonfinite_logits + (row.outside ? 1.0 : 0.0);
    if (row.counted) {
      one.losses = double(row.loss);
      one.squares = double(row.lse) * double(row.lse);
      one.total = double(settings.weight) * (one.losses + settings.z_loss * one.squares);
    }
    add(one);
  }

  SENTINEL_HD void add(const Totals& other) {
    total += other.total;
    largest = (other.largest != other.largest || other.largest > largest) ? other.largest : largest;
    nonfinite += other.nonfinite;
    losses += other.losses;
    squares += other.squares;
  }

  SENTINEL_HD void write(float* sum, double* stats) const {
    *sum = float(total);
    stats[0] = largest;
    stats[1] = nonfinite;
    stats[2] = losses;
    stats[3] = squares;
  }
};

}  // namespace sentinel
