"""Trainer profiles by name or file: YAML to a checked `TrainerProfile`, every error with its line, a caret and the remedy.

load_profile("hf-trainer")
load_profile("lightning:root_flag=--out,resume_flag=--ckpt")
load_profile("my-trainer.yaml:root=/data/checkpoints")
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentinel.errors import PolicyError, Problem, UsageError
from sentinel.policy.problems import did_you_mean, print_problems, split_options
from sentinel.policy.schema_problems import validate_model
from sentinel.policy_files.yaml_positions import YamlText, read_yaml
from sentinel.trainers.misfits import find_misfits
from sentinel.trainers.profile import TrainerProfile

SHIPPED = Path(__file__).resolve().parent / "shipped"
BYTES_MAX = 64 * 1024
OPTION = re.compile(r"\$([a-z_][a-z0-9_]*)")
_EVERYWHERE = ("root", "metrics", "keep", "arguments")  # options of every profile
_PLACES = {"root": ("checkpoints", "path"), "keep": ("checkpoints", "keep"), "arguments": ("arguments",)}


def shipped_profiles() -> tuple[str, ...]:
    """Names of the profiles that come with Sentinel."""
    entries = SHIPPED.iterdir() if SHIPPED.is_dir() else ()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml")))


def load_profile(asked: str) -> TrainerProfile:
    """`asked`: the name of a shipped profile or a path, and options behind a colon.

    Raises:
        UsageError: there is no such profile, or no such option.
        PolicyError: the file is no profile; prints every problem.
    """
    return load_with_document(asked)[0]


def load_with_document(asked: str) -> tuple[TrainerProfile, Mapping[str, Any]]:
    """As `load_profile`, with its YAML as it is in force: options filled in, and no `options` left. Raises as it does."""
    name, options = split_options("--trainer", asked)
    path = _find(name)
    text = _read(path)
    read = read_yaml(text)
    _refuse(path, text, read, tuple(read.problems))
    document = read.value if isinstance(read.value, dict) else {}
    own = document.get("options")
    known: dict[str, Any] = own if isinstance(own, dict) else {}
    every = (*known, *_EVERYWHERE, *_values(document))
    for option in options:
        if option not in every:
            raise UsageError(f"--trainer {asked}: no option '{option}'; {did_you_mean(option, every, 'options')}")
    filled = _fill(document, {**known, **options}) if document else read.value
    laid = _lay(filled, options)
    profile, problems = validate_model(TrainerProfile, laid)
    _refuse(path, text, read, problems if profile is None else tuple(find_misfits(profile.spec)))
    assert profile is not None, "without problems there is a profile"
    return profile, {key: value for key, value in laid.items() if key != "options"}


def _values(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Options that give what the profile would read from a flag of the command, such as `lr=3e-4`."""
    spec = document.get("spec")
    flags = spec.get("flags") if isinstance(spec, dict) else None
    return tuple(map(str, flags)) if isinstance(flags, dict) else ()


def _find(name: str) -> Path:
    if name in shipped_profiles():
        return SHIPPED / f"{name}.yaml"
    path = Path(name)
    if not path.is_file():
        known = did_you_mean(name, shipped_profiles(), "shipped profiles")
        raise UsageError(f"--trainer {name}: neither a shipped profile nor a file; {known}")
    return path


def _read(path: Path) -> str:
    try:
        raw = path.read_bytes()[: BYTES_MAX + 1]
        if len(raw) > BYTES_MAX:
            raise UsageError(f"{path}: larger than {BYTES_MAX // 1024} KiB; a profile is a page, is this the right file?")
        return raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as a profile: {error}") from None


def _refuse(path: Path, text: str, read: YamlText, problems: tuple[Problem, ...]) -> None:
    if problems:
        located = tuple(sorted(map(read.locate, problems), key=lambda problem: (problem.line, problem.column)))
        raise PolicyError(print_problems(str(path), text, located), located)


def _fill(value: Any, options: Mapping[str, Any]) -> Any:
    """Every `$option` in a text is replaced. What holds an option that says nothing is left out: a list of words wholly."""
    if isinstance(value, str):
        return OPTION.sub(lambda match: str(options.get(match[1], match[0])), value)
    if isinstance(value, list):
        filled = [_fill(item, options) for item in value]
        return [] if any(item == "" and before != "" for item, before in zip(filled, value, strict=True)) else filled
    if isinstance(value, dict):
        kept = {key: (_fill(item, options), item) for key, item in value.items()}
        return {key: item for key, (item, before) in kept.items() if item == before or item not in ("", [])}
    return value


def _lay(document: Any, options: Mapping[str, str]) -> Any:
    """The options that every profile has, in their places."""
    if not isinstance(document, dict) or not isinstance(document.get("spec"), dict):
        return document
    spec = dict(document["spec"])
    for option, place in _PLACES.items():
        if option not in options:
            continue
        value: Any = int(options[option]) if option == "keep" and options[option].isdecimal() else options[option]
        if len(place) == 1:
            spec[place[0]] = value
        else:
            part = dict(spec.get(place[0]) or {})
            part |= {place[1]: value} | ({"root": []} if option == "root" else {})
            spec[place[0]] = part
    if values := {name: _number(name, options[name]) for name in _values(document) if name in options}:
        spec["named"] = {**(spec.get("named") or {}), **values}
    if "metrics" in options:
        asked, own = _metrics(options["metrics"]), dict(spec.get("metrics") or {})
        if asked["from"] != own.get("from", "output"):  # the profile's format is that of its own source
            own = {key: value for key, value in own.items() if key not in ("format", "path")}
        spec["metrics"] = {**own, **asked}
    return {**document, "spec": spec}


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):  # what is computed from it would be none either
        raise UsageError(f"--trainer …:{name}={text}: is no number; write it as the command would, such as {name}=3e-4")
    return number


def _metrics(value: str) -> dict[str, str]:
    """`metrics=output` and the other sources that need no path, or a path: of TensorBoard's folder, if it ends with a slash, or
    of a file."""
    if value in ("output", "wandb", "mlflow", "trainer_state", "none"):
        return {"from": value}
    return {"from": "tensorboard" if value.endswith("/") else "file", "path": value}
