"""`sentinel trainers …`: the commands about trainer profiles. Parse and print."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sentinel.cli.options import Json

trainers_app = typer.Typer(no_args_is_help=True, help="Profiles of trainers that know nothing of sentinel.")

Profile = Annotated[
    str, typer.Argument(help="A shipped profile or a file, with options: NAME, FILE:root=DIR.", metavar="NAME|FILE")
]


@trainers_app.command("list")
def trainers_list(as_json: Json = False) -> None:
    """Which profiles are shipped, and what each can do: what is watched, started again, rolled back, skipped, changed."""
    from sentinel.client.strict_json import dumps
    from sentinel.trainers.describe import list_documents, list_text

    print(dumps(list_documents()) if as_json else list_text())


@trainers_app.command("show")
def trainers_show(profile: Profile, as_json: Json = False) -> None:
    """The profile as it is in force: one YAML document with its options filled in. It can be used in its place."""
    from sentinel.client.strict_json import dumps
    from sentinel.policy_files.yaml_positions import write_yaml
    from sentinel.trainers.describe import profile_document, what_it_can
    from sentinel.trainers.loading import load_with_document

    loaded, document = load_with_document(profile)
    if as_json:
        print(dumps({**profile_document(loaded), "profile": document}))
        return
    options = ", ".join(f"{name}={value}" for name, value in loaded.options.items())
    notes = [profile, *what_it_can(loaded), *([f"options: {options}"] if options else [])]
    print("\n".join(f"# {line}" for line in notes) + "\n" + write_yaml(document), end="")


@trainers_app.command("check")
def trainers_check(
    profiles: Annotated[list[str], typer.Argument(help="Profiles: files, or names of shipped ones.", metavar="FILE...")],
    as_json: Json = False,
) -> None:
    """Refuse what cannot be a profile, with the line, a caret and the remedy. Exit code 2 when there is anything to mend."""
    from sentinel.client.strict_json import dumps
    from sentinel.trainers.checking import check_profiles

    report = check_profiles(profiles)
    print(dumps(report.document) if as_json else report.text, file=sys.stdout if report.ok or as_json else sys.stderr)
    raise typer.Exit(0 if report.ok else 2)


@trainers_app.command("schema")
def trainers_schema() -> None:
    """Print the JSON schema of trainer profiles, for editors and other tools."""
    from sentinel.trainers.schema_json import profile_json_schema_text

    print(profile_json_schema_text(), end="")
