"""Which training library a script imports, read from its text: a hint to a person who has not named a profile. Nothing is run,
and nothing is concluded from it: who imports a library need not train by it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sentinel.client.late_regex import late_regex
from sentinel.client.regular_file import read_regular
from sentinel.trainers.loading import load_profile

SCRIPT_BYTES_MAX = 1 << 20
PROFILES = {
    "lightning": "lightning", "pytorch_lightning": "lightning", "transformers": "hf-trainer", "torchtitan": "torchtitan",
    "megatron": "megatron",
}  # fmt: skip
_IMPORT = late_regex(r"(?m)^\s*(?:from|import)\s+([A-Za-z_]\w*)")
_FLAG = late_regex(r"""["'](--[A-Za-z][\w.-]*)["']""")
_FOLDER = late_regex(
    r"(?i)^--(?:(?:default|save|out(?:put)?|ckpt|checkpoint|run|exp|work|log|root|model)s?[-_.]?){0,4}"
    r"(?:dir|out|output|folder|root|save_path|output_path)$"
)
_GOES_ON = late_regex(r"(?i)resume|restore|ckpt|checkpoint")
_NO_PLACE = late_regex(r"(?i)every|interval|freq|limit|steps?$|keep|num|total")


def hint_of(command: Sequence[str], cwd: str) -> str:
    """A sentence that names the profile of the library which the command's script imports, with the script's own flags; empty
    where it imports none that a profile is shipped for, or uses sentinel itself."""
    script, text = _script_of(command, cwd)
    imports = set(_IMPORT.findall(text))
    library = next((name for name in PROFILES if name in imports and (name != "transformers" or "Trainer" in text)), None)
    if library is None or "sentinel" in imports:
        return ""
    asked, named = _options(PROFILES[library], tuple(dict.fromkeys(_FLAG.findall(text))), command)
    if named:
        end = f"{' and '.join(named)} being its flags for the folder of its checkpoints and for the one to go on from"
    else:
        end = "which sees no flag for the folder of its checkpoints in it; name the folder, or the flag as root_flag=FLAG"
    return f"{os.path.basename(script)} imports {library}: --trainer {asked}? ({end})"


def attached_script_of(command: Sequence[str], cwd: str) -> str:
    """The command's script where it imports sentinel itself, and so may speak its contract; else empty."""
    script, text = _script_of(command, cwd)
    return script if "sentinel" in _IMPORT.findall(text) else ""


def _script_of(command: Sequence[str], cwd: str) -> tuple[str, str]:
    """The first script of Python in the command, and its text; empty where there is none, or it cannot be read."""
    script = next((word for word in command if word.endswith(".py") and not word.startswith("-")), "")
    try:
        text = read_regular(Path(cwd, script), SCRIPT_BYTES_MAX) if script else b""
    except (OSError, ValueError):
        return script, ""
    return script, text.decode("utf-8", "replace")


def _options(profile: str, flags: tuple[str, ...], command: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The profile with its options as they stand behind `--trainer`, and the flags that were found."""
    known = load_profile(profile).options
    folders = [flag for flag in flags if _FOLDER.match(flag)]
    folder = next((flag for flag in folders if flag in command), folders[0] if folders else None)
    goes_on = [flag for flag in flags if _GOES_ON.search(flag) and not _NO_PLACE.search(flag) and flag != folder]
    resume = next((flag for flag in goes_on if "resume" in flag.lower()), goes_on[0] if goes_on else None)
    found = {"root_flag": folder, "resume_flag": resume}
    options = [f"{name}={flag}" for name, flag in found.items() if flag is not None and known.get(name) not in (None, flag)]
    if folder is None:
        options = ["root=DIR", *(one for one in options if not one.startswith("root_flag"))]
    named = tuple(flag for flag in found.values() if flag is not None) if folder is not None else ()
    return f"{profile}{':' if options else ''}{','.join(options)}", named
