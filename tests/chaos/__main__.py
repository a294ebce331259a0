"""The command line: `python -m tests.chaos --help`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from random import Random, SystemRandom

from tests.chaos.kinds import DISK_MIB, INODES, KINDS, STEPS, Kind, drawn_faults, find
from tests.chaos.outcome import Ending, Outcome, judge, table, write_table
from tests.chaos.run import ChaosRun, Unfinished, faults_of_trainer, remove, small_disk
from tests.chaos.soak import Planned, draw_plan, shrink, soak

WITHIN_S = 240.0


def main(words: list[str] | None = None) -> int:
    names = ", ".join(kind.name for kind in KINDS)
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"some kinds, or `soak`; without, every kind once: {names}")
    parser.add_argument("--seed", type=int, help="what is drawn; without, another every time, and printed")
    parser.add_argument("--table", type=Path, help="write the table to this file")
    parser.add_argument("--keep", type=Path, help="run directories here, and keep them")
    parser.add_argument("--minutes", type=float, default=20.0, help="of `soak`")
    parser.add_argument("--faults", help="of `soak`: these, as it prints them, in place of drawn ones")
    parser.add_argument("--shrink", action="store_true", help="of `soak`: find the fewest faults that it does not survive")
    asked = parser.parse_args(words)
    seed = asked.seed if asked.seed is not None else SystemRandom().randrange(10**6)
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="sentinel-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if asked.kinds == ["soak"]:
            given = [Planned.parse(text) for text in asked.faults.split(",")] if asked.faults else None
            return soak_once(given or draw_plan(seed, asked.minutes), seed, folder, asked.shrink)
        kinds = find(asked.kinds) if asked.kinds else list(KINDS)
    except (KeyError, ValueError) as error:
        parser.error(str(error.args[0]))
    return strike_each(kinds, seed, folder, asked.table, is_kept=asked.keep is not None)


def soak_once(plan: Sequence[Planned], seed: int, folder: Path, shrinks: bool) -> int:
    """One long run. Prints what it survived, and what it did not as one line to do again."""
    print(f"seed {seed}, {len(plan)} faults planned, the run in {folder}", flush=True)
    report = soak(folder / "soak", plan, lambda line: print(line, flush=True))
    print("\n".join(report.lines()), flush=True)
    if not report.wrong:
        return 0
    struck = report.done
    if shrinks and struck:
        tried = count()
        struck = shrink(struck, lambda some: bool(soak(folder / f"shrink-{next(tried)}", some).wrong))
    print(f"again with: python -m tests.chaos soak --faults {','.join(map(str, struck))}")
    return 1


def strike_each(kinds: Sequence[Kind], seed: int, folder: Path, table_path: Path | None, *, is_kept: bool) -> int:
    """Every kind once, each in a run of its own. Prints a line for each, and a table to a file."""
    print(f"seed {seed}, {len(kinds)} kinds, runs in {folder}", flush=True)
    unhurt: dict[str, Ending] = {}
    outcomes = []
    for kind in kinds:
        if kind.precision not in unhurt:
            unhurt[kind.precision] = run_unhurt(folder, kind.precision)
        outcomes.append(outcome := do(kind, seed, folder, unhurt[kind.precision]))
        print(outcome.line, flush=True)
        if not outcome.wrong and not is_kept:
            remove(folder / kind.name)
            remove(folder / f"{kind.name}-copy")
    if table_path is not None:
        write_table(table_path, table(outcomes, {kind.name: kind for kind in KINDS}) + "\n")
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
    step = kind.draw_step(rng)
    began_s = time.monotonic()
    with ExitStack() as stack:
        kept = place = folder / kind.name
        try:
            place = stack.enter_context(small_disk(place, DISK_MIB, INODES)) if kind.small_disk else place
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
