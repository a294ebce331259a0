"""What trainers print, a line a step: nanoGPT, llm.c, modded-nanogpt, torchtitan, fairseq and metaseq, Hugging Face's Trainer.

    iter 100: loss 2.3456, time 210.15ms            nanoGPT; `step 250: train loss 2.1, val loss 2.2`
    s:100 trl:4.5 lr:0.0003 norm:0.7                llm.c's main.log; `tel` is the validation loss
    step: 10  loss:  7.8  grad_norm:  1.2           torchtitan
    {'loss': 2.3, 'grad_norm': 0.5, 'epoch': 0.1}   Hugging Face: names no step, so its lines are counted, and that is said

A line counts when it names a step and a training or validation loss; every other line is passed over. Where ranks stand in
front of the lines, one rank is listened to.
"""

from __future__ import annotations

import re

from sentinel.model.readings import StepReading
from sentinel.run_files.stream_lines import LARGEST_INT
from sentinel.telemetry.log_reader import ATTEMPT
from sentinel.telemetry.metric_names import canonical
from sentinel.telemetry.ranks import Speaker

_STEP = re.compile(
    rb"(?:^|[\s\[(|,])(?:global[ _]step|step|iteration|iter|num_updates|s) ?[:= ] ?(\d{1,16})(?=[\s:/,|\])]|$)", re.IGNORECASE
)
_PAIR = re.compile(
    rb"(?<![\w/.\-])([A-Za-z][\w/.\-]{0,99}(?: (?:loss|norm|rate))?) ?[:= ] ?"
    rb"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf(?:inity)?))(?![\w.])",
    re.IGNORECASE,
)
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_QUOTES = bytes.maketrans(b"\"'{}", b"    ")
_ALIASES = {"trl": "loss", "tel": "val_loss", "norm": "grad_norm", "gnorm": "grad_norm", "step_loss": "loss"}
_NO_METRIC = frozenset({"step", "time_s", "s"})
LINE_MAX = 4096  # a longer line is no progress line
NAMES_MAX = 4096


class PrintedLines:
    """A line parser. `remark`: what a reader of the results should know about the steps."""

    def __init__(self) -> None:
        self.remark = ""
        self._speaker = Speaker()
        self._names: dict[bytes, str] = {}
        self._counted = 0

    def __call__(self, line: bytes) -> StepReading | None:
        if (b"loss" not in line and b"trl" not in line and b"tel" not in line) or len(line) > LINE_MAX:
            return None
        if b"\x1b" in line:
            line = _COLOUR.sub(b"", line)
        plain = b" ".join(line.rstrip(b"\r").rpartition(b"\r")[2].translate(_QUOTES).split())
        found = _STEP.search(plain)
        if found is None and not _is_trainer_print(line):
            return None
        metrics = self._pairs(plain)
        if "loss" not in metrics and "val_loss" not in metrics:
            return None
        if self._speaker.is_other(line):
            self.remark = self.remark or "several ranks print into it; the first of them is listened to"
            return None
        if found is None:
            return StepReading(ATTEMPT, self._count("loss" in metrics), 0.0, (), metrics)
        step = int(found[1])
        if step >= LARGEST_INT:
            raise ValueError(f"{step} is no step")
        return StepReading(ATTEMPT, step, 0.0, (), metrics)

    def _count(self, trained: bool) -> int:
        self.remark = "its lines name no step, so they are counted: 'step' is the number of the logged line"
        self._counted += trained
        return self._counted

    def _pairs(self, plain: bytes) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for name, number in _PAIR.findall(plain):
            known = self._names.get(name)
            if known is None:
                text = name.decode(errors="replace")
                known = _ALIASES.get(text) or canonical(text)
                if len(self._names) < NAMES_MAX:
                    self._names[name] = known
            if known not in _NO_METRIC:
                metrics.setdefault(known, float(number))
        return metrics


def looks_like_printed(head: bytes) -> bool:
    """Two lines that count, within the head."""
    parse, count = PrintedLines(), 0
    for line in head.split(b"\n")[:-1] or [head]:
        try:
            count += parse(line) is not None
        except ValueError:
            continue
        if count >= 2:
            return True
    return False


def _is_trainer_print(line: bytes) -> bool:
    """A dictionary as Hugging Face's Trainer prints it; its last one, of the whole run, is no step."""
    return b"'epoch':" in line and (b"'loss':" in line or b"'eval_loss':" in line) and b"'train_runtime':" not in line
