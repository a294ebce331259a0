"""python -m trainer.checkpoint: look at a run's checkpoints, check them, compare two, take one out for other programs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from sentinel.client import dumps

from ..exits import ConfigError, TrainerError
from .listing import describe, describe_all, folder_of, place_of, table
from .verifying import list_steps

BAD = 1  # a checkpoint does not hold


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, 1 where a checkpoint does not hold, 3 for a wrong command, 4 for what cannot be read."""
    try:
        args = _parser().parse_args(arguments)
        act: Callable[[argparse.Namespace], int] = args.act
        return act(args)
    except TrainerError as error:
        print(f"trainer.checkpoint: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError:  # `| head` has seen enough
        return 0


def list_(args: argparse.Namespace) -> int:
    rows = describe_all(folder_of(args.place), every_byte=args.verify)
    print(dumps(rows) if args.json else table(rows) if rows else f"no checkpoint in {folder_of(args.place)}")
    return 0


def verify(args: argparse.Namespace) -> int:
    folder = folder_of(args.place)
    steps = args.step or list_steps(folder)
    if not steps:
        print(f"trainer.checkpoint: no checkpoint in {folder}", file=sys.stderr)
        return BAD
    rows = [describe(place_of(folder, step), step, every_byte=True) for step in steps]
    if args.json:
        print(dumps(rows))
    else:
        for row in rows:
            print(f"step {row['step']}: " + ("every byte holds" if row["ok"] else f"DOES NOT HOLD: {row['state']}"))
    return 0 if all(row["ok"] for row in rows) else BAD


def diff(args: argparse.Namespace) -> int:
    folder = folder_of(args.place)
    from .difference import compare, format_comparison  # torch comes with it

    document = compare(place_of(folder, args.before), place_of(folder, args.after))
    print(dumps(document) if args.json else format_comparison(document))
    return 0


def export(args: argparse.Namespace) -> int:
    folder = folder_of(args.place)
    from .exporting import export as write_export

    written: dict[str, Any] = write_export(place_of(folder, args.step), args.out)
    print(f"{written['architecture']}, {written['tensors']} tensors: {args.out} and {args.out.parent / 'config.json'}")
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see python -m {__package__} --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=f"python -m {__package__}", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def command(name: str, act: Callable[[argparse.Namespace], int], help_text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help_text, description=help_text, allow_abbrev=False)
        added.add_argument("place", type=Path, metavar="RUN_DIR", help="a run directory, or a trainer's --out-dir")
        added.set_defaults(act=act)
        return added

    listed = command("list", list_, "every checkpoint: when, how large, from what, and whether all its files are there")
    listed.add_argument("--verify", action="store_true", help="compare every byte with its digest as well")
    checked = command("verify", verify, "compare every byte with its digest; leaves with 1 if one does not hold")
    checked.add_argument("--step", type=int, action="append", metavar="N", help="only this one; may be repeated")
    compared = command("diff", diff, "what changed between two steps: settings, numbers, and each parameter")
    compared.add_argument("before", type=int, metavar="A")
    compared.add_argument("after", type=int, metavar="B")
    taken = command("export", export, "write one for Hugging Face transformers: safetensors, and config.json beside it")
    taken.add_argument("step", type=int, metavar="STEP")
    taken.add_argument("--out", type=Path, required=True, metavar="FILE.safetensors")
    for one in (listed, checked, compared):
        one.add_argument("--json", action="store_true", help="for programs")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
