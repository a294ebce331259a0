"""What an attempt is about to run, read at its launch: source and configuration by sha256, interpreter, libraries, variables.

It can only be slow within bounds, never fail a launch, and what cannot be read is said to be unknown. The record stands in the
attempt's spec.json; asked again for an attempt that was started, it returns that record and not what is on the disk now.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sentinel.client.masking import Masking, is_secret_name
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import CHECKPOINTS
from sentinel.client.strict_json import loads
from sentinel.launcher.contract import Launcher
from sentinel.launcher.interpreter import Interpreter, ask_interpreter, find_interpreter
from sentinel.launcher.program_code import Reading, config_files, read_paths, read_program
from sentinel.model.attempts import AttemptSpec
from sentinel.model.environment import Environment, Named
from sentinel.model.recorded import recorded_name
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE, AttemptFiles

READ_S = 5.0  # for the files; the interpreter has a deadline of its own
VALUE_CHARS_MAX = 200
VARIABLES_MAX = 300
VARIABLES = re.compile(r"(NCCL|CUDA|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|OMP|MKL|CUBLAS|CUDNN|XLA|ROCM|HSA|RCCL)_|PYTHON")
PARTS = ("code", "configs", "distributions", "variables")


@dataclass(frozen=True, slots=True)
class LaunchQuestion:
    """Of which program it is asked what it runs. `code`, `written`: as in `read_environment`. `withheld`: variables that the
    training does not get; the interpreter that is asked runs the training's own start-up code."""

    program: tuple[str, ...]
    cwd: str
    code: tuple[str, ...] = ()
    written: tuple[Path, ...] = ()
    withheld: frozenset[str] = field(default=frozenset(), repr=False)


def read_for_launch(question: LaunchQuestion) -> Environment:
    """Never raises."""
    inherited = {name: value for name, value in os.environ.items() if name not in question.withheld}
    return read_environment(question.program, question.cwd, inherited, question.code, question.written)


def start_recorded(
    launcher: Launcher,
    run_dir: Path,
    spec: AttemptSpec,
    code: tuple[str, ...],
    withheld: frozenset[str] = frozenset(),
    saved: tuple[Path, ...] = (),
    read: Callable[[LaunchQuestion], Environment] = read_for_launch,
) -> tuple[str, Environment]:
    """Start the attempt as the launcher does, with what it runs in its spec.json. `withheld`: as the launcher's. `saved`:
    checkpoints of the trainer, which are no configuration. `read`: reads what it runs. Raises as `Launcher.ensure_started`."""
    known = read_recorded(AttemptFiles.of(run_dir, spec.attempt))
    question = LaunchQuestion(spec.program, spec.cwd, code, (run_dir / CHECKPOINTS, *saved), withheld)
    found = read(question) if known is None else known
    view = launcher.ensure_started(replace(spec, environment=found))
    return recorded_name(type(view)).lower(), found


def read_environment(
    argv: tuple[str, ...], cwd: str, environ: Mapping[str, str], code: tuple[str, ...] = (), written: tuple[Path, ...] = ()
) -> Environment:
    """Never raises. `code`: what `--code` names, in the place of what the command's words lead to. `written`: what the run itself
    writes. A word of the command may name such a file (`--resume out/state.json`), and it changes with every save."""
    given = {name: value for name, value in environ.items() if name not in (RUN_DIR_VARIABLE, ATTEMPT_VARIABLE)}
    unknown: list[str] = []
    path = find_interpreter(argv, cwd)
    asked = ask_interpreter(path, cwd, given) if path is not None else "no word of the command is a Python, nor its first line"
    python = asked if isinstance(asked, Interpreter) else None
    if python is None:
        unknown.append(f"interpreter and distributions: {asked}")
    end_s = time.monotonic() + READ_S
    reading = Reading(lambda: time.monotonic() > end_s)
    if code:
        unknown += read_paths(code, cwd, reading)
    elif not read_program(argv, cwd, python.roots if python is not None else (), reading):
        unknown.append("code: no word of the command names source of its own (sentinel run --code PATH names it)")
    configs = Reading(reading.is_late)
    own = [os.path.realpath(path) for path in written]
    for file in config_files(argv, cwd):
        if not any(file == path or file.startswith(path + os.sep) for path in own):
            configs.read(file)
    capped = [*reading.capped, *configs.capped]
    if python is not None and python.is_capped:
        capped.append(f"only the first {len(python.distributions)} distributions were read")
    return Environment(
        code=_named(reading.found, cwd) if reading.found else None,
        configs=_named(configs.found, cwd),
        interpreter=None if python is None else _shown(python.name),
        distributions=None if python is None else tuple((_shown(name), _shown(of)) for name, of in python.distributions),
        variables=_variables(given),
        unknown=tuple(map(_shown, unknown)),
        capped=tuple(map(_shown, capped)),
    )


def _named(found: Mapping[str, str], cwd: str) -> Named:
    """Paths as the command sees them: relative below its directory, else whole; text that any file may hold."""
    inside = os.path.realpath(cwd) + os.sep
    return tuple(sorted((_shown(path.removeprefix(inside)), digest) for path, digest in found.items()))


def _shown(text: str) -> str:
    """It is written, compared and shown to a person: what no terminal should be given, or can be, becomes an escape."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _variables(environ: Mapping[str, str]) -> Named:
    names = sorted(name for name in environ if VARIABLES.match(name) and not is_secret_name(name))
    masking = Masking.of(environ)
    return tuple((_shown(name), _value(name, environ[name], masking)) for name in names[:VARIABLES_MAX])


def _value(name: str, text: str, masking: Masking) -> str:
    """A digest where it is long or holds a secret: that another one is there is seen, and it is not."""
    if len(text) <= VALUE_CHARS_MAX and masking.document({name: text}) == {name: text}:
        return _shown(text)
    return f"sha256:{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()}"


def environment_to_json(environment: Environment) -> dict[str, Any]:
    """The object of spec.json (PROTOCOL.md 'spec.json'). `digests`: one for each part, to compare at a glance."""
    parts: dict[str, Any] = {part: None if (v := getattr(environment, part)) is None else dict(v) for part in PARTS}
    digests = {part: None if parts[part] is None else digest_of(getattr(environment, part)) for part in PARTS}
    rest = {"interpreter": environment.interpreter, "unknown": list(environment.unknown), "capped": list(environment.capped)}
    return {**parts, **rest, "digests": digests}


def digest_of(named: Named) -> str:
    """One sha256 over a whole list."""
    return hashlib.sha256("".join(f"{name}\0{value}\n" for name, value in named).encode(errors="surrogateescape")).hexdigest()


def read_recorded(files: AttemptFiles) -> Environment | None:
    """What stands in the attempt's spec.json; None when it was not written, or says nothing of it."""
    try:
        raw = loads(read_regular(files.spec))
        recorded = raw["environment"]
        parts = {name: None if recorded[name] is None else _pairs(recorded[name]) for name in PARTS}
        named = recorded["interpreter"]
        return Environment(
            code=parts["code"],
            configs=parts["configs"],
            interpreter=None if named is None else str(named),
            distributions=parts["distributions"],
            variables=parts["variables"],
            unknown=tuple(str(text) for text in recorded["unknown"]),
            capped=tuple(str(text) for text in recorded["capped"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _pairs(mapping: Mapping[str, object]) -> Named:
    return tuple(sorted((str(name), str(value)) for name, value in mapping.items()))
