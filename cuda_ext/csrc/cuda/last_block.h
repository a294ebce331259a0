// By which counter the blocks of a launch find out which of them ends last (last_block.cuh).
#pragma once

namespace sentinel::norm {

// One counter per stream: kernels of one stream follow each other, and the last block leaves it at zero.
inline constexpr int STREAMS = 256;

struct Counter {
  unsigned* own = nullptr;  // zeroed for this launch alone; null: the stream's
  int stream = 0;
};

}  // namespace sentinel::norm
