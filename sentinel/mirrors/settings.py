"""What `--mirror` and `mirror:` of sentinel.yaml say: where to, and how often.

run.json holds it as texts (`to`, `journal`, `streams`, `every`, `keep`), as a person wrote them.

    settings = MirrorSettings.of("--mirror", {"to": "s3://bucket/runs", "every": "5000 steps"})
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from sentinel.errors import UsageError
from sentinel.policy import quantities
from sentinel.policy.problems import did_you_mean

OPTIONS = ("to", "journal", "streams", "every", "keep")
DEFAULTS: Mapping[str, str] = {"journal": "1m", "streams": "10m", "every": "5000 steps", "keep": "2"}
OFF = "off"
KEEP_MAX = 1000


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """to: a directory's absolute path, or an address with a scheme. journal_s, streams_s: how often each is pushed. every_steps:
    of checkpoints, None: none is sent. keep: how many whole ones stay there."""

    to: str
    journal_s: float = 60.0
    streams_s: float = 600.0
    every_steps: int | None = 5000
    keep: int = 2

    @staticmethod
    def of(where: str, texts: Mapping[str, str]) -> MirrorSettings:
        """`where`: names the place of the words in an error. Raises UsageError."""
        for name in texts:
            if name not in OPTIONS:
                raise UsageError(f"{where}: a mirror has no option '{name}'; {did_you_mean(name, OPTIONS, 'options')}")
        to = plain_place(check_address(where, texts.get("to", "")))
        words = {**DEFAULTS, **texts}
        try:
            every = None if words["every"] == OFF else quantities.parse_positive_steps(words["every"])
            journal_s = quantities.parse_positive_duration(words["journal"])
            streams_s = quantities.parse_positive_duration(words["streams"])
        except quantities.Malformed as error:
            raise UsageError(f"{where}: {error}; {error.remedy}") from None
        keep = words["keep"]
        if not (keep.isascii() and keep.isdigit() and 1 <= int(keep) <= KEEP_MAX):
            raise UsageError(f"{where}: keep={keep}: must be a whole number from 1 to {KEEP_MAX}")
        return MirrorSettings(to, journal_s, streams_s, every, int(keep))


def parse_mirror(flag: str, asked: str | None) -> dict[str, str]:
    """`TO[,option=value,…]` of a command line, as texts; a directory becomes absolute. `off` stays what it is; nothing of None.
    Raises UsageError."""
    if asked is None or asked == OFF:
        return {} if asked is None else {"to": OFF}
    to, *parts = asked.split(",")
    texts = {"to": to}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{flag} {asked}: '{part}' is no option; write TO,option=value,option=value")
        if name.strip() in texts:
            raise UsageError(f"{flag} {asked}: '{name.strip()}' is given twice; give it once")
        texts[name.strip()] = value.strip()
    MirrorSettings.of(f"{flag} {asked}", texts)
    return {**texts, "to": absolute(to)}


def absolute(to: str) -> str:
    to = plain_place(to)
    return to if is_address(to) else os.path.abspath(to)


def plain_place(to: str) -> str:
    """A directory that is written as an address (file:///backup) as the path that it is."""
    scheme, mark, path = to.partition("://")
    return path if mark and scheme in ("file", "local") else to


def is_address(to: str) -> bool:
    """It has a scheme, as s3://bucket has."""
    return "://" in to


def check_address(where: str, to: str) -> str:
    """`to` itself. Raises UsageError where it names no place, or holds a password."""
    if not to.strip():
        raise UsageError(f"{where}: names no place; write a directory, or an address such as s3://bucket/runs")
    if is_address(to):
        try:
            password = urlsplit(to).password
        except ValueError as error:
            raise UsageError(f"{where}: is no address ({error}); write one such as s3://bucket/runs") from None
        if password:
            raise UsageError(
                f"{where}: holds a password, which run.json and the list of processes would show; leave it out and let the "
                "service's own library find it (AWS_…, an ssh key, a configuration file)"
            )
    return to
