"""The demonstration on a cluster: `make cluster-demo`.

Three isolated Slurm nodes, of which two train the bundled GPT and one is a spare. Four faults: a rank is killed, a node loses
its power, a rank hangs, data is poisoned. Sentinel is a line of the batch script, and nobody helps it. What it says is printed
while it happens; at the end stand the table of `sentinel demo`, and what does not hold, if anything.

    python -m tests.cluster.demo [--keep DIR] [--steps 720]
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.cli.bundled_trainer import BATCH_SIZE, fault_words, size_words
from sentinel.cli.demo import closing_words
from sentinel.model import facts as f
from tests.cluster.cluster_kit import ROOT, Cluster, Listing, Run
from tests.cluster.conftest import why_not
from tests.integration.supervised import Supervised

REFERENCE_STEPS = 720
STEPS_MIN = 600  # with fewer the detectors have no history before the poison, or the repair no time for its probation
# Steps of the reference run, each past the probation (60 steps) of the fault before. What leaves the model as it is comes first.
KILL_AT, NODE_OFF_AT, HANG_AT, POISON_AT = 132, 252, 372, 492
POISON_SAMPLES = 400
RANK = 1  # of two
TRAINS, SPARE = "n2", "n3"  # where that rank is, and where it is after the node was lost. n1 has rank 0 and the supervisor
WITHIN_S = 900.0
# The words before `sentinel run`: an agent on each node, as docs/agents.md has it.
AGENT = f"#!/bin/sh\nexec {sys.executable} -m sentinel \"$@\"\n"


@dataclass(frozen=True)
class Strike:
    """A fault and what must be found of it."""

    name: str
    kinds: tuple[str, ...]  # one of which the incident has
    at_step: int
    node: str | None  # to blame
    remedies: int = 1


def strikes(steps: int) -> tuple[Strike, ...]:
    def scaled(step: int) -> int:
        return round(step * steps / REFERENCE_STEPS)

    return (
        Strike("a rank is killed", ("crash",), scaled(KILL_AT), TRAINS),
        # Its ranks are silent before Slurm has given it up, for longer than a hang takes to be believed under this policy.
        Strike("a node loses its power", ("hang", "crash"), scaled(NODE_OFF_AT), TRAINS),
        Strike("a rank hangs", ("hang",), scaled(HANG_AT), SPARE),
        Strike("poisoned data", ("spike",), scaled(POISON_AT), None, remedies=2),  # a wait, then a rollback
    )


def train_words(steps: int) -> list[str]:
    """The command of a rank: the bundled trainer, and the three faults that it does to itself."""
    kill, _, hang, poison = strikes(steps)
    first = poison.at_step * BATCH_SIZE
    faults = (
        f"kill@step={kill.at_step}:rank={RANK}",
        f"hang@step={hang.at_step}:rank={RANK}",
        f"bad_data@sample={first}-{first + POISON_SAMPLES}",
    )
    return [sys.executable, "-m", "trainer", *size_words(steps, 50), *fault_words(faults)]


def complaints(
    incidents: Sequence[dict[str, Any]], surviving: Sequence[int], steps: int, nodes: dict[int, set[str]], status: int
) -> list[str]:
    """What does not hold. `surviving`: steps on the lineage that lasts; `nodes`: where each attempt's ranks beat."""
    wrong = [] if status == 0 else [f"the run left with {status}, 0 asked"]
    real = [one for one in incidents if not one["benign"]]
    asked = strikes(steps)
    kinds = [one["kind"] for one in real]
    if len(kinds) != len(asked) or any(kind not in strike.kinds for strike, kind in zip(asked, kinds, strict=True)):
        wrong.append(f"incidents {kinds}, asked {[' or '.join(strike.kinds) for strike in asked]}")
    for strike, one in zip(asked, real, strict=False):
        if one["state"] != "recovered":
            wrong.append(f"{strike.name}: incident {one['id']} is {one['state']}")
        if strike.node is not None and (one["blamed_rank"], one["blamed_node"]) != (RANK, strike.node):
            blamed = f"rank {one['blamed_rank']} and node {one['blamed_node']}"
            wrong.append(f"{strike.name}: blamed are {blamed}, asked rank {RANK} and {strike.node}")
        if len(one["remedies"]) != strike.remedies:
            wrong.append(f"{strike.name}: {len(one['remedies'])} remedies, {strike.remedies} asked")
    if list(surviving) != list(range(1, steps + 1)):
        wrong.append(f"{len(set(surviving))} of {steps} steps survive")
    before, after = {"n1", TRAINS}, {"n1", SPARE}
    trained = [nodes[attempt] for attempt in sorted(nodes)]
    if [where for where in trained if where not in (before, after)] or trained[:1] != [before] or trained[-1:] != [after]:
        wrong.append(f"attempts trained on {trained}; asked {before} first, and {after} once {TRAINS} was lost")
    return wrong


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.demo", description=__doc__)
    parser.add_argument("--steps", type=int, default=REFERENCE_STEPS, help=f"{STEPS_MIN} or more")
    parser.add_argument("--keep", type=Path, help="the run directory here, and keep it")
    asked = parser.parse_args(words)
    if asked.steps < STEPS_MIN:
        parser.error(f"--steps {asked.steps}: must be {STEPS_MIN} or above, or the poison is not told from early training")
    if reason := why_not():
        parser.error(reason)
    if asked.keep is not None and (asked.keep / "demo").exists():
        parser.error(f"--keep {asked.keep}: holds a demonstration already; choose another folder")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # no daemon is to be left behind
    with tempfile.TemporaryDirectory(prefix="sentinel-cluster-demo-") as scratch:
        folder = Path(asked.keep or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        slurm = Path(scratch) / "slurm"
        slurm.mkdir()
        cluster = Cluster(slurm)
        try:
            return demonstrate(cluster, folder, asked.steps)
        finally:
            with suppress(AssertionError):  # Slurm has gone away, and said why
                cluster.ask("scancel", "--user", "root")
            cluster.down()


def demonstrate(cluster: Cluster, folder: Path, steps: int) -> int:
    run = Run(folder / "demo", steps, 0.0, "--launcher-option", "spares=1", train=train_words(steps))
    program = folder / "bin" / "sentinel"
    program.parent.mkdir(exist_ok=True)
    program.write_text(AGENT)
    program.chmod(0o755)
    agents = shlex.join(["bash", str(ROOT / "deploy" / "slurm" / "agents.sh"), str(run.run_dir)])
    place, logs = shlex.quote(str(program.parent)), shlex.quote(str(folder))
    run.script = f"cd {shlex.quote(str(ROOT))}; AGENT_LOGS={logs} PATH={place}:$PATH {agents} {run.command}"
    began_s = time.monotonic()
    cluster.submit(run)
    print(f"Three isolated nodes of Slurm on this machine. Job {run.job}: n1 and n2 train, n3 is the spare.", flush=True)
    _, off_at, _, _ = (strike.at_step for strike in strikes(steps))
    with Listing(cluster, run) as listing:
        watch(run, off_at, lambda: cut_power(cluster), began_s + WITHIN_S)
    if run.status is None:
        print(f"The run did not end within {WITHIN_S:.0f} s: {run.tail()}")
        return 1
    supervised = Supervised(run.run_dir, [])
    print(closing_words(run.run_dir))
    wrong = complaints(supervised.incidents(), sorted(supervised.surviving()), steps, nodes_of(run), run.status)
    wrong += overlaps(listing.seen, run.step_name(lost_attempt(run)))
    wrong += late_beats(run)
    poison_at = strikes(steps)[-1].at_step
    wrong += [f"checkpoint {one.step} was condemned" for one in run.of(f.CheckpointCondemned) if one.step < poison_at]
    told = "What does not hold:" if wrong else "Every fault was found, blamed and repaired."
    print("\n".join([f"\n{time.monotonic() - began_s:.0f} s. {told}", *(f"  {line}" for line in wrong)]), flush=True)
    return 1 if wrong else 0


def watch(run: Run, off_at_step: int, cut: Callable[[], None], until_s: float) -> None:
    """Print what the supervisor says until it has left, and cut the power of a node when its step has come."""
    shown, is_cut = 0, False
    while run.status is None and time.monotonic() < until_s:
        text = run.log.read_bytes() if run.log.exists() else b""
        if len(text) > shown:
            print(text[shown:].decode("utf-8", "replace"), end="", flush=True)
            shown = len(text)
        if not is_cut and newest_step(run) >= off_at_step:
            cut()
            is_cut = True
        time.sleep(0.1)


def lost_attempt(run: Run) -> int:
    """The attempt that had the node: the last on it."""
    return max(attempt for attempt, nodes in nodes_of(run).items() if TRAINS in nodes)


def overlaps(seen: Sequence[frozenset[str]], lost: str) -> list[str]:
    """Attempts that squeue listed at once. Slurm lists the step that lost its node for as long as the job lasts, though nothing
    of it lives (docs/design/slurm.md); of that one the heartbeats tell."""
    names = (frozenset(line.split()[1] for line in listed) - {lost} for listed in seen)
    return [f"steps of two attempts at once: {sorted(several)}" for several in names if len(several) > 1]


def late_beats(run: Run) -> list[str]:
    """Ranks whose last heartbeat is younger than the launch of the attempt after theirs."""
    launched = {entry.fact.attempt: entry.at_s for entry in run.facts() if isinstance(entry.fact, f.AttemptLaunched)}
    wrong = []
    for place in sorted((run.run_dir / "attempts").glob("*/heartbeats/rank-*.json")):
        attempt, beat = int(place.parts[-3]), json.loads(place.read_bytes())
        if beat["time_s"] > launched.get(attempt + 1, float("inf")):
            wrong.append(f"rank {beat['host']} of attempt {attempt} lived when attempt {attempt + 1} was launched")
    return wrong


def newest_step(run: Run) -> int:
    launched = run.of(f.AttemptLaunched)
    return run.newest_step(launched[-1].attempt) if launched else 0


def cut_power(cluster: Cluster) -> None:
    print(f"--- the power of {TRAINS} is cut: everything on it dies at once", flush=True)
    cluster.off(TRAINS)


def nodes_of(run: Run) -> dict[int, set[str]]:
    """Attempt → the hosts its ranks' heartbeats name."""
    found: dict[int, set[str]] = {}
    for place in (run.run_dir / "attempts").glob("*/heartbeats/rank-*.json"):
        found.setdefault(int(place.parts[-3]), set()).add(json.loads(place.read_bytes())["host"])
    return found


if __name__ == "__main__":
    sys.exit(main())
