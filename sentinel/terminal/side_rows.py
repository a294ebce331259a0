"""The rows of a frame beside the curves: ranks, GPUs, checkpoints, and whether a person was paged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from sentinel.model.actions import SendPage
from sentinel.model.amounts import time_words
from sentinel.policy.quiet_hours import hold_words
from sentinel.run_files.gpu_standing import GpuSeen
from sentinel.run_files.heartbeats import RankSeen
from sentinel.run_files.stall import is_silent
from sentinel.terminal.clean import clean
from sentinel.terminal.picture import Picture, shown_incident

LABEL_WIDTH = 10
GIB = 1 << 30


def rank_rows(picture: Picture, rows: int) -> list[RenderableType]:
    """A row each where there is room, else all of them in one: phases, steps, and who has been silent longest."""
    ranks, attempt = picture.ranks, picture.state.attempt
    is_over = attempt is None or attempt.is_over
    if not ranks:
        return [_row("ranks", "no heartbeat yet" if not is_over else "none", "dim")]
    if len(ranks) > 1 and rows >= len(ranks):
        return [_row(f"rank {seen.rank}", _one_rank(seen, is_over), _style(seen, picture, is_over)) for seen in ranks]
    steps = (min(seen.step for seen in ranks), max(seen.step for seen in ranks))
    at = f"step {steps[0]}" if steps[0] == steps[1] else f"steps {steps[0]}..{steps[1]}"
    if is_over:
        return [_row("ranks", f"{len(ranks)}, ended, {at}", "dim")]
    phases = ", ".join(f"{count} {clean(phase)}" for phase, count in Counter(seen.phase for seen in ranks).most_common(4))
    slowest = max(ranks, key=lambda seen: seen.silent_s)
    silent = f"rank {slowest.rank} silent {time_words(slowest.silent_s)}"
    return [_row("ranks", f"{len(ranks)}: {phases}; {at}; {silent}", _style(slowest, picture, is_over))]


def gpu_rows(picture: Picture, rows: int) -> list[RenderableType]:
    gpus = picture.gpus
    if not gpus:
        return [_row("GPUs", picture.gpus_why_not or "not looked at", "dim")]
    if len(gpus) == 1 or rows >= len(gpus):
        return [_row(f"GPU {gpu.index}", _one_gpu(gpu), "bold red" if gpu.lost else "") for gpu in gpus]
    busy, hot = _known(gpu.busy_percent for gpu in gpus), _known(gpu.temperature_c for gpu in gpus)
    used, total = (_known(getattr(gpu, f"memory_{word}_bytes") for gpu in gpus) for word in ("used", "total"))
    watts = _known(gpu.power_mw for gpu in gpus)
    words = [f"{len(gpus)}"]
    words += [f"busy {min(busy)} to {max(busy)} %"] if busy else []
    words += [f"memory {sum(used) / GIB:.0f} of {sum(total) / GIB:.0f} GiB"] if used and total else []
    words += [f"up to {max(hot)} °C"] if hot else []
    words += [f"{sum(watts) / 1000:.0f} W"] if watts else []
    lost = sum(gpu.lost for gpu in gpus)
    return [_row("GPUs", ", ".join([*words, f"{lost} LOST"] if lost else words), "bold red" if lost else "")]


def checkpoint_row(picture: Picture) -> RenderableType:
    """The newest that a run may go on from, how many there are, and what was put aside."""
    state = picture.state
    good = [checkpoint for checkpoint in state.checkpoints if not checkpoint.condemned]
    if not state.checkpoints:
        return _row("saved", "no checkpoint", "dim")
    words = [f"{len(state.checkpoints)} checkpoints" if len(state.checkpoints) > 1 else "1 checkpoint"]
    if good:
        newest = good[-1]
        old_s = picture.now_s - newest.committed_s if newest.committed_s is not None and not state.ended else None
        age = f", {time_words(old_s)} old" if old_s is not None else ""
        words.append(f"checkpoint {newest.step}{' verified' if newest.verified else ''}{age}")
    bad = len(state.checkpoints) - len(good)
    words += [f"{bad} not to be used"] if bad else []
    words += [f"{len(state.quarantined)} in quarantine"] if state.quarantined else []
    words += [f"{len(state.pruned)} deleted"] if state.pruned else []
    return _row("saved", "; ".join(words), "" if good else "bold red")


def page_row(picture: Picture) -> list[RenderableType]:
    """Whether a person was called for the incident shown, and has answered; nothing where nobody was."""
    incident = shown_incident(picture.state)
    held = incident.page.holds_back if incident is not None and incident.page is not None else None
    if incident is None or not (incident.pages or held):
        return []
    if held is not None:
        delivery_words = f"{len(incident.pages)} deliveries before" if incident.pages else "nobody is told yet"
        words = f"a person is to be called for incident {incident.id}, {delivery_words}; {hold_words(held)}"
        return [_row("page", words, "yellow")]
    on_its_way = [action for action in picture.state.pending.values() if isinstance(action, SendPage)]
    words = f"a person was called for incident {incident.id}"
    words += f", {len(incident.pages)} deliveries" if len(incident.pages) > 1 else ""
    if on_its_way:
        routes = sorted({action.route for action in on_its_way if action.route})
        words += f", {len(on_its_way)} on the way" + (f" ({', '.join(routes)})" if routes else "")
    if incident.page is not None and incident.page.resolved:
        return [_row("page", f"{words}; over: {incident.page.resolved}", "dim")]
    if incident.acknowledged_by:
        return [_row("page", f"{words}; seen by {incident.acknowledged_by}", "green")]
    if incident.is_closed and str(incident.state) == "recovered":
        return [_row("page", f"{words}; it has recovered", "dim")]
    return [_row("page", f"{words}; nobody has acknowledged it: sentinel ack {incident.id} RUN_DIR", "bold red")]


def _one_rank(seen: RankSeen, is_over: bool) -> str:
    host = f"  {seen.host}" if seen.host else ""
    silence = "" if is_over else f"  silent {time_words(seen.silent_s)}"
    return f"step {seen.step:<9} {seen.phase:<10}{silence:<16}{host}"


def _one_gpu(gpu: GpuSeen) -> str:
    if gpu.lost:
        return f"{gpu.name}: LOST, the driver cannot reach it"
    words = [gpu.name]
    words.append("busy unknown" if gpu.busy_percent is None else f"busy {gpu.busy_percent} %")
    if gpu.memory_used_bytes is not None and gpu.memory_total_bytes is not None:
        words.append(f"memory {gpu.memory_used_bytes / GIB:.1f} of {gpu.memory_total_bytes / GIB:.1f} GiB")
    words += [] if gpu.temperature_c is None else [f"{gpu.temperature_c} °C"]
    words += [] if gpu.power_mw is None else [f"{gpu.power_mw / 1000:.0f} W"]
    return ", ".join(words)


def _style(seen: RankSeen, picture: Picture, is_over: bool) -> str:
    return "yellow" if not is_over and is_silent(seen.silent_s, picture.stall, picture.now_s) else ""


def _known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _row(label: str, words: str, style: str = "") -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{label:<{LABEL_WIDTH}}")
    line.append(clean(words), style)
    return line
