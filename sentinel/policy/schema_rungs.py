"""One rung of a playbook: what is done together, in one try, before the next rung is taken.

The settings that a rung can change are the rows of `sentinel.client.settings`; their fields are made from the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model, model_validator

from sentinel.client.settings import BY_WORD, SETTINGS
from sentinel.policy.quantities import Malformed
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

# Words that say how a rung ends, not what it does.
_ENDINGS = ("then", "until", "approval")


class Wait(Model):
    """Patience: many spikes heal by themselves."""

    for_steps: Steps = Field(alias="for")
    """How long to wait."""
    until: Literal["recovered"] = "recovered"
    """Waiting ends early when the metric is back in its band."""
    unless_above_band_steps: AboveBand | None = Field(default=None, alias="unless")
    """Give up waiting after so many steps above the band: a plateau up there does not heal."""


class Resume(Model):
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

    wait: Wait | None = None
    """Do nothing for a while and watch."""
    resume: Resume | None = None
    """Relaunch from the newest checkpoint."""
    rollback: Rollback | None = None
    """Relaunch from before the onset."""
    skip: Skip | None = None
    """Leave out samples around the onset."""


if TYPE_CHECKING:
    _WithSettings = _Restart
else:
    _WithSettings = create_model(
        "_WithSettings", __base__=_Restart, **{setting_name(row): setting_field(row) for row in BY_WORD.values()}
    )


class Rung(_WithSettings):
    """What one try consists of. Combinations that contradict each other are refused by the checker."""

    reseed_data: Flag = False
    """A new data order from the resume point on."""
    exclude: Exclude | None = None
    """Leave out the blamed node."""
    diagnose: Flag = False
    """Repeat from before the onset unchanged, and compare with the record."""
    hold: Flag = False
    """Pause training until a person decides."""
    page: Page | None = None
    """Call a person."""
    then: Then | None = None
    """After a page: what the run does while the person is on the way."""
    approval: Annotated[Approval | None, BeforeValidator(_required), WithJsonSchema(_APPROVAL_SCHEMA)] = Field(
        default=None, validate_default=False
    )
    """The rung waits for a person: `sentinel approve N RUN_DIR`, or deny."""
    until_steps: Steps | None = Field(default=None, alias="until")
    """So many steps later the changed settings go back to the schedule."""

    @model_validator(mode="after")
    def _does_something(self) -> Rung:
        if not self.parts:
            raise Malformed("this rung does nothing", "write what it does, such as 'resume: {from: newest}' or 'page: {}'")
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """The settings it changes, by their keys in the table."""
        values = {key: getattr(self, setting_name(row)) for key, row in SETTINGS.items() if row.word is not None}
        return {key: value for key, value in values.items() if SETTINGS[key].is_asked(value)}

    @property
    def keys(self) -> tuple[str, ...]:
        """The words in force, as written in the file, in the order of the language."""
        held = ((field.alias or name, getattr(self, name)) for name, field in type(self).model_fields.items())
        return tuple(key for key, value in held if value is not None and value is not False)

    @property
    def parts(self) -> tuple[str, ...]:
        """As `keys`, without `then` and `until`."""
        return tuple(key for key in self.keys if key not in _ENDINGS)

    @property
    def title(self) -> str:
        """`rollback + skip + lr`: the rung's name in lists and reports."""
        return " + ".join(self.parts)
