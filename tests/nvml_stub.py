"""A compiled stand-in for libnvidia-ml.so.1, under the real nvidia-ml-py, in the real helper process. See nvml_stub.c."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from sentinel.model.readings import HardwareReading, Reading
from sentinel.telemetry.nvml import NvmlSource

SOURCE = Path(__file__).with_suffix(".c")
DEADLINE_S = 30.0
ROUND_MS = "20"


@cache
def compiled_folder() -> Path:
    """Where the library lies, compiled once a process. Skips the test where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler: the NVML stub cannot be built (apt-get install gcc libc6-dev)")
    folder = Path(tempfile.mkdtemp(prefix="nvml-stub-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    words = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)]
    subprocess.run([compiler, *words], check=True, capture_output=True, timeout=60)
    return folder


@dataclass
class Stub:
    """The driver as the test wants it. `set` changes it under the running helper."""

    folder: Path
    values: dict[str, int] = field(default_factory=dict)

    def set(self, **values: int | None) -> None:
        """Names as `gpu0_recovery` for `0.recovery`; None takes a key away."""
        for name, value in values.items():
            key = name.replace("gpu", "", 1).replace("_", ".", 1) if name[:4] in ("gpu0", "gpu1") else name
            self.values.pop(key, None)
            if value is not None:
                self.values[key] = value
        aside = self.folder / "state.new"
        aside.write_text("".join(f"{key} {value}\n" for key, value in self.values.items()))
        aside.rename(self.folder / "state")

    @property
    def is_stuck(self) -> bool:
        """A call is being held up."""
        return (self.folder / "state.stuck").exists()

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"LD_LIBRARY_PATH": str(compiled_folder()), "NVML_STUB": str(self.folder / "state")}

    def source(self, run_dir: Path | None = None) -> NvmlSource:
        argv = (sys.executable, "-m", "sentinel.telemetry.nvml_helper", ROUND_MS)
        return NvmlSource(run_dir, argv, signs=(), environment=self.environment)


def until(source: NvmlSource, wanted: Callable[[list[Reading]], bool], now_s: float = 0.0) -> list[Reading]:
    """Poll with one time of the clock until the readings so far are what is wanted."""
    found: list[Reading] = []
    deadline_s = time.monotonic() + DEADLINE_S
    while not wanted(found):
        assert time.monotonic() < deadline_s, f"never came; so far: {found}"
        found += source.poll(now_s)
        time.sleep(0.005)
    return found


def values(readings: list[Reading], what: str) -> list[float | None]:
    return [reading.value for reading in readings if isinstance(reading, HardwareReading) and reading.what == what]
