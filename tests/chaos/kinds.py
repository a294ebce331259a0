"""Every kind of fault: what is done, to what, and when. Adding one is adding a row here."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from sentinel.client.run_layout import INBOX, JOURNAL_NAME, LEASE_NAME
from sentinel.model.actions import StartAttempt
from sentinel.model.facts import ActionDecided
from tests.chaos.run import EVERY, RANKS, ROOT, ChaosRun, Unfinished, fill, wait_for
from tests.hanging_folder import HangingFolder
from tests.hanging_folder import why_not as why_no_hanging_folder

STEPS = 160
FIRST_STEP, LAST_STEP = 30, 110  # between which a fault is drawn: a checkpoint before it, and room to recover behind it
AWAKE_STEP = 70  # the detectors of the numbers know their levels
DISK_MIB, INODES = 48, 3000  # of the small disk: a run of this size takes a fifth of either

Strike = Callable[[ChaosRun, Random], None]


@dataclass(frozen=True)
class Kind:
    """`does`: for the table. `strike`: does it to the run that has reached the drawn step. `faults`: of the trainer, instead, in
    its own grammar (trainer/faults.py) with {step} for the drawn one. `noticed`: an incident is due. `loses_lines`: it takes away
    rows of the stream. `small_disk`: the run lies on a filesystem of its own. `pages`: a person is to be called. `structural`: it
    comes again in every attempt, whatever is done; where it is noticed, the run must end as failed, with a page that says so,
    unless its last rows stand where they stood before.
    `differs`: why the end may differ although no data and no setting was changed.
    """

    name: str
    group: str
    does: str
    strike: Strike | None = None
    faults: tuple[str, ...] = ()
    precision: str = "fp32"
    small_disk: bool = False
    pages: bool = False
    structural: bool = False
    noticed: bool = False
    loses_lines: bool = False
    differs: str = ""

    def draw_step(self, rng: Random) -> int:
        """Where it strikes: not on a checkpoint's own step, so that there is something to lose."""
        first = AWAKE_STEP if self.group in ("numbers", "data") else FIRST_STEP
        return rng.choice([step for step in range(first, LAST_STEP) if step % EVERY])


def signalled(number: int, *targets: Callable[[ChaosRun], int]) -> Strike:
    def strike(run: ChaosRun, rng: Random) -> None:
        pids = [target(run) for target in targets]
        run.struck()
        for pid in pids:
            os.kill(pid, number)

    return strike


def rank(number: int) -> Callable[[ChaosRun], int]:
    return lambda run: run.rank(number)


def kill_a_rank(run: ChaosRun, rng: Random) -> None:
    os.kill(run.rank(rng.randrange(RANKS)), signal.SIGKILL)


def kill_one(run: ChaosRun, rng: Random) -> None:
    run.struck()
    kill_a_rank(run, rng)


def kill_everything_of_the_attempt(run: ChaosRun, rng: Random) -> None:
    pids = run.living()
    run.struck()
    _kill(pids)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def pause(seconds: float, everything: bool = False) -> Strike:
    """SIGSTOP, and SIGCONT so much later: of one rank, or of all there is, the supervisor included."""

    def strike(run: ChaosRun, rng: Random) -> None:
        pids = [run.supervisor, *run.living()] if everything else [run.rank(rng.randrange(RANKS))]
        run.struck()
        for number, wait_s in ((signal.SIGSTOP, seconds), (signal.SIGCONT, 0.0)):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(wait_s)

    return strike


# -- storage -----------------------------------------------------------------------------------------------------------


def disk_full(seconds: float, leave_bytes: int = 0, then_kill: bool = False) -> Strike:
    def strike(run: ChaosRun, rng: Random) -> None:
        run.struck()
        with fill(run.run_dir.parent, leave_bytes) as filler:
            if then_kill:
                kill_a_rank(run, rng)
            time.sleep(seconds)
        Path(filler.name).unlink()

    return strike


def no_inodes(seconds: float) -> Strike:
    """There is room, and no new file can be made in it."""

    def strike(run: ChaosRun, rng: Random) -> None:
        folder = run.run_dir.parent / "fillers"
        folder.mkdir()
        run.struck()
        with suppress(OSError):
            for number in range(INODES + 1):
                (folder / str(number)).touch()
        time.sleep(seconds)
        shutil.rmtree(folder)

    return strike


def damaged(hurt: Callable[[Path, Random], None], newest: int = 1) -> Strike:
    """The newest checkpoints are hurt, and a rank is killed."""

    def strike(run: ChaosRun, rng: Random) -> None:
        found = wait_for("checkpoints", lambda: run.checkpoints() if len(run.checkpoints()) > newest else None)
        run.struck()
        for checkpoint in found[-newest:]:
            hurt(checkpoint, rng)
        kill_a_rank(run, rng)

    return strike


def _shards(checkpoint: Path) -> list[Path]:
    return sorted(checkpoint.glob("*.distcp"))


def rot(checkpoint: Path, rng: Random) -> None:
    shard = rng.choice(_shards(checkpoint))
    with shard.open("r+b") as file:
        file.seek(rng.randrange(shard.stat().st_size))
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1 << rng.randrange(8)]))


def cut(checkpoint: Path, rng: Random) -> None:
    shard = rng.choice(_shards(checkpoint))
    os.truncate(shard, rng.randrange(shard.stat().st_size))


def lose_manifest(checkpoint: Path, rng: Random) -> None:
    (checkpoint / "manifest.json").unlink()


def garble_manifest(checkpoint: Path, rng: Random) -> None:
    (checkpoint / "manifest.json").write_bytes(rng.randbytes(400))


def replace_by_fifo(checkpoint: Path, rng: Random) -> None:
    shard = rng.choice(_shards(checkpoint))
    shard.unlink()
    os.mkfifo(shard)


def replace_by_link(checkpoint: Path, rng: Random) -> None:
    shard = rng.choice(_shards(checkpoint))
    elsewhere = checkpoint.parent.parent / f"elsewhere-{shard.name}"
    shutil.move(shard, elsewhere)
    shard.symlink_to(elsewhere)


def cut_stream(run: ChaosRun, rng: Random) -> None:
    stream = run.attempt_dir() / "metrics.jsonl"
    run.struck()
    os.truncate(stream, rng.randrange(stream.stat().st_size))


def garble_stream(run: ChaosRun, rng: Random) -> None:
    run.struck()
    with (run.attempt_dir() / "metrics.jsonl").open("ab") as stream:
        for _ in range(20):
            stream.write(rng.randbytes(rng.randrange(1, 400)) + b"\n")


def lose_heartbeats(run: ChaosRun, rng: Random) -> None:
    run.struck()
    shutil.rmtree(run.attempt_dir() / "heartbeats")


def garble(*names: str) -> Strike:
    """Files of the run directory or the attempt are overwritten with noise."""

    def strike(run: ChaosRun, rng: Random) -> None:
        run.struck()
        for name in names:
            (run.run_dir / name.format(attempt=run.attempt_dir().name)).write_bytes(rng.randbytes(300))

    return strike


def lose(*names: str) -> Strike:
    def strike(run: ChaosRun, rng: Random) -> None:
        run.struck()
        for name in names:
            (run.run_dir / name.format(attempt=run.attempt_dir().name)).unlink()

    return strike


def flood_inbox(run: ChaosRun, rng: Random) -> None:
    """A thousand files that are no requests, a FIFO and a folder among them."""
    folder = run.run_dir / INBOX
    folder.mkdir(exist_ok=True)
    run.struck()
    names = [f"{rng.randrange(10**19):020d}-{rng.randbytes(6).hex()}.json" for _ in range(1000)]
    for name in names[2:]:
        (folder / name).write_bytes(rng.randbytes(rng.randrange(200)))
    os.mkfifo(folder / names[0])
    (folder / names[1]).mkdir()


def hanging_inbox(run: ChaosRun, rng: Random) -> None:
    """The inbox lies on a filesystem that stops answering; meanwhile a rank is killed, and must be resumed all the same."""
    if why := why_no_hanging_folder():
        raise Unfinished(why)
    folder = run.run_dir / INBOX
    shutil.rmtree(folder, ignore_errors=True)
    with HangingFolder(folder) as hanging:
        hanging.hang()
        run.struck()
        kill_a_rank(run, rng)
        wait_for("a step past the fault", lambda: run.newest_step() > run.furthest_step, 90.0)


# -- the supervisor ----------------------------------------------------------------------------------------------------


def kill_supervisor(times: int = 1, with_rank: bool = False) -> Strike:
    def strike(run: ChaosRun, rng: Random) -> None:
        run.struck()
        for _ in range(times):
            run.kill_supervisor()
            if with_rank:
                kill_a_rank(run, rng)
            time.sleep(rng.uniform(0.0, 2.0))
            run.start()
            wait_for("a supervisor's lease", lambda: _holds_lease(run))

    return strike


def _holds_lease(run: ChaosRun) -> bool:
    try:
        return bool(json.loads((run.run_dir / LEASE_NAME).read_text())["pid"] == run.supervisor)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def kill_supervisor_in_recovery(run: ChaosRun, rng: Random) -> None:
    """It dies a moment after it was decided to launch the next attempt."""
    run.struck()
    kill_a_rank(run, rng)

    def launches() -> bool:
        decided = (entry.fact.action for entry in run.facts() if isinstance(entry.fact, ActionDecided))
        return any(isinstance(action, StartAttempt) and action.attempt > 1 for action in decided)

    wait_for("the decision to launch again", launches)
    time.sleep(rng.uniform(0.0, 1.0))
    run.kill_supervisor()
    run.start()


def stop_supervisor_while_a_rank_dies(run: ChaosRun, rng: Random) -> None:
    run.struck()
    os.kill(run.supervisor, signal.SIGSTOP)
    kill_a_rank(run, rng)
    time.sleep(15.0)
    os.kill(run.supervisor, signal.SIGCONT)


def second_supervisor(run: ChaosRun, rng: Random) -> None:
    run.struck()
    words = [sys.executable, "-m", "sentinel", "run", "--run-dir", str(run.run_dir), "--listen", "off", "--", *run.command()]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60.0)
    if done.returncode == 0 or "already supervised" not in done.stderr:
        raise Unfinished(f"a second supervisor was let in: {done.returncode} {done.stderr}")


def no_files_left(run: ChaosRun, rng: Random) -> None:
    """The supervisor may open no file for a while in which a rank dies."""
    before = resource.prlimit(run.supervisor, resource.RLIMIT_NOFILE)
    run.struck()
    used = len(list(Path(f"/proc/{run.supervisor}/fd").iterdir()))
    resource.prlimit(run.supervisor, resource.RLIMIT_NOFILE, (used, before[1]))
    kill_a_rank(run, rng)
    time.sleep(5.0)
    resource.prlimit(run.supervisor, resource.RLIMIT_NOFILE, before)


def lose_log_of_journal(run: ChaosRun, rng: Random) -> None:
    """The write-ahead log is gone under a living supervisor, which is killed then. The next one refuses, and a person
    salvages."""
    run.struck()
    run.kill_supervisor()
    facts = len(run.facts())
    (run.run_dir / f"{JOURNAL_NAME}-wal").unlink(missing_ok=True)
    with (run.run_dir / JOURNAL_NAME).open("r+b") as journal:
        journal.truncate(0)
    run.start()
    code = run.wait(60.0)
    if code != 1:
        raise Unfinished(f"a supervisor took {facts} lost facts for none: exit {code}")
    _kill(run.living())
    wait_for("end of the attempt", lambda: not run.living())
    salvage = [sys.executable, "-m", "sentinel", "journal", "salvage", str(run.run_dir), "--accept-loss"]
    done = subprocess.run(salvage, cwd=ROOT, capture_output=True, text=True, timeout=60.0)
    if done.returncode:
        raise Unfinished(f"sentinel journal salvage: {done.stderr}")
    run.start()


KINDS: Sequence[Kind] = (
    Kind("kill-rank", "process", "SIGKILL to a rank", kill_one),
    Kind("kill-both", "process", "SIGKILL to both ranks at once", signalled(signal.SIGKILL, rank(0), rank(1))),
    Kind("kill-torchrun", "process", "SIGKILL to torchrun", signalled(signal.SIGKILL, ChaosRun.launcher)),
    Kind("kill-keeper", "process", "SIGKILL to the keeper, the ranks live on", signalled(signal.SIGKILL, ChaosRun.keeper)),
    Kind("kill-attempt", "process", "SIGKILL to keeper, torchrun and ranks", kill_everything_of_the_attempt),
    Kind("segv", "process", "SIGSEGV to a rank", signalled(signal.SIGSEGV, rank(1))),
    Kind("abort", "process", "SIGABRT to a rank", signalled(signal.SIGABRT, rank(0))),
    Kind("bus-error", "process", "SIGBUS to a rank", signalled(signal.SIGBUS, rank(0))),
    Kind("term-rank", "process", "SIGTERM to one rank, as a scheduler sends it", signalled(signal.SIGTERM, rank(1))),
    Kind("term-torchrun", "process", "SIGTERM to torchrun", signalled(signal.SIGTERM, ChaosRun.launcher)),
    Kind("hang", "process", "SIGSTOP to a rank, for good", signalled(signal.SIGSTOP, rank(1))),
    Kind("pause", "process", "a rank stands still for 3 s", pause(3.0)),
    Kind("exception", "process", "a rank raises", faults=("crash@step={step}:rank=1",)),
    Kind("exit-code", "process", "every rank leaves with code 7", faults=("exit@step={step}:code=7",)),
    Kind("nan-grad", "numbers", "a gradient becomes NaN for a step", faults=("nan_grad@step={step}:length=1",),
         differs="the gate leaves the update of that step out"),
    Kind("nan-grads", "numbers", "a gradient becomes NaN for 30 steps", faults=("nan_grad@step={step}:length=30",), noticed=True),
    Kind("nan-state", "numbers", "every parameter becomes NaN", faults=("nan_state@step={step}",), noticed=True),
    Kind("unstable", "numbers", "the learning rate is 50 times what it should be",
         faults=("unstable@step={step}:times=50",), structural=True,
         differs="the learning rate of the fault is in every update behind it, and not every draw of it is noticed"),
    Kind("sick-optimizer", "numbers", "Adam's first moments run away",
         faults=("sick_optimizer@step={step}:later=10",), noticed=True),
    Kind("bit-flip", "numbers", "a bit of a parameter flips", faults=("bit_flip@step={step}:rank=1",),
         differs="the flipped bit may be one that no number shows"),
    Kind("scale-collapse", "numbers", "fp16: four updates in a row overflow",
         faults=("scale_collapse@step={step}:length=4",), noticed=True,
         precision="fp16", differs="the overflow itself leaves updates out, as the scaler of any fp16 run does"),
    Kind("bad-data", "data", "400 sequences become random bytes", faults=("bad_data@sample={sample}-{sample_end}",), noticed=True,
         differs="damaged samples that were trained on and not skipped are part of the run"),
    Kind("mild-bad-data", "data", "a third of 400 sequences becomes random bytes",
         faults=("bad_data@sample={sample}-{sample_end}:share=0.3",),
         differs="damaged samples that were trained on and not skipped are part of the run"),
    Kind("disk-full", "storage", "the disk is full for 8 s, across a save", disk_full(8.0), small_disk=True, pages=True),
    Kind("disk-full-and-kill", "storage", "the disk is full, a rank is killed", disk_full(8.0, then_kill=True),
         small_disk=True, pages=True),
    Kind("disk-nearly-full", "storage", "600 KB are left for 8 s: no save fits", disk_full(8.0, 600_000),
         small_disk=True, pages=True),
    Kind("no-inodes", "storage", "no new file can be made for 8 s, though there is room", no_inodes(8.0),
         small_disk=True, pages=True),
    Kind("bit-rot", "storage", "a bit of the newest checkpoint flips, a rank is killed", damaged(rot)),
    Kind("bit-rot-twice", "storage", "a bit of the two newest checkpoints flips, a rank is killed", damaged(rot, 2)),
    Kind("cut-shard", "storage", "the newest checkpoint is cut, a rank is killed", damaged(cut)),
    Kind("lost-manifest", "storage", "the newest checkpoint loses its manifest, a rank is killed", damaged(lose_manifest)),
    Kind("garbled-manifest", "storage", "the newest manifest becomes noise, a rank is killed", damaged(garble_manifest)),
    Kind("fifo-shard", "storage", "a FIFO stands in the newest checkpoint, a rank is killed", damaged(replace_by_fifo)),
    Kind("linked-shard", "storage", "a link leads out of the newest checkpoint, a rank is killed", damaged(replace_by_link)),
    Kind("cut-stream", "storage", "metrics.jsonl is cut in the middle", cut_stream, loses_lines=True),
    Kind("garbled-stream", "storage", "20 lines of noise in metrics.jsonl", garble_stream),
    Kind("lost-heartbeats", "storage", "the heartbeats' folder is deleted", lose_heartbeats),
    Kind("garbled-overrides", "storage", "overrides.json becomes noise", garble("overrides.json")),
    Kind("lost-keeper-file", "storage", "the keeper's file is deleted", lose("attempts/{attempt}/keeper.json")),
    Kind("inbox-flood", "storage", "a thousand files of noise, a FIFO and a folder in the inbox", flood_inbox),
    Kind("hanging-inbox", "storage", "the inbox lies on a filesystem that hangs, a rank is killed", hanging_inbox),
    Kind("slow-rank", "time", "a rank takes 0.3 s more a step for ten steps", faults=("slow@step={step}:rank=1,for=0.3",)),
    Kind("suspended", "time", "everything stands still for 13 s, the supervisor as well", pause(13.0, everything=True)),
    Kind("away", "time", "the supervisor stands still for 15 s while a rank dies", stop_supervisor_while_a_rank_dies),
    Kind("kill-sentinel", "sentinel", "SIGKILL to the supervisor, started again", kill_supervisor()),
    Kind("kill-sentinel-thrice", "sentinel", "three supervisors in a row are killed", kill_supervisor(3)),
    Kind("kill-sentinel-and-rank", "sentinel", "supervisor and rank are killed", kill_supervisor(with_rank=True)),
    Kind("kill-in-recovery", "sentinel", "the supervisor is killed in the middle of a repair", kill_supervisor_in_recovery),
    Kind("two-supervisors", "sentinel", "a second supervisor is started beside it", second_supervisor),
    Kind("no-files", "sentinel", "the supervisor may open no file for 5 s, a rank is killed", no_files_left),
    Kind("lost-lease", "sentinel", "lease.json is deleted", lose(LEASE_NAME)),
    Kind("garbled-lease", "sentinel", "lease.json becomes noise", garble(LEASE_NAME)),
    Kind("lost-journal", "sentinel", "the journal is emptied, the supervisor killed; a person salvages", lose_log_of_journal,
         pages=True),
)  # fmt: skip


def find(names: Iterable[str]) -> list[Kind]:
    """Raises KeyError with the names there are."""
    by_name = {kind.name: kind for kind in KINDS}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise KeyError(f"{', '.join(unknown)}: no kind of fault; there are: {', '.join(by_name)}")
    return [by_name[name] for name in names]


def drawn_faults(kind: Kind, step: int) -> tuple[str, ...]:
    """The trainer's faults of a kind at the drawn step. Half of what `bad-data` hurts lies before a checkpoint's end."""
    sample = step * 16
    return tuple(text.format(step=step, sample=sample, sample_end=sample + 400) for text in kind.faults)
