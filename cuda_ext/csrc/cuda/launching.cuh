// The calls of CUDA's runtime around a launch. Each result is looked at where the call is made: an error that is left lying is found
// by the next launch, of another op perhaps.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace sentinel {

// Raises std::runtime_error with the op's name, what was asked of CUDA and what it said.
inline void check(cudaError_t error, const char* op, const char* asked) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // it is told here: no later call shall find it and take it for its own
  throw std::runtime_error(std::string(op) + ": " + asked + ": " + cudaGetErrorString(error));
}

inline int attribute_of(const char* op, cudaDeviceAttr attribute, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, device), op, "a property of the device was not told");
  return value;
}

struct LaunchShape {
  dim3 grid, block;
  size_t shared = 0;      // bytes, of dynamic shared memory
  int cluster = 1;        // blocks of a cluster
  bool is_early = false;  // may begin before the kernels in front of it have ended: it calls wait_for_kernels_before (ptx.cuh)
};

// The one attribute that a launch here may have: a cluster's size, or that it is early.
inline cudaLaunchConfig_t configured(const LaunchShape& shape, cudaStream_t stream, cudaLaunchAttribute* attribute) {
  *attribute = cudaLaunchAttribute{};
  if (shape.is_early) {
    attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute->val.programmaticStreamSerializationAllowed = 1;
  } else {
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared;
  config.stream = stream;
  config.attrs = attribute;
  config.numAttrs = shape.cluster > 1 || shape.is_early ? 1 : 0;
  return config;
}

// Launches, and raises at once where the launch is refused.
template <typename... Parameters, typename... Arguments>
void launch_kernel(const char* op, const LaunchShape& shape, cudaStream_t stream, void (*kernel)(Parameters...),
                   const Arguments&... arguments) {
  cudaLaunchAttribute attribute;
  const cudaLaunchConfig_t config = configured(shape, stream, &attribute);
  check(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), op, "the kernel could not be launched");
}

template <typename... Parameters>
const void* function_of(void (*kernel)(Parameters...)) {
  return reinterpret_cast<const void*>(kernel);
}

// How a multiprocessor's memory is to be divided between shared memory and first-level cache. SHARED, for a kernel whose blocks
// stay and keep rows there: it needs as many of them at once as were planned. CACHE leaves it to the driver, which makes room for
// the blocks and no more: a kernel that reads weights again for every row lives on the cache.
enum class Divided { CACHE, SHARED };

// Lets a kernel have `bytes` of dynamic shared memory. Always called before a launch: without it a block gets 48 KB, its static shared
// memory included. `bytes` is the most that the kernel ever asks for, not what this launch needs: another host thread may be about
// to launch it on longer rows.
inline void allow_shared(const char* op, const void* kernel, int bytes, Divided divided) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), op, "the kernel's shared memory was refused");
  const int share = divided == Divided::SHARED ? int(cudaSharedmemCarveoutMaxShared) : int(cudaSharedmemCarveoutDefault);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, share), op,
        "the division of the processor's memory was refused");
}

// How many blocks of this shape run on a multiprocessor at once.
inline int resident_blocks(const char* op, const void* kernel, const LaunchShape& shape) {
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, int(shape.block.x), shape.shared), op,
        "how many blocks run at once was not told");
  return blocks;
}

// How many clusters of this shape run on the device at once; 0 where none does, and where CUDA does not say: a device or a driver
// without clusters answers by an error.
inline int resident_clusters(const void* kernel, const LaunchShape& shape) {
  cudaLaunchAttribute attribute;
  cudaLaunchConfig_t config = configured(shape, nullptr, &attribute);
  int clusters = 0;
  if (cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) == cudaSuccess) return clusters;
  cudaGetLastError();  // it is answered here
  return 0;
}

}  // namespace sentinel
