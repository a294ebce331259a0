"""Where the files of a run lie. The one place that knows, for the trainer's side and for sentinel's."""

from __future__ import annotations

import os
from pathlib import Path

RUN_FILE_NAME = "run.json"  # what is supervised: command, policy, launcher
JOURNAL_NAME = "sentinel.db"
HEAD_NAME = "journal.head"  # how many entries the journal had, and their digest
LOST_NAME = "journal-lost.json"  # who was paged because the journal is not whole
LOCK_NAME = "sentinel.lock"  # held by whoever supervises
LEASE_NAME = "lease.json"  # who that is, for other machines
STANDBYS = "standbys"  # who waits to take its place, a file for each
ANSWERING_NAME = "answering.lock"  # held by whoever answers a person while nobody supervises
STANDINGS_NAME = "senses.json"  # how every detector stands
OVERRIDES_NAME = "overrides.json"  # the settings a living trainer is asked to take
INBOX = "inbox"  # what people and other programs ask for
WARM_NAME = "warm.json"  # how the reserve for the next attempt stands
AGENTS = "agents"  # what the agent of each node sees
ORDERS_NAME = "orders.json"  # what the agents are asked to do; in the folder above
CHECKPOINTS = "checkpoints"
POLICIES = "policies"  # policies that were applied while it ran, each as it was then
REMEMBERED = "verified"  # what was found of checkpoints that were read whole: one file for each
STREAM_NAME = "metrics.jsonl"  # in an attempt's folder; in the directory of a run that nobody supervises
TENSORBOARD = "tensorboard"
REPORT_NAME = "report.md"
HTML_REPORT_NAME = "report.html"  # of the run, and of an incident in its folder
CHRONICLE_NAME = "chronicle.md"


def attempts_folder(run_dir: Path) -> Path:
    """Where the attempts' own folders lie."""
    return run_dir / "attempts"


def attempt_folder(run_dir: Path, attempt: int) -> Path:
    """Everything one attempt writes: RUN_DIR/attempts/0003."""
    return attempts_folder(run_dir) / f"{attempt:04d}"


def stream_path(run_dir: Path, attempt: int) -> Path:
    """The attempt's stream of steps, written by its rank 0."""
    return attempt_folder(run_dir, attempt) / STREAM_NAME


def samples_path(run_dir: Path, attempt: int) -> Path:
    """What an inspection found of each sample, written by its rank 0."""
    return attempt_folder(run_dir, attempt) / "samples.jsonl"


def spec_path(run_dir: Path, attempt: int) -> Path:
    """What the attempt was launched with, written by sentinel before it starts."""
    return attempt_folder(run_dir, attempt) / "spec.json"


def warm_offer_path(run_dir: Path, attempt: int) -> Path:
    """Which modules may be imported ahead for the next attempt, as the trainer of this one says."""
    return attempt_folder(run_dir, attempt) / "warm.json"


def agent_path(run_dir: Path, node: str) -> Path:
    """What the agent of a node sees, written by that agent alone."""
    return run_dir / AGENTS / f"node-{node}.json"


def agent_orders_path(run_dir: Path) -> Path:
    """What the agents are asked to do, written by the supervisor alone."""
    return run_dir / AGENTS / ORDERS_NAME


def incident_folder(run_dir: Path, number: int) -> Path:
    """What is kept of one incident: RUN_DIR/incidents/0004. The supervisor's; trainers write nothing there."""
    return run_dir / "incidents" / f"{number:04d}"


def incident_report_path(run_dir: Path, number: int) -> Path:
    """The report of an incident, for people."""
    return incident_folder(run_dir, number) / HTML_REPORT_NAME


def stack_path(run_dir: Path, attempt: int, rank: int) -> Path:
    """Where a rank writes the stacks of its threads when it is asked for them."""
    return attempt_folder(run_dir, attempt) / "stacks" / f"rank-{rank:05d}.txt"


def flight_recorder_prefix(run_dir: Path, attempt: int) -> Path:
    """What the dumps of PyTorch's flight recorder are named by, before the rank."""
    return attempt_folder(run_dir, attempt) / "flight_recorder" / "rank_"


def flight_recorder_pipe_prefix(run_dir: Path, attempt: int) -> Path:
    """What the pipes that ask for such a dump are named by. On the machine's own disk: a shared filesystem may have no pipes."""
    import hashlib  # here: the two take longer than the rest of the file, and `sentinel --help` needs the names above
    import tempfile

    name = hashlib.sha256(os.fsencode(os.path.realpath(run_dir))).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"sentinel-{name}-{attempt:04d}-rank_"


def rank_file(folder: Path, rank: int) -> Path:
    """A rank's own file among the attempt's `heartbeats` or `exits`."""
    return folder / f"rank-{rank:05d}.json"
