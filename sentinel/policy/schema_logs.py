"""Patterns of a policy's author over the logs that an attempt writes, and what a match means."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from sentinel.policy.line_patterns import BadPattern, LinePattern, compile_pattern
from sentinel.policy.log_names import PLACE, name_of_entry
from sentinel.policy.problems import did_you_mean
from sentinel.policy.quantities import Malformed, show
from sentinel.policy.schema_fields import Flag, Model, Name, Text

LENGTH_MAX = 1000
LOGS_MAX = 100
LOG_FILES_MAX = 20
UNKNOWN = "unknown"
SHOWN_CHARS = 80  # of a pattern, for a person


def _pattern(value: Any) -> LinePattern:
    if not isinstance(value, str) or not value:
        raise Malformed(f"{show(value)} is not a pattern", "write a regular expression, such as 'uncorrectable ECC error'")
    if len(value) > LENGTH_MAX:
        raise Malformed(f"a pattern of {len(value)} characters", f"write at most {LENGTH_MAX}; two entries where you need more")
    try:
        return compile_pattern(value)
    except BadPattern as error:
        raise Malformed(str(error), error.remedy, error.at) from None


Pattern = Annotated[
    LinePattern,
    PlainValidator(_pattern),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": LENGTH_MAX, "examples": ["uncorrectable ECC error"]}),
]
LogPath = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00\r\n]+$")]
ClassWord = Annotated[str, Field(min_length=1, max_length=100)]


def _own_name(seen: dict[str, Any]) -> str:
    """Of an entry without a name, from the fields that are no mistake."""
    return name_of_entry(seen["match"].text, seen.get("class_")) if "match" in seen else ""


class LogRule(Model):
    """A pattern, and what a line that it is found in means. While training goes on it may only tell. Of an attempt that then
    died by itself, the first entry of the list that was found and says `class`, `node` or `retry` says what it died of."""

    match: Pattern
    """A regular expression in the syntax of RE2, looked for in every line that the ranks and the launcher print."""
    class_: ClassWord | None = Field(default=None, alias="class")
    """What an attempt died of that has printed this, in a few words; {{ name }} is filled in from a named group."""
    name: Name = Field(default_factory=_own_name)
    """What it is called in the journal and in pages. Without it, the words of `class`, or of the pattern, and a digest of the
    pattern; `sentinel policy explain` shows it."""
    node: Literal["exclude"] | None = None
    """exclude: leave the node of the rank that printed it out of later attempts (the command must be able to: --with exclude)."""
    retry: Flag = True
    """false: a relaunch cannot help. A person is called at once."""
    page: Literal["warning", "critical"] | None = None
    """Call a person as soon as it is found, while training goes on. Without it a match is only recorded."""
    text: Text = ""
    """What a person is told beside the line; {{ name }} is filled in from a named group."""

    @model_validator(mode="after")
    def _names_its_groups(self) -> LogRule:
        for key, text in (("class", self.class_ or ""), ("text", self.text)):
            for name in PLACE.findall(text):
                if name not in self.match.names:
                    remedy = did_you_mean(name, self.match.names, "its groups") or f"write (?P<{name or 'gpu'}>…) in 'match'"
                    raise Malformed(f"'{key}' names '{name}', and the pattern has no such group", remedy)
        return self

    @property
    def found(self) -> str:
        """What is found with it, before a rank or a line: its class, its name, or the pattern of one without either."""
        if self.class_ is not None:
            return self.class_
        text = self.match.text
        shown = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
        return self.name if self.name != name_of_entry(text, None) else f"a line that matches '{shown}'"

    @property
    def judges_deaths(self) -> bool:
        return self.class_ is not None or self.node is not None or not self.retry


def fill_groups(text: str, groups: tuple[tuple[str, str], ...]) -> str:
    """With the groups of a match in their places; one that took no part reads `unknown`."""
    known = dict(groups)
    return PLACE.sub(lambda found: known.get(found[1], UNKNOWN), text)
