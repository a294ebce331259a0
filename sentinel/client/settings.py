"""The settings that sentinel can change in a training run: one row of `Settings` each. Standard library only.

To add a setting, add a row here and use it in the trainer. Everything else reads this table: the rungs of a policy and their
JSON schema, `sentinel set`, the inbox, spec.json, overrides.json, the judgement of receipts, the text of remedies, `--json`,
the journal, the simulated trainer and the reports. PROTOCOL.md, beside this file, lists the keys; a test compares it.

    >>> SETTINGS["lr_scale"].remedy(0.5)
    'learning rate 0.5x'
    >>> BY_WORD["checkpoint_every"].key
    'checkpoint_interval'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from sentinel.client.setting_types import Choice, Factor, Flag, Number, Pair, Steps, ValueType, WholeNumber

NORMS = ("grad_norm", "activation_norm", "param_norm", "clip_fraction")  # what moves with the size of the updates
LOSS_SCALE_MAX = 2.0**127  # twice that is the first power of two that float32, in which a scale is held, has no room for


@dataclass(frozen=True)
class Setting:
    """One row. Only `type` and `help` have to be given.

    Attributes:
        key: the name in spec.json, overrides.json, receipts, the journal and `--json`; the field's own name.
        type: what a value may be, and how it is shown.
        help: one sentence; it stands in the policy's JSON schema.
        word: the name in policies and in `sentinel set`; None: a rung gives no value for it.
        changes: while training runs, or only at a launch.
        once: done once, at a step; from then on it is in the checkpoints.
        lapses: `until` may name it: then the trainer goes back to its own value at that step.
        proof: what of a receipt proves it: the value in `effective`, read back from the live optimizer; or the value that
            `overrides` repeats, unless `effective` says another; None: nothing is compared.
        label: for people.
        phrase: in the reason of a remedy, with {} for the value.
        unset: for people: that nothing is asked.
        sizes_step: it changes only the size of a step. A failure that strikes again at the same step under it is structural.
        moves: metrics that stand at another level, or go another way, under it, so that their past says less about the present.
        usual: a usual configured value in JSON; the simulated trainer has it.
    """

    type: ValueType
    help: str
    key: str = ""
    word: str | None = ""
    changes: Literal["live", "at launch"] = "live"
    once: bool = False
    lapses: bool = False
    proof: Literal["effective", "repeated"] | None = "effective"
    label: str = ""
    phrase: str = ""
    unset: str = "as configured"
    sizes_step: bool = False
    moves: tuple[str, ...] = ()
    usual: Any = None

    @property
    def nothing(self) -> Any:
        """The value that asks for nothing."""
        return False if isinstance(self.type, Flag) else None

    def is_asked(self, value: object) -> bool:
        """Whether the value asks for anything; 0 does."""
        return value is not None and value is not False

    def shifts(self, value: object) -> bool:
        """Whether the level of the loss is another under this value; a factor of 1 changes nothing."""
        is_neutral = isinstance(self.type, Factor) and value == 1
        return "loss" in self.moves and self.is_asked(value) and not is_neutral

    def show(self, value: Any) -> str:
        """The value for people."""
        return self.type.show(value) if self.is_asked(value) else self.unset

    def remedy(self, value: Any) -> str:
        """What a remedy does, for people: `learning rate 0.5x`."""
        return self.phrase.format(self.show(value))

    def difference(self, got: object, want: Any) -> str:
        """How what a trainer reads back differs from what was asked, as a sentence; empty where it agrees."""
        if self.type.agrees(got, want):
            return ""
        verb = "are" if isinstance(self.type, Pair) else "is"
        return f"{self.key} {verb} {got!r}, asked for {to_json(want)!r}"


def setting(type: ValueType, help: str, **more: Any) -> Any:
    """A field of `Settings` with its row."""
    row = Setting(type, help, **more)
    return field(default=row.nothing, metadata={"setting": row})


@dataclass(frozen=True)
class Settings:
    """The table. Every class that holds settings inherits its fields: `Overrides` of the client, the settings that the model
    keeps in force, and the remedy of a rung. None (False of a flag) means: as the trainer is configured."""

    __slots__ = ()  # never made itself; a class that inherits may have slots of its own

    lr_scale: float | None = setting(
        Factor(), "Learning rate, as a factor on the schedule.", word="lr", lapses=True, proof="repeated",
        label="learning rate", sizes_step=True, moves=("loss", *NORMS), usual=1.0,
    )  # fmt: skip
    clip_norm: float | None = setting(
        Number(above=0), "Gradient clipping at this global norm.", lapses=True, phrase="clip at {}", sizes_step=True,
        moves=("loss", *NORMS), usual=1.0,
    )  # fmt: skip
    weight_decay: float | None = setting(
        Number(at_least=0), "Weight decay, as the value to use.", lapses=True, moves=NORMS, usual=0.1,
    )  # fmt: skip
    betas: tuple[float, float] | None = setting(
        Pair(Number(at_least=0, below=1)), "Adam's betas.", lapses=True, moves=NORMS, usual=[0.9, 0.95],
    )  # fmt: skip
    eps: float | None = setting(
        Number(above=0), "Adam's epsilon.", lapses=True, moves=NORMS, usual=1e-8,
    )  # fmt: skip
    embed_grad_scale: float | None = setting(
        Number(above=0, at_most=1), "Share of the gradient that reaches the token embedding (GLM-130B: 0.1).", lapses=True,
        label="embedding gradient scale", moves=("loss", *NORMS), usual=1.0,
    )  # fmt: skip
    skip: tuple[Any, ...] = ()  # sample ranges to leave out: no value that a rung gives or takes back, so no row
    loss_scale: float | None = setting(
        Number(above=0, at_most=LOSS_SCALE_MAX, limit="2^127"), "Loss scale to start again from (fp16).", once=True, proof=None,
        moves=("loss_scale",),
    )  # fmt: skip
    data_seed: int | None = setting(
        WholeNumber(), "The data order from the resume point on; it stays for good.", word=None, changes="at launch",
        phrase="a new data order, seed {}", unset="the configured order",
    )  # fmt: skip
    reset_optimizer: bool = setting(
        Flag(), "Drop the optimizer's state.", changes="at launch", once=True, proof=None, phrase="reset the optimizer",
    )  # fmt: skip
    precision: str | None = setting(
        Choice(("fp32", "bf16", "fp16")), "Number format of the next attempt.", changes="at launch", proof=None,
    )  # fmt: skip
    checkpoint_interval: int | None = setting(
        Steps(), "Checkpoints this often.", word="checkpoint_every", lapses=True, proof=None,
        phrase="a checkpoint every {} steps", usual=250,
    )  # fmt: skip


def _named(key: str, row: Setting) -> Setting:
    label = row.label or key.replace("_", " ")
    return replace(row, key=key, word=key if row.word == "" else row.word, label=label, phrase=row.phrase or f"{label} {{}}")


SETTINGS: Mapping[str, Setting] = {
    entry.name: _named(entry.name, entry.metadata["setting"]) for entry in fields(Settings) if "setting" in entry.metadata
}
BY_WORD: Mapping[str, Setting] = {row.word: row for row in SETTINGS.values() if row.word is not None}
LAPSING = tuple(key for key, row in SETTINGS.items() if row.lapses)
ONCE = tuple(key for key, row in SETTINGS.items() if row.once)


def to_json(value: object) -> object:
    """A setting's value as JSON holds it."""
    return list(value) if isinstance(value, tuple) else value


def settings_to_json(settings: Settings, skip: list[Any]) -> dict[str, Any]:
    """Every field of the table in its order, null where nothing is asked. `skip`: the ranges, as this document writes them."""
    values: dict[str, Any] = {entry.name: to_json(getattr(settings, entry.name)) for entry in fields(Settings)}
    return values | {"skip": skip}
