"""The command line: `python -m tests.chaos --help`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random, SystemRandom

from tests.chaos.kinds import DISK_MIB, KINDS, STEPS, Kind, draw_step, drawn_faults, find
from tests.chaos.outcome import Ending, Outcome, judge, table, write_table
from tests.chaos.run import ChaosRun, Unfinished, faults_of_trainer, remove, small_disk

WITHIN_S = 240.0


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="some kinds of faults; without, all: " + ", ".join(k.name for k in KINDS))
    parser.add_argument("--seed", type=int, help="what is drawn; without, another every time, and printed")
    parser.add_argument("--table", type=Path, help="write the table to this file")
    parser.add_argument("--keep", type=Path, help="run directories here, and keep them")
    asked = parser.parse_args(words)
    seed = asked.seed if asked.seed is not None else SystemRandom().randrange(10**6)
    try:
        kinds = find(asked.kinds) if asked.kinds else list(KINDS)
    except KeyError as error:
        parser.error(error.args[0])
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="sentinel-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {seed}, {len(kinds)} kinds, runs in {folder}", flush=True)
    unhurt: dict[str, Ending] = {}
    outcomes = []
    for kind in kinds:
        if kind.precision not in unhurt:
            unhurt[kind.precision] = run_unhurt(folder, kind.precision)
        outcome = do(kind, seed, folder, unhurt[kind.precision])
        outcomes.append(outcome)
        ground = "-" if outcome.new_ground_s is None else f"{outcome.new_ground_s:.1f} s"
        verdict = "WRONG: " + "; ".join(outcome.wrong) if outcome.wrong else "survived"
        print(f"{kind.name} at step {outcome.step}: {verdict}; {outcome.happened}; bitwise {outcome.bitwise}; new ground after {ground}; "
              f"{outcome.seconds:.0f} s", flush=True)  # fmt: skip
        if not outcome.wrong and asked.keep is None:
            remove(folder / kind.name)
            remove(folder / f"{kind.name}-copy")
    text = table(outcomes, {kind.name: kind for kind in KINDS})
    if asked.table is not None:
        write_table(asked.table, text + "\n")
    failed = [one for one in outcomes if one.wrong]
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} survived")
    for one in failed:
        print(f"again with: python -m tests.chaos {one.kind} --seed {one.seed}")
    return 1 if failed else 0


def run_unhurt(folder: Path, precision: str) -> Ending:
    """How the run ends that nothing is done to."""
    run = ChaosRun(folder / f"unhurt-{precision}" / "run", STEPS, precision=precision)
    run.run_dir.parent.mkdir(parents=True)
    try:
        code = run.start().wait(WITHIN_S)
        if code:
            raise Unfinished(f"the unhurt run ended with {code}: {run.log_path.read_text()[-2000:]}")
        return Ending.of(run)
    finally:
        run.end()


def do(kind: Kind, seed: int, folder: Path, unhurt: Ending) -> Outcome:
    """One run with one fault. What does not come in time is in its outcome."""
    rng = Random(f"{seed} {kind.name}")
    step = draw_step(rng)
    began_s = time.monotonic()
    with ExitStack() as stack:
        kept = place = folder / kind.name
        try:
            place = stack.enter_context(small_disk(place, DISK_MIB)) if kind.small_disk else place
        except Unfinished as error:
            return Outcome(kind.name, seed, step, "not done", "", 0, None, 0.0, 0, (str(error),))
        place.mkdir(exist_ok=True)
        words = faults_of_trainer(*drawn_faults(kind, step))
        run = ChaosRun(place / "run", STEPS, words, kind.precision)
        try:
            run.start()
            if kind.strike is not None:
                run.wait_for_step(step)
                kind.strike(run, rng)
            run.wait(WITHIN_S)
            if kind.strike is None:
                note_own_fault(run, step)
            return judge(run, kind, (seed, step), unhurt, time.monotonic() - began_s)
        except (Unfinished, OSError) as error:
            log = run.log_path.read_text(errors="replace")[-1500:]
            return Outcome(kind.name, seed, step, log, "", 0, None, time.monotonic() - began_s, 0, (str(error),))
        finally:
            run.end()
            if kind.small_disk:
                shutil.copytree(place, kept.with_name(f"{kind.name}-copy"), dirs_exist_ok=True)  # the disk goes away with the run


def note_own_fault(run: ChaosRun, step: int) -> None:
    """When a fault of the trainer's own struck: it leaves a file before."""
    struck = sorted((run.run_dir / "faults").glob("*.json"), key=lambda path: path.stat().st_mtime)
    if struck:
        run.struck_s, run.furthest_step = struck[0].stat().st_mtime, step - 1


if __name__ == "__main__":
    sys.exit(main())
