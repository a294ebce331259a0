"""`sentinel drill`: rehearse a policy, simulated or on the real trainer. Parse and print: a part of `sentinel.cli`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sentinel.cli.options import Json
from sentinel.errors import UsageError


def drill(
    file: Annotated[Path | None, typer.Argument(help="A drill file, or the name of a shipped drill.", metavar="FILE")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Draw from this number: where, how long and how strong FILE's faults are; or all.", min=0)
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="So many seeds, from --seed (or 1) on; one line each.", min=1)] = None,
    until: Annotated[str | None, typer.Option(help="Simulate at most so long, as in 4h.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="A policy file, or the name of a shipped one; default FILE's own, else demo.")
    ] = None,
    real: Annotated[bool, typer.Option("--real", help="Hurt the bundled trainer on the CPU, not a simulation.")] = False,
    run_dir: Annotated[Path | None, typer.Option(help="With --real: where the run lives, and stays.")] = None,
    warm: Annotated[bool, typer.Option("--warm", help="With --real: with ranks in reserve; steps take longer then.")] = False,
    as_json: Json = False,
) -> None:
    """Rehearse a policy in a simulated run, without a trainer: what would break, what would be done, was it right.

    FILE --seeds 20 runs it as written, and then with its faults elsewhere, of other length and strength, drawn from each seed.
    FILE --real does it to real processes: half a minute instead of a second.

    Exit codes: 0 as expected and every invariant held, 1 not so, 2 a bad drill file.
    """
    from sentinel.client.strict_json import dumps
    from sentinel.sim.cases import is_case_file, run_case_files
    from sentinel.sim.drill import DrillReport, NotShown, SeedsReport, drill_file, drill_seed, drill_seeds, read_until

    until_s = None if until is None else read_until(until)
    if file is not None and is_case_file(file):
        if seed is not None or seeds is not None or real:
            raise UsageError(f"{file}: cases of series have no faults to draw or to do; leave --seed, --seeds and --real out")
        cases = run_case_files([file], policy, until_s)
        print(dumps(cases.document) if as_json else cases.text)
        raise typer.Exit(0 if cases.ok else 1)
    if run_dir is not None and not real:
        raise UsageError(f"--run-dir {run_dir}: a simulated run has no directory; add --real")
    if warm and not real:
        raise UsageError("--warm: a simulated run has no ranks that could wait; add --real")
    report: DrillReport | SeedsReport | NotShown
    if real:
        from sentinel.cli.drill_real import drill_real

        if file is None or seed is not None or seeds is not None:
            raise UsageError("--real needs FILE and takes no --seed or --seeds: only a simulated run is drawn from a number")
        done = drill_real(file, run_dir, policy, until_s, warm)
        print(dumps(done.document) if as_json else done.text)
        raise typer.Exit(0 if done.ok else 1)
    if seeds is not None:
        report = drill_seeds(file, 1 if seed is None else seed, seeds, until_s, policy)
    elif file is not None:
        report = drill_file(file, until_s, seed, policy)
    elif seed is not None:
        report = drill_seed(seed, until_s, policy or "demo")
    else:
        raise UsageError("drill needs FILE, --seed N or --seeds N, as in: sentinel drill policies/drills/kill.yaml --seeds 20")
    print(dumps(report.document) if as_json else report.text)
    raise typer.Exit(0 if report.ok else 1)
