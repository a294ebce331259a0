// Tensors of the stable ABI: one binary for torch 2.11 and later. Every check names the op and the argument, as checks.py does.
#pragma once

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "host_device.h"

namespace sentinel {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Optional = std::optional<Tensor>;
using BFloat16 = c10::BFloat16;
using Half = c10::Half;

// Without streams: a number goes through a facet of the locale there, which belongs to one libstdc++, and a compiler's headers and
// the libstdc++ that torch has loaded may be of different ones (signal 11 on a machine with its own gcc, 2026-11-27).
inline void append(std::string& message, const char* part) { message += part; }
template <typename Number> void append(std::string& message, Number part) { message += std::to_string(part); }

template <typename... Parts>
[[noreturn]] void refuse(const char* op, const char* argument, const Parts&... parts) {
  std::string message = std::string(op) + ": " + argument + ": ";
  (append(message, parts), ...);
  throw std::invalid_argument(message);
}

inline const char* name_of(ScalarType type) {
  switch (type) {
    case ScalarType::Float: return "float32";
    case ScalarType::Double: return "float64";
    case ScalarType::BFloat16: return "bfloat16";
    case ScalarType::Half: return "float16";
    case ScalarType::Long: return "int64";
    case ScalarType::Int: return "int32";
    default: return "another dtype";
  }
}

inline bool is_floating(ScalarType type) {
  return type == ScalarType::Float || type == ScalarType::BFloat16 || type == ScalarType::Half;
}

inline Element element_of(ScalarType type) {
  switch (type) {
    case ScalarType::Float: return Element::FLOAT;
    case ScalarType::BFloat16: return Element::BFLOAT16;
    case ScalarType::Half: return Element::HALF;
    default: throw std::invalid_argument("sentinel: an unchecked dtype");
  }
}

inline void check_floating(const Tensor& tensor, const char* op, const char* argument) {
  if (!is_floating(tensor.scalar_type()))
    refuse(op, argument, "dtype ", name_of(tensor.scalar_type()), ", must be one of float32, bfloat16, float16");
  if (!tensor.is_contiguous()) refuse(op, argument, "not contiguous; call .contiguous() on it");
}

inline void check_dtype(const Tensor& tensor, ScalarType expected, const char* op, const char* argument) {
  if (tensor.scalar_type() != expected)
    refuse(op, argument, "dtype ", name_of(tensor.scalar_type()), ", must be one of ", name_of(expected));
  if (!tensor.is_contiguous()) refuse(op, argument, "not contiguous; call .contiguous() on it");
}

inline void check_size(const Tensor& tensor, int64_t expected, const char* op, const char* argument) {
  if (tensor.numel() != expected) refuse(op, argument, tensor.numel(), " elements, must be ", expected);
}

inline void check_device(const Tensor& tensor, const Tensor& like, const char* op, const char* argument) {
  if (tensor.is_cuda() != like.is_cuda() || tensor.get_device_index() != like.get_device_index())
    refuse(op, argument, "on another device than the other arguments");
}

template <typename T> const T* const_ptr(const Tensor& tensor) { return static_cast<const T*>(tensor.const_data_ptr()); }
template <typename T> T* mutable_ptr(const Tensor& tensor) { return static_cast<T*>(tensor.mutable_data_ptr()); }

// Calls `body` with a value of the C++ type of a checked dtype: by_dtype(type, [&](auto zero) { using T = decltype(zero); …}).
template <typename Body>
void by_dtype(ScalarType type, const Body& body) {
  switch (type) {
    case ScalarType::Float: body(float{}); break;
    case ScalarType::BFloat16: body(BFloat16{}); break;
    case ScalarType::Half: body(Half{}); break;
    default: throw std::invalid_argument("sentinel: an unchecked dtype");
  }
}

}  // namespace sentinel
