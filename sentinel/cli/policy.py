"""`sentinel policy …`: the commands about policies. Parse and print, as `sentinel.cli`, of which this is a part."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentinel.cli.operator import EXITS, Timeout, ask_run
from sentinel.cli.options import Json, RunDir, RunDirAnywhere, dump
from sentinel.errors import UsageError

if TYPE_CHECKING:
    from sentinel.policy.available import Abilities

policy_app = typer.Typer(no_args_is_help=True, help="Remediation policies.")

TrainerProfile = Annotated[
    str | None,
    typer.Option("--trainer", help="A trainer profile; rungs that it cannot carry out are passed over.", metavar="NAME"),
]
Policies = Annotated[list[str], typer.Argument(help="Policy files, or names of shipped ones.", metavar="FILE...")]


@policy_app.command("check")
def policy_check(
    files: Policies,
    capabilities: Annotated[str | None, typer.Option(help="What the trainer can do, as in skip,live_overrides.")] = None,
    trainer: TrainerProfile = None,
    as_json: Json = False,
) -> None:
    """Refuse what cannot work, with the line, a caret and the remedy. Exit code 2 when there is anything to mend."""
    from sentinel.client.strict_json import dumps
    from sentinel.policy_files.check import check_files
    from sentinel.telemetry.reference import load_reference

    report = check_files(files, capabilities, also=load_reference, able=_abilities(trainer))
    print(dumps(report.document) if as_json else report.text, file=sys.stdout if report.ok or as_json else sys.stderr)
    raise typer.Exit(0 if report.ok else 2)


def _abilities(trainer: str | None) -> Abilities | None:
    from sentinel.trainers.describe import abilities
    from sentinel.trainers.loading import load_profile

    return None if trainer is None else abilities(load_profile(trainer))


@policy_app.command("explain")
def policy_explain(
    file: Annotated[str, typer.Argument(help="A policy file, or the name of a shipped one.", metavar="FILE")],
    finding: Annotated[str | None, typer.Option(help="A kind of finding, or an alert; without it, all rules are listed.")] = None,
    onset: Annotated[int, typer.Option(help="Assumed: the step where it began.", min=1)] = 1000,
    detected: Annotated[int | None, typer.Option(help="Assumed: the step where it was believed.", min=1)] = None,
    checkpoint_every: Annotated[int | None, typer.Option(help="Assumed: steps between checkpoints.", min=1)] = None,
    samples_per_step: Annotated[int, typer.Option(help="Assumed: samples a step trains on.", min=1)] = 512,
    trainer: TrainerProfile = None,
    as_json: Json = False,
) -> None:
    """What a policy would do about a finding, rung by rung, with its budget, probation and pages. Nothing is run."""
    from sentinel.client.strict_json import dumps
    from sentinel.policy_files.explain import Assumed, explain, explain_rules, explain_text, rules_document
    from sentinel.policy_files.loading import load_policy, shipped_policy_path

    policy = load_policy(shipped_policy_path(file))
    if finding is None:
        if trainer is not None:
            raise UsageError(
                f"--trainer {trainer} needs --finding, as in: sentinel policy explain default --finding spike --trainer megatron"
            )
        print(dumps(rules_document(policy)) if as_json else explain_rules(policy))
        return
    explained = explain(policy, finding, Assumed(onset, detected, checkpoint_every, samples_per_step), _abilities(trainer))
    print(dumps(explained.document) if as_json else explain_text(explained))


@policy_app.command("show")
def policy_show(
    file: Annotated[str, typer.Argument(help="A policy file, or the name of a shipped one.", metavar="FILE")],
    as_json: Json = False,
) -> None:
    """Print the policy as it is in force: one YAML document, with what it extends merged in. It can be used in its place."""
    from sentinel.client.strict_json import dumps
    from sentinel.policy_files.loading import read_policy_file, shipped_policy_path

    read = read_policy_file(shipped_policy_path(file))
    print(f"{dumps(read.in_force)}\n" if as_json else read.print_document(), end="")


@policy_app.command("apply", cls=RunDirAnywhere, epilog=EXITS)
def policy_apply(
    file: Annotated[str, typer.Argument(help="A policy file, or the name of a shipped one.", metavar="POLICY")],
    run_dir: RunDir,
    note: Annotated[str, typer.Option(help="Why, for the record: one line.", metavar="TEXT")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be different for this run; change nothing.")] = False,
    timeout: Timeout = 30.0,
    as_json: Json = False,
) -> None:
    """Go on with a run by another policy, from the next decision on. It stays in force when the supervisor is started again.

    It is checked first, as by `policy check`, and a bad one changes nothing. No action is broken off: it is applied when the one
    under way has ended. Without a supervisor it is in force from the next start on.
    """
    from sentinel.model.operator_requests import ApplyPolicy, is_remark
    from sentinel.operator.applying import keep, read_checked
    from sentinel.operator.previewing import preview
    from sentinel.report.run_dirs import check_run_dir

    if note and not is_remark(note):
        raise UsageError("--note: is not one printable line of at most 2000 characters; leave out line breaks")
    if as_json and not dry_run:
        raise UsageError("--json needs --dry-run: a policy that is applied is answered by the exit code and a sentence")
    check_run_dir(run_dir)
    read = read_checked(file)
    if warnings := read.print_warnings():
        print(warnings, file=sys.stderr)
    if dry_run:
        found = preview(run_dir, read)
        print(dump(found.document) if as_json else found.text)
        return
    keep(run_dir, read)
    ask_run(run_dir, ApplyPolicy(read.path, read.digest, note), timeout)


@policy_app.command("test")
def policy_test(
    files: Annotated[list[Path], typer.Argument(help="Case files: input series or drills.", metavar="CASES...")],
    policy: Annotated[str | None, typer.Option(help="Judge all cases by this policy instead of the ones they name.")] = None,
    as_json: Json = False,
) -> None:
    """Input series and drills against expected alerts and remedies. Reads what `sentinel drill` reads.

    Exit codes: 0 every case as expected, 1 not so, 2 a bad case file or policy.
    """
    from sentinel.client.strict_json import dumps
    from sentinel.sim.cases import run_case_files

    report = run_case_files(files, policy)
    print(dumps(report.document) if as_json else report.text)
    raise typer.Exit(0 if report.ok else 1)


@policy_app.command("schema")
def policy_schema() -> None:
    """Print the JSON schema of policy files, for editors and other tools."""
    from sentinel.policy_files.schema_json import policy_json_schema_text

    print(policy_json_schema_text(), end="")
