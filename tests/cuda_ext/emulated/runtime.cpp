// The functions of CUDA's runtime that the launches call.
#include "emulator.h"

#include "device.h"

namespace emulator {

Device& device() {
  static Device device;
  return device;
}

std::map<const void*, int>& allowed_shared() {
  static std::map<const void*, int> allowed;
  return allowed;
}

std::string& error_text() {
  static std::string text;
  return text;
}

}  // namespace emulator

using emulator::device;

extern "C" {

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = device().processors; break;
    case cudaDevAttrComputeCapabilityMajor: *value = device().major; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = device().shared; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = device().shared_of_block; break;
    default: return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) emulator::allowed_shared()[kernel] = value;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads, size_t shared) {
  *blocks = std::min(2048 / threads, int(size_t(device().shared) / (shared + 2048)));
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* kernel, const cudaLaunchConfig_t* config) {
  if (device().clusters_fail) return cudaErrorInvalidDeviceFunction;
  int each = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, int(config->blockDim.x), config->dynamicSmemBytes);
  *clusters = each * device().processors / int(config->attrs[0].val.clusterDim.x);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? emulator::error_text().c_str() : "an error of the emulator's runtime";
}

}  // extern "C"
