"""layer_imbalance: one layer's share of the gradient norm leaves its own band, up or down, while the others keep theirs.

Sees: a layer whose square of `grad_norm/LAYER` (PROTOCOL.md) stands at `factor` times its usual share of the sum, or at one over
`factor` of it, `z` robust deviations away, for `lasting_steps` steps. A share is a part of a sum: where one layer rises all other
shares fall. So each share is corrected by what the median layer's did: then only the layer that moved moves. The total norm plays
no part: a fault that hides in it is seen, and a batch that is hard for all layers alike is not.

Does not see: runs that log fewer than `layers_min` layers; a layer that never holds `floor` of the squared norm; a share that
moves by less than the factor within `window_steps` (the band follows); a jump in the first `min_history_steps` of an attempt,
after a change of settings (each can shift the shares by design) or in a grace; whether it does harm. Where half of the layers
move together the other half is named. Layers beyond the first LAYERS_MAX of a row are not judged. Rows in which a layer's norm is
no number are non_finite's business, and are left out.

Rows are taken in blocks of five, so that one odd batch moves nothing; the onset is that of its block. A block is judged before it
is learned, and is learned only where it was not breached. A share that stays away for longer than the window is the new band.

Source: Sentinel's own rule on `streams/baseline.py`. In GLM-130B (arXiv 2210.02414) the embedding's gradient norm rose some steps
ahead of the loss spikes. No labelled runs with norms of layers are at hand: the constants are chosen on synthetic rows and
on small runs of the bundled trainer (LOG.md). Therefore info: it is recorded, and no shipped playbook acts on it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sentinel.client.settings import SETTINGS
from sentinel.detectors.contract import NOTHING, Detector, Start, WatchedRun
from sentinel.detectors.hold import Hold, HoldChange, Holding, HoldState
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.metrics import shown_name
from sentinel.model.readings import Receipt, StepReading
from sentinel.streams.baseline import Baseline, Score
from sentinel.streams.family import members_of

KIND = Kind("layer_imbalance")
FAMILY = "grad_norm/"
BLOCK = 5
BLOCKS_MIN = 2  # however coarsely is logged
LAYERS_MAX = 256  # the largest published decoders have some 130 blocks
TINY = 1e-12  # of the sum: a layer without a gradient (frozen) has a logarithm, too
NAMED_MAX = 4


@dataclass(frozen=True, slots=True)
class LayerImbalanceSettings:
    """One layer's share of the gradient norm leaves its own band: recorded as info."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    factor: float = setting(2.5, "multiple", "Times the layer's usual share of the squared norm, or one over it …")
    z: float = setting(3.0, "positive", "… and so many robust deviations away …")
    lasting_steps: int = setting(20, "steps", "… for so many steps.", alias="lasting")
    floor: float = setting(0.01, "fraction", "A layer that holds less of the squared norm, now and usually, is not judged.")
    window_steps: int = setting(200, "steps", "Steps that a layer's usual share is the median of.", alias="window")
    min_history_steps: int = setting(200, "steps", "Steps seen before it judges at all.", alias="min_history")
    layers_min: int = setting(4, "count", "Layers that a row must name for a median of them.", alias="min_layers")


class Layer:
    """One layer: the band of its corrected share, and the life of its present breach."""

    __slots__ = ("baseline", "holding", "metric", "onset", "score")

    def __init__(self, metric: str, settings: LayerImbalanceSettings) -> None:
        self.metric = metric
        self.baseline = Baseline(settings.window_steps, settings.window_steps, settings.min_history_steps, log_space=True)
        hold = Hold(steps=settings.lasting_steps)
        self.holding = Holding(hold, calm_steps=settings.lasting_steps, rows_min=BLOCKS_MIN)
        self.score: Score | None = None
        self.onset: tuple[int, float] = (0, 0.0)

    @property
    def name(self) -> str:
        return self.metric.removeprefix(FAMILY)

    @property
    def times(self) -> float:
        """Its corrected share in units of the usual one; 1 where it is not judged."""
        return 1.0 if self.score is None else max(1.0 + self.score.rise, TINY)


class LayerImbalance(Detector):
    kind = KIND
    reads = needs = frozenset({FAMILY})

    def __init__(self, settings: LayerImbalanceSettings, run: WatchedRun) -> None:
        self._settings = settings
        self._severity = run.severity(KIND)
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._start = start
        self._layers: tuple[Layer, ...] = ()
        self._names: tuple[str, ...] = ()
        self._logged, self._gap = 0, 1  # layers that the newest row names, judged or not; steps between rows
        self._last_step: int | None = None  # the newest row that named the layers
        self._drop_block()

    def _drop_block(self) -> None:
        """Forget the rows of the unfinished block."""
        self._rows: list[list[float]] = []
        self._since: tuple[int, float] = (0, 0.0)

    def resume(self, receipt: Receipt, history: tuple[StepReading, ...], now_s: float) -> None:
        """What breached in the past was told in the past. Under settings that shift the level the past says nothing."""
        if any(row.shifts(receipt.overrides.get(key)) for key, row in SETTINGS.items()):
            self.begin(self._start)
        for layer in self._layers:
            layer.holding.reset()
        self._drop_block()

    def change_settings(self, quiet_until: int | None, moved: Collection[str]) -> None:
        """The bands are those of the old settings: learned anew, after the grace where there is one."""
        if "grad_norm" in moved:
            self.begin(self._start if quiet_until is None else replace(self._start, quiet_until=quiet_until))

    def learn(self, reading: StepReading) -> None:
        if self._take(reading, 0.0):
            self._judge_block(reading)

    def step(self, reading: StepReading, covered: int, now_s: float) -> Sequence[Finding]:
        if reading.step <= self._start.quiet_until or not self._take(reading, now_s):
            return NOTHING
        fired = self._judge_block(reading)
        return (self._finding(fired, reading),) if fired else NOTHING

    # What a row says.

    def _take(self, reading: StepReading, now_s: float) -> bool:
        """Take a row in that names layers; True when it completed a block."""
        metrics, names = reading.metrics, self._names
        if not names or names[0] not in metrics:
            if not self._meet(metrics):
                return False
            names = self._names
        try:
            squares = [metrics[name] ** 2 for name in names]
        except (KeyError, OverflowError):
            self._meet(metrics)
            return False
        total = sum(squares)
        if not 0.0 < total < math.inf:
            return False
        if self._last_step is not None:
            self._gap = max(1, reading.step - self._last_step)
        self._last_step = reading.step
        if min(squares) < TINY * total:
            squares = [max(square, TINY * total) for square in squares]
        if not self._rows:
            self._since = reading.step, now_s
        self._rows.append([square / total for square in squares])
        return len(self._rows) == BLOCK

    def _meet(self, metrics: Mapping[str, float]) -> bool:
        """The layers that this row names; True when they can be judged. Other layers than before are other shares."""
        names = tuple(members_of(FAMILY, metrics))
        self._logged = len(names)
        names = names[:LAYERS_MAX]
        if names != self._names:
            self._layers, self._names = (), ()
            if len(names) >= self._settings.layers_min:
                self._layers, self._names = tuple(Layer(name, self._settings) for name in names), names
            self._drop_block()
        return bool(self._names)

    # What a block says.

    def _judge_block(self, reading: StepReading) -> list[Layer]:
        """The layers whose breach has just lasted long enough."""
        shares = [sorted(values)[BLOCK // 2] for values in zip(*self._rows, strict=True)]
        covered, since = reading.step - self._since[0] + self._gap, self._since
        self._drop_block()
        fired: list[Layer] = []
        common = self._common(reading.step, shares)
        for layer, share in zip(self._layers, shares, strict=True):
            value = share / common
            score = layer.score = layer.baseline.judge(reading.step, value)
            if score is None or not self._is_out(layer, score, share):
                layer.baseline.learn(reading.step, value)
                layer.holding.clean(covered)
                continue
            change = layer.holding.breach(covered, reading.time_s)
            if layer.holding.rows == 1 and change is HoldChange.PENDING:
                layer.onset = since
            if change is HoldChange.FIRED:
                fired.append(layer)
            if layer.baseline.refuse(reading.step, value):
                layer.holding.reset()
        if tuple(members_of(FAMILY, reading.metrics))[:LAYERS_MAX] != self._names:
            self._meet(reading.metrics)
        return fired

    def _common(self, step: int, shares: Sequence[float]) -> float:
        """What the median layer's share is times its usual one; 1 while that is not known."""
        scores = [layer.baseline.judge(step, share) for layer, share in zip(self._layers, shares, strict=True)]
        rises = sorted(score.rise for score in scores if score is not None)
        return max(1.0 + rises[len(rises) >> 1], TINY) if len(rises) == len(scores) else 1.0

    def _is_out(self, layer: Layer, score: Score, share: float) -> bool:
        """`share`: in the block's middle, as it is."""
        settings, times = self._settings, layer.times
        if abs(score.z) <= settings.z or 1.0 / settings.factor <= times <= settings.factor:
            return False
        return max(share, _usual(share, times)) >= settings.floor

    def _finding(self, fired: list[Layer], reading: StepReading) -> Finding:
        """One for all layers that fire in this block; it names the one that is farthest out."""
        worst = max(fired, key=lambda layer: abs(math.log(layer.times)))
        assert worst.score is not None
        norm, total = reading.metrics[worst.metric], sum(reading.metrics[name] ** 2 for name in self._names)
        share, usual = norm**2 / total, _usual(norm**2 / total, worst.times)
        onset, visible_s = worst.onset
        reason = (
            f"{worst.name} holds {100 * share:.3g} % of the squared gradient norm, usually {100 * usual:.3g} %: beside the "
            f"{len(self._names) - 1} others {worst.times:.3g} times its usual share since step {onset}, z {worst.score.z:+.1f}"
        )
        others = [layer.name for layer in fired if layer is not worst]
        if others:
            more = f" and {len(others) - NAMED_MAX} more" if len(others) > NAMED_MAX else ""
            reason += f"; out as well: {', '.join(others[:NAMED_MAX])}{more}"
        return Finding(
            KIND, self._severity, self._start.attempt, onset, reading.step, visible_s, reason,
            metric=worst.metric, value=norm, baseline=norm / math.sqrt(worst.times),
        )  # fmt: skip

    def verdict(self) -> tuple[Verdict, str]:
        if self._logged and not self._names:
            words = f"only {self._logged} layers have a {shown_name(FAMILY)}, {self._settings.layers_min} are needed"
            return Verdict.UNKNOWN, words
        judged = [layer for layer in self._layers if layer.score is not None]
        if not judged:
            return Verdict.UNKNOWN, "too little history to know the layers' usual shares"
        out = [layer for layer in judged if layer.holding.state is HoldState.FIRING]
        if out:
            return Verdict.BREACHED, "; ".join(_standing(layer) for layer in out[:NAMED_MAX])
        farthest = max(judged, key=lambda layer: abs(math.log(layer.times)))
        beyond = f", of {self._logged}" if self._logged > len(self._names) else ""
        return Verdict.HEALTHY, f"{len(judged)} layers{beyond}; the farthest: {_standing(farthest)}"


def _standing(layer: Layer) -> str:
    return f"{layer.name} at {layer.times:.3g} times its usual share"


def _usual(share: float, times: float) -> float:
    """The share that a layer would hold, of the others as they are, were its square not `times` its usual one."""
    square = share / times
    return square / (1.0 - share + square)
