"""`sentinel autopsy`: what a run died of, from the logs it left. Parse and print: a part of `sentinel.cli`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sentinel.policy.schema_logs import LogRule

from sentinel.cli.options import Json


def autopsy(
    paths: Annotated[list[Path], typer.Argument(help="Logs, or folders with the logs of the ranks.", metavar="LOG|DIR...")],
    policy: Annotated[
        str | None, typer.Option(help="A policy, whose patterns over logs (`logs`) are looked for, too.", metavar="FILE")
    ] = None,
    as_json: Json = False,
) -> None:
    """What died first, where, why, and what to do, from the logs of a run that nobody supervised. Changes nothing.

    Logs may be compressed (gzip, bzip2, xz). A folder is one run. With --json one object a line for each argument.

    Exit codes: 0 everything was read, whether or not anything failed in it, 1 an argument or a file of a folder could not be
    read (it is named, and the rest is answered), 2 usage or policy error.
    """
    from sentinel.report.autopsy import examine
    from sentinel.report.autopsy_words import autopsy_document, autopsy_text
    from sentinel.report.masked import environment_masking, masked_json

    rules: tuple[LogRule, ...] = ()
    if policy is not None:
        from sentinel.policy_files.loading import load_policy, shipped_policy_path

        rules = load_policy(shipped_policy_path(policy)).spec.logs
    unread, masking = False, environment_masking()
    for number, path in enumerate(paths):
        found = examine(path, rules)
        unread = unread or found.error is not None or bool(found.unread)
        if as_json:
            print(masked_json(autopsy_document(found), masking), flush=True)
        else:
            print(("\n" if number else "") + masking.text(autopsy_text(found)), flush=True)
    raise typer.Exit(1 if unread else 0)
