"""What a profile says a trainer can do, for people and programs: `sentinel trainers list` and `show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sentinel.client.settings import SETTINGS
from sentinel.policy.available import Abilities
from sentinel.trainers.loading import OPTION, load_profile, shipped_profiles
from sentinel.trainers.profile import STEPS, Metrics, ProfileSpec, TrainerProfile, as_document


def abilities(profile: TrainerProfile) -> Abilities:
    """By which rungs are passed over."""
    has_checkpoints = profile.spec.checkpoints is not None
    return Abilities(profile.metadata.name, profile.capabilities, profile.settable, has_checkpoints)


def profile_document(profile: TrainerProfile) -> dict[str, Any]:
    """What can be watched, restarted, rolled back, skipped and set."""
    spec = profile.spec
    places = spec.checkpoints
    return {
        "name": profile.metadata.name,
        "description": profile.metadata.description,
        "metrics": {"from": spec.metrics.from_, "path": list(spec.metrics.path), "format": spec.metrics.format},
        "checkpoints": None if places is None else {"flags": list(places.root), "path": places.path, "pattern": places.pattern},
        "restarts": places is not None or "restart" in profile.capabilities,
        "rolls_back": places is not None,
        "skips": spec.skip is not None,
        "last_step": {"flags": list(spec.flags.get(STEPS, ())), "early": spec.finish.early},
        "settings": list(profile.settings),
        "capabilities": list(profile.capabilities),
        "options": dict(profile.options),
        "needs_options": unfilled(profile),
    }


def list_documents() -> list[dict[str, Any]]:
    """Of every shipped profile."""
    return [profile_document(load_profile(name)) for name in shipped_profiles()]


def list_text() -> str:
    """One profile a paragraph."""
    lines: list[str] = []
    for name in shipped_profiles():
        profile = load_profile(name)
        lines += [f"{name}: {profile.metadata.description}", *(f"  {line}" for line in what_it_can(profile))]
    return "\n".join([*lines, "more with: sentinel trainers show NAME"])


def what_it_can(profile: TrainerProfile) -> list[str]:
    """A line for each thing that a profile may say, also where it says nothing of it."""
    spec = profile.spec
    places = spec.checkpoints
    if places is None:
        kept = "rolled back: no: the profile names no checkpoints; it is started again as it is"
    else:
        where = places.path if places.path is not None else " or ".join(places.root)
        how = "" if spec.resume.arguments else "; newer ones are moved aside, and it has to go on from the newest by itself"
        kept = f"rolled back: by checkpoints {places.pattern} below {where}{how}"
    words = ", ".join(_setting(profile, key) for key in profile.settings)
    return [
        f"watched: {metrics_source(spec.metrics)}",
        kept,
        f"skips data: {'by ' + spec.skip.arguments[0] if spec.skip is not None else 'no'}",
        f"changed at a launch: {words or 'nothing'}",
        f"last step: {_last_step(spec)}",
        *(f"needs the option {name}, as in {profile.metadata.name}:{name}=…" for name in unfilled(profile)),
    ]


def _last_step(spec: ProfileSpec) -> str:
    flags = " or ".join(spec.flags.get(STEPS, ()))
    early = "the run goes on" if spec.finish.early == "stopped" else "the run has finished"
    return f"by {flags}, or steps=N; behind exit 0 before it {early}" if flags else "unknown; behind exit 0 the run has finished"


def _setting(profile: TrainerProfile, key: str) -> str:
    """`clip norm`, or `precision (bf16 or fp32)` where it takes no other value."""
    values = " or ".join(filter(None, profile.spec.templates(key)))
    return f"{SETTINGS[key].label} ({values})" if values else SETTINGS[key].label


def unfilled(profile: TrainerProfile) -> list[str]:
    """Options that still stand in its texts as $option: nobody gave them, and they have no default."""

    def names(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield from OPTION.findall(value)
        elif isinstance(value, (list, dict)):
            for one in value.values() if isinstance(value, dict) else value:
                yield from names(one)

    return sorted(set(names(as_document(profile)["spec"])))


def metrics_source(metrics: Metrics) -> str:
    """Where a profile's numbers come from, for people."""
    source = {
        "output": "what it prints",
        "file": f"the file {' or '.join(metrics.path)}",
        "tensorboard": f"TensorBoard's files in {' or '.join(metrics.path)}",
        "wandb": f"the files of Weights & Biases in {' or '.join(metrics.path) or 'wandb'}",
        "mlflow": f"the runs of MLflow in {' or '.join(metrics.path) or 'mlruns'}",
        "trainer_state": "trainer_state.json of each checkpoint",
        "none": "nothing but its end",
    }[metrics.from_]
    return source if metrics.format == "auto" or metrics.from_ != "output" else f"{source}, as {metrics.format}"
