// The fibers of a block, the blocks of a cluster, and the runtime's answers about the device.
#include "emulator.h"

#include <setjmp.h>
#include <ucontext.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device.h"

thread_local uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {
namespace {

constexpr size_t STACK = 96 * 1024, GUARD = 256;
constexpr std::chrono::seconds CLUSTER_S{60};

struct Copy {
  void* to;
  const void* from;
  void arrive() const { std::memcpy(to, from, 16); }
};

struct Fiber {
  ucontext_t context;  // only to begin with: switching by it asks the kernel for the signal mask each time
  jmp_buf place;
  bool has_begun = false;
  uint3 index;
  unsigned turn = 0;                       // of the slots of its warp
  std::vector<std::vector<Copy>> groups;   // committed and not yet waited for, the oldest first
  std::vector<Copy> open;
};

struct Barrier {
  std::vector<Fiber*> waiting;
};

struct Warp {
  Barrier barrier;
  uint64_t slots[2][32];
};

// Blocks of a cluster meet here.
struct Cluster {
  std::mutex mutex;
  std::condition_variable met;
  int size, arrived = 0, generation = 0;
  std::vector<char*> anchors, shared;
  std::string error;

  bool wait() {
    std::unique_lock<std::mutex> lock(mutex);
    const int now = generation;
    if (++arrived == size) {
      arrived = 0, ++generation;
      met.notify_all();
      return true;
    }
    return met.wait_for(lock, CLUSTER_S, [&] { return generation != now; });
  }
};

thread_local char anchor;

struct Block {
  uint3 index;
  dim3 grid, size;
  int rank;
  Cluster* cluster;
  uint64_t random;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier all;
  std::vector<Fiber*> ready;
  Fiber* current = nullptr;
  ucontext_t scheduler_context;
  jmp_buf scheduler;
  size_t dynamic = 0;
  int live = 0;
  char* shared = nullptr;
  const std::function<void()>* kernel;

  uint64_t draw() {  // xorshift
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    return random;
  }

  void release(Barrier& barrier) {
    ready.insert(ready.end(), barrier.waiting.begin(), barrier.waiting.end());
    barrier.waiting.clear();
  }

  // True in the last of `count` fibers to come.
  void wait(Barrier& barrier, size_t count, const std::function<void()>& last = {}) {
    Fiber* own = current;
    barrier.waiting.push_back(own);
    if (barrier.waiting.size() == count) {
      if (last) last();
      release(barrier);
    }
    suspend(*own);
  }

  void resume(Fiber& fiber) {
    if (_setjmp(scheduler) != 0) return;
    if (fiber.has_begun) _longjmp(fiber.place, 1);
    fiber.has_begun = true;
    swapcontext(&scheduler_context, &fiber.context);
  }

  void suspend(Fiber& fiber) {
    if (_setjmp(fiber.place) == 0) _longjmp(scheduler, 1);
  }

  void fail(const std::string& what) {
    const std::lock_guard<std::mutex> guard(cluster->mutex);
    if (cluster->error.empty()) cluster->error = what;
  }
};

thread_local Block* block;

void fiber_main() {
  Block& own = *block;
  (*own.kernel)();
  --own.live;
  if (own.live > 0 && own.all.waiting.size() == size_t(own.live)) own.release(own.all);
  own.suspend(*own.current);
}

void run_block(Block& own, size_t dynamic, std::vector<char>& stacks) {
  block = &own;
  blockIdx = own.index;
  blockDim = uint3{own.size.x, own.size.y, own.size.z};
  gridDim = uint3{own.grid.x, own.grid.y, own.grid.z};
  const unsigned threads = own.size.x * own.size.y * own.size.z;
  std::vector<char> room(dynamic + 2 * GUARD + 128, char(0xff));  // NaN in every type
  own.shared = room.data() + GUARD + (128 - (reinterpret_cast<uintptr_t>(room.data()) + GUARD) % 128) % 128;
  own.dynamic = dynamic;
  own.cluster->anchors[own.rank] = &anchor, own.cluster->shared[own.rank] = own.shared;
  own.fibers.resize(threads), own.warps.resize((threads + 31) / 32);
  if (stacks.size() < threads * STACK) stacks.resize(threads * STACK);
  own.live = int(threads);
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& fiber = own.fibers[t];
    fiber.index = uint3{t % own.size.x, t / own.size.x % own.size.y, t / own.size.x / own.size.y};
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks.data() + t * STACK;
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, fiber_main, 0);
    own.ready.push_back(&fiber);
  }
  while (own.live > 0) {
    if (own.ready.empty()) return own.fail("a barrier that not every thread comes to");
    const size_t at = own.draw() % own.ready.size();
    own.current = own.ready[at];
    own.ready[at] = own.ready.back(), own.ready.pop_back();
    threadIdx = own.current->index;
    own.resume(*own.current);
  }
  for (const Fiber& fiber : own.fibers)
    for (const auto& group : fiber.groups)
      if (!group.empty()) own.fail("a copy that nobody waited for");
  for (const char* at = room.data(); at < own.shared; ++at)
    if (*at != char(0xff)) own.fail("a write before the block's shared memory");
  for (const char* at = own.shared + dynamic; at < room.data() + room.size(); ++at)
    if (*at != char(0xff)) own.fail("a write behind the block's shared memory");
}

}  // namespace

int rank_of_block() { return block->rank; }
void* dynamic_shared() { return block->shared; }

void* in_other_block(void* place, int rank) {
  const Cluster& cluster = *block->cluster;
  char* const at = static_cast<char*>(place);
  const ptrdiff_t inside = at - block->shared;
  if (inside >= 0 && inside < ptrdiff_t(block->dynamic)) return cluster.shared[rank] + inside;
  return cluster.anchors[rank] + (at - &anchor);
}

void wait_for_block() { block->wait(block->all, size_t(block->live)); }

void wait_for_cluster() {
  block->wait(block->all, size_t(block->live), [] {
    if (!block->cluster->wait()) block->fail("a barrier of the cluster that not every block comes to");
  });
}

void exchange(uint64_t value, uint64_t (&all)[32]) {
  Fiber& fiber = *block->current;
  const unsigned number = fiber.index.x + block->size.x * (fiber.index.y + block->size.y * fiber.index.z);
  Warp& warp = block->warps[number / 32];
  uint64_t* const slots = warp.slots[fiber.turn ^= 1];
  slots[number % 32] = value;
  block->wait(warp.barrier, 32);
  std::memcpy(all, slots, sizeof all);
}

// A copy arrives at once or at the last wait that allows it, by chance: so a place that is overwritten too early shows, and so does
// one that is read too early.
void copy_async(void* to, const void* from) {
  const Copy copy{to, from};
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) block->fail("a misaligned copy");
  if (block->draw() % 2 == 0) copy.arrive();
  else block->current->open.push_back(copy);
}

void commit_copies() {
  Fiber& fiber = *block->current;
  fiber.groups.push_back(std::move(fiber.open));
  fiber.open.clear();
}

void wait_for_copies(int newest) {
  auto& groups = block->current->groups;
  while (groups.size() > size_t(newest)) {
    for (const Copy& copy : groups.front()) copy.arrive();
    groups.erase(groups.begin());
  }
}

cudaError_t run(const cudaLaunchConfig_t& config, const std::function<void()>& kernel) {
  static uint64_t seed = 0x9e3779b97f4a7c15u;
  static std::vector<std::vector<char>> stacks(16);
  const bool has_size = config.numAttrs > 0 && config.attrs[0].id == cudaLaunchAttributeClusterDimension;
  const int size = has_size ? int(config.attrs[0].val.clusterDim.x) : 1;
  if (config.gridDim.x % unsigned(size) != 0 || config.blockDim.x * config.blockDim.y > 1024) return cudaErrorInvalidConfiguration;
  std::vector<unsigned> order(config.gridDim.x * config.gridDim.y / unsigned(size));
  for (unsigned i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t i = order.size(); i > 1; --i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    std::swap(order[i - 1], order[(seed >> 33) % i]);
  }
  for (const unsigned number : order) {
    Cluster cluster;
    cluster.size = size, cluster.anchors.resize(size), cluster.shared.resize(size);
    std::vector<std::unique_ptr<Block>> blocks;
    for (int rank = 0; rank < size; ++rank) {
      const unsigned index = number * unsigned(size) + unsigned(rank);
      blocks.push_back(std::make_unique<Block>());
      Block& own = *blocks.back();
      own.index = uint3{index % config.gridDim.x, index / config.gridDim.x, 0};
      own.grid = config.gridDim, own.size = config.blockDim, own.rank = rank, own.cluster = &cluster, own.kernel = &kernel;
      own.random = seed = seed * 6364136223846793005u + 1442695040888963407u;
    }
    if (size == 1) {
      run_block(*blocks[0], config.dynamicSmemBytes, stacks[0]);
    } else {
      std::vector<std::thread> threads;
      for (int rank = 0; rank < size; ++rank)
        threads.emplace_back([&, rank] { run_block(*blocks[rank], config.dynamicSmemBytes, stacks[rank]); });
      for (std::thread& thread : threads) thread.join();
    }
    if (!cluster.error.empty()) {
      error_text() = cluster.error;
      return cudaErrorLaunchFailure;
    }
  }
  return cudaSuccess;
}

}  // namespace emulator
