"""Whether the rungs of a playbook can be climbed: none contradicts itself, each can be reached, the last calls a person."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sentinel.errors import Problem
from sentinel.policy.available import lacking
from sentinel.policy.rung_words import Company
from sentinel.policy.schema import Rung
from sentinel.policy.schema_rungs import WORDS


def check_playbook(
    path: str,
    playbook: tuple[Rung, ...],
    probation_steps: int,
    capabilities: Collection[str] | None,
    settable: Collection[str] | None = None,
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
        yield from _check_words(place, rung)
        yield from _check_settings(place, rung)
        yield from _check_conditions(place, rung)
        yield from _check_extension(place, rung, playbook[:index])
        yield from _check_skip_window(place, rung)
        yield from _check_until(place, rung, probation_steps)
        yield from _check_available(place, rung, capabilities, settable)
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


def _check_words(place: str, rung: Rung) -> Iterator[Problem]:
    """What the row of each word says of the words beside it."""
    for word in rung.parts:
        row = WORDS[word]
        for company in row.company:
            others = [part for part in rung.parts if part != word and part not in (company.only or ())]
            if _is_broken(company, rung.parts, others):
                yield Problem(f"{place}.{word}", company.message.format(others=" and ".join(others)), company.remedy)
        if row.needs_launch and not rung.does("relaunches"):
            message = f"{word} takes effect only at a relaunch"
            yield Problem(f"{place}.{word}", message, "add a rollback or a resume to this rung")


def _is_broken(company: Company, parts: tuple[str, ...], others: list[str]) -> bool:
    is_crowded = company.only is not None and bool(others)
    is_missed = bool(company.needs) and not any(part in company.needs for part in parts)
    return is_crowded or is_missed or any(part in company.never for part in parts)


def _check_settings(place: str, rung: Rung) -> Iterator[Problem]:
    given: dict[str, str] = {}
    for word in rung.parts:
        for row in WORDS[word].settings:
            if (other := given.setdefault(row.key, word)) != word:
                message = f"{other} and {word} both give the {row.label}"
                yield Problem(f"{place}.{word}", message, "give one of the two a rung of its own")
    precision = rung.settings.get("precision")
    if "loss_scale" in rung.settings and precision in ("bf16", "fp32"):
        yield Problem(f"{place}.loss_scale", f"{precision} has no loss scale", "remove loss_scale or precision")


def _check_conditions(place: str, rung: Rung) -> Iterator[Problem]:
    acts = tuple(part for part in rung.parts if part != "page")
    if rung.approval is not None and (rung.does("waits", "holds") or not acts):
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
    if not any(WORDS[word].takes_until for word in rung.parts):
        message = "'until' says when changed settings go back, and this rung changes none"
        values = (word for word, row in WORDS.items() if row.takes_until)
        yield Problem(f"{place}.until", message, f"remove it, or change one of: {', '.join(values)}")
    elif rung.until_steps < probation_steps:
        message = f"the settings go back after {rung.until_steps} steps, within the probation of {probation_steps}"
        yield Problem(f"{place}.until", message, "a repair is judged better while it is in force", "warning")


def _check_available(
    place: str, rung: Rung, capabilities: Collection[str] | None, settable: Collection[str] | None
) -> Iterator[Problem]:
    """A rung that is passed over is no error: those behind it are still climbed."""
    for part, needed in lacking(rung, capabilities, settable) if capabilities is not None else ():
        yield Problem(f"{place}.{part}", f"{needed.message}: this rung is passed over", needed.remedy, "warning")
