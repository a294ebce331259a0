"""The GPUs of this machine through NVML, asked by a helper process that may hang for ever without holding anybody up.

    healthy     a line a second; what changed becomes readings
    silent      for SILENT_S: a call to the driver does not return. Killed; the source is blind until a new helper has seen GPUs
    gone        started again after 5 s, then twice as long each time, up to 5 min; never while the killed one is still there
    absent      no driver, or no nvidia-ml-py: said once, and nothing is ever started again

What is read first is reported first, so that later counters can be compared with it. Throttling means the hardware's own
slowdowns, not a power cap set in software.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentinel.model.amounts import time_words
from sentinel.model.readings import HardwareReading, Reading
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE
from sentinel.telemetry.gpu_ranks import rank_of_process, visible_devices, visible_setting
from sentinel.telemetry.gpu_sample import GpuSample, normalise_pci, read_sample, tell_values
from sentinel.telemetry.helper_process import HelperProcess
from sentinel.telemetry.source import SourceHealth, describe_os_error

SILENT_S = 30.0
RETRY_S, RETRY_MAX_S = 5.0, 300.0
TRUSTED_SAMPLES = 30  # a helper that lived so long starts the pauses afresh
GPUS_MAX = 256
REASON_CHARS = 300
IDLE_SAMPLES = 3  # so long without a process of ours, while others have one: a GPU that this run does not use
HELPER = (sys.executable, "-P", "-m", "sentinel.telemetry.nvml_helper")  # -P: not a folder `sentinel` of where it is started
DRIVER_SIGNS = ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg")  # the module, its device in a container, WSL
NO_DRIVER = "no NVIDIA driver: gpu faults cannot be seen"


class NvmlSource:
    """A `Source`. `run_dir` None: nobody's processes are looked for. `signs` empty: start the helper whatever is there."""

    def __init__(
        self,
        run_dir: Path | None = None,
        argv: Sequence[str] = HELPER,
        signs: Sequence[str] = DRIVER_SIGNS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.gpus: tuple[GpuSample, ...] = ()  # as last seen, for showing
        self.why_not = "not asked yet"  # why nothing is seen; empty while something is
        self._run_dir = None if run_dir is None else os.path.realpath(run_dir)
        self._argv = argv
        self._signs = signs
        variables = os.environ if environment is None else environment
        self._environment = {name: variables[name] for name in variables if name not in (RUN_DIR_VARIABLE, ATTEMPT_VARIABLE)}
        self._health = SourceHealth("nvml")
        self._host = socket.gethostname()
        self._helper: HelperProcess | None = None
        self._is_absent = self._is_dying = False
        self._last_report_s = self._retry_at_s = float("-inf")
        self._retry_s = RETRY_S
        self._samples = 0
        self._last_words = ""
        self._idle: dict[str, int] = {}
        self._reported: dict[str, dict[str, float]] = {}
        self._places: dict[str, tuple[int | None, tuple[int, int] | None, bool]] = {}

    @property
    def has_more(self) -> bool:
        return False

    @property
    def is_absent(self) -> bool:
        """There is nothing to ask here, now or later."""
        return self._is_absent

    def poll(self, now_s: float) -> list[Reading]:
        """What the helper said since the last poll. Never waits for it."""
        if self._is_absent:
            return []
        if self._helper is None:
            return self._start(now_s) if now_s >= self._retry_at_s else []
        if self._is_dying:
            if self._helper.is_over:
                self._let_go(now_s)
            return []
        lines = self._helper.read_lines()
        if lines:
            self._last_report_s = now_s
        out: list[Reading] = []
        for line in lines:
            out += self._take(line)
        if self._is_absent:
            self._let_go(now_s)
        elif self._helper.is_silent:
            out += self._lost(self._last_words or f"the NVML helper (pid {self._helper.pid}) is gone")
        elif now_s - self._last_report_s > SILENT_S:
            silent = f"the NVML helper (pid {self._helper.pid}) said nothing for {time_words(SILENT_S)}"
            out += self._lost(f"{silent}: a call to the NVIDIA driver does not return, as with a sick GPU; see NVRM in dmesg")
        return out

    def close(self) -> None:
        """End the helper; the source can be polled again and then starts another."""
        if self._helper is not None:
            self._helper.close()
            self._helper = None
        self._is_dying = False

    def _start(self, now_s: float) -> list[Reading]:
        if self._signs and not any(os.path.exists(sign) for sign in self._signs):
            return self._absent(NO_DRIVER)
        try:
            self._helper = HelperProcess(self._argv, self._environment)
        except OSError as error:
            self._wait(now_s)
            self.why_not = f"the NVML helper cannot be started: {describe_os_error(error)}"
            return [*self._health.lost(self.why_not)]
        self._last_report_s, self._samples, self._last_words = now_s, 0, ""
        return []

    def _lost(self, reason: str) -> list[Reading]:
        assert self._helper is not None, "there is a helper to lose"
        self._helper.kill()
        self._is_dying, self.gpus, self.why_not = True, (), reason
        return [*self._health.lost(reason)]

    def _let_go(self, now_s: float) -> None:
        assert self._helper is not None, "there is a helper to let go"
        self._helper.close()
        self._helper, self._is_dying = None, False
        self._wait(now_s)

    def _wait(self, now_s: float) -> None:
        if self._samples >= TRUSTED_SAMPLES:
            self._retry_s = RETRY_S
        self._retry_at_s = now_s + self._retry_s
        self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)

    def _absent(self, reason: str) -> list[Reading]:
        """Nothing to look at is no blindness, unless there was something before."""
        if self._reported:
            self.why_not = reason
            return []
        self._is_absent, self.why_not = True, reason
        return [HardwareReading("nvml", "absent", reason, self._host)]

    def _take(self, line: bytes) -> list[Reading]:
        try:
            message = json.loads(line)
        except ValueError:
            return []
        if not isinstance(message, dict):
            return []
        match message.get("kind"):
            case "sample":
                return self._sample(message.get("gpus"))
            case "xid":
                return self._xid(message)
            case "absent":
                return self._absent(str(message.get("reason", NO_DRIVER))[:REASON_CHARS])
            case "failed":
                self._last_words = str(message.get("reason", "NVML failed"))[:REASON_CHARS]
        return []

    def _xid(self, message: dict[str, Any]) -> list[Reading]:
        number = message.get("xid")
        if not isinstance(number, int):
            return []
        device = normalise_pci(message["bus"]) if isinstance(message.get("bus"), str) else None
        for known in self._reported if device is None else (device,):
            self._reported.get(known, {}).pop("recovery_action", None)  # what the driver asks for now is news, changed or not
        return [self._reading("xid", f"Xid {number}", device, float(number))]

    def _sample(self, message: Any) -> list[Reading]:
        gpus = [gpu for gpu in map(read_sample, message if isinstance(message, list) else ()) if gpu is not None][:GPUS_MAX]
        self._samples += 1
        self.gpus, self.why_not = tuple(gpus), "" if gpus else "the NVIDIA driver shows no GPU"
        out: list[Reading] = [*self._health.regained(f"{len(gpus)} GPUs")]
        self._find_places(gpus)
        for gpu in gpus:
            known = self._reported.setdefault(gpu.device, {})
            place = self._places[gpu.device]
            if known.get("seen") != hash(place):
                known["seen"] = hash(place)
                out.append(self._reading("seen", f"{gpu.name} {gpu.uuid}".strip(), gpu.device))
            for what, (value, text) in tell_values(gpu).items():
                if known.get(what) != value:
                    known[what] = value
                    out.append(self._reading(what, text, gpu.device, float(value)))
        return out

    def _reading(self, what: Any, text: str, device: str | None, value: float | None = None) -> HardwareReading:
        rank, place, used = self._places.get(device or "", (None, None, True))
        return HardwareReading("nvml", what, text, self._host, device, value, rank, place, used)

    def _find_places(self, gpus: Sequence[GpuSample]) -> None:
        """Rank by process; where none of ours is seen on any GPU, the place among the visible ones."""
        ranks: dict[str, int] = {}
        for gpu in gpus if self._run_dir is not None else ():
            found = (rank_of_process(pid, self._run_dir or "") for pid in gpu.pids)
            rank = next((rank for rank in found if rank is not None), None)
            if rank is not None:
                ranks[gpu.device] = rank
        visible = visible_devices(gpus, visible_setting())
        for gpu in gpus:
            rank = ranks.get(gpu.device, self._places.get(gpu.device, (None, None, True))[0])  # kept when its process has died
            place = (visible.index(gpu.device), len(visible)) if visible is not None and gpu.device in visible else None
            self._idle[gpu.device] = self._idle.get(gpu.device, 0) + 1 if ranks and rank is None else 0
            used = rank is not None or ((visible is None or place is not None) and self._idle[gpu.device] < IDLE_SAMPLES)
            self._places[gpu.device] = (rank, place, used)
