"""The model of a trainer profile: what Sentinel must know of a trainer that knows nothing of Sentinel.

A profile is YAML (`loading`). It says four things: where the numbers of a step come from, where checkpoints lie and when one is
complete, which arguments make the trainer go on from a given checkpoint, and which change a setting or leave data out. What it
does not say the trainer cannot do, and rungs that need it are passed over.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, PlainSerializer, Tag, model_validator

from sentinel.policy.quantities import Malformed
from sentinel.policy.schema_fields import Count, Flag, Model, Name, Seconds, Text
from sentinel.telemetry.format_names import AskedFormat

PLACEHOLDER = re.compile(r"\{([A-Za-z_]+)(?:\*([A-Za-z_]+))?(?::(0\d{1,2})d)?\}")
PATTERN_STEP = re.compile(r"\{step(?::0\d{1,2}d)?\}")
BATCHES = ("batches", "ranges")
STEPS = "steps"  # the name that the flags of the last step have


def _word(value: str) -> str:
    rest = PLACEHOLDER.sub("", value)
    if "{" in rest or "}" in rest:
        raise Malformed(f"'{value}' has a brace that opens or closes nothing", "write {step}, {step:07d} or {lr*value}")
    return value


Word = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_word)]
Words = Annotated[tuple[Word, ...], Field(max_length=32)]
WordsByValue = Annotated[
    Annotated[Words, Tag("[words]")] | Annotated[dict[Name, Words], Tag("[by value]")],
    Discriminator(lambda value: "[by value]" if isinstance(value, dict) else "[words]"),
]
FlagName = Annotated[str, Field(pattern=r"^-{0,2}[A-Za-z][A-Za-z0-9_.-]*$", max_length=100)]
FileName = Annotated[str, Field(min_length=1, max_length=300)]


class Metrics(Model):
    """Where the numbers of each step come from."""

    from_: Literal["output", "file", "tensorboard", "wandb", "mlflow", "trainer_state", "none"] = Field(
        default="output", alias="from"
    )
    """output: what the command prints. wandb, mlflow: what their loggers write, below `path`. trainer_state: the newest
    trainer_state.json among the checkpoints. none: nowhere."""
    path: Annotated[tuple[FileName, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)] = ()
    """Of files, or of folders of TensorBoard's, relative to where the command is started; {root} is that of the checkpoints. With
    * or **/ for several, of which some may come later. Of wandb and mlflow the folder that they are given: wandb, mlruns."""
    format: AskedFormat = "auto"
    first_step: Literal[0, 1] = 1
    """The number that the trainer gives to its first step."""
    merged: Flag = False
    """Standard error goes where standard output goes, in the order in which both were written."""

    @model_validator(mode="after")
    def _has_place(self) -> Metrics:
        if self.from_ in ("file", "tensorboard") and not self.path:
            raise Malformed(f"metrics from a {self.from_} need a path", "write path: FOLDER_OR_FILE, or take from: output")
        return self


class TrackerFile(Model):
    """A file in the root that names the newest checkpoint."""

    file: FileName
    text: Word
    """As it is written, with {step}."""


class CheckpointFiles(Model):
    """Where the trainer keeps its checkpoints."""

    root: tuple[FlagName, ...] = ()
    """The flags that name the folder; the first that stands in the command counts, and of one given twice the last."""
    path: FileName | None = None
    """The folder, where no flag in the command names it."""
    below: FileName = "."
    """Of that folder, where they lie in it."""
    pattern: FileName
    """The name of one, with {step}. `**/` in front: at any depth. Without {step}, one file that each save writes anew, or files
    of which each holds its step."""
    step_key: Name | None = None
    """For such files of torch.save: the key under which they hold their step."""
    complete: tuple[FileName, ...] = ()
    """Files that a complete one has, below it. One without any is complete when its files show it (a single file of torch.save
    or safetensors, a folder of torch.distributed.checkpoint), else when it has not changed for two seconds."""
    files: Literal["replaced", "rewritten"] = "replaced"
    """replaced: a file is written under a new name or in a new folder. rewritten: over itself, and a link would change, too."""
    tracker: TrackerFile | None = None
    whole_at_once: Flag = False
    """One appears under its name only when it is whole: it was written aside and renamed."""
    keep: Count = 4
    """How many Sentinel keeps at least of those that the trainer has deleted,"""
    keep_steps: Count = 500
    """and all that lie no further behind the newest one: a fault is found late, and the rollback goes to before it."""

    @model_validator(mode="after")
    def _has_step(self) -> CheckpointFiles:
        if len(PATTERN_STEP.findall(self.pattern)) > 1:
            raise Malformed(f"'{self.pattern}' has more than one {{step}}", "keep one; * stands for what else changes")
        if PATTERN_STEP.search(self.pattern) is None and self.step_key is None:
            remedy = "write {step} where the number stands, or step_key: NAME for a file of torch.save"
            raise Malformed(f"'{self.pattern}' does not say which step a checkpoint is of", remedy)
        return self


class ProfileResume(Model):
    """How the trainer is made to go on from a checkpoint."""

    arguments: Words = ()
    """{checkpoint} is its path, {root} the folder it lies in, {step} its step."""
    where_given: dict[FlagName, Words] = Field(default={})
    """Arguments that are added beside where this flag stands in the command: what it says there would win. A trainer of an older
    release may not have it."""
    scratch: Words = ()
    """Arguments for a start from the beginning."""


class Stop(Model):
    """How the trainer is asked to save a checkpoint and to end. Without this a planned stop ends it by SIGTERM, at once, and what
    it trained since its last checkpoint is trained again."""

    signal: Literal["SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2"] = "SIGTERM"
    """Sent to every rank, once."""
    needs: tuple[FlagName, ...] = ()
    """Flags of which one must stand in the command, and not say false; without it the signal only ends the trainer."""
    within: Annotated[Seconds, PlainSerializer(lambda seconds: f"{seconds:g}s")] = 600.0
    """So long it has for it; then it is ended."""


class ProfileSkip(Model):
    """How data is left out."""

    arguments: Words
    """{batches}: every batch as an argument. {ranges}: as FIRST-LAST arguments, both counted in. A batch counts from 1."""
    counts_from: Literal[1, 0, "either"] = 1
    """The number of the first batch. either: releases differ; each batch's number is passed and the one before."""
    spends_steps: Flag = True
    """A batch that is left out takes its step number with it."""


class Finish(Model):
    """What an end with exit 0 means. That every step was made is known where `flags` name `steps`, the last step of the run."""

    early: Literal["finished", "stopped"] = "finished"
    """Before the last step. finished: the trainer may end earlier by itself (early stopping). stopped: it leaves early only
    because it was told to, by a signal, and the run goes on from what it saved."""
    unless: tuple[FlagName, ...] = ()
    """Flags by which a trainer that is `stopped` does end earlier by itself, where one stands in the command."""


class ProfileSpec(Model):
    metrics: Metrics = Metrics()
    checkpoints: CheckpointFiles | None = None
    resume: ProfileResume = ProfileResume()
    flags: dict[Name, tuple[FlagName, ...]] = Field(default={})
    """Values that stand in the command, by the name that arguments use, as in {lr*value}."""
    defaults: dict[Name, float] = Field(default={})
    """Their values where the command does not say: the trainer's own. They count for a command whose flags can all be seen."""
    named: dict[Name, float] = Field(default={})
    """Values that a person has named, where the command does not say."""
    settings_files: tuple[FileName, ...] = ()
    """Patterns of words behind the trainer's script: files from which it takes the same settings, unseen."""
    settings: dict[Name, WordsByValue] = Field(default={})
    """For each setting of a policy that can be changed at a launch, its arguments; {value} is what is asked for. Where each value
    has arguments of its own, as those of precision: {bf16: [--bf16], fp32: []}."""
    stop: Stop | None = None
    finish: Finish = Finish()
    skip: ProfileSkip | None = None
    data: Literal["by step", "unknown"] = "unknown"
    """by step: the batch of a step is given by its number, however often the run was started again."""
    arguments: Literal["append", "environment"] = "append"
    """append: behind the command, where the last of two equal flags wins. environment: only in SENTINEL_ARGS."""
    environment: dict[str, Word] = Field(default={})
    """Variables for the command."""

    def templates(self, key: str) -> dict[str, tuple[str, ...]]:
        """The arguments of a setting by the value they are for; under an empty text, those for every value."""
        found = self.settings.get(key, {})
        return dict(found) if isinstance(found, dict) else {"": found}

    def arguments_for(self, key: str, value: object) -> tuple[str, ...] | None:
        """The arguments that give the setting this value; None where the trainer cannot be given it."""
        found = self.templates(key)
        return found.get("", found.get(str(value)))


class ProfileMetadata(Model):
    name: Name
    description: Text = ""


class TrainerProfile(Model):
    """One trainer, or one family of them."""

    api_version: Literal["sentinel/v1"] = Field(alias="apiVersion")
    kind: Literal["TrainerProfile"]
    metadata: ProfileMetadata
    options: dict[Name, Annotated[str, Field(max_length=500)]] = Field(default={})
    """What `--trainer NAME:option=value` may say, with the value where it does not. $option stands for it in the text below."""
    spec: ProfileSpec

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Of `sentinel.model.capabilities`: what a trainer under this profile can do beside training."""
        restarts = () if self.spec.checkpoints is not None else ("restart",)  # as it is: whoever chose the profile says so
        return (*(("skip",) if self.spec.skip is not None else ()), *restarts)

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that it can be launched with."""
        return tuple(key for key in self.spec.settings if self.spec.templates(key))

    @property
    def settable(self) -> tuple[str, ...]:
        """As `settings`; of one that can be given some values only, each of them, as in `precision=bf16`."""
        spec = self.spec
        return tuple(f"{key}={value}" if value else key for key in spec.settings for value in spec.templates(key))


def as_document(profile: TrainerProfile) -> dict[str, Any]:
    """What spec.json keeps of it; `TrainerProfile.model_validate` reads it again."""
    return profile.model_dump(mode="json", by_alias=True)
