"""The small types the policy models are made of: quantities, numbers, names, and the common settings of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema

from sentinel.client import setting_types as t
from sentinel.client.settings import Setting
from sentinel.detectors.hold import Hold
from sentinel.detectors.registry import RULED_KINDS
from sentinel.model.price import Price
from sentinel.policy import quantities as q
from sentinel.policy.expr import Records, parse_expression, parse_recorded
from sentinel.policy.expr_tree import LENGTH_MAX, Expression

if TYPE_CHECKING:
    FindingKind = str
else:
    FindingKind = Literal[tuple(str(kind) for kind in RULED_KINDS)]  # what a rule may be `on`
Severity = Literal["info", "warning", "critical"]
Phase = Literal["init", "compile", "data", "forward", "backward", "optimizer", "eval", "checkpoint", "idle"]
Then = Literal["stop_now", "hold", "keep_training"]


class Model(BaseModel):
    """Frozen, and strangers are refused: an unknown key is a mistake, not an extension."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)


def written(text: Any, alias: str | None = None) -> Any:
    """A default given as a person would write it, so that the JSON schema shows it in the same words."""
    return Field(default=text, alias=alias)


def _text(pattern: str, *examples: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": list(examples)})


Seconds = Annotated[float, PlainValidator(q.parse_positive_duration), _text(q.DURATION_PATTERN, "30s", "5m", "2h")]
Steps = Annotated[int, PlainValidator(q.parse_positive_steps), _text(q.STEPS_PATTERN, "200 steps")]
HoldFor = Annotated[Hold, PlainValidator(q.parse_hold), _text(q.HOLD_PATTERN, "2 steps", "30s")]
Factor = Annotated[float, PlainValidator(q.parse_factor), _text(q.FACTOR_PATTERN, "0.5x")]
Widening = Annotated[float, PlainValidator(q.parse_widening), _text(q.FACTOR_PATTERN, "2x")]
Multiple = Annotated[float, PlainValidator(q.parse_multiple), _text(q.FACTOR_PATTERN, "1.5x")]
StepTimes = Annotated[float, PlainValidator(q.parse_step_times), _text(q.STEP_TIMES_PATTERN, "3x step_time")]
RateOf = Annotated[q.Rate, PlainValidator(q.parse_rate), _text(q.RATE_PATTERN, "12 per 24h")]
Range = Annotated[tuple[float, float], PlainValidator(q.parse_range), _text(q.RANGE_PATTERN, "5s..5m")]
AtStep = Annotated[q.StepRef, PlainValidator(q.parse_step_ref), _text(q.STEP_REF_PATTERN, "onset - 20 steps")]
Recovery = Annotated[
    q.RecoveredWhen, PlainValidator(q.parse_recovered_when), _text(q.RECOVERED_PATTERN, "loss within 2% of pre_incident")
]
PriceOf = Annotated[Price, PlainValidator(q.parse_price), _text(q.PRICE_PATTERN, "2.5 USD")]
AboveBand = Annotated[int, PlainValidator(q.parse_above_band), _text(q.ABOVE_BAND_PATTERN, "above band for 20 steps")]


@dataclass(frozen=True, slots=True)
class WrittenExpression:
    """The text of an expression, with the recorded expressions that it may name. `name`: what it is recorded as, if it is."""

    text: str
    records: Records
    name: str = ""


def _expression(value: Any) -> Expression | None:
    """The text, parsed; its errors carry their place inside the text."""
    if value is None:
        return None
    if isinstance(value, WrittenExpression):
        return parse_expression(value.text, value.records)
    if not isinstance(value, str):
        raise q.Malformed(f"{q.show(value)} is not an expression", "write a condition, such as 'loss > 3 && step > 100'")
    return parse_expression(value)


def _recorded(value: Any) -> str:
    """The text of a recorded expression, which can be read."""
    if not isinstance(value, WrittenExpression):
        raise q.Malformed(f"{q.show(value)} is not an expression", "write what rules are to name: 'median(loss, 50 steps)'")
    parse_recorded(value.text, value.records, (value.name,))
    return value.text


RecordName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Recorded = Annotated[
    str,
    PlainValidator(_recorded),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": LENGTH_MAX, "examples": ["median(loss, 50 steps)"]}),
]


Condition = Annotated[
    Expression | None,
    PlainValidator(_expression),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": LENGTH_MAX,
            "examples": ["median(activation_norm, 50 steps) > 1.3 * quantile(activation_norm, 0.1, 2000 steps)"],
        }
    ),
]

Count = Annotated[int, Field(strict=True, ge=1, le=10**9)]
Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]
Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(max_length=2000)]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
MetricName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z][A-Za-z0-9_/.]*$")]


def setting_name(row: Setting) -> str:
    """The name of the field of a rung that gives this setting: its word, and the unit where it has one."""
    return f"{row.word}_steps" if isinstance(row.type, t.Steps) else str(row.word)


def setting_field(row: Setting) -> tuple[Any, Any]:
    """That field: its type, and its default with the word that policies write."""
    hint = _hint(row.type)
    default = Field(default=row.nothing, description=row.help, alias=row.word if row.word != setting_name(row) else None)
    return (hint if row.nothing is False else hint | None), default


def _hint(kind: t.ValueType) -> Any:
    match kind:
        case t.Factor():
            return Factor
        case t.Steps():
            return Steps
        case t.Number():
            bounds = Field(strict=True, gt=kind.above, ge=kind.at_least, lt=kind.below, le=kind.at_most, allow_inf_nan=False)
            return Annotated[float, bounds]
        case t.WholeNumber():
            return Annotated[int, Field(strict=True, ge=kind.at_least)]
        case t.Pair():
            return tuple[_hint(kind.part), _hint(kind.part)]  # type: ignore[misc]
        case t.Choice():
            return Literal[kind.words]
        case t.Flag():
            return Flag
