// The device that the runtime answers for, and what was asked of it.
#pragma once

#include <map>
#include <string>

namespace emulator {

struct Device {
  int processors = 3, major = 9, shared = 233472, shared_of_block = 232448;  // of an H200 but for the processors
  bool clusters_fail = false;
};

Device& device();
std::map<const void*, int>& allowed_shared();  // by kernel: what cudaFuncSetAttribute was asked for
std::string& error_text();

}  // namespace emulator
