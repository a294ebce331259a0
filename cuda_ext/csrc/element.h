// The dtypes that the ops take, for code that must not know torch: its headers take longer to compile than the kernels do.
#pragma once

#include <cstdint>

namespace sentinel {

enum class Element : uint8_t { FLOAT, BFLOAT16, HALF };

}  // namespace sentinel
