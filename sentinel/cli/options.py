"""Arguments and options that mean the same in every command, and the panels in which `sentinel --help` groups the commands."""

from __future__ import annotations

import itertools
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from sentinel.client.run_layout import RUN_FILE_NAME
from sentinel.errors import UsageError

if TYPE_CHECKING:
    from sentinel.client.masking import Masking

RUN, LOOK, STEER, ANSWER = "Run", "Look at a run", "Steer a run", "Answer a page"
POLICIES, REHEARSE = "Policies", "Read logs, rehearse disasters"
TRAINERS = "Trainer profiles"

RunDir = Annotated[Path, typer.Argument(help="The run's directory.", metavar="RUN_DIR")]
Pages = Annotated[
    list[str] | None,
    typer.Option(
        help="Page there too, beside the policy's routes; may be repeated. One of {channels}.",
        metavar="CHANNEL[=…]",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Listening = Annotated[
    str | None,
    typer.Option("--listen", help="Where the page listens; default 127.0.0.1:9464, if it is free.", metavar="[HOST:]PORT|off"),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="The token that lets the page act, and be seen from other machines; or SENTINEL_TOKEN.", metavar="FILE"),
]


def show(text: str, err: bool = False) -> None:
    """Print what is meant for a person: a run's name, a node or a log line in it may hold what a terminal would obey."""
    from sentinel.paging.plain_text import plain

    print(plain(text), file=sys.stderr if err else sys.stdout)


def dump(document: object, masking: Masking | None = None) -> str:
    """A document as `--json` prints it. `masking`: made once by whoever prints many."""
    from sentinel.report.masked import masked_json

    return masked_json(document, masking)


def _channels() -> str:
    from sentinel.channels.registry import ROWS

    forms = [row.short_form for row in ROWS if row.short_form is not None]
    return ", ".join(f"{form.usage} (secret in {form.variable})" if form.variable else form.usage for form in forms)


def _launchers() -> str:
    from sentinel.launcher.registry import DEFAULT, LAUNCHERS

    default = " (the default of a new run)"
    return "; ".join(f"{row.kind}{default if row.kind == DEFAULT else ''}: {row.summary}" for row in LAUNCHERS)


def _launcher_options() -> str:
    from sentinel.launcher.registry import LAUNCHERS, describe_options

    return "; ".join(f"{row.kind} has {options}" for row in LAUNCHERS if (options := describe_options(row)))


def _live_settings() -> str:
    from sentinel.client.settings import BY_WORD

    return ", ".join(word for word, row in BY_WORD.items() if row.changes == "live")


def _trackers() -> str:
    from sentinel.trackers.registry import describe_targets

    return describe_targets()


# By its word in a help text, what reads the table or registry.
NAMED: Mapping[str, Callable[[], str]] = {
    "{channels}": _channels, "{launchers}": _launchers, "{launcher_options}": _launcher_options, "{live}": _live_settings,
    "{trackers}": _trackers,
}  # fmt: skip


class NamesRows(TyperCommand):
    """A command whose help names rows of a table: a word of NAMED stands for them. The table is read when the help is shown.

    An option that counts once is refused where it is given twice: click would go on with the last, and say nothing."""

    def make_parser(self, ctx: Any) -> Any:
        return _OnceOnly(super().make_parser(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        described: Sequence[Any] = (self, *self.params)
        for one in described:
            for word, names in NAMED.items():
                if word in (getattr(one, "help", None) or ""):
                    one.help = one.help.replace(word, names())
        super().format_help(ctx, formatter)


class RunDirAnywhere(NamesRows):
    """A command with a RUN_DIR and other arguments, in either order. The documents put RUN_DIR last."""

    def make_parser(self, ctx: Any) -> Any:
        return _Rearranged(super().make_parser(ctx), self._with_run_dir_found)

    def _with_run_dir_found(self, values: dict[str, Any]) -> dict[str, Any]:
        """The words of the arguments, dealt out anew where a run's directory stands in another's place."""
        arguments = [parameter for parameter in self.params if parameter.param_type_name == "argument"]
        words: list[str] = []
        for argument in arguments:
            value = values.get(str(argument.name))
            words += value if isinstance(value, (tuple, list)) else [value] if isinstance(value, str) else []
        if _is_run_dir(values.get("run_dir")):
            return values
        found = next((word for word in words if _is_run_dir(word)), None)
        if found is None:
            return values
        words.remove(found)
        dealt = dict(values)
        for argument in arguments:
            name = str(argument.name)
            if name == "run_dir":
                dealt[name] = found
            elif argument.nargs == -1:
                dealt[name], words = tuple(words), []
            elif words:
                dealt[name] = words.pop(0)
            else:
                dealt.pop(name, None)
        return dealt


class _OnceOnly:
    """click's parser of one command line, which refuses a second value for what has one."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def parse_args(self, args: list[str]) -> tuple[dict[str, Any], list[str], list[Any]]:
        given = list(args)  # click takes the words away
        values, rest, order = self._parser.parse_args(args)
        for parameter in {id(one): one for one in order}.values():
            is_switch = getattr(parameter, "is_flag", False) and not parameter.secondary_opts  # twice says the same
            if parameter.param_type_name == "option" and order.count(parameter) > 1 and not parameter.multiple and not is_switch:
                raise UsageError(_given_twice(parameter, given))
        return values, rest, order

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


def _given_twice(parameter: Any, words: Sequence[str]) -> str:
    names = (*parameter.opts, *parameter.secondary_opts)
    shown: list[str] = []
    for at, word in enumerate(itertools.takewhile(lambda word: word != "--", words)):
        if word in names:
            shown.append(word if parameter.is_flag else shlex.join(words[at : at + 2]))
        elif word.partition("=")[0] in names:
            shown.append(shlex.quote(word))
    from sentinel.client.masking import Masking

    named = Masking.of(os.environ).text(" and ".join(shown))
    often = "twice" if len(shown) == 2 else f"{len(shown)} times"
    return f"{parameter.opts[0]}: is given {often} ({named}); give it once"


class _Rearranged:
    """click's parser of one command line, with the words of the arguments rearranged before they are checked."""

    def __init__(self, parser: Any, rearrange: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._parser = parser
        self._rearrange = rearrange

    def parse_args(self, args: list[str]) -> tuple[dict[str, Any], list[str], list[Any]]:
        values, rest, order = self._parser.parse_args(args)
        return self._rearrange(values), rest, order

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


def _is_run_dir(word: object) -> bool:
    """os.path answers False, and pathlib raises, for a word that no path can be, such as a long note."""
    return isinstance(word, str) and os.path.isfile(os.path.join(word, RUN_FILE_NAME))
