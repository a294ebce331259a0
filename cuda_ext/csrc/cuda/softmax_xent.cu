// softmax_xent on CUDA: a row is read once and stays in shared memory until its gradient is written. Blocks loop over
// rows; the place of a chunk that is done is filled with the next row's at once, so that reads run while gradients are written.
#include "launches.h"

#include <algorithm>

#include "softmax_xent.cuh"

namespace sentinel {
namespace {

constexpr const char* OP = "softmax_xent";
constexpr int BLOCK = 256;       // threads of a block on a row, or on a part of one
constexpr int BLOCKS = 3;        // of them on a multiprocessor, where their shared memory allows it
constexpr int WAVES = 16;        // blocks launched for each that runs: processors differ in speed, and the fast take what is left
constexpr int TOTAL_DOUBLES = sizeof(Totals) / sizeof(double);
constexpr int WARP_BLOCK = 256;
constexpr int WARP_SLOTS = 8;    // chunks per lane where a warp takes a whole row
constexpr int MAX_BLOCKS = 32;   // launched for each multiprocessor, at most
constexpr size_t STATIC_SHARED = 5120;  // shared memory that a kernel here and the system take, at most

struct KernelArguments : XentArguments {
  int parts;              // blocks on a row: a cluster
  int segment;            // whole chunks of a row that a block has, at most
  int chunks_per_thread;  // at most
  int batch;              // of them, a multiple of GROUP
  unsigned groups;        // teams of blocks on a row each
};

// Counts the targets that are not ignored, before the logits are read: their share weighs each token. One block, which reads half a
// megabyte for 65,536 tokens.
constexpr int COUNT_THREADS = 1024;

__global__ void __launch_bounds__(COUNT_THREADS) count_targets(const int64_t* targets, int64_t rows, int64_t ignore_index,
                                                               XentCounts* counts) {
  __shared__ uint32_t warps[COUNT_THREADS / 32];
  uint32_t counted = 0;
#pragma unroll 8
  for (int64_t row = threadIdx.x; row < rows; row += COUNT_THREADS) counted += targets[row] != ignore_index ? 1u : 0u;
  counted = warp_sum(counted);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = counted;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  counted = warp_sum(warps[threadIdx.x]);
  if (threadIdx.x != 0) return;
  counts->counted = double(max(counted, 1u));
  counts->weight = 1.0f / float(max(counted, 1u));
  counts->finished = 0;
}

// Adds the groups' totals in their order, in the block that ends last. `room` holds a Totals for each of its threads.
template <int THREADS>
__device__ __noinline__ void write_totals(const KernelArguments& args) {
  __shared__ double room[THREADS / 32 * TOTAL_DOUBLES];
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(&args.counts->finished, 1u) == args.groups - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  Totals sum;
  for (unsigned group = threadIdx.x; group < args.groups; group += THREADS) {
    Totals other;
    double* const into = reinterpret_cast<double*>(&other);
#pragma unroll
    for (int i = 0; i < TOTAL_DOUBLES; ++i) into[i] = __ldcg(args.slots + int64_t(group) * TOTAL_DOUBLES + i);
    sum.add(other);
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    Totals other;
    other.total = __shfl_xor_sync(0xffffffffu, sum.total, offset);
    other.largest = __shfl_xor_sync(0xffffffffu, sum.largest, offset);
    other.nonfinite = __shfl_xor_sync(0xffffffffu, sum.nonfinite, offset);
    other.losses = __shfl_xor_sync(0xffffffffu, sum.losses, offset);
    other.squares = __shfl_xor_sync(0xffffffffu, sum.squares, offset);
    sum.add(other);
  }
  Totals* const warps = reinterpret_cast<Totals*>(room);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < THREADS / 32; ++warp) sum.add(warps[warp]);
  sum.write(args.total, args.stats);
  *args.mean = float(sum.losses / args.counts->counted);
}

template <typename T, int TEAM, bool RESIDENT>
__global__ void __launch_bounds__(TEAM == 32 ? WARP_BLOCK : TEAM, TEAM == 32 ? 4 : BLOCKS)
    xent_kernel(const __grid_constant__ KernelArguments args) {
  extern __shared__ uint4 staged[];
  constexpr int THREADS = TEAM == 32 ? WARP_BLOCK : TEAM, TEAMS = THREADS / TEAM;
  using Place = Span<T, TEAM>;
  __shared__ RowPart exchanges[2][TEAM == 32 ? 1 : MAX_PARTS * TEAM / 32];
  __shared__ double totals_of_teams[TEAMS * TOTAL_DOUBLES];  // a type with a constructor cannot be shared
  Totals* const totals = reinterpret_cast<Totals*>(totals_of_teams);
  const int team = int(threadIdx.x) / TEAM, thread = int(threadIdx.x) % TEAM;
  const int part = TEAM == 32 ? 0 : int(blockIdx.x) % args.parts;
  const bool leads = thread == 0 && part == 0;
  const T* const logits = static_cast<const T*>(args.logits);
  T* const out = static_cast<T*>(args.dlogits);
  const int first = part * args.segment;
  const ThreadChunks<T, TEAM, THREADS, RESIDENT> chunks{shared_place(staged + threadIdx.x), first + thread, args.chunks_per_thread, args.batch};
  const LossSettings settings{args.weight != nullptr ? *args.weight : args.counts->weight,
                              args.expected != nullptr ? *args.expected : 1.0f, args.z_loss, args.ignore_index};
  const int64_t stride = int64_t(args.groups) * TEAMS;
  int64_t row = int64_t(TEAM == 32 ? blockIdx.x : blockIdx.x / unsigned(args.parts)) * TEAMS + team;
  if (leads) totals[team] = Totals{};
#if __CUDA_ARCH__ >= 900
  if (TEAM > 32 && args.parts > 1) cluster_sync();  // no block may write to another before that one runs
#endif
  Place span(logits, row < args.rows ? row : 0, args.columns, first, args.segment, thread);
  if (RESIDENT && row < args.rows) {
    const uint4* const from = chunks.row(logits, span);
    for (int b = 0; b < BATCHES; ++b) {
      chunks.groups_of(b, args.chunks_per_thread,
                       [&](SharedPlace at, int k) { chunks.prefetch(at, from + k * TEAM, span.count - k); });
      commit_copies();
    }
  }
  for (int turn = 0; row < args.rows; row += stride, turn ^= 1) {
    const int64_t target = args.targets[row];
    const uint4* const from = chunks.row(logits, span);
    const bool has_edge = part == 0 && thread < span.edge_count;
    const int column = has_edge ? span.edge_column(thread) : 0;
    const float edge = has_edge ? to_float(logits[span.begin + column]) : 0.0f;
    // The thread whose chunk the target is in writes that gradient once more, less the pull.
    const int target_chunk = is_column(target, args.columns) && target >= span.head ? (int(target) - span.head) / Place::WIDTH : -1;
    const int behind = target_chunk - chunks.first;
    const bool has_target = target_chunk >= 0 && target_chunk < span.chunks && behind >= 0 && behind < args.segment - thread &&
                            behind % TEAM == 0;
    const float at_target =
        (has_target || leads) && is_column(target, args.columns) ? to_float(logits[span.begin + target]) : 0.0f;
    if constexpr (TEAM == 32) __syncwarp();  // the gradient may be written over the logits
    ThreadSoftmax<T> softmax = chunks.reduce(from, span.count);
    if (has_edge) softmax.add_edge(edge);
    uint32_t nonfinite = 0;
    if (STATISTICS && __any_sync(0xffffffffu, Word<T>::is_poisoned(softmax.poison))) {
      nonfinite = chunks.count_nonfinite(from, span.count);
      if (has_edge && !is_finite(edge)) ++nonfinite;
    }
    RowPart whole = reduce_warp(softmax.softmax(), nonfinite);
    if constexpr (TEAM > 32) whole = reduce_row<TEAM / 32>(whole, exchanges[turn], args.parts);
    const Row result = finish_row(Softmax{whole.largest, whole.sum}, at_target, target, args.columns, settings);
    const bool has_next = row + stride < args.rows;
    const Place next(logits, has_next ? row + stride : row, args.columns, first, args.segment, thread);
    const uint4* const next_from = chunks.row(logits, next);
    const int next_count = has_next ? next.count : 0;
    uint4* const to = out != nullptr ? const_cast<uint4*>(chunks.row(out, span)) : nullptr;
    const RowGradient<T> gradient(result, whole.largest);
    if (!result.counted) chunks.write(from, to, span.count, next_from, next_count, [](float) { return 0.0f; });
    else if (gradient.is_folded)
      chunks.write(from, to, span.count, next_from, next_count, [&](float x) { return gradient.folded(x); });
    else chunks.write(from, to, span.count, next_from, next_count, [&](float x) { return gradient.whole(x); });
    if (out != nullptr) {
      if (has_edge) {
        const float value = gradient.whole(edge) - (column == target ? result.pull : 0.0f);
        out[span.begin + column] = from_float<T>(result.counted ? value : 0.0f);
      }
      if (has_target && result.counted) out[span.begin + target] = from_float<T>(gradient.whole(at_target) - result.pull);
    }
    if (leads) {
      args.losses[row] = result.loss;
      args.lse[row] = result.lse;
      totals[team].add(result, settings, whole.largest, double(whole.nonfinite));
    }
    span = next;
  }
  if constexpr (TEAMS > 1) __syncthreads();
  if (part != 0) return;
  if (threadIdx.x == 0) {
    Totals sum = totals[0];
    for (int other = 1; other < TEAMS; ++other) sum.add(totals[other]);
    const double* const values = reinterpret_cast<const double*>(&sum);
    double* const slot = args.slots + int64_t(blockIdx.x / unsigned(args.parts)) * TOTAL_DOUBLES;
#pragma unroll
    for (int i = 0; i < TOTAL_DOUBLES; ++i) slot[i] = values[i];
  }
  write_totals<THREADS>(args);
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

// The blocks on a row with which a multiprocessor holds most of the logits, the fewest of these; 0 where none can hold its part.
// Measured at seven vocabularies from 32,000 to 256,000 (H100, LOG.md).
int blocks_per_row(int chunks, const Device& device) {
  const int parts_max = device.major >= 9 ? MAX_PARTS : 1;
  size_t most = 0;
  int best = 0;
  for (int parts = 1; parts <= parts_max; parts *= 2) {
    const size_t held = size_t((chunks + BLOCK * parts - 1) / (BLOCK * parts)) * BLOCK * 16;
    if (held + STATIC_SHARED > size_t(device.shared_of_block)) continue;
    const size_t at_once = std::min(size_t(BLOCKS), size_t(device.shared) / (held + STATIC_SHARED));
    if (at_once * held > most) most = at_once * held, best = parts;
  }
  return best;
}

// Launches WAVES times as many blocks as run at once; false where the device cannot run such clusters.
template <typename T, int TEAM, bool RESIDENT>
bool launch(KernelArguments args, int chunks_per_thread, const Device& device, cudaStream_t stream) {
  constexpr int THREADS = TEAM == 32 ? WARP_BLOCK : TEAM, TEAMS = THREADS / TEAM;
  const auto kernel = xent_kernel<T, TEAM, RESIDENT>;
  const size_t shared = RESIDENT ? size_t(chunks_per_thread) * THREADS * 16 : 0;
  args.chunks_per_thread = chunks_per_thread;
  args.batch = (chunks_per_thread + BATCHES * GROUP - 1) / (BATCHES * GROUP) * GROUP;
  // The maximum, not `shared`: another host thread may be about to launch the same kernel on a longer row.
  allow_shared(OP, function_of(kernel), device.shared_of_block - int(STATIC_SHARED),
               RESIDENT ? Divided::SHARED : Divided::CACHE);
  const LaunchShape one{dim3(args.parts), dim3(THREADS), shared, args.parts};
  const int at_once = args.parts > 1 ? resident_clusters(function_of(kernel), one)
                                     : resident_blocks(OP, function_of(kernel), one) * device.processors;
  const int64_t launched = std::min(WAVES * int64_t(at_once), int64_t(device.processors) * MAX_BLOCKS);  // a slot each
  args.groups = unsigned(std::min<int64_t>(launched, (args.rows + TEAMS - 1) / TEAMS));
  if (args.groups == 0) return false;
  launch_kernel(OP, {dim3(args.groups * unsigned(args.parts)), dim3(THREADS), shared, args.parts}, stream, kernel, args);
  return true;
}

template <typename T> bool launch_for(KernelArguments args, const Device& device, cudaStream_t stream) {
  const int chunks = args.columns / PACKED<T>;
  args.parts = 1, args.segment = chunks;
  const int of_lane = (chunks + 31) / 32;
  if (of_lane <= WARP_SLOTS) return launch<T, 32, true>(args, std::max(of_lane, 1), device, stream);
  const int parts = blocks_per_row(chunks, device);
  if (parts > 0) {
    args.parts = parts, args.segment = (chunks + parts - 1) / parts;
    if (launch<T, BLOCK, true>(args, (args.segment + BLOCK - 1) / BLOCK, device, stream)) return true;
  }
  args.parts = 1, args.segment = chunks;  // a row no cluster can hold is read twice
  return launch<T, BLOCK, false>(args, (chunks + BLOCK - 1) / BLOCK, device, stream);
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

void launch_xent(const XentArguments& arguments, Element element, int device, cudaStream_t stream) {
  const Device found = device_properties(device);
  launch_kernel(OP, {1, COUNT_THREADS}, stream, count_targets, arguments.targets, arguments.rows, arguments.ignore_index,
                arguments.counts);
  bool is_launched = false;
  by_element(element, [&](auto zero) { is_launched = launch_for<decltype(zero)>(KernelArguments{arguments}, found, stream); });
  if (!is_launched) throw std::runtime_error("softmax_xent: the device runs no block of the kernel");
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
