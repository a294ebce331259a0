"""What looks like a secret is taken out of what people are sent: pages travel through other people's servers, and reports
are passed on.

A trainer's command line, its error texts and its logs may hold keys. Sentinel cannot know them, so it goes by names and shapes:
rather too much is masked than too little.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

MASK = "***"
SHORTEST = 8  # a shorter value of a variable is as likely a word of the text
_WORDS = "token|secret|passwd|password|passphrase|credentials?|cookie|auth|api[_-]?key|access[_-]?key|[_-]key|_pat"
_NAME = rf"(?<![\w.-])[\w.-]{{0,64}}?(?:{_WORDS})"
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|API_?KEY|[_-]KEY|_PAT$", re.IGNORECASE)
_VALUE = r"(\"[^\"\n]*\"|'[^'\n]*'|(?:(?:Bearer|Basic)\s+)?[^\s\"',;&}]+)"
_ASSIGNED = re.compile(rf"({_NAME}[\"']?\s*[=:]\s*){_VALUE}", re.IGNORECASE)
_OPTION = re.compile(rf"({_NAME}\s+)(?!-){_VALUE}", re.IGNORECASE)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}")
_IN_ADDRESS = re.compile(r"://[^\s/@]{1,200}@")
_SHAPES = re.compile(
    r"\b(?:hf_\w{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}"
    r"|eyJ[\w-]{10,2000}\.[\w-]{1,4000}\.[\w-]{1,1000})"
)
_SIGNED = re.compile(r"([?&](?:amp;)?(?:sig|[\w-]{0,40}signature)=)[^\s&\"'<>]+", re.IGNORECASE)  # Azure's, Amazon's, Google's
_SLACK = re.compile(r"(hooks\.slack\.com/services/)[\w/-]+")


def secret_values(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Values of variables that are named like secrets, longest first. A path is none: it says where one lies."""
    named = [value for name, value in environ.items() if _SECRET_NAME.search(name)]
    found = {value for value in named if len(value) >= SHORTEST and not value.startswith("/")}
    return tuple(sorted(found, key=len, reverse=True))


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without what looks like a secret, and without every one of `secrets`."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    text = _ASSIGNED.sub(rf"\1{MASK}", text)
    text = _OPTION.sub(_masked_option, text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _IN_ADDRESS.sub(f"://{MASK}@", text)
    text = _SIGNED.sub(rf"\1{MASK}", text)
    text = _SLACK.sub(rf"\1{MASK}", text)
    return _SHAPES.sub(MASK, text)


def _masked_option(found: re.Match[str]) -> str:
    """`--hf-token abc` is an option and its value; `the token was` are words."""
    return f"{found[1]}{MASK}" if found[1].startswith("-") else found[0]


def plain(text: str) -> str:
    """Lines stay lines; a character that no terminal should be given, or that none can write, becomes an escape."""
    return "\n".join(_line(line) for line in text.replace("\r\n", "\n").split("\n"))


def one_line(text: str, chars_max: int) -> str:
    """On one line, and no longer than that."""
    whole = _line(" ".join(text.split()))
    return whole if len(whole) <= chars_max else whole[: chars_max - 1] + "…"


def _line(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else " " if c == "\t" else c.encode("unicode_escape").decode("ascii") for c in line)
