// softmax_xent on CUDA: a row is read once and stays in shared memory until its gradient is written. Persistent blocks loop over
// rows; the place of a chunk that is done is filled with the next row's at once, so that reads run while gradients are written.
#include "launches.h"

#include <algorithm>

#include "softmax_xent.cuh"

namespace sentinel {
namespace {

constexpr const char* OP = "softmax_xent";
constexpr int BLOCK = 512;  // threads of a block on a row, or on a part of one
constexpr int TOTAL_DOUBLES = sizeof(Totals) / sizeof(double);
constexpr int WARP_BLOCK = 256;
constexpr int WARP_SLOTS = 8;    // chunks per lane where a warp takes a whole row
constexpr int MAX_BLOCKS = 32;   // that any multiprocessor runs at once
constexpr size_t STATIC_SHARED = 5120;  // shared memory that a kernel here and the system take, at most

struct KernelArguments : XentArguments {
  int parts;  // blocks on a row: a cluster
  int chunks_per_thread;
};

template <typename T, int TEAM, bool RESIDENT>
__global__ void __launch_bounds__(TEAM == 32 ? WARP_BLOCK : TEAM, TEAM == 32 ? 4 : 2) xent_kernel(const KernelArguments args) {
  extern __shared__ uint4 staged[];
  constexpr int TEAMS = TEAM == 32 ? WARP_BLOCK / 32 : 1;
  __shared__ RowPart exchanges[2][TEAM == 32 ? 1 : MAX_PARTS * TEAM / 32];
  __shared__ double totals_of_teams[TEAMS * TOTAL_DOUBLES];  // a type with a constructor cannot be shared
  Totals* const totals = reinterpret_cast<Totals*>(totals_of_teams);
  const int team = TEAM == 32 ? int(threadIdx.x) / 32 : 0;
  const int part = int(blockIdx.x) % args.parts;
  const int worker = TEAM == 32 ? int(threadIdx.x) % 32 : part * TEAM + int(threadIdx.x);
  const T* const logits = static_cast<const T*>(args.logits);
  T* const out = static_cast<T*>(args.dlogits);
  const ThreadChunks<T, RESIDENT> chunks{logits, staged + threadIdx.x, worker, TEAM * args.parts, args.chunks_per_thread};
  const LossSettings settings{*args.weight, *args.expected, args.z_loss, args.ignore_index};
  const int64_t stride = int64_t(gridDim.x) / args.parts * TEAMS;
  int64_t row = int64_t(blockIdx.x) / args.parts * TEAMS + team;
  if (worker == 0) totals[team] = Totals{};
#if __CUDA_ARCH__ >= 900
  if (args.parts > 1) cluster_sync();  // no block may write to another before that one runs
#endif
  Span<T> span(logits, row < args.rows ? row : 0, args.columns);
  if (RESIDENT && row < args.rows) {
    const int batch = (args.chunks_per_thread + BATCHES - 1) / BATCHES;
    for (int b = 0; b < BATCHES; ++b) {
      for (int k = b * batch; k < min((b + 1) * batch, args.chunks_per_thread); ++k) chunks.prefetch(span, k);
      commit_copies();
    }
  }
  for (int turn = 0; row < args.rows; row += stride, turn ^= 1) {
    const int64_t target = args.targets[row];
    const int column = worker < span.edge_count ? span.edge_column(worker) : 0;
    const float edge = worker < span.edge_count ? to_float(logits[span.begin + column]) : 0.0f;
    const float at_target = worker == 0 && is_column(target, args.columns) ? to_float(logits[span.begin + target]) : 0.0f;
    const ThreadSoftmax thread = reduce_chunks(chunks, span, edge);
    uint32_t nonfinite = 0;
    if (STATISTICS && __any_sync(0xffffffffu, thread.poison != thread.poison)) nonfinite = count_nonfinite(chunks, span, edge);
    RowPart whole = reduce_warp(thread.softmax, nonfinite);
    if constexpr (TEAM > 32) whole = reduce_row<TEAM / 32>(whole, exchanges[turn], args.parts);
    const Row result = finish_row(Softmax{whole.largest, whole.sum}, at_target, target, args.columns, settings);
    const bool has_next = row + stride < args.rows;
    const Span<T> next(logits, has_next ? row + stride : row, args.columns);
    write_gradient(chunks, span, next, has_next, out, result, whole.largest, int(target));
    if (worker < span.edge_count) {
      const float gradient = result.slope * exp_below(edge - whole.largest) - (column == target ? result.pull : 0.0f);
      out[span.begin + column] = from_float<T>(result.counted ? gradient : 0.0f);
    }
    if (worker == 0) {
      args.losses[row] = result.loss;
      args.lse[row] = result.lse;
      totals[team].add(result, settings, whole.largest, double(whole.nonfinite));
    }
    span = next;
  }
  __syncthreads();
  if (threadIdx.x == 0 && part == 0) {
    Totals sum = totals[0];
    for (int other = 1; other < TEAMS; ++other) sum.add(totals[other]);
    reinterpret_cast<Totals*>(args.slots)[blockIdx.x / args.parts] = sum;
  }
}

constexpr int SUM_THREADS = 256;

__global__ void __launch_bounds__(SUM_THREADS) sum_totals(const double* slots, int count, float* total, double* stats) {
  __shared__ double room[SUM_THREADS * TOTAL_DOUBLES];
  Totals* const sums = reinterpret_cast<Totals*>(room);
  Totals sum;
  for (int i = threadIdx.x; i < count; i += SUM_THREADS) sum.add(reinterpret_cast<const Totals*>(slots)[i]);
  sums[threadIdx.x] = sum;
  for (int half = SUM_THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) sums[threadIdx.x].add(sums[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) sums[0].write(total, stats);
}

struct Device {
  int processors, major, shared, shared_of_block;
};

Device device_properties(int index) {
  Device device{};
  device.processors = attribute_of(OP, cudaDevAttrMultiProcessorCount, index);
  device.major = attribute_of(OP, cudaDevAttrComputeCapabilityMajor, index);
  device.shared = attribute_of(OP, cudaDevAttrMaxSharedMemoryPerMultiprocessor, index);
  device.shared_of_block = attribute_of(OP, cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  return device;
}

// Fewest blocks per row such that two fit on a multiprocessor, one reading while the other writes; else one; else 0.
int blocks_per_row(int chunks, const Device& device) {
  const size_t of_two = size_t(device.shared) / 2, of_one = size_t(device.shared_of_block);
  const int most = device.major >= 9 ? MAX_PARTS : 1;
  for (const size_t room : {of_two, of_one})
    for (int parts = 1; parts <= most; parts *= 2)
      if (size_t((chunks + BLOCK * parts - 1) / (BLOCK * parts)) * BLOCK * 16 + STATIC_SHARED <= room) return parts;
  return 0;
}

// Launches as many blocks as run at once; returns how many slots they fill, 0 where the device cannot run such clusters.
template <typename Kernel>
int launch(Kernel kernel, const KernelArguments& args, int threads, int teams, size_t shared, const Device& device,
           cudaStream_t stream) {
  // The maximum, not `shared`: another host thread may be about to launch the same kernel on a longer row.
  allow_shared(OP, function_of(kernel), device.shared_of_block - int(STATIC_SHARED));
  const LaunchShape one{dim3(args.parts), dim3(threads), shared, args.parts};
  int groups = args.parts > 1 ? resident_clusters(function_of(kernel), one)
                              : resident_blocks(OP, function_of(kernel), one) * device.processors;
  groups = int(std::min<int64_t>(groups, (args.rows + teams - 1) / teams));
  if (groups == 0) return 0;
  launch_kernel(OP, {dim3(unsigned(groups) * args.parts), dim3(threads), shared, args.parts}, stream, kernel, args);
  return groups;
}

template <typename T> int launch_for(KernelArguments args, const Device& device, cudaStream_t stream) {
  const int chunks = args.columns / PACKED<T>;
  args.parts = 1;
  args.chunks_per_thread = (chunks + 31) / 32;
  if (args.chunks_per_thread <= WARP_SLOTS)
    return launch(xent_kernel<T, 32, true>, args, WARP_BLOCK, WARP_BLOCK / 32, size_t(args.chunks_per_thread) * WARP_BLOCK * 16,
                  device, stream);
  args.parts = blocks_per_row(chunks, device);
  if (args.parts > 0) {
    args.chunks_per_thread = (chunks + BLOCK * args.parts - 1) / (BLOCK * args.parts);
    const size_t shared = size_t(args.chunks_per_thread) * BLOCK * 16;
    const int groups = launch(xent_kernel<T, BLOCK, true>, args, BLOCK, 1, shared, device, stream);
    if (groups > 0) return groups;
  }
  args.parts = 1;  // a row no cluster can hold is read twice
  args.chunks_per_thread = (chunks + BLOCK - 1) / BLOCK;
  return launch(xent_kernel<T, BLOCK, false>, args, BLOCK, 1, 0, device, stream);
}

// x · factor in place. The factor is on the device; where it is 1 every block returns having read only that.
constexpr int SCALE_BLOCK = 256;
constexpr int SCALE_BLOCKS = 8;  // per multiprocessor

template <typename T>
__global__ void __launch_bounds__(SCALE_BLOCK) scale_kernel(T* x, int64_t count, int head, const float* factor) {
  const float scale = *factor;
  if (scale == 1.0f) return;
  const int64_t worker = int64_t(blockIdx.x) * SCALE_BLOCK + threadIdx.x;
  const int64_t workers = int64_t(gridDim.x) * SCALE_BLOCK;
  const int64_t packs = (count - head) / PACKED<T>;
  Pack<T>* const body = reinterpret_cast<Pack<T>*>(x + head);
  for (int64_t i = worker; i < packs; i += workers) {
    Pack<T> pack;
    *reinterpret_cast<uint4*>(&pack) = *reinterpret_cast<const uint4*>(body + i);
#pragma unroll
    for (int k = 0; k < PACKED<T>; ++k) pack.element[k] = from_float<T>(to_float(pack.element[k]) * scale);
    *reinterpret_cast<uint4*>(body + i) = *reinterpret_cast<const uint4*>(&pack);
  }
  const int64_t edge_count = count - packs * PACKED<T>;
  if (worker < edge_count) {
    T* const edge = x + (worker < head ? worker : packs * PACKED<T> + worker);
    *edge = from_float<T>(to_float(*edge) * scale);
  }
}

}  // namespace

int64_t xent_slots(int device) {
  return int64_t(device_properties(device).processors) * MAX_BLOCKS * TOTAL_DOUBLES;
}

void launch_xent(const XentArguments& arguments, Element element, float* total, double* stats, int device, cudaStream_t stream) {
  const Device found = device_properties(device);
  int groups = 0;
  by_element(element, [&](auto zero) { groups = launch_for<decltype(zero)>(KernelArguments{arguments, 1, 0}, found, stream); });
  if (groups == 0) throw std::runtime_error("softmax_xent: the device runs no block of the kernel");
  launch_kernel(OP, {1, SUM_THREADS}, stream, sum_totals, static_cast<const double*>(arguments.slots), groups, total, stats);
}

void launch_scale(void* x, int64_t count, Element element, const float* factor, int device, cudaStream_t stream) {
  const int processors = attribute_of("scale_", cudaDevAttrMultiProcessorCount, device);
  by_element(element, [&](auto zero) {
    using T = decltype(zero);
    const int over = int(reinterpret_cast<uintptr_t>(x) % 16 / sizeof(T));
    const int head = int(std::min<int64_t>((PACKED<T> - over) % PACKED<T>, count));
    const int64_t wanted = (count / PACKED<T> + SCALE_BLOCK) / SCALE_BLOCK;
    const int blocks = int(std::min<int64_t>(wanted, int64_t(processors) * SCALE_BLOCKS));
    launch_kernel("scale_", {dim3(unsigned(blocks)), SCALE_BLOCK}, stream, scale_kernel<T>, static_cast<T*>(x), count, head, factor);
  });
}

}  // namespace sentinel
