// softmax_xent and scale_ on the CPU: a row at a time, three loops over it while it is in the cache. A row's result depends on that
// row alone, and one thread adds up the rows in order: the number of threads changes no bit.
#include "../softmax_xent.h"
#include "../softmax_xent_arguments.h"
#include "narrowing.h"

#include <algorithm>

namespace sentinel {
namespace {

constexpr int64_t LANES = 64;    // sums kept side by side: a fixed order, whatever the width of the processor's vectors
constexpr int64_t CHUNK = 4096;  // summed in float32; chunks are summed in double
constexpr int64_t GRAIN = 32768; // elements worth a thread

struct RowScan {
  float largest;
  int64_t nonfinite;
};

// The largest by comparing bits as whole numbers, which order as finite floats do: a reduction that is vectorised without licence
// to reorder floats. NaN has no order, so a chunk with a non-finite element is scanned again.
template <typename T>
RowScan scan_row(const T* x, float* wide, int64_t count) {
  RowScan scan{negative_infinity(), 0};
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
    scan.largest = max_or_nan(largest, scan.largest);
    scan.nonfinite += nonfinite;
  }
  return scan;
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

// `out` may be x, or null: no gradient is written. `wide` has room for a row of float32 unless x is that and `out` is not null.
template <typename T>
Row row_gradient(const T* x, T* out, float* wide, int64_t count, int64_t target, const LossSettings& settings, RowScan* scan) {
  *scan = scan_row(x, wide, count);
  float* power = wide;
  const float* from = wide;
  if constexpr (std::is_same_v<T, float>) {
    from = x;
    power = out != nullptr ? out : wide;
  }
  const float at_target = is_column(target, count) ? widen(x[target]) : 0.0f;
  const double sum = exponentials(from, power, count, scan->largest);
  const Row row = finish_row(Softmax{scan->largest, float(sum)}, at_target, target, count, settings);
  if (out == nullptr) return row;
  if (!row.counted) {
    std::memset(static_cast<void*>(out), 0, size_t(count) * sizeof(T));
    return row;
  }
  const float at_column = row.outside ? 0.0f : row.slope * power[target] - row.pull;
  const float slope = row.slope;
  for (int64_t i = 0; i < count; ++i) out[i] = narrow<T>(slope * power[i]);
  if (!row.outside) out[target] = narrow<T>(at_column);
  return row;
}

template <typename T>
void scale_all(T* x, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) x[i] = narrow<T>(widen(x[i]) * factor);
}

int64_t counted_of(const Tensor& targets, int64_t ignore_index) {
  const int64_t* target = const_ptr<int64_t>(targets);
  return std::max<int64_t>(1, targets.numel() - std::count(target, target + targets.numel(), ignore_index));
}

XentResults computed(const char* op, const Tensor& logits, const Tensor& targets, const Optional& weight, const Optional& expected,
                     double z_loss, int64_t ignore_index, GradientPlace place) {
  check_xent(op, logits, targets, weight, expected);
  const int64_t rows = logits.size(0);
  const int64_t columns = logits.size(1);
  const XentResults results = empty_results(logits, place);
  if (rows == 0) return zero_results(results);
  const int64_t counted = counted_of(targets, ignore_index);
  const LossSettings settings{weight ? *const_ptr<float>(*weight) : 1.0f / float(counted), expected ? *const_ptr<float>(*expected) : 1.0f,
                              z_loss, ignore_index};
  std::vector<Row> results_of_rows(rows);
  std::vector<RowScan> scans(rows);
  const int64_t* target = const_ptr<int64_t>(targets);
  by_dtype(logits.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = const_ptr<T>(logits);
    T* out = place == GradientPlace::NOWHERE ? nullptr : mutable_ptr<T>(results.dlogits);
    torch::stable::parallel_for(0, rows, std::max<int64_t>(1, GRAIN / columns), [&](int64_t begin, int64_t end) {
      std::vector<float> wide(std::is_same_v<T, float> && out != nullptr ? 0 : columns);
      for (int64_t row = begin; row < end; ++row)
        results_of_rows[row] = row_gradient(x + row * columns, out == nullptr ? nullptr : out + row * columns, wide.data(), columns,
                                            target[row], settings, &scans[row]);
    });
  });
  Totals totals;
  float* losses = mutable_ptr<float>(results.losses);
  float* lse = mutable_ptr<float>(results.lse);
  for (int64_t row = 0; row < rows; ++row) {
    losses[row] = results_of_rows[row].loss;
    lse[row] = results_of_rows[row].lse;
    totals.add(results_of_rows[row], settings, scans[row].largest, double(scans[row].nonfinite));
  }
  totals.write(mutable_ptr<float>(results.total), mutable_ptr<double>(results.stats));
  *mutable_ptr<float>(results.mean) = float(totals.losses / double(counted));
  return results;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> softmax_xent(
    const Tensor& logits, const Tensor& targets, const Optional& weight, const Optional& expected, double z_loss,
    int64_t ignore_index, bool wants_gradient) {
  const GradientPlace place = wants_gradient ? GradientPlace::ASIDE : GradientPlace::NOWHERE;
  return computed("softmax_xent", logits, targets, weight, expected, z_loss, ignore_index, place).with_gradient();
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> softmax_xent_(Tensor logits, const Tensor& targets, const Optional& weight,
                                                                 const Optional& expected, double z_loss, int64_t ignore_index) {
  return computed("softmax_xent_", logits, targets, weight, expected, z_loss, ignore_index, GradientPlace::OVER_LOGITS)
      .without_gradient();
}

void scale_(Tensor x, const Tensor& factor) {
  check_scale(x, factor);
  const float value = *const_ptr<float>(factor);
  if (value == 1.0f || x.numel() == 0) return;
  by_dtype(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    T* elements = mutable_ptr<T>(x);
    torch::stable::parallel_for(0, x.numel(), GRAIN,
                                [&](int64_t begin, int64_t end) { scale_all(elements + begin, end - begin, value); });
  });
}

}  // namespace
}  // namespace sentinel

STABLE_TORCH_LIBRARY_IMPL(sentinel, CPU, m) {
  m.impl("softmax_xent", TORCH_BOX(&sentinel::softmax_xent));
  m.impl("softmax_xent_", TORCH_BOX(&sentinel::softmax_xent_));
  m.impl("scale_", TORCH_BOX(&sentinel::scale_));
}
