"""Read a Config: a preset, a YAML file over it, and `--set SECTION.FIELD=VALUE` over both. A mistake is named with
its place, its value and a remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from yamlcore import CoreLoader

from ..exits import PROGRAM, ConfigError
from .sections import Config

PRESETS = Path(__file__).parent.parent / "presets"
DEFAULT_PRESET = "tiny"
Places = dict[str, str]  # dotted key → "file.yaml:12" or "--set"


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def load_config(preset: str | None = None, file: Path | None = None, sets: Sequence[str] = ()) -> Config:
    """Defaults, under the preset, under the file (which may name its own preset with `preset: NAME`), under the sets.

    Raises ConfigError for a file that cannot be read, an unknown setting, or a wrong value.
    """
    places: Places = {}
    written = _read_file(file, places) if file is not None else {}
    named = written.pop("preset", None)
    if named is not None and preset is not None and named != preset:
        raise ConfigError(f"{places['preset']}: preset {named!r} and --preset {preset!r}: say one of them")
    base = preset or named or (None if file is not None else DEFAULT_PRESET)
    values: dict[str, Any] = {}
    if base is not None:
        if base not in preset_names():
            raise ConfigError(f"preset {base!r}: there is none of this name; use one of {', '.join(preset_names())}")
        _lay_over(values, _read_file(PRESETS / f"{base}.yaml", {}))
    _lay_over(values, written)
    for words in sets:
        _lay_over(values, _read_set(words, places))
    return checked(values, places)


def checked(values: Mapping[str, Any], places: Places | None = None) -> Config:
    """The Config of nested values. Raises ConfigError with every mistake in it, one a line."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        lines = [_sentence(problem, places or {}) for problem in error.errors(include_url=False)]
        raise ConfigError("\n".join(lines)) from None


def changed(config: Config, **sections: Mapping[str, Any]) -> Config:
    """The same settings with some fields of some sections replaced, checked again."""
    values = config.model_dump()
    _lay_over(values, sections)
    return checked(values)


def written_out(config: Config) -> str:
    """The whole configuration as YAML that `--config` reads back to the same."""
    plain = config.model_dump(mode="json")
    blocks = [f"{key}: {_inline(value)}" for key, value in plain.items() if not isinstance(value, dict)]
    for name, section in plain.items():
        if isinstance(section, dict):
            blocks.append(f"{name}:\n" + "\n".join(f"  {key}: {_inline(value)}" for key, value in section.items()))
    return "\n".join(blocks) + "\n"


def describe_settings() -> str:
    """Every setting with its default and what it is for, for people."""
    lines = []
    for name, (kind, default, description, is_fixed) in _settings().items():
        lines.append(f"{name}  ({kind}; {_inline(default)}{'; fixed for a run' if is_fixed else ''})\n    {description}")
    return "\n".join(lines)


def fixed_settings() -> list[str]:
    """Dotted names of what may not change between the attempts of a run."""
    return [name for name, (*_, is_fixed) in _settings().items() if is_fixed]


def _settings() -> dict[str, tuple[str, Any, str, bool]]:
    """Dotted name → type in words, default, what it is for, whether it is fixed."""
    found = {}
    for section_name, section in Config.model_fields.items():
        kind = section.annotation
        fields = kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {"": section}
        for name, info in fields.items():
            dotted = f"{section_name}.{name}" if name else section_name
            extra = info.json_schema_extra
            assert isinstance(extra, dict), f"{dotted}: declare it with setting() or fixed()"
            found[dotted] = (_kind_in_words(info.annotation), info.default, info.description or "", bool(extra["fixed"]))
    return found


def _kind_in_words(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind_in_words(parts[0])
    if origin is Literal:
        return " | ".join(map(str, parts))
    if origin in (Union, UnionType):
        return " | ".join(map(_kind_in_words, parts))
    if origin is tuple:
        return f"[{', '.join(map(_kind_in_words, parts))}]"
    return "null" if annotation is NoneType else str(annotation.__name__)


def _read_file(path: Path, places: Places) -> dict[str, Any]:
    """A mapping of settings. Records the file and line of each in `places`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it is not UTF-8 text, at byte {error.start}"
        raise ConfigError(f"{path}: cannot be read ({why}); name a YAML file, or a preset: {', '.join(preset_names())}") from None
    try:
        node = yaml.compose(text, Loader=CoreLoader)
        if node is not None:
            _note_places(node, "", path, places)
        values = yaml.load(text, Loader=CoreLoader)  # CoreLoader builds plain values only
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}: is not YAML: {' '.join(str(error).split())}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(
            f"{path}: holds {type(values).__name__}; a configuration is a mapping of sections, such as `optim: {{lr: 3e-4}}`"
        )
    return values


def _note_places(node: yaml.Node, prefix: str, path: Path, places: Places) -> None:
    """Record the line of each key. PyYAML alone would silently keep the last of two equal keys."""
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        name, place = f"{prefix}{key.value}", f"{path.name}:{key.start_mark.line + 1}"
        if name in places:
            raise ConfigError(f"{place}: {name} is there twice (first at {places[name]}); keep one")
        places[name] = place
        _note_places(value, f"{name}.", path, places)


def _read_set(words: str, places: Places) -> dict[str, Any]:
    name, equals, text = words.partition("=")
    if not equals or not all(name.split(".")):
        raise ConfigError(f"--set {words!r}: write SECTION.FIELD=VALUE, for example --set optim.lr=3e-4")
    try:
        value: Any = yaml.load(text, Loader=CoreLoader)
    except (yaml.YAMLError, RecursionError):
        raise ConfigError(f"--set {words!r}: {text!r} is not a YAML value; quote it, or write a list as [1, 2]") from None
    places[name] = "--set"
    first, *rest = name.split(".")
    for part in reversed(rest):
        value = {part: value}
    return {first: value}


def _lay_over(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(below.get(key), dict):
            _lay_over(below[key], value)
        else:
            below[key] = dict(value) if isinstance(value, Mapping) else value


def _sentence(problem: Any, places: Places) -> str:
    """One of pydantic's problems as a sentence: place, name, value, what is wrong, remedy."""
    parts = [part for part in problem["loc"] if isinstance(part, str) and part in _names_at(problem["loc"])]
    name = ".".join(parts) or ".".join(str(part) for part in problem["loc"])
    place = next((places[known] for known in _prefixes(name) if known in places), None)
    where = f"{place}: {name}" if place is not None and place != "--set" else f"--set {name}" if place else name
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, _settings(), n=1, cutoff=0.5)
        remedy = f"did you mean {near[0]}?" if near else f"python -m {PROGRAM} --settings lists them"
        return f"{where}: there is no such setting; {remedy}"
    if problem["type"] == "model_type":
        named = f"--set {name}.FIELD=VALUE, or {name}: {{FIELD: VALUE}} in a file"
        return f"{where} {problem['input']!r}: is a section, not a setting; write {named}"
    message = problem["msg"].removeprefix("Value error, ")
    description = _settings().get(name)
    about = f" ({description[2]})" if description is not None else ""
    shown = "" if isinstance(problem["input"], Mapping) else f" {problem['input']!r}"
    return f"{where}{shown}: {message[:1].lower() + message[1:]}{about}"


def _names_at(loc: Sequence[Any]) -> set[str]:
    """The parts of a location that are keys; what pydantic adds for a branch of a union ('float', 'tuple[…]') is left out."""
    return {str(part) for part in loc[:2]}


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        yield ".".join(parts[:length])


def _inline(value: Any) -> str:
    if isinstance(value, tuple):
        value = list(value)
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6).strip()
    return text.removesuffix("...").strip()
