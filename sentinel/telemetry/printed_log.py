"""What trainers print, a line a step: nanoGPT, llm.c, modded-nanogpt, torchtitan, litgpt, fairseq and metaseq, NeMo, Lightning's
progress bars, Hugging Face's Trainer, DeepSpeed's engine; and a block of lines a step: OLMo, Composer.

    iter 100: loss 2.3456, time 210.15ms            nanoGPT; `step 250: train loss 2.1, val loss 2.2`
    s:100 trl:4.5 lr:0.0003 norm:0.7                llm.c's main.log; `tel` is the validation loss
    step: 10  loss:  7.8  grad_norm:  1.2           torchtitan; `validate step: 10  loss:  7.9` is held-out
    [step=10/1000,epoch=0]                          OLMo; behind it lines such as `    train/CrossEntropyLoss=7.8`
    Epoch 0: 10%|█ | 9/99 [00:05<00:50, loss=7.8]   a bar counts the steps of its epoch; every redrawing is a line
    {'loss': 2.3, 'grad_norm': 0.5, 'epoch': 0.1}   Hugging Face: names no step, so its lines are counted, and that is said

A line counts when it names a step and a training or validation loss; every other line is passed over. A validation loss without
a step belongs to the step before it. Where ranks stand in front of the lines, one rank is listened to.
"""

from __future__ import annotations

import re

from sentinel.model.metrics import BY_NAME
from sentinel.model.readings import StepReading
from sentinel.run_files.stream_lines import ensure_step
from sentinel.telemetry.deepspeed_log import DeepSpeedNotes
from sentinel.telemetry.line_layout import LineLayouts
from sentinel.telemetry.log_reader import ATTEMPT
from sentinel.telemetry.metric_names import canonical
from sentinel.telemetry.printed_pairs import NUMBER, PairReader, PrintedNumber, number_of, plain_colours, plain_line
from sentinel.telemetry.ranks import Speaker

_DIGITS = rb"(\d{1,3}(?:,\d{3})+|\d{1,30})(?:\.0*)?(?=[\s:/;|)\]]|,(?!\d{3}(?!\d))|$)"
_GLOBAL_STEP = re.compile(rb"(?:^|[\s\[(|,])global[ _]?step ?[:= ] ?" + _DIGITS, re.IGNORECASE)
_STEP = re.compile(
    rb"(?:^|[\s\[(|,:])(?:step|iteration|iter(?:\(train\))?|num_updates|s) ?[:= ] ?(?:\[ ?)?" + _DIGITS, re.IGNORECASE
)
_EPOCH = re.compile(rb"(?:^|[\s\[(|,])epoch ?[:= ] ?\[?(\d{1,7})(?=[\s:/,;|)\]]|$)", re.IGNORECASE)
_BAR = re.compile(rb"(?:(?:^|[\s|])(\d{1,16})/(\d{1,16})|(?:^|\s)(\d{1,16})it) \[\d+:\d\d")
_BLOCK = re.compile(rb"\[(?:epoch=\d+\]\[)?(?:step|batch)=(\d[\d,]{0,20})(?:/[^\],]*)?(?:,[^\]]*)?\]:?\s*$")
_ENTRY = re.compile(rb"(?:\[?(?:rank)?\d+\]?:)?\s+(?:(?:Train|Eval) )?([A-Za-z][^=:]{0,99})(?:=|: )(" + NUMBER + rb")\s*")
_EVALUATION = re.compile(rb"\s*step \d+: train loss [^,\s]+, val loss ")  # nanoGPT's
_FINAL = re.compile(rb"\b(?:best|lowest|final|min|minimum)\b", re.IGNORECASE)
_WORDS = (b"oss", b"LOSS", b"trl", b"tel", b"skipped=")  # a line without any of them tells nothing
_EPOCH_NAME, _STEP_NAME, _TOTAL_NAME = "epoch", "step", "steps of an epoch"
LINE_MAX = 4096  # a longer line is no progress line
BLOCK_HEADER_MAX = 200  # it ends its line; looked for in all of a long line, it takes time in the line's square
SEVERAL_RANKS = "several ranks print into it; the first of them is listened to"
COUNTED = "its lines name no step, so they are counted: 'step' is the number of the logged line"


class PrintedLines:
    """A line parser. `remark`: what a reader of the results should know about the steps."""

    splits_at_returns = True  # progress bars are redrawn on one line

    def __init__(self) -> None:
        self._remark = ""
        self._speaker = Speaker()
        self._pairs = PairReader()
        self._layouts = LineLayouts(wholes=(_STEP_NAME, _TOTAL_NAME))
        self._deepspeed = DeepSpeedNotes()
        self._counted = self._printed = 0
        self._last_step: int | None = None
        self._block_step: int | None = None  # of the block whose lines come now
        self._block_metrics: set[str] = set()
        self._val_loss: float | None = None  # as told last
        self._steps_have_lines = False  # with a loss and no validation loss
        self._bar: tuple[int, dict[str, float]] = (-1, {})  # as last drawn

    @property
    def remark(self) -> str:
        return self._remark or self._deepspeed.remark

    def __call__(self, line: bytes) -> StepReading | None:
        values = self._layouts.read(line)
        if values is not None:
            return self._known_layout(line, values)
        if self._block_step is not None or b"step=" in line or b"batch=" in line:
            entry = self._block_line(line)
            if entry is not None:
                return entry
        if len(line) > LINE_MAX or not any(word in line for word in _WORDS):
            return None
        return self._engine_line(line) if b"skipped=" in line or b"loss scale" in line else self._slowly(line)

    def _known_layout(self, line: bytes, values: dict[str, float]) -> StepReading | None:
        if self._speaker.is_other(line):
            self._remark = self._remark or SEVERAL_RANKS
            return None
        step = values.pop(_STEP_NAME, None)
        if step is not None and _TOTAL_NAME in values:
            return self._bar_drawn(int(step), int(values.pop(_TOTAL_NAME)), values)
        return self._reading(self._count("loss" in values) if step is None else _whole(step), values, line)

    def _slowly(self, line: bytes) -> StepReading | None:
        plain = plain_line(line)
        bar = _BAR.search(plain)
        found = None if bar else _GLOBAL_STEP.search(plain) or _STEP.search(plain)
        numbers = self._pairs.read(plain)
        if "loss" not in numbers and "val_loss" not in numbers and not _other_losses(numbers):
            return None
        if self._speaker.is_other(line):
            self._remark = self._remark or SEVERAL_RANKS
            return None
        if bar is not None and "loss" in numbers and plain.count(b"loss=") > 1:  # a running mean stands beside the step's loss
            numbers["loss"] = self._pairs.read(plain.replace(b" loss=", b" mean=")).get("loss") or numbers["loss"]
        metrics = {name: one.value for name, one in numbers.items()}
        spots = {name: (one.start, one.factor) for name, one in numbers.items()}
        epoch = _EPOCH.search(plain)
        if epoch is not None and _EPOCH_NAME not in metrics:
            metrics[_EPOCH_NAME], spots[_EPOCH_NAME] = float(epoch[1]), (epoch.start(1), 1.0)
        if bar is not None:
            if bar[2]:
                self._layouts.learn(line, plain, spots | {_STEP_NAME: (bar.start(1), 1.0), _TOTAL_NAME: (bar.start(2), 1.0)})
            return self._bar_drawn(int(bar[1] or bar[3]), int(bar[2] or 0), metrics)
        if found is not None:
            spots[_STEP_NAME] = (found.start(1), 1.0)
            self._layouts.learn(line, plain, spots)
            return self._reading(_whole(int(found[1].replace(b",", b""))), metrics, plain)
        if _is_trainer_print(line):
            self._layouts.learn(line, plain, spots)
            return self._reading(self._count("loss" in metrics), metrics)
        if self._last_step is not None and "loss" not in metrics and "val_loss" in metrics and not _FINAL.search(plain):
            return StepReading(ATTEMPT, self._last_step, 0.0, (), {"val_loss": metrics["val_loss"]})
        return None

    def _reading(self, step: int, metrics: dict[str, float], line: bytes = b"") -> StepReading:
        """Several trainers print the newest validation loss on every line until there is another: it is told once. nanoGPT's line
        of an evaluation has a loss over training data, too: where its steps have lines of their own, it is none of theirs."""
        held_out = metrics.get("val_loss")
        if held_out is None:
            self._steps_have_lines = self._steps_have_lines or "loss" in metrics
        elif self._steps_have_lines and _EVALUATION.match(line) is not None:
            metrics.pop("loss", None)
        if held_out is not None:
            if held_out == self._val_loss and "loss" in metrics:
                del metrics["val_loss"]
            self._val_loss = held_out
        self._last_step = step
        self._printed += 1
        return StepReading(ATTEMPT, step, 0.0, (), metrics)

    def _count(self, trained: bool) -> int:
        self._remark = COUNTED
        self._counted += trained
        return self._counted

    def _bar_drawn(self, count: int, total: int, metrics: dict[str, float]) -> StepReading | None:
        """The step is the bar's own count, for the numbers behind it are rounded (`global_step=2e+3`). A bar that is drawn again
        tells nothing new."""
        step = count + int(metrics.get(_EPOCH_NAME, 0.0)) * total
        last_step, last = self._bar
        self._bar = (step, metrics)
        fresh = dict(metrics) if step != last_step else {name: value for name, value in metrics.items() if name not in last}
        return self._reading(_whole(step), fresh) if fresh else None

    def _engine_line(self, line: bytes) -> StepReading | None:
        """DeepSpeed's own. Where the trainer prints its steps as well, its loss is what counts, and the engine's lines are not
        told: they may be of another engine, or come before the steps they are about."""
        if self._deepspeed.takes_scale(line):
            return None
        found = self._deepspeed.step(line)
        if found is None:
            return self._slowly(line) if b"skipped=" not in line else None
        step, metrics = found
        if self._printed > 0 and self._last_step != step:
            return None
        self._counted = max(self._counted, step)
        return StepReading(ATTEMPT, _whole(step), 0.0, (), metrics) if metrics else None

    def _block_line(self, line: bytes) -> StepReading | None:
        """A line of a block of OLMo's or Composer's, or its header. Of what a block tells, the metrics that Sentinel knows."""
        line = plain_colours(line[:LINE_MAX]).rstrip(b"\r")
        header = _BLOCK.search(line, max(0, len(line) - BLOCK_HEADER_MAX))
        if header is not None:
            self._block_step = None if self._speaker.is_other(line) else _whole(int(header[1].replace(b",", b"")))
            self._block_metrics.clear()
            return None
        entry = _ENTRY.fullmatch(line) if self._block_step is not None else None
        if entry is None or self._block_step is None:
            self._block_step = None
            return None
        name = canonical(entry[1].decode(errors="replace"))
        if name not in BY_NAME or name in self._block_metrics or self._speaker.is_other(line):
            return None
        self._block_metrics.add(name)
        return self._reading(self._block_step, {name: number_of(entry[2])})


def looks_like_printed(head: bytes) -> bool:
    """Two lines that count, within the head."""
    parse, count = PrintedLines(), 0
    lines = head.replace(b"\r", b"\n").split(b"\n")
    for line in lines[:-1] or lines:
        try:
            count += parse(line) is not None
        except ValueError:
            count += 1  # a line of a step, and a step that cannot be: whoever reads it says so
        if count >= 2:
            return True
    return False


def _other_losses(numbers: dict[str, PrintedNumber]) -> bool:
    """A trainer of several models tells several losses (of the actor, of the critic) and calls none of them just so."""
    return sum(name.endswith(("_loss", " Loss", " loss")) for name in numbers) >= 2


def _whole(step: float) -> int:
    ensure_step(step)
    return int(step)


def _is_trainer_print(line: bytes) -> bool:
    """A dictionary as Hugging Face's Trainer prints it; its last one, of the whole run, is no step."""
    return b"'epoch':" in line and (b"'loss':" in line or b"'eval_loss':" in line) and b"'train_runtime':" not in line
