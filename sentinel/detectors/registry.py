"""Every detector, one row each. To add one: a module beside this file, and its row below.

The order of the rows is the order in which a row of the stream is judged and its findings are given: causes before symptoms.
What a place needs to know of a kind it reads here: the policy's models and rules, the bank, the engine, status and replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from sentinel.detectors.behind_reference import BehindReference, BehindReferenceSettings
from sentinel.detectors.contract import Detector, WatchedRun
from sentinel.detectors.crash import CrashSettings
from sentinel.detectors.disk_full import FILLING as DISK_FILLING
from sentinel.detectors.disk_full import KIND as DISK_FULL
from sentinel.detectors.disk_full import DiskFull, DiskFullSettings
from sentinel.detectors.divergence import Divergence, DivergenceSettings
from sentinel.detectors.drift import Drift, DriftSettings
from sentinel.detectors.generalisation import Generalisation, GeneralisationSettings
from sentinel.detectors.gpu_fault import GpuFault, GpuFaultSettings
from sentinel.detectors.hang import Hang, HangSettings
from sentinel.detectors.layer_imbalance import KIND as LAYER_IMBALANCE
from sentinel.detectors.layer_imbalance import LayerImbalance, LayerImbalanceSettings
from sentinel.detectors.loss_missing import KIND as LOSS_MISSING
from sentinel.detectors.loss_scale import LossScale, LossScaleSettings
from sentinel.detectors.mirror_lag import KIND as MIRROR_LAG
from sentinel.detectors.mirror_lag import MirrorLag, MirrorLagSettings
from sentinel.detectors.non_finite import NonFinite, NonFiniteSettings
from sentinel.detectors.plateau import Plateau, PlateauSettings
from sentinel.detectors.precursor import Precursor, PrecursorSettings
from sentinel.detectors.slowdown import Slowdown, SlowdownSettings
from sentinel.detectors.spike import Spike, SpikeSettings
from sentinel.detectors.stale_checkpoint import StaleCheckpoint, StaleCheckpointSettings
from sentinel.detectors.straggler import Straggler, StragglerSettings
from sentinel.detectors.too_good import TooGood, TooGoodSettings
from sentinel.detectors.trend import KIND as TREND
from sentinel.detectors.trend import Trend, TrendSettings
from sentinel.model.findings import Kind, Severity

Source = Literal["metrics", "heartbeats", "checkpoints", "signs of life", "disks", "its own"]


@dataclass(frozen=True, slots=True)
class Finds:
    """A kind of finding. Whether it is numeric (what heals it, which checkpoints it makes suspect) is `kind.is_numeric`.

    severity: where no rule is on the kind. asks_for_rule: the checker warns where no rule is on it.
    only_tells: it informs a person: it cancels no change of settings under way, and is not reported again after a restart.
    is_gradual: the band before it is measured before its onset, and not taken from a breach.
    bend: the power by which it climbs; its onset is dated anew by where its own metric bent. 0: by no bend.
    is_measured: what it tells of is over once its detector has measured that; the page is taken back then.
    outlives: it concerns what the run leaves behind: that the run has finished does not end it.
    keeps_onset: no other signal dates it. is_explained: what the machine said just before is part of its reason.
    """

    kind: Kind
    severity: Severity = "critical"
    asks_for_rule: bool = True
    only_tells: bool = False
    is_gradual: bool = False
    bend: Literal[0, 1, 2] = 0
    keeps_onset: bool = False
    is_explained: bool = False
    is_measured: bool = False
    outlives: bool = False


Build = Callable[[Any, WatchedRun], Detector | None]


@dataclass(frozen=True, slots=True)
class DetectorRow:
    """name: its word under `spec.detectors`. words: what it finds, for people. build: from its settings and the run it watches.
    settings: None for what is built from the policy's rules.

    source: what it is blind with. "signs of life": heartbeats, or the stream where none beats. "its own": it says so itself.
    is_graced: in a grace it neither judges nor learns. wants: the setting without which it finds nothing, and asks for no rule.
    """

    name: str
    words: str
    settings: type[Any] | None
    build: Build | None
    finds: tuple[Finds, ...]
    source: Source = "metrics"
    is_graced: bool = False
    wants: str = ""


# fmt: off
DETECTORS: tuple[DetectorRow, ...] = (
    DetectorRow("non_finite", "NaN and infinity", NonFiniteSettings, NonFinite,
        (Finds(Kind.NON_FINITE),
         Finds(LOSS_MISSING, "warning", asks_for_rule=False, only_tells=True, is_measured=True, outlives=True))),
    # Before drift and divergence, which ask whether it fires.
    DetectorRow("spike", "sudden rise of a metric", SpikeSettings, Spike, (Finds(Kind.SPIKE, "warning"),)),
    DetectorRow("loss_scale", "fp16's loss scale collapses", LossScaleSettings, LossScale, (Finds(Kind.LOSS_SCALE_COLLAPSE),)),
    DetectorRow("drift", "a slow, steady climb", DriftSettings, Drift,
        (Finds(Kind.DRIFT, "warning", is_gradual=True, bend=1),), is_graced=True),
    DetectorRow("divergence", "no way back", DivergenceSettings, Divergence,
        (Finds(Kind.DIVERGENCE, is_gradual=True, bend=2),), is_graced=True),
    DetectorRow("too_good", "an implausibly low loss", TooGoodSettings, TooGood,
        (Finds(Kind.TOO_GOOD, "warning", is_gradual=True, keeps_onset=True, outlives=True),)),
    DetectorRow("plateau", "the loss has stopped falling", PlateauSettings, Plateau,
        (Finds(Kind.PLATEAU, "info", asks_for_rule=False),)),
    DetectorRow("generalisation", "validation loss rises alone", GeneralisationSettings, Generalisation,
        (Finds(Kind.GENERALISATION, "info", asks_for_rule=False),)),
    DetectorRow("precursor", "what often goes before a spike", PrecursorSettings, Precursor,
        (Finds(Kind.PRECURSOR, "info", asks_for_rule=False),)),
    DetectorRow("layer_imbalance", "one layer's share of the gradient leaves its band", LayerImbalanceSettings, LayerImbalance,
        (Finds(LAYER_IMBALANCE, "info", asks_for_rule=False, only_tells=True),), is_graced=True),
    DetectorRow("trend", "slow declines over thousands of steps", TrendSettings, Trend,
        (Finds(TREND, "warning", asks_for_rule=False, only_tells=True),), is_graced=True),
    DetectorRow("behind_reference", "above a recorded run's loss", BehindReferenceSettings, BehindReference,
        (Finds(Kind.BEHIND_REFERENCE, "warning"),), wants="reference"),
    DetectorRow("expression", "the policy's own expressions", None, lambda _, run: run.expressions,
        (Finds(Kind.EXPRESSION, is_gradual=True),)),
    DetectorRow("hang", "silence while processes live", HangSettings, Hang,
        (Finds(Kind.HANG, is_explained=True),), source="signs of life"),
    DetectorRow("slowdown", "steps take longer than they did", SlowdownSettings, Slowdown,
        (Finds(Kind.SLOWDOWN, "warning", asks_for_rule=False, only_tells=True),)),
    DetectorRow("straggler", "one rank keeps the others waiting", StragglerSettings, Straggler,
        (Finds(Kind.STRAGGLER, "warning", asks_for_rule=False, only_tells=True),), source="heartbeats"),
    DetectorRow("stale_checkpoint", "training is not being saved", StaleCheckpointSettings, StaleCheckpoint,
        (Finds(Kind.STALE_CHECKPOINT, "warning", asks_for_rule=False, only_tells=True, outlives=True),), source="checkpoints"),
    DetectorRow("disk_full", "no room for checkpoints, now or soon", DiskFullSettings, DiskFull,
        (Finds(DISK_FULL, asks_for_rule=False, only_tells=True, is_measured=True),
         Finds(DISK_FILLING, "warning", asks_for_rule=False, only_tells=True, is_measured=True)), source="disks"),
    DetectorRow("mirror_lag", "the mirror off the machine lags", MirrorLagSettings, MirrorLag,
        (Finds(MIRROR_LAG, "warning", asks_for_rule=False, only_tells=True, is_measured=True, outlives=True),), source="its own"),
    DetectorRow("gpu_fault", "sick hardware", GpuFaultSettings, GpuFault,
        (Finds(Kind.GPU_FAULT, asks_for_rule=False), Finds(Kind.HARDWARE_WARNING, "warning", asks_for_rule=False)),
        source="its own"),
    DetectorRow("crash", "an attempt that ended on its own", CrashSettings, None,  # judged once, at the exit: crash.judge_exit
        # A policy without a rule on preempted treats it as a crash.
        (Finds(Kind.CRASH, is_explained=True), Finds(Kind.BROKEN_JOB), Finds(Kind.PREEMPTED, "warning", asks_for_rule=False))),
)
# fmt: on

# What sentinel itself finds, whatever detectors are on.
OWN = (
    Finds(Kind.OVERRIDE_MISMATCH),
    Finds(Kind.ENVIRONMENT_CHANGED),
    Finds(Kind.LOG_MATCH, "warning", asks_for_rule=False, only_tells=True),
    Finds(Kind.ENGINE_TROUBLE, asks_for_rule=False, only_tells=True),
    Finds(Kind.UNSEEN, asks_for_rule=False, only_tells=True),
    Finds(Kind.NODE_SICK, asks_for_rule=False, only_tells=True),
    Finds(Kind.CANNOT_ACT, asks_for_rule=False, only_tells=True),
    Finds(Kind.UNREAD, "warning", asks_for_rule=False, only_tells=True, is_measured=True),
)

MAKER_OF: dict[Kind, DetectorRow] = {finds.kind: row for row in DETECTORS for finds in row.finds}
FINDS: dict[Kind, Finds] = {finds.kind: finds for finds in (*(one for row in DETECTORS for one in row.finds), *OWN)}
KINDS: tuple[Kind, ...] = tuple(FINDS)
TUNED: tuple[tuple[str, str, type[Any]], ...] = tuple(
    (row.name, row.words, row.settings) for row in DETECTORS if row.settings is not None
)
"""Name, words and settings of what `spec.detectors` tunes."""
UNRULED = (Kind.EXPRESSION, Kind.LOG_MATCH, Kind.ENGINE_TROUBLE, Kind.UNSEEN, Kind.NODE_SICK, Kind.CANNOT_ACT, Kind.UNREAD)
RULED_KINDS = tuple(kind for kind in KINDS if kind not in UNRULED)
"""What a rule may be `on`. One on an expression says `expr` instead, and a pattern over logs says itself what follows; of what a
scheduler does, sentinel tries again or waits, whatever the policy; a node that its check calls sick is left out; and where
sentinel itself cannot act, nothing is left but to call a person."""
