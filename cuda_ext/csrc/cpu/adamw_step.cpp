// adamw_step on the CPU: each block of a tensor is updated and measured while it is in the L1 cache.
#include "../adamw_step.h"

#include "../tensor_lists.h"
#include "lanes.h"

namespace sentinel {
namespace {

constexpr int64_t GRAIN = 2;  // chunks, below which a second thread costs more than it brings

// One tensor's pointers, at an element.
struct StatePointers {
  float* param;
  float* first;
  float* second;
};

// Updates up to BLOCK elements; `updates` receives the change of each parameter.
void update_block(const StepScalars& scalars, float decay_factor, const StatePointers& state, const float* gradients, int64_t count,
                  float* updates) {
  float* __restrict param = state.param;
  float* __restrict first = state.first;
  float* __restrict second = state.second;
  const StepScalars copied = scalars;  // a local copy cannot alias what is written
  for (int64_t at = 0; at < count; ++at) {
    const float before = param[at];
    const ElementState next = updated(copied, decay_factor, ElementState{before, first[at], second[at]}, gradients[at]);
    param[at] = next.param;
    first[at] = next.first;
    second[at] = next.second;
    updates[at] = next.param - before;
  }
}

double squares_of(const float* from, int64_t count) {
  Doubles low = {}, high = {};
  const int64_t whole = count - count % LANES;
  for (int64_t at = 0; at < whole; at += LANES) {
    const Doubles one = __builtin_convertvector(lanes_at<HalfFloats>(from + at), Doubles);
    const Doubles other = __builtin_convertvector(lanes_at<HalfFloats>(from + at + LANES / 2), Doubles);
    low += one * one;
    high += other * other;
  }
  double sum = sum_of(low) + sum_of(high);
  for (int64_t at = whole; at < count; ++at) sum += double(from[at]) * double(from[at]);
  return sum;
}

uint32_t largest_in(const float* from, int64_t count) {
  Words largest = {};
  const int64_t whole = count - count % LANES;
  for (int64_t at = 0; at < whole; at += LANES) {
    const Words magnitudes = lanes_at<Words>(from + at) & 0x7fffffffu;
    largest = magnitudes > largest ? magnitudes : largest;
  }
  uint32_t found = largest_of(largest);
  for (int64_t at = whole; at < count; ++at) found = larger(found, magnitude_of(from[at]));
  return found;
}

template <typename Grad>
StepStats update_chunk(const StepScalars& scalars, float decay_factor, const StatePointers& start, const Grad* grads,
                       int64_t elements) {
  StepStats stats{};
  float updates[BLOCK], widened[BLOCK];
  for (int64_t at = 0; at < elements; at += BLOCK) {
    const int64_t count = std::min(BLOCK, elements - at);
    const StatePointers state{start.param + at, start.first + at, start.second + at};
    if (scalars.applies) {
      const float* gradients = widened;
      if constexpr (std::is_same_v<Grad, float>) {
        gradients = grads + at;
      } else {
        for (int64_t each = 0; each < count; ++each) widened[each] = float(grads[at + each]);
      }
      update_block(scalars, decay_factor, state, gradients, count, updates);
    }
    if constexpr (STATISTICS) {
      if (scalars.applies) stats.updates += squares_of(updates, count);
      stats.params += squares_of(state.param, count);
      stats.seconds += squares_of(state.second, count);
      stats.largest = larger(stats.largest, largest_in(state.second, count));
    }
  }
  return stats;
}

Tensor adamw_step(std::vector<Tensor> params, std::vector<Tensor> grads, std::vector<Tensor> exp_avgs,
                  std::vector<Tensor> exp_avg_sqs, Tensor step, Tensor control, std::vector<double> decays) {
  check_adamw(params, grads, exp_avgs, exp_avg_sqs, step, control, decays);
  const int64_t rows = static_cast<int64_t>(params.size());
  Tensor out = torch::stable::new_zeros(control, {rows, 4}, ScalarType::Double);
  const StepScalars scalars = scalars_of(const_ptr<double>(control), *const_ptr<float>(step));
  const Chunks chunks = chunks_of(params);
  std::vector<StepStats> slots(chunks.count());
  torch::stable::parallel_for(0, chunks.count(), GRAIN, [&](int64_t begin, int64_t end) {
    chunks.each(begin, end, [&](int64_t chunk, size_t tensor, int64_t first, int64_t count) {
      const StatePointers state{mutable_ptr<float>(params[tensor]) + first, mutable_ptr<float>(exp_avgs[tensor]) + first,
                                mutable_ptr<float>(exp_avg_sqs[tensor]) + first};
      const float decay_factor = scalars.decay_factor(float(decays[tensor]));
      const Tensor& grad = grads[tensor];
      slots[chunk] = grad.scalar_type() == ScalarType::Float
                         ? update_chunk(scalars, decay_factor, state, const_ptr<float>(grad) + first, count)
                         : update_chunk(scalars, decay_factor, state, const_ptr<BFloat16>(grad) + first, count);
    });
  });
  for (int64_t row = 0; row < rows; ++row) {
    StepStats stats{};
    for (int64_t chunk = chunks.before[row]; chunk < chunks.before[row + 1]; ++chunk) stats.add(slots[chunk]);
    stats.write(mutable_ptr<double>(out) + 4 * row);
  }
  if (scalars.applies) *mutable_ptr<float>(step) += 1.0f;
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sentinel, CPU, m) { m.impl("adamw_step", TORCH_BOX(&adamw_step)); }

}  // namespace sentinel
