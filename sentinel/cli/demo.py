"""`sentinel demo`: the bundled GPT trainer gets three faults, and Sentinel repairs each without a person.

This module chooses the command and the faults, and prints at the end what happened. Supervision is `app.supervise`, as for any
other run. Try it short: `sentinel demo --run-dir /tmp/demo --steps 150 --preset micro`.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sentinel.cli.bundled_trainer import (
    BATCH_SIZE,
    check_trainer,
    fault_words,
    launch_words,
    precision_words,
    size_words,
    source_paths,
)
from sentinel.client.run_layout import JOURNAL_NAME, REPORT_NAME
from sentinel.errors import UsageError
from sentinel.journal.run_file import RunFile, find_run_file
from sentinel.journal.run_lock import RunLock
from sentinel.model.amounts import time_words
from sentinel.paging.asked import with_checked_routes
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.report.cause import cause_of
from sentinel.report.documents import incident_document
from sentinel.report.reading import NothingRecorded, read_run
from sentinel.report.summary import final_evaluation, goodput_line, ledger_rows
from sentinel.report.tables import text_table
from sentinel.report.text import INCIDENT_HEADER, incident_row
from sentinel.sim.real_faults import parse_real_fault
from sentinel.supervisor.app import supervise
from sentinel.supervisor.run_request import RunRequest
from sentinel.terminal.choose import choose_narrator
from sentinel.web.opening import Listen

PRECISIONS = ("fp32", "bf16", "fp16")
PRESETS = ("micro", "tiny")
CPU_RANKS = 2
CHECKPOINTS = 12  # over the run: every 50 of 600 steps
CHECKPOINT_EVERY_MIN = 5

# Where the faults strike, as shares of the run. The process faults come first: they leave the model as it was. The first
# waits until the detectors have a history (they need 40 steps), and each later one until the one before it is past its
# probation (60 steps past the break), at 600 steps: 132 -> 192 < 252 -> 312 < 378. The poison comes late enough to be
# told from early training, and leaves the run 200 steps to prove the repair.
KILL_AT, HANG_AT, POISON_AT = 0.22, 0.42, 0.63
POISON_SAMPLES = 400  # at 600 steps; 25 steps' worth
POISON_STEPS_MIN = 4  # shorter, and the level of the loss never shows it
REFERENCE_STEPS = 600
ASIDE_MAX = 10_000


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`faults` None: the default ones, scaled with `steps`; empty: none. `preset` None: tiny, where that is not too slow."""

    run_dir: Path
    steps: int = REFERENCE_STEPS
    seed: int | None = None
    precision: str = "fp32"
    policy: str = "demo"
    faults: tuple[str, ...] | None = None
    preset: str | None = None
    pages: tuple[str, ...] = ()
    listen: Listen | None = None


def run_demo(options: DemoOptions) -> int:
    """Run it, or go on with an unfinished one; the exit code of `sentinel run`.

    Raises:
        UsageError, PolicyError: nothing was started.
    """
    check_options(options)
    check_trainer()
    with_checked_routes(load_policy(shipped_policy_path(options.policy)), options.pages)
    command = build_command(options, count_gpus())
    known = find_run_file(options.run_dir)
    if known is not None:
        if _is_finished(options.run_dir):
            print(f"{options.run_dir}: holds a finished run, which is now {move_aside(options.run_dir)}", flush=True)
        else:
            command = continued_command(options.run_dir, known, command)
    request = RunRequest(
        options.run_dir, options.policy, command, os.getcwd(), code=source_paths(), pages=options.pages, listen=options.listen
    )
    with closing(choose_narrator(options.run_dir)) as narrator:
        code = supervise(request, narrator)
    print(closing_words(options.run_dir))
    return code


def check_options(options: DemoOptions) -> None:
    """Raises UsageError for what the trainer would refuse only after it was launched."""
    if options.steps < 1:
        raise UsageError(f"--steps {options.steps}: must be 1 or above")
    if options.seed is not None and options.seed < 0:
        raise UsageError(f"--seed {options.seed}: must be 0 or above")
    if options.precision not in PRECISIONS:
        raise UsageError(f"--precision {options.precision}: use one of {', '.join(PRECISIONS)}")
    if options.preset is not None and options.preset not in PRESETS:
        raise UsageError(f"--preset {options.preset}: use one of {', '.join(PRESETS)}")
    for fault in options.faults or ():
        parse_real_fault(fault)


def count_gpus() -> int:
    """NVIDIA GPUs this process may use, by their device files: torch is not imported here, and a CPU build of it has none."""
    try:
        if "+cpu" in importlib.metadata.version("torch"):
            return 0
        found = sum(1 for name in os.listdir("/dev") if re.fullmatch(r"nvidia\d+", name))
    except (OSError, importlib.metadata.PackageNotFoundError):
        return 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    named = [entry for entry in visible.split(",") if entry.strip()]
    return 0 if "-1" in named else min(found, len(named))


def choose_ranks(gpus: int) -> int:
    """One process per GPU, as many as divide the batch; two on the CPU."""
    return max(ranks for ranks in range(1, min(gpus, BATCH_SIZE) + 1) if BATCH_SIZE % ranks == 0) if gpus else CPU_RANKS


def build_command(options: DemoOptions, gpus: int) -> tuple[str, ...]:
    ranks = choose_ranks(gpus)
    train = [*size_words(options.steps, checkpoint_every(options.steps)), *precision_words(options.precision)]
    if options.seed is not None:
        train += ["--set", f"init.seed={options.seed}"]
    too_slow = options.precision == "fp16" and not gpus  # fp16 on a CPU is about eight times slower than fp32
    preset = options.preset or ("micro" if too_slow else None)
    if preset is not None:
        train += ["--preset", preset]
    faults = default_faults(options.steps, ranks) if options.faults is None else options.faults
    return (*launch_words(ranks), *train, *fault_words(faults))


def checkpoint_every(steps: int) -> int:
    return max(CHECKPOINT_EVERY_MIN, steps // CHECKPOINTS)


def default_faults(steps: int, ranks: int = CPU_RANKS) -> tuple[str, ...]:
    """The three faults of the demonstration. Sample indices count training sequences: step s trains from (s-1)·batch on."""
    last = ranks - 1
    poison_steps = max(POISON_STEPS_MIN, round(POISON_SAMPLES / BATCH_SIZE * steps / REFERENCE_STEPS))
    first = round(POISON_AT * steps) * BATCH_SIZE
    return (
        f"bad_data@sample={first}-{first + poison_steps * BATCH_SIZE}",
        f"kill@step={max(1, round(KILL_AT * steps))}:rank={last}",
        f"hang@step={max(1, round(HANG_AT * steps))}:rank={last}",
    )


def continued_command(run_dir: Path, known: RunFile, command: tuple[str, ...]) -> tuple[str, ...]:
    """The run's own command when it asks for the same training. Raises UsageError otherwise."""
    if known.command[1:] == command[1:]:
        return known.command  # another Python of the same program does not make another run
    differing = " ".join(word for word in _difference(known.command, command))
    raise UsageError(
        f"{run_dir}: holds an unfinished run with other options ({differing}); repeat those to go on with it, "
        "or choose another --run-dir"
    )


def move_aside(run_dir: Path) -> Path:
    """Rename the directory to DIR.1, DIR.2, …, the first that is free. Raises AlreadySupervised while somebody holds it."""
    run_dir = run_dir.absolute()
    with RunLock.acquire(run_dir):
        for number in range(1, ASIDE_MAX):
            place = run_dir.with_name(f"{run_dir.name}.{number}")
            if not os.path.lexists(place):
                try:
                    os.rename(run_dir, place)
                except OSError as error:
                    raise UsageError(
                        f"{run_dir}: cannot be moved aside: {error.strerror}; move it yourself, or choose another --run-dir"
                    ) from error
                return place
    raise UsageError(f"{run_dir}: {ASIDE_MAX} finished runs lie beside it already; choose another --run-dir")


def closing_words(run_dir: Path) -> str:
    """The table, the goodput with its ledger, the held-out loss, and where everything is."""
    run = read_run(run_dir)
    state, rows = run.state, [incident_row(incident_document(incident)) for incident in run.state.incidents]
    parts = [f"\nRun {state.run_id}: {state.label}" + (f" ({cause_of(state) or state.end_reason})" if state.end_reason else "")]
    parts.append(text_table(INCIDENT_HEADER, rows) if rows else "No incidents.")
    ledger = "\n".join(f"  {name:<14}{time_words(spent_s):>12}  {what}" for name, spent_s, what in ledger_rows(state, run.now_s))
    parts.append(f"{goodput_line(state, run.now_s)}\n{ledger}")
    found = final_evaluation(run_dir, state)
    if found is not None:
        parts.append(f"Held-out loss {found[1]:.4f} at step {found[0]}.")
    parts.append(f"Journal: {run_dir / JOURNAL_NAME}\nReport:  {run_dir / REPORT_NAME}")
    return "\n\n".join(parts)


def _is_finished(run_dir: Path) -> bool:
    try:
        return (run_dir / JOURNAL_NAME).exists() and read_run(run_dir).state.ended == "finished"
    except NothingRecorded:
        return False  # whoever began it was killed before the first fact: it is begun again where it stands


def _difference(known: tuple[str, ...], command: tuple[str, ...]) -> list[str]:
    """The words of the known command that the other has not, each with the option it belongs to."""
    words: list[str] = []
    pairs, others = _pairs(known), _pairs(command)
    for pair in pairs:
        if pair in others:
            others.remove(pair)
        else:
            words += pair
    return words or ["it lacks " + " ".join(word for pair in others for word in pair)]


def _pairs(command: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Options with their values."""
    pairs: list[tuple[str, ...]] = []
    for word in command[1:]:
        if not word.startswith("--") and pairs and len(pairs[-1]) == 1 and pairs[-1][0].startswith("--"):
            pairs[-1] = (*pairs[-1], word)
        else:
            pairs.append((word,))
    return pairs
