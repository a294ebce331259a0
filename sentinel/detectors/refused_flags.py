"""What a program says when it does not know an argument that it was given, or does not take its value.

    train.py: error: unrecognized arguments: --max_grad_norm 0.3          argparse (Megatron-LM, most scripts)
    train.py: error: argument --dtype: invalid choice: 'float16'          argparse, of a flag that it has
    ValueError: Some specified arguments are not used by the HfArgumentParser: ['--max_grad_norm', '0.3']   transformers
    ValueError: Unknown config key: dtype                                 nanoGPT's configurator
    Error: No such option '--clip'. (Did you mean '--clip-norm'?)         click, typer
    FATAL Flags parsing error: Unknown command line flag 'clip'           absl
    Unrecognized options: --clip                                          tyro, also in its box of lines
    ERROR: Could not consume arg: --clip=1.0                              fire
    option --clip not recognized                                          getopt
    Could not override 'optimizer.clip'.                                  hydra

Each was printed here by its library, but for the lines of nanoGPT, fire and hydra, which are those of their sources.

What it does not see: a program that passes over what it does not know, and one that says so in other words.
"""

from __future__ import annotations

from collections.abc import Sequence

from sentinel.client.late_regex import late_regex

LINE_CHARS = 2000  # a list of batches to leave out may stand behind the flag
_NAMED = late_regex(
    r"(?:error: [Uu]nrecognized arguments|not used by the HfArgumentParser|Unknown config key|No such option"
    r"|Unknown command line flag|Unrecognized (?:or misplaced )?options?|Could not consume arg|Could not override)\b"
    r" ?:? ?(?P<flags>.+)"
    r"|\berror: argument (?P<one>-{1,2}[\w.\-/, -]+?): |\berror: ambiguous option: (?P<short>-{1,2}[\w.-]+)"
    r"|\boption (?P<plain>-{1,2}[\w.-]+) not recognized"
)
_FLAG = late_regex(r"(?<![\w.-])(--?[A-Za-z][\w.-]*)")
_BARE = late_regex(r"^['\"]?([A-Za-z][\w.-]*)")
_OFFERS = " ("  # what click offers in its place is none that was given


def find_refused(lines: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The flags of the last such line, without a value, and the line; nothing where there is none. A name without dashes is
    given as it stands there (`dtype`)."""
    for line in reversed(lines):
        text = line[:LINE_CHARS]
        found = _NAMED.search(text)
        if found is None:
            continue
        named = (found["flags"] or found["one"] or found["short"] or found["plain"] or "").split(_OFFERS)[0]
        flags = tuple(dict.fromkeys(_FLAG.findall(named))) or tuple(_BARE.findall(named.strip().rstrip(".")))
        if flags:
            return flags, text.strip()
    return (), ""


def is_same_flag(refused: str, flag: str) -> bool:
    """`--learning_rate` and `learning_rate` are one, and so are dashes and underscores within, which some parsers exchange."""
    return refused.lstrip("-").replace("-", "_") == flag.lstrip("-").replace("-", "_")
