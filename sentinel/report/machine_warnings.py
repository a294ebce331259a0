"""What the machine threatens a run with, for every surface alike: its disks fill up, its hardware is sick.

A warning stands as long as it holds, whether or not the policy made an incident of it and whether or not anybody has answered.
Nothing is said of a run that has ended, or that nobody has looked at lately: what holds there now is not known.
"""

from __future__ import annotations

from typing import Any

from sentinel.detectors.registry import MAKER_OF
from sentinel.model.findings import Verdict
from sentinel.model.state import RunState
from sentinel.run_files.detector_standings import OLD_AFTER_S, DetectorStandings

ABOUT = {"disk_full": "disk", "gpu_fault": "hardware"}
"""By the detector that finds it: what it is about, in a word."""


def machine_warnings(state: RunState, now_s: float, senses: DetectorStandings) -> list[dict[str, Any]]:
    """`{"about": "disk" or "hardware", "words": a sentence, "incident": the number of the one that is open or calls a person for
    it, or null}`."""
    if state.ended:
        return []
    is_fresh = senses.time_s is not None and now_s - senses.time_s <= OLD_AFTER_S
    found: list[dict[str, Any]] = []
    for name, about in ABOUT.items():
        sentences = _incidents(state, name) or (_verdict(senses, name) if is_fresh else [])
        if not sentences and name == "gpu_fault" and is_fresh:
            sentences = _gpus(senses)
        found += [{"about": about, "words": f"{about}: {words}", "incident": incident} for words, incident in sentences]
    return found


def threats_beside(shown: int | None, state: RunState, now_s: float, senses: DetectorStandings) -> tuple[str, ...]:
    """The sentences, but for that of the incident `shown`, which stands there already."""
    return tuple(str(one["words"]) for one in machine_warnings(state, now_s, senses) if shown is None or one["incident"] != shown)


def _incidents(state: RunState, name: str) -> list[tuple[str, int | None]]:
    """The newest that the detector has found, if it is open or its page is."""
    standing = {one.id: one for one in (*state.open_incidents, *state.open_pages)}
    own = [one for one in standing.values() if one.kind in MAKER_OF and MAKER_OF[one.kind].name == name]
    return [(one.reason, one.id) for one in sorted(own, key=lambda one: one.id)[-1:]]


def _verdict(senses: DetectorStandings, name: str) -> list[tuple[str, int | None]]:
    kinds = {str(kind) for kind, row in MAKER_OF.items() if row.name == name}
    return [(reason, None) for kind, verdict, reason in senses.verdicts if kind in kinds and verdict == Verdict.BREACHED]


def _gpus(senses: DetectorStandings) -> list[tuple[str, int | None]]:
    """What the driver says of each that is not well, long before it counts as a fault."""
    return [(f"GPU {gpu.index} ({gpu.name}): {'; '.join(gpu.troubles)}", None) for gpu in senses.gpus if gpu.troubles]
