// What a group of the forward works on: its rows, and of each what a thread holds in registers.
#pragma once

#include "add_norm.cuh"
#include "last_block.cuh"
#include "words.cuh"

namespace sentinel::norm {

template <typename T>
struct Rows {
  const T *x, *residual;  // residual may be null, h with it
  T *y, *h;
  float *mean, *rstd;  // mean is null for RMSNorm
  Columns weight, bias;
  int64_t rows, width;
  int of_group, stages;  // Plan::rows and Plan::stages
  float inverse_width, eps;
  PartialStats* partials;
  Counter counter;
  double* stats;
};

// The rows of a group: `step` apart.
template <typename T>
struct OwnRows {
  int64_t begin, end, step;
  __device__ OwnRows(const Rows<T>& args, int group, int groups)
      : begin(args.of_group > 0 ? int64_t(group) * args.of_group : group),
        end(args.of_group > 0 ? min(args.rows, begin + args.of_group) : args.rows),
        step(args.of_group > 0 ? 1 : groups) {}
};

// PACKED<T> columns of weight or bias, in registers over all rows of a group: as they are, since as float32 they would take the
// registers of other blocks. Read again for every row they cost up to 4 % (H200, LOG.md).
template <typename T, typename W>
struct alignas(16) Kept {
  W element[PACKED<T>];
};
template <typename T, typename W>
__device__ __forceinline__ Kept<T, W> kept(const Columns& columns, int column, float fallback) {
  Kept<T, W> result;
  if (columns.data == nullptr) {
#pragma unroll
    for (int i = 0; i < PACKED<T>; ++i) result.element[i] = from_float<W>(fallback);
  } else {
    result = *reinterpret_cast<const Kept<T, W>*>(static_cast<const W*>(columns.data) + column);
  }
  return result;
}

// A pack of T by 32-bit words.
template <typename T>
struct alignas(16) Vector {
  static constexpr int WORDS = 4, EACH = Word<T>::ELEMENTS;
  uint32_t word[WORDS];

  template <typename Body>
  __device__ __forceinline__ void each(const Body& body) const {
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      float value[2];
      Word<T>::unpack(word[w], value);
#pragma unroll
      for (int i = 0; i < EACH; ++i) body(value[i], w * EACH + i);
    }
  }
};

}  // namespace sentinel::norm
