"""Whether the rungs of a playbook can be climbed: none contradicts itself, each can be reached, the last calls a person."""

from __future__ import annotations

from collections.abc import Iterator, Set

from sentinel.client.setting_types import Flag
from sentinel.client.settings import BY_WORD
from sentinel.errors import Problem
from sentinel.policy.schema import Rung

# Settings that `until` may stand beside.
_VALUES = tuple(word for word, row in BY_WORD.items() if not isinstance(row.type, Flag))
# What only a relaunch can change.
_AT_LAUNCH = (*(word for word, row in BY_WORD.items() if row.changes == "at launch"), "reseed_data", "exclude")
_RELAUNCH = ("resume", "rollback")


def check_playbook(
    path: str, playbook: tuple[Rung, ...], probation_steps: int, capabilities: Set[str] | None
) -> Iterator[Problem]:
    """Problems of one playbook, rung by rung; `path` is where it stands in the document."""
    ended_at: int | None = None
    for index, rung in enumerate(playbook):
        place = f"{path}[{index}]"
        if ended_at is not None:
            message = f"never reached: rung {ended_at + 1} pages and ends the playbook with 'then'"
            yield Problem(place, message, "move this rung before the page, or remove it")
        if ended_at is None and rung.page is not None and rung.then is not None:
            ended_at = index
        yield from _check_combination(place, rung)
        yield from _check_extension(place, rung, playbook[:index])
        yield from _check_skip_window(place, rung)
        yield from _check_until(place, rung, probation_steps)
        yield from _check_available(place, rung, capabilities)
    yield from _check_last(f"{path}[{len(playbook) - 1}]", playbook)


def _check_last(place: str, playbook: tuple[Rung, ...]) -> Iterator[Problem]:
    last = playbook[-1]
    if last.page is None:
        message = "no last resort: when this rung fails, nobody is called"
        yield Problem(place, message, "end the playbook with 'page: {severity: critical}' and 'then: stop_now'")
        return
    if last.page.severity == "info":
        message = "the last resort is a page of severity info, which wakes nobody"
        yield Problem(f"{place}.page.severity", message, "write warning or critical", "warning")
    if last.then is None:
        message = "the last page does not say what the run does meanwhile; 'stop_now' is assumed"
        yield Problem(f"{place}.page", message, "add then: stop_now, hold or keep_training", "warning")


def _check_combination(place: str, rung: Rung) -> Iterator[Problem]:
    parts = rung.parts
    acts = tuple(part for part in parts if part != "page")
    relaunches = any(part in parts for part in _RELAUNCH)
    if rung.wait is not None and len(parts) > 1:
        others = " and ".join(part for part in parts if part != "wait")
        yield Problem(f"{place}.wait", f"waiting and {others} contradict each other", "give the wait a rung of its own")
    if rung.resume is not None and rung.rollback is not None:
        message = "resume goes on from the newest checkpoint, rollback from an older one: a rung can do only one"
        yield Problem(f"{place}.resume", message, "remove one of the two")
    if rung.diagnose and (rung.rollback is None or any(part not in ("rollback", "diagnose", "page") for part in parts)):
        message = "a diagnosis repeats the failed stretch unchanged: it needs a rollback, and nothing else beside it"
        yield Problem(f"{place}.diagnose", message, "write rollback: {before_onset: 100 steps} and diagnose: true alone")
    if rung.skip is not None and rung.rollback is None:
        message = "a skip without a rollback leaves out samples that have already been trained on"
        yield Problem(f"{place}.skip", message, "add rollback: {before_onset: 100 steps}")
    if rung.reseed_data and rung.skip is not None:
        message = "in a new data order the samples around the onset lie anywhere, so there is nothing to skip"
        yield Problem(f"{place}.reseed_data", message, "give reseed_data a rung of its own, after those that skip")
    for part in _AT_LAUNCH:
        if part in parts and not relaunches:
            yield Problem(f"{place}.{part}", f"{part} takes effect only at a relaunch", "add a rollback or a resume to this rung")
    if rung.hold and len(acts) > 1:
        others = " and ".join(part for part in acts if part != "hold")
        yield Problem(f"{place}.hold", f"hold pauses training, and {others} goes on with it", "give the hold a rung of its own")
    precision = rung.settings.get("precision")
    if "loss_scale" in rung.settings and precision in ("bf16", "fp32"):
        yield Problem(f"{place}.loss_scale", f"{precision} has no loss scale", "remove loss_scale or precision")
    if rung.approval is not None and (rung.wait is not None or rung.hold or not acts):
        message = "nothing is done here that a person could allow or refuse"
        yield Problem(f"{place}.approval", message, "move approval to a rung that acts, such as a rollback")
    if rung.then is not None and rung.page is None:
        message = "'then' says what follows a page, and this rung pages nobody"
        yield Problem(f"{place}.then", message, "add page: {severity: critical}")
    if rung.then is not None and rung.page is not None and acts:
        message = f"'then' ends the playbook, so {' and '.join(acts)} would never be judged"
        yield Problem(f"{place}.then", message, "give page and then a rung of their own")


def _check_extension(place: str, rung: Rung, earlier: tuple[Rung, ...]) -> Iterator[Problem]:
    if rung.rollback is not None and rung.rollback.further is not None and not any(before.rollback for before in earlier):
        yield Problem(f"{place}.rollback.further", "no rung before this one rolls back", "write before_onset: 100 steps instead")
    if rung.skip is not None and rung.skip.wider is not None and not any(before.skip for before in earlier):
        remedy = "write {from: onset - 20 steps, to: detected + 200 steps} instead"
        yield Problem(f"{place}.skip.wider", "no rung before this one skips", remedy)
    if rung.skip is not None and any(before.reseed_data for before in earlier):
        message = "a rung before this one begins a new data order, in which the samples around the onset lie anywhere"
        yield Problem(f"{place}.skip", message, "move the rung with reseed_data behind those that skip")


def _check_skip_window(place: str, rung: Rung) -> Iterator[Problem]:
    skip = rung.skip
    if skip is None or skip.from_ is None or skip.to is None:
        return
    first, end = skip.from_, skip.to
    same = first.anchor == end.anchor
    if (same and first.offset_steps >= end.offset_steps) or (first.anchor == "detected" and end.anchor == "onset"):
        remedy = "write 'from' before 'to'; detection comes after the onset"
        yield Problem(f"{place}.skip.to", "the window ends before it begins", remedy)
    back = rung.rollback.before_onset_steps if rung.rollback is not None else None
    if back is not None and first.anchor == "onset" and first.offset_steps < -back:
        message = f"the skip begins {-first.offset_steps} steps before the onset, but the rollback goes back only {back}"
        yield Problem(f"{place}.skip.from", message, f"roll back at least '{-first.offset_steps} steps'", "warning")


def _check_until(place: str, rung: Rung, probation_steps: int) -> Iterator[Problem]:
    if rung.until_steps is None:
        return
    if not any(part in _VALUES for part in rung.parts):
        message = "'until' says when changed settings go back, and this rung changes none"
        yield Problem(f"{place}.until", message, f"remove it, or change one of: {', '.join(_VALUES)}")
    elif rung.until_steps < probation_steps:
        message = f"the settings go back after {rung.until_steps} steps, within the probation of {probation_steps}"
        yield Problem(f"{place}.until", message, "a repair is judged better while it is in force", "warning")


def _check_available(place: str, rung: Rung, capabilities: Set[str] | None) -> Iterator[Problem]:
    if capabilities is None:
        return
    if rung.skip is not None and "skip" not in capabilities:
        message = "the trainer cannot skip samples (capability 'skip')"
        yield Problem(f"{place}.skip", message, "remove the skip, or teach the trainer to skip and declare it")
    if rung.skip is not None and rung.skip.only is not None and "attribution" not in capabilities:
        message = "the trainer cannot look at single samples (capability 'attribution')"
        yield Problem(f"{place}.skip.only", message, "remove it, or teach the trainer to inspect samples and declare it")
    if rung.reseed_data and "skip" not in capabilities:
        message = "the trainer cannot change its data order (capability 'skip')"
        yield Problem(f"{place}.reseed_data", message, "remove it, or teach the trainer to and declare it")
    if rung.exclude is not None and "exclude" not in capabilities:
        message = "the command does not declare that it can leave a node out (capability 'exclude'): this rung is passed over"
        yield Problem(f"{place}.exclude", message, "begin the run with --with exclude, if the command honours it", "warning")
    live = tuple(part for part in rung.parts if part in BY_WORD and BY_WORD[part].changes == "live")
    if live and not any(part in rung.parts for part in _RELAUNCH) and "live_overrides" not in capabilities:
        message = "the trainer cannot change settings while it runs (capability 'live_overrides')"
        yield Problem(f"{place}.{live[0]}", message, "add a rollback or a resume, so that it changes at a relaunch")
