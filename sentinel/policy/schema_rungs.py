"""One rung of a playbook: what is done together, in one try, before the next rung is taken.

To add a word, add a field to `Rung`: its type and default are what a policy may write, its docstring stands in the JSON schema,
and its row (`Word`) says everything else. `rung_words` explains a row. `WORDS` is the table of all rows; what reads rungs reads
it. The settings that a rung can change are the rows of `sentinel.client.settings`; their fields and rows are made from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model, model_validator

from sentinel.client.settings import BY_WORD, SETTINGS, Setting
from sentinel.policy.quantities import Malformed
from sentinel.policy.rung_words import CONDITIONS, OWN_CODE, Capability, Company, Does, Sets, Word, setting_word
from sentinel.policy.schema_fields import (
    AboveBand,
    AtStep,
    Count,
    Flag,
    Model,
    Seconds,
    Severity,
    Steps,
    Then,
    Widening,
    setting_field,
    setting_name,
    written,
)

_APPROVAL_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"const": "required"},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "within": {"type": "string", "examples": ["30m"]},
                "otherwise": {"enum": ["deny", "approve"]},
            },
        },
    ]
}


class Wait(Model):
    """Patience: many spikes heal by themselves."""

    for_steps: Steps = Field(alias="for")
    """How long to wait."""
    until: Literal["recovered"] = "recovered"
    """Waiting ends early when the metric is back in its band."""
    unless_above_band_steps: AboveBand | None = Field(default=None, alias="unless")
    """Give up waiting after so many steps above the band: a plateau up there does not heal."""
    rows: int = Field(default=0, ge=0, le=1000)
    """And never before so many rows of the judged metric: where every hundredth step is logged, 20 steps hold none."""


class ResumeNewest(Model):
    """Relaunch and go on from the newest good checkpoint."""

    from_: Literal["newest"] = Field(default="newest", alias="from")
    """The newest verified checkpoint that is not at or after an open onset."""


class Rollback(Model):
    """Relaunch from a checkpoint before the onset. Counted from the incident's own onset every time, never cumulative."""

    before_onset_steps: Steps | None = Field(default=None, alias="before_onset")
    """At least so many steps before the onset."""
    further: Widening | None = None
    """So many times the distance of the rollback before this one."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Rollback:
        if (self.before_onset_steps is None) == (self.further is None):
            remedy = "write {before_onset: 100 steps} or {further: 2x}"
            raise Malformed("a rollback needs one of before_onset and further", remedy)
        return self


class Skip(Model):
    """Leave out the samples that these steps trained on."""

    from_: AtStep | None = Field(default=None, alias="from")
    """First step left out."""
    to: AtStep | None = None
    """Step after the last one left out."""
    wider: Widening | None = None
    """So many times the reach of the skip before this one, to both sides."""
    only: Literal["guilty"] | None = None
    """Look at each sample first, and leave out only those whose loss or gradient convicts them; all where none is convicted."""
    within_s: Seconds | None = Field(default=None, alias="within")
    """With `only`: so long looking may take (30m where nothing is said); then all are left out."""

    @model_validator(mode="after")
    def _window_or_wider(self) -> Skip:
        ends = (self.from_ is not None, self.to is not None)
        if ends[0] != ends[1] or ends[0] == (self.wider is not None):
            remedy = "write {from: onset - 20 steps, to: detected + 200 steps} or {wider: 2x}"
            raise Malformed("a skip needs both from and to, or wider alone", remedy)
        if self.within_s is not None and self.only is None:
            raise Malformed("'within' says how long looking for the guilty may take", "add only: guilty, or remove it")
        return self


class Exclude(Model):
    """Leave a machine out of the next attempt."""

    node: Literal["blamed"] = "blamed"
    """The node the finding blames."""
    at_most: Count = 4
    """So many nodes may be left out of the run in all; then the rung is passed over."""


class Page(Model):
    """Call a person."""

    severity: Severity = "critical"
    """How loud."""


class Approval(Model):
    """Who may decide, and what holds when nobody does. `approval: required` stands for the defaults."""

    within_s: Seconds = written("30m", alias="within")
    """A person has so long."""
    otherwise: Literal["deny", "approve"] = "deny"
    """What holds without an answer: deny takes the next rung, approve takes this one."""


def _required(value: Any) -> Any:
    if value == "required":
        return {}
    if isinstance(value, dict):
        return value
    raise Malformed(f"{value!r} says nothing about approval", "write 'required', or {within: 30m, otherwise: deny}")


class _Restart(Model):
    """What a rung does to the run before any setting: the first words of the language."""

    wait: Annotated[
        Wait | None,
        Word(
            "waits",
            OWN_CODE,
            same_again=True,
            company=(Company("waiting and {others} contradict each other", "give the wait a rung of its own", only=()),),
        ),
    ] = None
    """Do nothing for a while and watch."""
    resume: Annotated[
        ResumeNewest | None,
        Word(
            "relaunches",
            OWN_CODE,
            same_again=True,
            company=(
                Company(
                    "resume goes on from the newest checkpoint, rollback from an older one: a rung can do only one",
                    "remove one of the two",
                    never=("rollback",),
                ),
            ),
        ),
    ] = None
    """Relaunch from the newest checkpoint."""
    rollback: Annotated[Rollback | None, Word("relaunches", OWN_CODE, same_again=True)] = None
    """Relaunch from before the onset."""
    skip: Annotated[
        Skip | None,
        Word(
            "treats",
            OWN_CODE,
            same_again=True,
            company=(
                Company(
                    "a skip without a rollback leaves out samples that have already been trained on",
                    "add rollback: {before_onset: 100 steps}",
                    needs=("rollback",),
                ),
            ),
            capabilities=(
                Capability(
                    "skip",
                    "the trainer cannot skip samples (capability 'skip')",
                    "remove the skip, or teach the trainer to skip and declare it",
                ),
                Capability(
                    "attribution",
                    "the trainer cannot look at single samples (capability 'attribution')",
                    "remove it, or teach the trainer to inspect samples and declare it",
                    part="only",
                ),
            ),
        ),
    ] = None
    """Leave out samples around the onset."""


if TYPE_CHECKING:
    _WithSettings = _Restart
else:

    def _field(row: Setting) -> tuple[Any, Any]:
        hint, default = setting_field(row)
        return Annotated[hint, setting_word(row)], default

    _fields = {setting_name(row): _field(row) for row in BY_WORD.values()}
    _WithSettings = create_model("_WithSettings", __base__=_Restart, **_fields)


class Rung(_WithSettings):
    """What one try consists of. Combinations that contradict each other are refused by the checker."""

    reseed_data: Annotated[
        Flag,
        Word(
            "treats",
            OWN_CODE,
            at_launch=True,
            company=(
                Company(
                    "in a new data order the samples around the onset lie anywhere, so there is nothing to skip",
                    "give reseed_data a rung of its own, after those that skip",
                    never=("skip",),
                ),
            ),
            capabilities=(
                Capability(
                    "skip",
                    "the trainer cannot change its data order (capability 'skip')",
                    "remove it, or teach the trainer to and declare it",
                ),
            ),
            under_profile="data_seed",
        ),
    ] = False
    """A new data order from the resume point on."""
    exclude: Annotated[
        Exclude | None,
        Word(
            "treats",
            OWN_CODE,
            at_launch=True,
            capabilities=(
                Capability(
                    "exclude",
                    "the command does not declare that it can leave a node out (capability 'exclude')",
                    "begin the run with --with exclude, if the command honours it",
                ),
            ),
        ),
    ] = None
    """Leave out the blamed node."""
    diagnose: Annotated[
        Flag,
        Word(
            "treats",
            OWN_CODE,
            phrase="diagnose",
            company=(
                Company(
                    "a diagnosis repeats the failed stretch unchanged: it needs a rollback, and nothing else beside it",
                    "write rollback: {before_onset: 100 steps} and diagnose: true alone",
                    only=("rollback", "page"),
                    needs=("rollback",),
                ),
            ),
        ),
    ] = False
    """Repeat from before the onset unchanged, and compare with the record."""
    hold: Annotated[
        Flag,
        Word(
            "holds",
            OWN_CODE,
            company=(
                Company(
                    "hold pauses training, and {others} goes on with it", "give the hold a rung of its own", only=("page",)
                ),
            ),
        ),
    ] = False
    """Pause training until a person decides."""
    page: Annotated[Page | None, Word("tells", OWN_CODE, phrase="page")] = None
    """Call a person."""
    then: Annotated[Then | None, Word("says when", OWN_CODE)] = None
    """After a page: what the run does while the person is on the way."""
    approval: Annotated[
        Approval | None,
        BeforeValidator(_required),
        WithJsonSchema(_APPROVAL_SCHEMA),
        Word("says when", OWN_CODE),
    ] = Field(default=None, validate_default=False)
    """The rung waits for a person: `sentinel approve N RUN_DIR`, or deny."""
    until_steps: Annotated[Steps | None, Word("says when", OWN_CODE)] = Field(default=None, alias="until")
    """So many steps later the changed settings go back to the schedule."""

    @model_validator(mode="after")
    def _does_something(self) -> Rung:
        if not self.parts:
            raise Malformed("this rung does nothing", "write what it does, such as 'resume: {from: newest}' or 'page: {}'")
        return self

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """What is asked of each word in force, by the word as written in the file, in the order of the language. A plan
        asks twenty times."""
        held = ((word, getattr(self, name)) for word, name in _FIELDS.items())
        return {word: value for word, value in held if value is not None and value is not False}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings it changes, by their keys in the table."""
        given: dict[str, Any] = {}
        for word, value in self.values.items():
            by = WORDS[word].by
            given |= by.values(value) if isinstance(by, Sets) else {}
        return {key: given[key] for key, row in SETTINGS.items() if key in given and row.is_asked(given[key])}

    @property
    def lapse_steps(self) -> int | None:
        """So many steps later its settings go back: what `until` says, else what its words say of themselves."""
        own = [by.until(value) for word, value in self.values.items() if isinstance(by := WORDS[word].by, Sets) and by.until]
        return self.until_steps if self.until_steps is not None else max(own, default=None)

    @property
    def keys(self) -> tuple[str, ...]:
        """The words in force, as written in the file, in the order of the language."""
        return tuple(self.values)

    @property
    def is_relative(self) -> bool:
        """Whether what it asks for is counted from the rungs before it."""
        further = self.rollback is not None and self.rollback.further is not None
        return further or (self.skip is not None and self.skip.wider is not None)

    @property
    def parts(self) -> tuple[str, ...]:
        """As `keys`, without the conditions."""
        return tuple(key for key in self.keys if key not in CONDITIONS)

    @property
    def title(self) -> str:
        """`rollback + skip + lr`: the rung's name in lists and reports."""
        return " + ".join(self.parts)

    def does(self, *what: Does) -> bool:
        """Whether any of its words is one of these for the ladder."""
        return any(WORDS[word].does in what for word in self.keys)


def _rows_of(rung: type[Rung]) -> dict[str, Word]:
    """The row of every word, as written in the file.

    Raises:
        TypeError: a word has no row, so that nobody would carry it out, or the conditions are others than those listed.
    """
    fields = {field.alias or name: field for name, field in rung.model_fields.items()}
    found = {word: [one for one in field.metadata if isinstance(one, Word)] for word, field in fields.items()}
    if missing := [word for word, rows in found.items() if len(rows) != 1]:
        raise TypeError(f"words of a rung without a row: {', '.join(missing)}; annotate each with one `Word`")
    rows = {word: one for word, (one,) in found.items()}
    conditions = {word for word, row in rows.items() if row.does == "says when"}
    if conditions != set(CONDITIONS):
        raise TypeError(f"{', '.join(sorted(conditions))} say when; rung_words.CONDITIONS lists {', '.join(CONDITIONS)}")
    return rows


WORDS: Mapping[str, Word] = _rows_of(Rung)
_FIELDS: Mapping[str, str] = {field.alias or name: name for name, field in Rung.model_fields.items()}
