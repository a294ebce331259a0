// softmax_xent and scale_ on the CPU: a row at a time, three loops over it while it is in the cache. A row's result depends on that
// row alone and the sums over rows are taken by one thread in order, so the number of threads changes no bit.
#include "../softmax_xent.h"
#include "../softmax_xent_arguments.h"
#include "narrowing.h"

#include <algorithm>

namespace sentinel {
namespace {

constexpr int64_t LANES = 64;    // sums kept side by side: a fixed order, whatever the width of the processor's vectors
constexpr int64_t CHUNK = 4096;  // summed in float32; chunks are summed in double
constexpr int64_t GRAIN = 32768; // elements worth a thread

struct RowSeen {
  float largest;
  int64_t nonfinite;
};

// The largest by comparing bits as whole numbers, which order as finite floats do: a reduction that is vectorised without licence
// to reorder floats. NaN orders anywhere, so a chunk that has something not finite is looked through again.
template <typename T>
RowSeen look(const T* x, float* wide, int64_t count) {
  RowSeen seen{negative_infinity(), 0};
  for (int64_t begin = 0; begin < count; begin += CHUNK) {
    const int64_t end = std::min(begin + CHUNK, count);
    int32_t top = INT32_MIN;
    int32_t nonfinite = 0;
    for (int64_t i = begin; i < end; ++i) {
      const float value = widen(x[i]);
      const int32_t bits = int32_t(bits_of(value));
      const int32_t ordered = bits ^ ((bits >> 31) & 0x7fffffff);
      top = ordered > top ? ordered : top;
      nonfinite += (bits & 0x7f800000) == 0x7f800000 ? 1 : 0;
      if constexpr (!std::is_same_v<T, float>) wide[i] = value;
    }
    float largest = of_bits(uint32_t(top ^ ((top >> 31) & 0x7fffffff)));
    if (nonfinite > 0)
      for (int64_t i = begin; i < end; ++i) largest = max_or_nan(widen(x[i]), i == begin ? negative_infinity() : largest);
    seen.largest = max_or_nan(largest, seen.largest);
    seen.nonfinite += nonfinite;
  }
  return seen;
}

// e^(x − largest) into `power` (may be x), and their sum.
double exponentials(const float* x, float* power, int64_t count, float largest) {
  double sum = 0.0;
  for (int64_t begin = 0; begin < count; begin += CHUNK) {
    const int64_t end = std::min(begin + CHUNK, count);
    for (int64_t i = begin; i < end; ++i) power[i] = exp_below(x[i] - largest);
    float lanes[LANES] = {};
    int64_t i = begin;
    for (; i + LANES <= end; i += LANES)
      for (int64_t k = 0; k < LANES; ++k) lanes[k] += power[i + k];
    for (int64_t k = 0; i + k < end; ++k) lanes[k] += power[i + k];
    for (int64_t half = LANES / 2; half > 0; half /= 2)
      for (int64_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
    sum += double(lanes[0]);
  }
  return sum;
}

template <typename T>
Row make_row(const T* x, T* out, float* wide, int64_t count, int64_t target, const Rule& rule, RowSeen* seen) {
  *seen = look(x, wide, count);
  float* power = wide;
  const float* from = wide;
  if constexpr (std::is_same_v<T, float>) {
    from = x;
    power = out;
  }
  const float at_target = is_column(target, count) ? widen(x[target]) : 0.0f;
  const double sum = exponentials(from, power, count, seen->largest);
  const Row row = finish(Softmax{seen->largest, float(sum)}, at_target, target, count, rule);
  if (!row.counted) {
    std::memset(static_cast<void*>(out), 0, size_t(count) * sizeof(T));
    return row;
  }
  const float there = row.outside ? 0.0f : row.slope * power[target] - row.pull;
  const float slope = row.slope;
  for (int64_t i = 0; i < count; ++i) out[i] = narrow<T>(slope * power[i]);
  if (!row.outside) out[target] = narrow<T>(there);
  return row;
}

template <typename T>
void scale_all(T* x, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) x[i] = narrow<T>(widen(x[i]) * factor);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> softmax_xent(
    const Tensor& logits, const Tensor& targets, const Tensor& weight, const Tensor& expected, double z_loss, int64_t ignore_index) {
  check_xent(logits, targets, weight, expected);
  const int64_t rows = logits.size(0);
  const int64_t columns = logits.size(1);
  XentResults results = empty_results(logits);
  if (rows == 0) return of_no_rows(results);
  const Rule rule{*read<float>(weight), *read<float>(expected), z_loss, ignore_index};
  std::vector<Row> made(rows);
  std::vector<RowSeen> seen(rows);
  const int64_t* target = read<int64_t>(targets);
  by_dtype(logits.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = read<T>(logits);
    T* out = write<T>(results.dlogits);
    torch::stable::parallel_for(0, rows, std::max<int64_t>(1, GRAIN / columns), [&](int64_t begin, int64_t end) {
      std::vector<float> wide(std::is_same_v<T, float> ? 0 : columns);
      for (int64_t row = begin; row < end; ++row)
        made[row] = make_row(x + row * columns, out + row * columns, wide.data(), columns, target[row], rule, &seen[row]);
    });
  });
  Totals totals;
  float* losses = write<float>(results.losses);
  float* lse = write<float>(results.lse);
  for (int64_t row = 0; row < rows; ++row) {
    losses[row] = made[row].loss;
    lse[row] = made[row].lse;
    totals.add(made[row], rule, seen[row].largest, double(seen[row].nonfinite));
  }
  totals.write(write<float>(results.total), write<double>(results.stats));
  return {results.total, results.losses, results.lse, results.dlogits, results.stats};
}

void scale_(Tensor x, const Tensor& factor) {
  check_scale(x, factor);
  const float by = *read<float>(factor);
  if (by == 1.0f || x.numel() == 0) return;
  by_dtype(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    T* elements = write<T>(x);
    torch::stable::parallel_for(0, x.numel(), GRAIN, [&](int64_t begin, int64_t end) { scale_all(elements + begin, end - begin, by); });
  });
}

}  // namespace
}  // namespace sentinel

STABLE_TORCH_LIBRARY_IMPL(sentinel, CPU, m) {
  m.impl("softmax_xent", TORCH_BOX(&sentinel::softmax_xent));
  m.impl("scale_", TORCH_BOX(&sentinel::scale_));
}
