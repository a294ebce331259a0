// adamw_step on the CPU: a block of each tensor goes through the first-level cache once, is changed and measured there.
#include "../adamw_step.h"

#include "../tensor_lists.h"
#include "lanes.h"

namespace sentinel {
namespace {

constexpr int64_t GRAIN = 2;  // chunks, below which a second thread costs more than it brings

// One tensor's pointers, at an element.
struct Place {
  float* param;
  float* first;
  float* second;
};

// Changes up to BLOCK elements; `updates` gets what each parameter was changed by.
void advance(const Rates& rates, float keep, const Place& place, const float* gradients, int64_t count, float* updates) {
  float* __restrict param = place.param;
  float* __restrict first = place.first;
  float* __restrict second = place.second;
  const Rates same = rates;  // nothing that is written can be part of it
  for (int64_t at = 0; at < count; ++at) {
    const float before = param[at];
    const State next = advanced(same, keep, State{before, first[at], second[at]}, gradients[at]);
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
Advance advance_chunk(const Rates& rates, float keep, const Place& start, const Grad* grads, int64_t elements) {
  Advance told{};
  float updates[BLOCK], widened[BLOCK];
  for (int64_t at = 0; at < elements; at += BLOCK) {
    const int64_t count = std::min(BLOCK, elements - at);
    const Place place{start.param + at, start.first + at, start.second + at};
    if (rates.applies) {
      const float* gradients = widened;
      if constexpr (std::is_same_v<Grad, float>) {
        gradients = grads + at;
      } else {
        for (int64_t each = 0; each < count; ++each) widened[each] = float(grads[at + each]);
      }
      advance(rates, keep, place, gradients, count, updates);
    }
    if constexpr (TELLS) {
      if (rates.applies) told.updates += squares_of(updates, count);
      told.params += squares_of(place.param, count);
      told.seconds += squares_of(place.second, count);
      told.largest = larger(told.largest, largest_in(place.second, count));
    }
  }
  return told;
}

Tensor adamw_step(std::vector<Tensor> params, std::vector<Tensor> grads, std::vector<Tensor> exp_avgs,
                  std::vector<Tensor> exp_avg_sqs, Tensor step, Tensor control, std::vector<double> decays) {
  check_adamw(params, grads, exp_avgs, exp_avg_sqs, step, control, decays);
  const int64_t rows = static_cast<int64_t>(params.size());
  Tensor out = torch::stable::new_zeros(control, {rows, 4}, ScalarType::Double);
  const Rates rates = rates_of(read<double>(control), *read<float>(step));
  const Chunks chunks = chunks_of(params);
  std::vector<Advance> slots(chunks.count());
  torch::stable::parallel_for(0, chunks.count(), GRAIN, [&](int64_t begin, int64_t end) {
    chunks.each(begin, end, [&](int64_t chunk, size_t tensor, int64_t first, int64_t count) {
      const Place place{write<float>(params[tensor]) + first, write<float>(exp_avgs[tensor]) + first,
                        write<float>(exp_avg_sqs[tensor]) + first};
      const float keep = rates.keep(float(decays[tensor]));
      const Tensor& grad = grads[tensor];
      slots[chunk] = grad.scalar_type() == ScalarType::Float
                         ? advance_chunk(rates, keep, place, read<float>(grad) + first, count)
                         : advance_chunk(rates, keep, place, read<BFloat16>(grad) + first, count);
    });
  });
  for (int64_t row = 0; row < rows; ++row) {
    Advance told{};
    for (int64_t chunk = chunks.before[row]; chunk < chunks.before[row + 1]; ++chunk) told.add(slots[chunk]);
    told.write(write<double>(out) + 4 * row);
  }
  if (rates.applies) *write<float>(step) += 1.0f;
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sentinel, CPU, m) { m.impl("adamw_step", TORCH_BOX(&adamw_step)); }

}  // namespace sentinel
