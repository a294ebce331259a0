// softmax_xent on CUDA: a row is read once and stays in shared memory until its gradient is written. Blocks stay and take row after
// row; the place a chunk leaves is filled with the next row's at once, so that reads run while gradients are written.
#include "launches.h"

#include <algorithm>

#include "softmax_xent.cuh"

namespace sentinel {
namespace {

constexpr int BLOCK = 512;  // threads of a block on a row, or on a part of one
constexpr int WARP_BLOCK = 256;
constexpr int WARP_SLOTS = 8;   // chunks a lane holds where a warp takes a whole row
constexpr int MOST_BLOCKS = 32;  // that any processor runs at once
constexpr size_t STATIC_SHARED = 5120;  // what a kernel here and the system take of shared memory, at most

struct Job : XentArguments {
  int parts;  // blocks on a row: a cluster
  int held;   // chunks a thread holds
};

template <typename T, int TEAM, bool RESIDENT>
__global__ void __launch_bounds__(TEAM == 32 ? WARP_BLOCK : TEAM, TEAM == 32 ? 4 : 2) xent_kernel(const Job job) {
  extern __shared__ uint4 places[];
  constexpr int TEAMS = TEAM == 32 ? WARP_BLOCK / 32 : 1;
  __shared__ Part boards[2][TEAM == 32 ? 1 : MAX_PARTS * TEAM / 32];
  __shared__ alignas(Totals) unsigned char totals_of_teams[TEAMS * sizeof(Totals)];
  Totals* const totals = reinterpret_cast<Totals*>(totals_of_teams);
  const int team = TEAM == 32 ? int(threadIdx.x) / 32 : 0;
  const int part = int(blockIdx.x) % job.parts;
  const int worker = TEAM == 32 ? int(threadIdx.x) % 32 : part * TEAM + int(threadIdx.x);
  const T* const logits = static_cast<const T*>(job.logits);
  T* const out = static_cast<T*>(job.dlogits);
  const Mine<T, RESIDENT> mine{logits, places + threadIdx.x, worker, TEAM * job.parts, job.held};
  const Rule rule{*job.weight, *job.expected, job.z_loss, job.ignore_index};
  const int64_t stride = int64_t(gridDim.x) / job.parts * TEAMS;
  int64_t row = int64_t(blockIdx.x) / job.parts * TEAMS + team;
  if (worker == 0) totals[team] = Totals{};
#if __CUDA_ARCH__ >= 900
  if (job.parts > 1) cluster_sync();  // no block may write to another before that one runs
#endif
  Span<T> span(logits, row < job.rows ? row : 0, job.columns);
  if (RESIDENT && row < job.rows) {
    const int batch = (job.held + BATCHES - 1) / BATCHES;
    for (int b = 0; b < BATCHES; ++b) {
      for (int k = b * batch; k < min((b + 1) * batch, job.held); ++k) mine.start(span, k);
      end_of_copies();
    }
  }
  for (int turn = 0; row < job.rows; row += stride, turn ^= 1) {
    const int64_t target = job.targets[row];
    const int column = worker < span.edges ? span.edge_column(worker) : 0;
    const float edge = worker < span.edges ? to_float(logits[span.begin + column]) : 0.0f;
    const float at_target = worker == 0 && is_column(target, job.columns) ? to_float(logits[span.begin + target]) : 0.0f;
    const Looked looked = look(mine, span, edge);
    uint32_t nonfinite = 0;
    if (TELLS && __any_sync(0xffffffffu, looked.poison != looked.poison)) nonfinite = count_nonfinite(mine, span, edge);
    Part whole = of_warp(looked.softmax, nonfinite);
    if constexpr (TEAM > 32) whole = of_all<TEAM / 32>(whole, boards[turn], job.parts);
    const Row made = finish(Softmax{whole.largest, whole.sum}, at_target, target, job.columns, rule);
    const bool more = row + stride < job.rows;
    const Span<T> next(logits, more ? row + stride : row, job.columns);
    give(mine, span, next, more, out, made, whole.largest, int(target));
    if (worker < span.edges) {
      const float gradient = made.slope * exp_below(edge - whole.largest) - (column == target ? made.pull : 0.0f);
      out[span.begin + column] = from_float<T>(made.counted ? gradient : 0.0f);
    }
    if (worker == 0) {
      job.losses[row] = made.loss;
      job.lse[row] = made.lse;
      totals[team].add(made, rule, whole.largest, double(whole.nonfinite));
    }
    span = next;
  }
  __syncthreads();
  if (threadIdx.x == 0 && part == 0) {
    Totals sum = totals[0];
    for (int other = 1; other < TEAMS; ++other) sum.add(totals[other]);
    reinterpret_cast<Totals*>(job.slots)[blockIdx.x / job.parts] = sum;
  }
}

constexpr int SUMMERS = 256;

__global__ void __launch_bounds__(SUMMERS) sum_slots(const double* slots, int count, float* total, double* stats) {
  __shared__ alignas(Totals) unsigned char room[SUMMERS * sizeof(Totals)];
  Totals* const sums = reinterpret_cast<Totals*>(room);
  Totals mine;
  for (int i = threadIdx.x; i < count; i += SUMMERS) mine.add(reinterpret_cast<const Totals*>(slots)[i]);
  sums[threadIdx.x] = mine;
  for (int half = SUMMERS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) sums[threadIdx.x].add(sums[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) sums[0].write(total, stats);
}

struct Device {
  int processors, major, shared, shared_of_block;
};

Device look_at(int index) {
  Device device{};
  cudaDeviceGetAttribute(&device.processors, cudaDevAttrMultiProcessorCount, index);
  cudaDeviceGetAttribute(&device.major, cudaDevAttrComputeCapabilityMajor, index);
  cudaDeviceGetAttribute(&device.shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, index);
  cudaDeviceGetAttribute(&device.shared_of_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  return device;
}

// Fewest blocks to a row such that two fit on a processor, one looking while the other writes; else one; else none: 0.
int parts_for(int chunks, const Device& device) {
  const size_t of_two = size_t(device.shared) / 2, of_one = size_t(device.shared_of_block);
  const int most = device.major >= 9 ? MAX_PARTS : 1;
  for (const size_t room : {of_two, of_one})
    for (int parts = 1; parts <= most; parts *= 2)
      if (size_t((chunks + BLOCK * parts - 1) / (BLOCK * parts)) * BLOCK * 16 + STATIC_SHARED <= room) return parts;
  return 0;
}

// Launches as many blocks as run at once, and says how many slots they fill; 0 where the device cannot run such clusters.
template <typename Kernel>
int launch(Kernel kernel, const Job& job, int threads, int teams, size_t shared, const Device& device, cudaStream_t stream) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = job.parts;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(threads);
  config.gridDim = dim3(job.parts);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = job.parts > 1 ? 1 : 0;
  // All there is, and not `shared`: another thread may be about to launch the same kernel on a longer row.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, device.shared_of_block - int(STATIC_SHARED));
  int groups = 0;
  if (job.parts > 1) {
    cudaOccupancyMaxActiveClusters(&groups, kernel, &config);
  } else {
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&groups, kernel, threads, shared);
    groups *= device.processors;
  }
  check_launch("softmax_xent");
  groups = int(std::min<int64_t>(groups, (job.rows + teams - 1) / teams));
  if (groups == 0) return 0;
  config.gridDim = dim3(unsigned(groups) * job.parts);
  cudaLaunchKernelEx(&config, kernel, job);
  check_launch("softmax_xent");
  return groups;
}

template <typename T> int launch_for(Job job, const Device& device, cudaStream_t stream) {
  const int chunks = job.columns / PACKED<T>;
  job.parts = 1;
  job.held = (chunks + 31) / 32;
  if (job.held <= WARP_SLOTS)
    return launch(xent_kernel<T, 32, true>, job, WARP_BLOCK, WARP_BLOCK / 32, size_t(job.held) * WARP_BLOCK * 16, device, stream);
  job.parts = parts_for(chunks, device);
  if (job.parts > 0) {
    job.held = (chunks + BLOCK * job.parts - 1) / (BLOCK * job.parts);
    const int groups = launch(xent_kernel<T, BLOCK, true>, job, BLOCK, 1, size_t(job.held) * BLOCK * 16, device, stream);
    if (groups > 0) return groups;
  }
  job.parts = 1;  // a row no cluster can hold is read twice
  job.held = (chunks + BLOCK - 1) / BLOCK;
  return launch(xent_kernel<T, BLOCK, false>, job, BLOCK, 1, 0, device, stream);
}

// x · factor in place. The factor is on the device; where it is 1 every block returns having read only that.
constexpr int SCALE_BLOCK = 256;
constexpr int SCALE_BLOCKS = 8;  // of a processor

template <typename T> __global__ void __launch_bounds__(SCALE_BLOCK) scale_kernel(T* x, int64_t count, int head, const float* factor) {
  const float by = *factor;
  if (by == 1.0f) return;
  const int64_t worker = int64_t(blockIdx.x) * SCALE_BLOCK + threadIdx.x;
  const int64_t workers = int64_t(gridDim.x) * SCALE_BLOCK;
  const int64_t packs = (count - head) / PACKED<T>;
  Pack<T>* const body = reinterpret_cast<Pack<T>*>(x + head);
  for (int64_t i = worker; i < packs; i += workers) {
    Pack<T> pack;
    *reinterpret_cast<uint4*>(&pack) = *reinterpret_cast<const uint4*>(body + i);
#pragma unroll
    for (int k = 0; k < PACKED<T>; ++k) pack.element[k] = from_float<T>(to_float(pack.element[k]) * by);
    *reinterpret_cast<uint4*>(body + i) = *reinterpret_cast<const uint4*>(&pack);
  }
  const int64_t edges = count - packs * PACKED<T>;
  if (worker < edges) {
    T* const edge = x + (worker < head ? worker : packs * PACKED<T> + worker);
    *edge = from_float<T>(to_float(*edge) * by);
  }
}

}  // namespace

int64_t xent_slots(int device) { return int64_t(look_at(device).processors) * MOST_BLOCKS * int64_t(sizeof(Totals) / sizeof(double)); }

void launch_xent(const XentArguments& arguments, Element element, float* total, double* stats, int device, cudaStream_t stream) {
  const Device found = look_at(device);
  int groups = 0;
  by_element(element, [&](auto zero) { groups = launch_for<decltype(zero)>(Job{arguments, 1, 0}, found, stream); });
  if (groups == 0) throw std::runtime_error("softmax_xent: the device runs no block of the kernel");
  sum_slots<<<1, SUMMERS, 0, stream>>>(arguments.slots, groups, total, stats);
  check_launch("softmax_xent");
}

void launch_scale(void* x, int64_t count, Element element, const float* factor, int device, cudaStream_t stream) {
  int processors = 0;
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  by_element(element, [&](auto zero) {
    using T = decltype(zero);
    const int over = int(reinterpret_cast<uintptr_t>(x) % 16 / sizeof(T));
    const int head = int(std::min<int64_t>((PACKED<T> - over) % PACKED<T>, count));
    const int64_t wanted = (count / PACKED<T> + SCALE_BLOCK) / SCALE_BLOCK;
    const int blocks = int(std::min<int64_t>(wanted, int64_t(std::max(processors, 1)) * SCALE_BLOCKS));
    scale_kernel<T><<<blocks, SCALE_BLOCK, 0, stream>>>(static_cast<T*>(x), count, head, factor);
  });
  check_launch("scale_");
}

}  // namespace sentinel
