// grad_stats on the CPU: one pass over each gradient (grad_stats.h: the fast pass and the exact one).
#include "../grad_stats.h"

#include "../tensor_lists.h"
#include "lanes.h"

namespace sentinel {
namespace {

constexpr int64_t GRAIN = 4;  // chunks, below which a second thread costs more than it brings

// The fast pass over up to BLOCK elements, its float32 sum widened to double.
GradStats fast_stats(const float* from, int64_t count, float scale) {
  Floats squares = {};
  Words largest = {};
  const int64_t whole = count - count % LANES;
  for (int64_t at = 0; at < whole; at += LANES) {
    const Floats values = lanes_at<Floats>(from + at) * scale;
    squares += values * values;
    const Words magnitudes = words_of(values) & 0x7fffffffu;
    largest = magnitudes > largest ? magnitudes : largest;
  }
  FastStats rest{};
  for (int64_t at = whole; at < count; ++at) rest.add(from[at] * scale);
  return GradStats{sum_of(squares) + double(rest.squares), larger(largest_of(largest), rest.largest), 0};
}

template <typename T>
GradStats block_stats(const T* from, int64_t count, float scale) {
  float widened[BLOCK];
  const float* values = widened;
  if constexpr (std::is_same_v<T, float>) {
    values = from;
  } else {
    for (int64_t at = 0; at < count; ++at) widened[at] = float(from[at]);
  }
  const GradStats fast = fast_stats(values, count, scale);
  if (is_trusted(fast.squares, fast.largest)) return fast;
  GradStats exact{};
  for (int64_t at = 0; at < count; ++at) exact.add(values[at] * scale);
  return exact;
}

Stats chunk_stats(const Tensor& grad, int64_t start, int64_t count, float scale) {
  Stats stats;
  by_dtype(grad.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = const_ptr<T>(grad) + start;
    for (int64_t at = 0; at < count; at += BLOCK) {
      const GradStats block = block_stats(from + at, std::min(BLOCK, count - at), scale);
      stats.add(Stats{block.squares, double(of_bits(block.largest)), double(block.nonfinite)});
    }
  });
  return stats;
}

Tensor grad_stats(std::vector<Tensor> grads, Tensor inv_scale) {
  check_grad_stats(grads, inv_scale);
  const int64_t rows = static_cast<int64_t>(grads.size());
  Tensor out = torch::stable::new_zeros(inv_scale, {rows, 3}, ScalarType::Double);
  const Chunks chunks = chunks_of(grads);
  if (chunks.count() == 0) return out;
  const float scale = *const_ptr<float>(inv_scale);
  std::vector<Stats> slots(chunks.count());
  torch::stable::parallel_for(0, chunks.count(), GRAIN, [&](int64_t begin, int64_t end) {
    chunks.each(begin, end, [&](int64_t chunk, size_t tensor, int64_t start, int64_t count) {
      slots[chunk] = chunk_stats(grads[tensor], start, count, scale);
    });
  });
  for (int64_t row = 0; row < rows; ++row) {
    Stats stats;
    for (int64_t chunk = chunks.before[row]; chunk < chunks.before[row + 1]; ++chunk) stats.add(slots[chunk]);
    stats.write(mutable_ptr<double>(out) + 3 * row);
  }
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sentinel, CPU, m) { m.impl("grad_stats", TORCH_BOX(&grad_stats)); }

}  // namespace sentinel
