"""`spec.detectors`, made from the registry: a model for each detector's settings, in the words of a policy file.

A detector declares its settings as a frozen dataclass (`sentinel.detectors.settings`). Here each of its fields becomes a field of
a model: its shape gives the type and the checks, its alias the word of the file, its default the text a person would write.
What is read becomes the dataclass again: the engine and the detectors do not see the models. `spike: off` switches one off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, WrapValidator, create_model

from sentinel.detectors.registry import TUNED
from sentinel.detectors.settings import DetectorSetting, Shape, settings_of
from sentinel.policy.quantities import Malformed, show, show_duration
from sentinel.policy.schema_fields import (
    Count,
    Flag,
    Fraction,
    MetricName,
    Model,
    Multiple,
    NotNegative,
    Phase,
    Positive,
    Seconds,
    Steps,
    StepTimes,
    written,
)


def _on_or_off(value: Any) -> Any:
    """`on` and `off` are words in YAML 1.2."""
    if isinstance(value, bool):
        return value
    if value not in ("on", "off"):
        raise Malformed(f"{show(value)} is neither on nor off", "write on or off")
    return value == "on"


def _path_or_off(value: Any) -> Any:
    if value != "off" and not (isinstance(value, str) and value.startswith("/")):
        remedy = "write /dev/kmsg, the whole path of a text file such as /var/log/kern.log, or off"
        raise Malformed(f"{show(value)} is not where a kernel log can be read", remedy)
    return value


TYPES: Mapping[Shape, Any] = {
    "flag": Flag,
    "on or off": Annotated[Flag, BeforeValidator(_on_or_off), WithJsonSchema({"enum": ["on", "off", True, False]})],
    "count": Count,
    "positive": Positive,
    "not negative": NotNegative,
    "fraction": Fraction,
    "steps": Steps,
    "seconds": Seconds,
    "multiple": Multiple,
    "step times": StepTimes,
    "metrics": Annotated[tuple[MetricName, ...], Field(min_length=1)],
    "phases": dict[Phase, Seconds],
    "file": Annotated[str, Field(min_length=1, max_length=4096)],
    "kernel log": Annotated[str, BeforeValidator(_path_or_off), Field(max_length=1000)],
}
# A default as a person would write it. Shapes that are not here are plain values.
TEXTS: Mapping[Shape, Callable[[Any], Any]] = {
    "steps": lambda count: f"{count} steps",
    "seconds": show_duration,
    "multiple": lambda factor: f"{factor:g}x",
    "step times": lambda times: f"{times:g}x step_time",
    "phases": lambda limits: {phase: show_duration(limit_s) for phase, limit_s in limits.items()},
}


class _Settings(Model):
    model_config = ConfigDict(use_attribute_docstrings=False)  # descriptions come from the fields


def _field_of(one: DetectorSetting) -> tuple[Any, Any]:
    kind = TYPES[one.shape]
    if one.default is None:
        return kind | None, Field(default=None, alias=one.alias, description=one.words, validate_default=False)
    if one.shape == "phases":
        kind = Annotated[kind, AfterValidator(lambda given: {**one.default, **given})]  # a phase left out keeps its default
    text = TEXTS.get(one.shape, lambda value: value)(one.default)
    return kind, Field(default=text, alias=one.alias, description=one.words)


def model_of(settings: type[Any]) -> type[Model]:
    """The model of a detector's settings dataclass."""
    made = {one.name: _field_of(one) for one in settings_of(settings)}
    return create_model(settings.__name__, __base__=_Settings, __doc__=settings.__doc__, **made)  # type: ignore[call-overload, no-any-return]


def _switch(value: Any) -> Any:
    """`spike: off` for `spike: {enabled: false}`; `on` likewise."""
    if value in ("off", "on") or isinstance(value, bool):
        return {"enabled": value in ("on", True)}
    if not isinstance(value, dict):
        raise Malformed(f"{show(value)} is not a detector's settings", "write 'off', or its settings as a mapping")
    return value


def _reader(settings: type[Any]) -> Any:
    def read(value: Any, validate: Callable[[Any], Model]) -> Any:
        if isinstance(value, settings):
            return value
        model = validate(_switch(value))
        return settings(**{field.name: getattr(model, field.name) for field in fields(settings)})

    return Annotated[model_of(settings), WrapValidator(read)]


def _or_a_word(schema: dict[str, Any]) -> None:
    """Editors may see either form."""
    reference = schema.pop("$ref")
    schema["anyOf"] = [{"$ref": reference}, {"enum": ["off", "on", True, False]}]


def _switched(words: str) -> Any:
    return Field(default_factory=dict, description=words, json_schema_extra=_or_a_word)


if TYPE_CHECKING:

    class _OfTheRegistry(Model):
        """Under each row's name the settings that its detector declares."""

        def __getattr__(self, name: str) -> Any: ...

else:
    _tuned = {name: (_reader(settings), _switched(words)) for name, words, settings in TUNED}
    _OfTheRegistry = create_model("_OfTheRegistry", __base__=Model, **_tuned)


class Detectors(_OfTheRegistry):
    """The detectors of this version."""

    grace_steps: Steps = written("50 steps", alias="grace")
    """Steps after a resume in which a bump is usual: only a tall one is an alarm. Never for values that are no number."""
    onset_lookback_steps: Steps = written("500 steps", alias="onset_lookback")
    """How far before an alarm its onset may be dated back by another signal: what is rolled back and skipped grows with it."""
