// Lists of tensors cut into chunks, for both libraries; does not include torch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace sentinel {

// Elements of a chunk. Each has a slot for its statistics, and the slots of a tensor are added in their order, so sums have the
// same bits whichever thread works on which chunk. 8192 elements are 229 KB of traffic for a slot of 32 bytes.
inline constexpr int64_t CHUNK = 8192;

// Blocks that add up the slots of one tensor on a GPU, at most, and slots that are worth one: as many as a block reads in the time
// that two take to meet. The emulated kernels take fewer, so that a test can have a tensor of several parts.
#if !defined(SENTINEL_PART_SLOTS)
#define SENTINEL_PART_SLOTS 8192
#endif
inline constexpr int SUM_PARTS = 8;
inline constexpr int64_t PART_SLOTS = SENTINEL_PART_SLOTS;

// The chunks of several tensors, numbered through: tensor t has those from before[t] up to before[t + 1].
struct Chunks {
  std::vector<int64_t> sizes;  // of each tensor, in elements
  std::vector<int64_t> before{0};

  explicit Chunks(std::vector<int64_t> elements) : sizes(std::move(elements)) {
    before.reserve(sizes.size() + 1);
    for (const int64_t size : sizes) before.push_back(before.back() + size / CHUNK + (size % CHUNK != 0));
  }

  int64_t rows() const { return static_cast<int64_t>(sizes.size()); }
  int64_t count() const { return before.back(); }
  // Rows of `columns` doubles: a slot for each chunk, a sum for each part of each tensor, and a counter of 4 bytes for each tensor.
  int64_t slot_rows(int64_t columns) const {
    return count() + rows() * SUM_PARTS + (rows() * 4 + columns * 8 - 1) / (columns * 8);
  }
  // Of the tensors from `begin` up to `end`. 2^32 of them are 2^45 elements.
  uint32_t between(int64_t begin, int64_t end) const { return static_cast<uint32_t>(before[end] - before[begin]); }

  // Which tensor has this chunk: the last that begins at or before it, since those before it may be empty.
  size_t tensor_of(int64_t chunk) const { return std::upper_bound(before.begin(), before.end(), chunk) - before.begin() - 1; }

  // Calls body(chunk, tensor, first element, elements) for each chunk of a range.
  template <typename Body>
  void each(int64_t begin, int64_t end, const Body& body) const {
    size_t tensor = tensor_of(begin);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      while (chunk >= before[tensor + 1]) ++tensor;
      const int64_t first = (chunk - before[tensor]) * CHUNK;
      body(chunk, tensor, first, std::min(CHUNK, sizes[tensor] - first));
    }
  }
};

}  // namespace sentinel
