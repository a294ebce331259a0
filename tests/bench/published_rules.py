"""Published spike rules, each from its formula, and our bank beside them. One call a step: does it raise an alarm now?

Sources (repository, file): OLMo-core optim/skip_step_optimizer.py · levanter optim/skipstep.py (Marin) · llm.c
llmc/outlier_detector.h, with the 7.0 of run_gpt3_125M.sh · llm-foundry callbacks/kill_loss_spike_callback.py · Megatron-LM
core/rerun_state_machine.py, with its check for NaN, which is on by default · ZClip zclip/zclip.py · ByteRobust (arXiv
2509.16293: a five-fold rise of loss or gradient norm, or NaN; of what is not said: here of the median of the last 100).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from tests.unit.detectors.bank_kit import alarms, make_bank, row

Rule = Callable[[int, float, float], bool]


class Rolling:
    """Mean and deviation of the last `size` values, whatever they are: a NaN stays until it leaves."""

    def __init__(self, size: int) -> None:
        self.values: deque[float] = deque(maxlen=size)
        self.squares: deque[float] = deque(maxlen=size)

    def push(self, value: float) -> None:
        self.values.append(value)
        self.squares.append(value * value)

    def stats(self, unbiased: bool = False) -> tuple[float, float]:
        count = len(self.values)
        mean = sum(self.values) / count
        variance = (sum(self.squares) - count * mean * mean) / (count - unbiased)
        return mean, math.sqrt(variance) if variance > 0.0 else (variance if variance != variance else 0.0)


def skip_step(*, unbiased: bool, floor: float = 0.0) -> Rule:
    """x - mean <= 6 deviations on both, or the step is skipped; the history keeps every value."""
    past = (Rolling(128), Rolling(128))

    def judge(step: int, loss: float, norm: float) -> bool:
        bad = False
        for window, value in zip(past, (loss, norm), strict=True):
            if len(window.values) >= 63:
                mean, deviation = window.stats(unbiased)
                bad = bad or not value - mean <= 6.0 * max(deviation, floor)
            window.push(value)
        return bad

    return judge


def llm_c() -> Rule:
    """z > 7 of a window of 128 that holds the value itself; sums run on for ever."""
    rings: tuple[deque[float], deque[float]] = (deque(), deque())
    sums = [[0.0, 0.0], [0.0, 0.0]]

    def judge(step: int, loss: float, norm: float) -> bool:
        bad = False
        for ring, total, value in zip(rings, sums, (loss, norm), strict=True):
            ring.append(value)
            total[0], total[1] = total[0] + value, total[1] + value * value
            if len(ring) > 128:
                old = ring.popleft()
                total[0], total[1] = total[0] - old, total[1] - old * old
            if len(ring) == 128:
                mean = total[0] / 128
                variance = total[1] / 128 - mean * mean
                bad = bad or (variance > 0.0 and (value - mean) / math.sqrt(variance) > 7.0)
        return bad

    return judge


def llm_foundry() -> Rule:
    """Loss at least twice the mean of the window for more than four batches; or half the window above the cap."""
    window: deque[float] = deque(maxlen=100)
    state = {"row": 0, "outliers": 0, "cap": math.inf}

    def judge(step: int, loss: float, norm: float) -> bool:
        state["row"] += 1
        bad = False
        if len(window) == 100:
            if state["row"] == 101:
                state["cap"] = min(max(window), 10.0)
            state["outliers"] = state["outliers"] + 1 if loss >= 2.0 * sum(window) / 100 else 0
            bad = state["outliers"] > 4
            if state["row"] >= 200 and max(window) > state["cap"]:
                bad = bad or sum(value > state["cap"] for value in window) >= 50
        window.append(loss)
        return bad

    return judge


def megatron() -> Rule:
    """Ten times the largest of the first 100, frozen; NaN and infinity at once."""
    largest = [0.0, 0.0]

    def judge(step: int, loss: float, norm: float) -> bool:
        if not math.isfinite(loss + norm):
            return True
        if step <= 100:
            largest[:] = max(largest[0], abs(loss)), max(largest[1], abs(norm))
            return False
        return abs(loss) >= 10.0 * largest[0] or abs(norm) >= 10.0 * largest[1]

    return judge


def zclip() -> Rule:
    """z > 2.5 of the gradient norm against moving averages, which are fed the clipped value."""
    first: list[float] = []
    state = {"mean": 0.0, "var": 0.0}

    def judge(step: int, loss: float, norm: float) -> bool:
        if len(first) < 25:
            first.append(norm)
            state["mean"] = sum(first) / len(first)
            state["var"] = sum((value - state["mean"]) ** 2 for value in first) / len(first)
            return False
        deviation = math.sqrt(state["var"]) if state["var"] >= 0.0 else math.nan
        z = (norm - state["mean"]) / (deviation + 1e-6)
        fed = state["mean"] + 2.5 * deviation / (z / 2.5) if z > 2.5 else norm
        state["mean"] = 0.97 * state["mean"] + 0.03 * fed
        state["var"] = 0.97 * state["var"] + 0.03 * (fed - state["mean"]) ** 2
        return z > 2.5

    return judge


def byterobust() -> Rule:
    """Five times the recent value, or NaN."""
    past: tuple[deque[float], deque[float]] = (deque(maxlen=100), deque(maxlen=100))

    def judge(step: int, loss: float, norm: float) -> bool:
        if not math.isfinite(loss + norm):
            return True
        bad = False
        for window, value in zip(past, (loss, norm), strict=True):
            if len(window) == 100:
                bad = bad or (value >= 2.0 * min(window) and value >= 5.0 * sorted(window)[50])
            window.append(value)
        return bad

    return judge


def ours() -> Rule:
    bank = make_bank()

    def judge(step: int, loss: float, norm: float) -> bool:
        return bool(alarms(bank.step(row(step, loss=loss, grad_norm=norm), float(step))))

    return judge


RULES: dict[str, Callable[[], Rule]] = {
    "sentinel": ours,
    "OLMo skip-step": lambda: skip_step(unbiased=True),
    "Marin/levanter": lambda: skip_step(unbiased=False, floor=1e-6),
    "llm.c z>7": llm_c,
    "LLM-Foundry": llm_foundry,
    "Megatron": megatron,
    "ZClip": zclip,
    "ByteRobust": byterobust,
}
