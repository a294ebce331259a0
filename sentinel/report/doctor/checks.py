"""Checks of one run: each looks at one thing and says how it stands. Nothing is changed, and nothing is concluded from silence:
what may still come is unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from sentinel.client.run_layout import attempt_folder
from sentinel.errors import PolicyError, UsageError
from sentinel.filesystem import is_full
from sentinel.journal.holder import why_stuck
from sentinel.journal.lease import read_lease
from sentinel.journal.run_file import read_run_file
from sentinel.journal.salvage import verify_journal
from sentinel.model.state import Checkpoint
from sentinel.plan.retention import is_sound
from sentinel.policy.available import lacking
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.report.doctor.patient import Check, Patient, Standing
from sentinel.report.doctor.rows import check_rows
from sentinel.report.reading import is_attempt_alive, read_run, read_supervisor
from sentinel.run_files.attempt_files import rank_files
from sentinel.run_files.stream import read_receipt
from sentinel.trainers.found import FoundCheckpoint, find_checkpoints
from sentinel.trainers.mismatch import find_mismatch
from sentinel.trainers.spec import read_trainer_spec
from sentinel.trainers.start import read_before


def examine(run_dir: Path) -> list[Check]:
    """Raises UsageError where this is no run's directory, JournalError where its journal is damaged."""
    run_file = read_run_file(run_dir)
    fold = read_run(run_dir)
    attempt = fold.state.attempt
    spec = None
    if attempt is not None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            spec = read_trainer_spec(run_dir, attempt.attempt)
    alive = is_attempt_alive(run_dir, fold.state)
    patient = Patient(run_dir, run_file, fold.state, attempt, alive, fold.now_s, spec)
    return [check for look in LOOKS for check in look(patient)]


def _supervised(one: Patient) -> Iterator[Check]:
    if one.state.ended:
        yield Check("supervisor", "fine", f"the run has ended: {one.state.ended}")
    elif (supervisor := read_supervisor(one.run_dir)) == "alive":
        yield Check("supervisor", "fine", "a supervisor watches the run")
    elif supervisor == "stuck":
        record = read_lease(one.run_dir)
        why = (why_stuck(record) if record is not None else "") or "it has gone on this moment"
        remedy = f"see from its machine whether the directory answers: ls {one.run_dir}"
        if is_full(one.run_dir):
            why = "its disk is full, and it can write nothing down; it tries again every few seconds"
            remedy = f"free space, and it goes on by itself: df -h {one.run_dir}"
        yield Check("supervisor", "missing", f"the supervisor stands still: {why}", remedy)
    elif supervisor == "unknown":
        where = "look from its machine, which lease.json names, and compare the clocks of both"
        yield Check("supervisor", "unknown", "whether a supervisor watches the run cannot be seen from here", where)
    else:
        yield Check("supervisor", "missing", "nobody supervises the run", f"sentinel run --run-dir {one.run_dir}")


def _journal(one: Patient) -> Iterator[Check]:
    found = verify_journal(one.run_dir)
    if found.wrong:
        yield Check("journal", "missing", f"not whole: {'; '.join(found.wrong)}", f"sentinel journal salvage {one.run_dir}")
    elif found.whole is None:
        yield Check("journal", "unknown", "written before entries had digests", "`sentinel run` adopts it")
    else:
        yield Check("journal", "fine", f"{found.entries} entries, all as they were written")


def _receipt(one: Patient) -> Iterator[Check]:
    if one.attempt is None:
        return
    receipt = read_receipt(one.run_dir, one.attempt.attempt)
    if receipt is not None:
        yield Check("receipt", "fine", f"attempt {one.attempt.attempt} went on behind step {receipt.resume_step}")
        return
    standing: Standing = "unknown" if one.is_young else "missing"
    under = "the follower writes it with the second row" if one.spec is not None else "the trainer writes it as its first line"
    yield Check("receipt", standing, f"no receipt: where attempt {one.attempt.attempt} began is not known", under)


def _heartbeats(one: Patient) -> Iterator[Check]:
    if one.attempt is None:
        return
    count = 0
    with suppress(OSError):
        count = len(rank_files(attempt_folder(one.run_dir, one.attempt.attempt) / "heartbeats"))
    if count:
        yield Check("heartbeats", "fine", f"of {count} ranks")
        return
    remedy = (
        "if its ranks run on other machines, let them call sentinel.client" if one.spec is not None else "call sentinel.client"
    )
    yield Check("heartbeats", "unknown" if one.is_young else "missing", "none: a hang is seen by missing rows alone", remedy)


def _usable_words(good: Sequence[Checkpoint]) -> str:
    """Nobody knows of an unread one whether it can be gone back to."""
    read = [found.step for found in good if is_sound(found)]
    how_many = f"{len(read)} were read whole and hold, the newest of step {read[-1]}" if read else "none was read whole yet"
    return f"{len(good)} are not known to be damaged, the newest of step {good[-1].step}; {how_many}"


def _checkpoints(one: Patient) -> Iterator[Check]:
    good = [checkpoint for checkpoint in one.state.checkpoints if not checkpoint.condemned]
    if good:
        yield Check("checkpoints", "fine", _usable_words(good))
    elif one.state.checkpoints:
        why = one.state.checkpoints[-1].condemned
        yield Check("checkpoints", "missing", f"none can be gone back to: {why}", f"sentinel checkpoints list {one.run_dir}")
    else:
        yield _no_checkpoint(one)
    places, root = (one.spec.profile.spec.checkpoints, one.spec.root) if one.spec is not None else (None, None)
    mismatch = None
    if places is not None and root is not None:
        with suppress(OSError):
            mismatch = find_mismatch(places, root)
    if mismatch is not None and mismatch.others:
        yield Check("profile", "missing", mismatch.sentence, f"start the run again with --trainer {mismatch.others[0].profile}")


def _no_checkpoint(one: Patient) -> Check:
    if one.spec is not None and one.spec.profile.spec.checkpoints is None:
        name = one.spec.profile.metadata.name
        return Check(
            "checkpoints", "missing", f"the profile {name} knows none", "name a profile that does: sentinel trainers list"
        )
    standing: Standing = "unknown" if one.alive is not False and not one.state.ended else "missing"
    if lying := _lying(one):
        newest = max(lying, key=lambda found: found.step)
        what = f"none is sealed; of this run {len(lying)} lie in {newest.path.parent}, the newest of step {newest.step}"
        return Check("checkpoints", standing, what, "they are sealed while it trains, or before a relaunch")
    where = f" in {one.spec.root}" if one.spec is not None else ""
    return Check("checkpoints", standing, f"none was seen yet{where}", "save more often, or see where the trainer writes them")


def _lying(one: Patient) -> list[FoundCheckpoint]:
    """What the trainer has saved since this run began, sealed or not."""
    places, root = (one.spec.profile.spec.checkpoints, one.spec.root) if one.spec is not None else (None, None)
    if places is None or root is None:
        return []
    others = read_before(one.run_dir)
    with suppress(OSError):
        return [found for found in find_checkpoints(places, root) if found.key not in others]
    return []


def _sources(one: Patient) -> Iterator[Check]:
    for source, reason in one.state.blind.items():
        yield Check("source", "missing", f"{source} cannot be read: {reason}", "correct that; it is read again by itself")


def _proofs(one: Patient) -> Iterator[Check]:
    for proof in one.attempt.proofs if one.attempt is not None else ():
        if proof.is_proven:
            yield Check("proof", "fine", proof.words)
        elif proof.grade == "asserted":
            yield Check("proof", "note", proof.words, "let the trainer read it back: effective, in its receipt")
        else:
            yield Check("proof", "missing", proof.words, f"see whether the trainer takes it: sentinel logs {one.run_dir}")


def _rungs(one: Patient) -> Iterator[Check]:
    try:
        policy = load_policy(shipped_policy_path(one.run.policy.path))
    except (PolicyError, UsageError) as error:
        what = f"{one.run.policy.path} cannot be used: {error.message.splitlines()[0]}"
        yield Check("policy", "missing", what, f"sentinel policy check {one.run.policy.path}")
        return
    yield Check("policy", "fine", f"{policy.metadata.name}, mode {policy.spec.mode}")
    for name, playbook in policy.spec.playbooks.items():
        for number, rung in enumerate(playbook, start=1):
            needed = next((found for _, found in lacking(rung, one.state.capabilities, one.state.settable)), None)
            if needed is not None:
                why = one.state.refusal_of(needed.name) or needed.message
                yield Check("rung", "note", f"rung {number} of playbook {name} is passed over: {why}", needed.remedy)


LOOKS = (_supervised, _journal, check_rows, _receipt, _heartbeats, _checkpoints, _sources, _proofs, _rungs)
