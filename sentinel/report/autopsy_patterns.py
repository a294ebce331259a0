"""What the patterns of a policy say of the logs that an autopsy reads: `sentinel autopsy --policy FILE`. As in a supervised run,
the first entry of the policy that was found decides. Every log is searched from its beginning, for a bounded stretch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.regular_file import regular
from sentinel.detectors.crash_class import Owner
from sentinel.detectors.crash_labels import read_labels
from sentinel.policy.schema_logs import LogRule, fill_groups
from sentinel.report.masked import quoted_line
from sentinel.telemetry.compressed import compression_of, open_compressed, read_block
from sentinel.telemetry.crash_log import SEARCH_BYTES_MAX

BLOCK_BYTES = 1 << 20
HEAD_BYTES = 16
LINE_CHARS = 500

Files = Sequence[tuple[Path, Owner]]
"""Logs, each with its owner: a rank, or None for one of several."""


@dataclass(frozen=True, slots=True)
class PolicyWord:
    """The line that decides, by which entry, and what the policy says of it."""

    rule: str
    words: str
    rank: int | None
    log: Path
    line: int
    evidence: str
    excludes: bool
    retries: bool

    @property
    def text(self) -> str:
        """In one line, for a person."""
        where = f" on rank {self.rank}" if self.rank is not None else ""
        follows = ["leave its node out"] if self.excludes else []
        follows += [] if self.retries else ["a relaunch cannot help"]
        return f"{self.words}{where} ({', '.join([self.rule, *follows])}): {self.log.name}:{self.line}: {self.evidence}"


def judge_by_policy(files: Files, rules: Sequence[LogRule], blamed: int | None) -> PolicyWord | None:
    """None where no entry that says something of deaths is found. The log of the blamed rank is searched first."""
    ordered = sorted(files, key=lambda file: file[1] != blamed) if blamed is not None else list(files)
    for rule in rules:
        for path, owner in ordered if rule.judges_deaths else ():
            try:
                word = _word(path, owner, rule)
            except (OSError, EOFError, ValueError):
                continue  # the reading of the death has said so
            if word is not None:
                return word
    return None


def _word(path: Path, owner: Owner, rule: LogRule) -> PolicyWord | None:
    number = 1
    for block in _blocks(path):
        found = rule.match.first(block)
        if found is None:
            number += block.count(b"\n")
            continue
        label = read_labels(found.line[:LINE_CHARS])
        rank = owner if isinstance(owner, int) else label.rank
        words = fill_groups(rule.class_, found.groups) if rule.class_ is not None else rule.found
        text = quoted_line(label.text)
        evidence = f"{fill_groups(rule.text, found.groups)}: {text}" if rule.text else text
        line = number + block.count(b"\n", 0, found.at)
        return PolicyWord(rule.name, words, rank, path, line, evidence, rule.node is not None, rule.retry)
    return None


def _blocks(path: Path) -> Iterator[bytes]:
    """Whole lines, a block at a time; of what is longer than a block, its pieces."""
    with open(path, "rb", opener=regular) as plain:
        kind = compression_of(plain.read(HEAD_BYTES))
    rest, taken = b"", 0
    for data in _pieces(path, kind):
        taken += len(data)
        data = rest + data
        end = data.rfind(b"\n") + 1 or (len(data) if len(data) > BLOCK_BYTES else 0)
        if end:
            yield data[:end]
        rest = data[end:]
        if taken >= SEARCH_BYTES_MAX:
            return
    if rest:
        yield rest


def _pieces(path: Path, kind: str | None) -> Iterator[bytes]:
    if kind is None:
        with open(path, "rb", opener=regular) as plain:
            yield from iter(lambda: plain.read(BLOCK_BYTES), b"")
    else:
        with open_compressed(path, kind) as packed:
            yield from iter(lambda: read_block(packed, BLOCK_BYTES), b"")
