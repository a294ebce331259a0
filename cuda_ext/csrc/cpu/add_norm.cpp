// add_norm on a CPU. A row is widened to float32 once, into a buffer that stays in the L1 cache, and read from there.
#include <algorithm>
#include <memory>

#include "../add_norm.h"
#include "../add_norm_arguments.h"
#include "lanes.h"
#include "narrowing.h"

namespace sentinel::norm {
namespace {

// Threads take parts of the work. The parts depend on the shape alone and are summed in their order, so the number of threads
// changes no bit. body(part, buffer): `buffer` is the thread's, of `floats` uninitialised elements.
template <typename Body>
void for_parts(int64_t parts, int64_t floats, const Body& body) {
  torch::stable::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<float[]> buffer(new float[floats]);
    for (int64_t part = begin; part < end; ++part) body(part, buffer.get());
  });
}

struct Shape {
  int64_t width, rows, rows_per_part;

  int64_t parts() const { return (rows + rows_per_part - 1) / rows_per_part; }
  int64_t begin(int64_t part) const { return part * rows_per_part; }
  int64_t end(int64_t part) const { return std::min(rows, (part + 1) * rows_per_part); }
};

template <typename T>
struct ForwardRows {
  const T *x, *residual;  // residual may be null, h with it
  T *y, *h;
  float *mean, *rstd;  // mean is null for RMSNorm
  const float *weight, *bias;
  float eps;
};

// x + residual, rounded to what is stored. Loops of one purpose each: all become vectors, and the row stays in the L1 cache.
template <typename T>
SENTINEL_INLINE void add_rows(const T* __restrict x, const T* __restrict residual, T* __restrict h, int64_t n) {
  for (int64_t j = 0; j < n; ++j) h[j] = narrow<T>(widen(x[j]) + widen(residual[j]));
}

// The row in float32: itself, or widened into the buffer.
SENTINEL_INLINE const float* widened_row(const float* stored, float*, int64_t) { return stored; }
template <typename T>
SENTINEL_INLINE const float* widened_row(const T* __restrict stored, float* __restrict buffer, int64_t n) {
  for (int64_t j = 0; j < n; ++j) buffer[j] = widen(stored[j]);
  return buffer;
}

// The row's statistics, and its sum.
SENTINEL_INLINE RowStats row_stats(const float* row, int64_t n, float& sum) {
  Floats sums{}, squares{};
  Ints largest{};
  for (int64_t j = 0; j < n; j += LANES) {
    Floats values;
    load_lanes(values, row, j, n, 0.0f);
    sums += values;
    squares += values * values;
    if constexpr (STATISTICS) {
      const Ints magnitudes = (Ints)values & 0x7fffffff;
      largest = magnitudes > largest ? magnitudes : largest;
    }
  }
  sum = pairwise_sum(sums);
  uint32_t top = 0;
  for (int lane = 0; lane < LANES; ++lane) top = larger(uint32_t(largest[lane]), top);
  RowStats stats{pairwise_sum(squares), of_bits(top), 0};
  if (top >= INFINITY_BITS)
    for (int64_t j = 0; j < n; ++j) stats.nonfinite += is_finite(row[j]) ? 0u : 1u;
  return stats;
}

SENTINEL_INLINE float squares_around(float mean, const float* row, int64_t n) {
  Floats squares{};
  for (int64_t j = 0; j < n; j += LANES) {
    Floats deviation;
    load_lanes(deviation, row, j, n, mean);
    deviation -= mean;
    squares += deviation * deviation;
  }
  return pairwise_sum(squares);
}

template <typename T>
Stats forward_part(const Shape& shape, const ForwardRows<T>& args, float* buffer, int64_t part) {
  Stats stats;
  const int64_t n = shape.width;
  const float *__restrict weight = args.weight, *__restrict bias = args.bias;
  for (int64_t r = shape.begin(part); r < shape.end(part); ++r) {
    float sum, mean = 0.0f;
    if (args.residual != nullptr) add_rows(args.x + r * n, args.residual + r * n, args.h + r * n, n);
    const float* __restrict row = widened_row(args.residual != nullptr ? args.h + r * n : args.x + r * n, buffer, n);
    const RowStats of_row = row_stats(row, n, sum);
    stats.add(of_row);
    float squares = of_row.squares;
    if (args.mean != nullptr) {
      args.mean[r] = mean = sum / float(n);
      squares = squares_around(mean, row, n);
    }
    const float rstd = args.rstd[r] = rstd_of(squares / float(n), args.eps);
    T* __restrict y = args.y + r * n;
    for (int64_t j = 0; j < n; ++j) y[j] = narrow<T>(scaled(normed(row[j], mean, rstd), weight[j], bias[j]));
  }
  return stats;
}

template <typename T>
struct BackwardRows {
  const T *dy, *dh, *h;      // dh may be null
  const float *mean, *rstd;  // mean is null for RMSNorm
  const float* weight;
  T* dx;
};

// dx of the part's rows; their share of dweight and dbias is added to what those hold. `buffer` holds two rows.
template <typename T, bool BIAS>
void backward_part(const Shape& shape, const BackwardRows<T>& args, float* __restrict dweight,
                   float* __restrict dbias, float* buffer, int64_t part) {
  const int64_t n = shape.width;
  const float* __restrict weight = args.weight;
  float *__restrict gs = buffer, *__restrict norms = buffer + n;
  for (int64_t r = shape.begin(part); r < shape.end(part); ++r) {
    const T *__restrict dy = args.dy + r * n, *__restrict h = args.h + r * n;
    const float mean = args.mean ? args.mean[r] : 0.0f, rstd = args.rstd[r];
    for (int64_t j = 0; j < n; ++j) {
      const float upstream = widen(dy[j]), norm = normed(widen(h[j]), mean, rstd);
      gs[j] = upstream * weight[j];
      norms[j] = norm;
      dweight[j] += upstream * norm;
      if constexpr (BIAS) dbias[j] += upstream;
    }
    Floats sums{}, sums_normed{};
    for (int64_t j = 0; j < n; j += LANES) {
      Floats g, norm;
      load_lanes(g, gs, j, n, 0.0f);
      load_lanes(norm, norms, j, n, 0.0f);
      sums += g;
      sums_normed += g * norm;
    }
    const float average = args.mean ? pairwise_sum(sums) / float(n) : 0.0f, average_normed = pairwise_sum(sums_normed) / float(n);
    T* __restrict dx = args.dx + r * n;
    if (args.dh != nullptr) {
      const T* __restrict dh = args.dh + r * n;
      for (int64_t j = 0; j < n; ++j)
        dx[j] = narrow<T>(gradient(gs[j], norms[j], average, average_normed, rstd) + widen(dh[j]));
    } else {
      for (int64_t j = 0; j < n; ++j) dx[j] = narrow<T>(gradient(gs[j], norms[j], average, average_normed, rstd));
    }
  }
}

// The columns [begin, end) summed over the parts, in their order.
template <typename W>
void sum_parts(const float* shares, int64_t parts, int64_t width, int64_t begin, int64_t end, W* out) {
  for (int64_t j = begin; j < end; ++j) {
    double sum = 0.0;
    for (int64_t part = 0; part < parts; ++part) sum += double(shares[part * width + j]);
    out[j] = narrow<W>(float(sum));
  }
}

void sum_shares(const std::vector<float>& shares, int64_t parts, int64_t width, const Tensor& out) {
  constexpr int64_t COLUMNS = 1024;
  by_dtype(out.scalar_type(), [&](auto zero) {
    using W = decltype(zero);
    for_parts((width + COLUMNS - 1) / COLUMNS, 0, [&](int64_t part, float*) {
      sum_parts<W>(shares.data(), parts, width, part * COLUMNS, std::min(width, (part + 1) * COLUMNS), mutable_ptr<W>(out));
    });
  });
}

std::vector<float> widened(const Tensor& tensor) {
  std::vector<float> wide(tensor.numel());
  by_dtype(tensor.scalar_type(), [&](auto zero) {
    const auto* from = const_ptr<decltype(zero)>(tensor);
    for (size_t j = 0; j < wide.size(); ++j) wide[j] = widen(from[j]);
  });
  return wide;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> add_norm(const Tensor& x, const Optional& residual, const Tensor& weight,
                                                            const Optional& bias, double eps, bool rms) {
  const Forward results = forward_of(x, residual, weight, bias, rms);
  const Shape shape{results.width, results.rows, std::max<int64_t>(1, 16384 / results.width)};
  const std::vector<float> wide_weight = widened(weight), wide_bias = bias ? widened(*bias) : std::vector<float>(results.width);
  std::vector<Stats> stats(shape.parts());
  by_dtype(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const ForwardRows<T> args{const_ptr<T>(x),
                              residual ? const_ptr<T>(*residual) : nullptr,
                              mutable_ptr<T>(results.y),
                              residual ? mutable_ptr<T>(results.h) : nullptr,
                              rms ? nullptr : mutable_ptr<float>(results.mean),
                              mutable_ptr<float>(results.rstd),
                              wide_weight.data(),
                              wide_bias.data(),
                              float(eps)};
    for_parts(shape.parts(), results.width,
              [&](int64_t part, float* buffer) { stats[part] = forward_part<T>(shape, args, buffer, part); });
  });
  Stats sum;
  for (const Stats& part : stats) sum.add(part);
  sum.write(mutable_ptr<double>(results.stats));
  return results.as_tuple();
}

std::tuple<Tensor, Tensor, Tensor> add_norm_backward(const Tensor& dy, const Optional& dh, const Tensor& h, const Tensor& weight,
                                                     const Tensor& mean, const Tensor& rstd, bool rms, bool has_bias) {
  const Backward results = backward_of(dy, dh, h, weight, mean, rstd, rms, has_bias);
  // At most 64 parts of at least 16 rows: summing their shares stays a sixteenth of the work.
  const int64_t parts = std::clamp<int64_t>(results.rows / 16, 1, 64);
  const Shape shape{results.width, results.rows, std::max<int64_t>(1, (results.rows + parts - 1) / parts)};
  const std::vector<float> wide_weight = widened(weight);
  std::vector<float> dweights(shape.parts() * results.width), dbiases(has_bias ? dweights.size() : 0);
  by_dtype(h.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const BackwardRows<T> args{const_ptr<T>(dy), dh ? const_ptr<T>(*dh) : nullptr, const_ptr<T>(h),
                               rms ? nullptr : const_ptr<float>(mean), const_ptr<float>(rstd), wide_weight.data(),
                               mutable_ptr<T>(results.dx)};
    for_parts(shape.parts(), 2 * results.width, [&](int64_t part, float* buffer) {
      float* dweight = dweights.data() + part * results.width;
      if (has_bias) backward_part<T, true>(shape, args, dweight, dbiases.data() + part * results.width, buffer, part);
      else backward_part<T, false>(shape, args, dweight, nullptr, buffer, part);
    });
  });
  sum_shares(dweights, shape.parts(), results.width, results.dweight);
  if (has_bias) sum_shares(dbiases, shape.parts(), results.width, results.dbias);
  return results.as_tuple();
}

}  // namespace
}  // namespace sentinel::norm

STABLE_TORCH_LIBRARY_IMPL(sentinel, CPU, m) {
  m.impl("add_norm", TORCH_BOX(&sentinel::norm::add_norm));
  m.impl("add_norm_backward", TORCH_BOX(&sentinel::norm::add_norm_backward));
}
