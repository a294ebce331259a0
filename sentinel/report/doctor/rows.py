"""The rows of a run: whether they come, what is in them, and where none come, why and what would change that."""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Iterator
from contextlib import suppress

from sentinel.client.regular_file import regular
from sentinel.client.run_layout import attempt_folder, stream_path
from sentinel.report.doctor.patient import Check, Patient, Standing
from sentinel.report.masked import run_masking
from sentinel.run_files.stream import read_newest_metrics
from sentinel.trainers.adding import PRINTED_LINE, how_to_add_metric, how_to_add_rows
from sentinel.trainers.probe.judging import WANTED
from sentinel.trainers.probe.recognise import candidates, printed_format, profiles_of_format

TAIL_BYTES = 2048


def check_rows(one: Patient) -> Iterator[Check]:
    """Are there rows, and what is in the newest one?"""
    if one.attempt is None:
        yield Check("rows", "unknown", "no attempt was launched yet", "look again when one is")
        return
    newest = read_newest_metrics(one.run_dir, one.attempt.attempt)
    if newest is None:
        standing: Standing = "unknown" if one.is_young else "missing"
        yield Check("rows", standing, f"no row in {_stream(one)}: {_why_no_rows(one)}", _remedy_for_rows(one))
        return
    step, metrics = newest
    yield Check("rows", "fine", f"step {step}, with {', '.join(metrics) or 'no metric'}")
    for name in WANTED:
        if name not in metrics:
            standing = "missing" if name == "loss" else "note"
            yield Check("metrics", standing, f"{name} is not in the newest row", _remedy_for_metric(one, name))


def _remedy_for_metric(one: Patient, name: str) -> str:
    if one.spec is None:  # the trainer writes its stream itself
        beside = "" if name == "loss" else " beside the loss"
        return f"log it{beside}: run.log({name}=…), or Session.step(step, {name}=…)"
    return how_to_add_metric(one.spec.profile.spec.metrics, name)


def _stream(one: Patient) -> str:
    assert one.attempt is not None
    return str(stream_path(one.run_dir, one.attempt.attempt).relative_to(one.run_dir))


def _why_no_rows(one: Patient) -> str:
    """As far as it can be seen."""
    assert one.attempt is not None
    if one.spec is None:
        return "nothing writes it; the trainer does not use sentinel.client, or has not come so far, and no profile is named"
    error = _follower_error(one)
    if error:
        return f"the follower says {error}"
    metrics = one.spec.profile.spec.metrics
    if metrics.path:
        places = [os.path.join(one.spec.cwd, path.replace("{root}", str(one.spec.root))) for path in metrics.path]
        found = [place for place in places if glob.glob(place, recursive=True)]
        return f"{found[0]} holds no row yet" if found else f"{' and '.join(places)}: nothing is there"
    return f"nothing that was printed reads as {metrics.format}"


def _follower_error(one: Patient) -> str:
    assert one.attempt is not None
    path = attempt_folder(one.run_dir, one.attempt.attempt) / "logs" / "follower.err"
    with suppress(OSError), open(path, "rb", opener=regular) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        lines = file.read(TAIL_BYTES).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""
    return ""


def _remedy_for_rows(one: Patient) -> str:
    assert one.attempt is not None
    logs = attempt_folder(one.run_dir, one.attempt.attempt) / "logs"
    formats = [found for end in ("out", "err") if (found := printed_format(logs / f"launcher.{end}")) is not None]
    fitting = [name for format in formats for name in profiles_of_format(format)]
    fitting += [candidate.profile for candidate in candidates(one.run.command)]
    own = one.spec.profile.metadata.name if one.spec is not None else ""
    names = [name for name in dict.fromkeys(fitting) if name != own]
    if names:
        command = shlex.join(run_masking(one.run_dir).words(one.run.command))
        return f"if this fits, start the run again with --trainer {names[0]}: sentinel probe --trainer {names[0]} -- {command}"
    if one.spec is not None:
        return how_to_add_rows(one.spec.profile.spec.metrics, own)
    return f"print a line for each step ({PRINTED_LINE}) and name a profile (sentinel trainers list), or call sentinel.client"
