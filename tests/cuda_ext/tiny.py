"""Sources of one op, small enough to be compiled in a test: a csrc/ of its own beside the package's headers."""

from __future__ import annotations

import shutil
from pathlib import Path

from cuda_ext.sources import PACKAGE

DOUBLED = """
#include "../host_device.h"
#include "../tensors.h"
namespace sentinel {
Tensor doubled(const Tensor& x) {
  check_dtype(x, ScalarType::Float, "doubled", "x");
  Tensor y = torch::stable::empty_like(x);
  float squares = 0.0f;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float value = mutable_ptr<float>(y)[i] = 2.0f * const_ptr<float>(x)[i];
    if constexpr (STATISTICS) squares += value * value;
  }
  if (x.numel() > 0 && !STATISTICS) mutable_ptr<float>(y)[0] = squares;
  return y;
}
}  // namespace sentinel
STABLE_TORCH_LIBRARY_IMPL(sentinel, CPU, m) { m.impl("doubled", TORCH_BOX(&sentinel::doubled)); }
"""


def write_sources(place: Path, source: str = DOUBLED) -> Path:
    folder = place / "csrc"
    (folder / "cpu").mkdir(parents=True)
    for header in (PACKAGE / "csrc").glob("*.h"):
        shutil.copy(header, folder)
    (folder / "cpu" / "doubled.cpp").write_text(source, encoding="utf-8")
    return folder
