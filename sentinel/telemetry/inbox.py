"""RUN_DIR/inbox/: what people ask of a run, one small file for each request, written by `sentinel pause`, `set` and so on.

A file is delivered once and removed at the next poll: by then the engine has answered it on disk. When the supervisor is killed
in between, its successor reads the file again, and the engine knows the id. Files rather than a socket, because the run
directory is what a person and a supervisor on another machine of the cluster share.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.overrides import Overrides, OverridesError
from sentinel.client.regular_file import NotRegular, regular
from sentinel.client.run_layout import INBOX
from sentinel.client.settings import SETTINGS, to_json
from sentinel.client.strict_json import dumps, loads
from sentinel.model import operator_requests as w
from sentinel.model.attempts import SampleRange, SettingsInForce
from sentinel.model.readings import Reading, RequestReading
from sentinel.telemetry.source import SourceHealth, describe_os_error

FILES_PER_POLL = 32
BYTES_MAX = 64 * 1024
_NAME = re.compile(r"\d{20}-[0-9a-f]{12}\.json")
_WORDS: dict[type[w.OperatorRequest], str] = {
    w.PauseRun: "pause", w.ResumeRun: "resume", w.HoldRun: "hold", w.RollBack: "rollback", w.LeaveOut: "skip",
    w.ChangeSettings: "set", w.Approve: "approve", w.Deny: "deny", w.Acknowledge: "ack",
    w.Readmit: "readmit", w.Resolve: "resolve", w.Remark: "note",
    w.PruneCheckpoints: "prune", w.ApplyPolicy: "apply",
}  # fmt: skip


class Unreadable(ValueError):
    """A file of the inbox that holds no request; the message says why."""


def post(run_dir: Path, by: str, request: w.OperatorRequest, wall_ns: int) -> str:
    """Ask; returns the request's id. `wall_ns` orders requests for a supervisor that reads several. Raises OSError."""
    number = uuid.uuid4().hex[:12]
    place = run_dir / INBOX / f"{wall_ns:020d}-{number}.json"
    write_atomically(place, dumps({"v": 1, "id": number, "by": by, **_to_json(request)}).encode() + b"\n")
    return number


def withdraw(run_dir: Path, number: str) -> bool:
    """Take back what was not answered; False when there is nothing left to take back."""
    for path in (run_dir / INBOX).glob(f"*-{number}.json"):
        path.unlink(missing_ok=True)
        return True
    return False


class Inbox:
    """A `Source` of requests. A file that is no request is reported once and removed: it would never become one. One that
    cannot be read now (a stale handle, an I/O error) stays, and is read at a later poll."""

    def __init__(self, run_dir: Path, health: SourceHealth | None = None) -> None:
        self._folder = run_dir / INBOX
        self._health = health if health is not None else SourceHealth("inbox")
        self._delivered: list[str] = []
        self._is_blind = False

    @property
    def has_more(self) -> bool:
        return False

    def poll(self, now_s: float) -> list[Reading]:
        """New requests in the order they were asked, a bounded batch."""
        del now_s
        out: list[Reading] = []
        try:
            for name in self._delivered:
                (self._folder / name).unlink(missing_ok=True)
            self._delivered.clear()
            names = sorted(name for name in os.listdir(self._folder) if _NAME.fullmatch(name))
        except FileNotFoundError:
            return []  # nobody has ever asked
        except OSError as error:
            return [*self._health.lost(describe_os_error(error, self._folder))]
        for name in names[:FILES_PER_POLL]:
            path = self._folder / name
            try:
                out.append(self._read(path))
            except FileNotFoundError:
                continue  # withdrawn
            except NotRegular as error:
                out += [*self._health.regained(), *self._health.remark(f"{path}: {error.strerror}, and so no request")]
            except OSError as error:
                self._is_blind = True
                return [*out, *self._health.lost(describe_os_error(error, path))]
            except ValueError as error:
                out += [*self._health.regained(), *self._health.remark(f"{path}: is no request: {error}")]
            self._delivered.append(name)
        if self._is_blind:
            self._is_blind = False
            out += self._health.regained()
        return out

    def _read(self, path: Path) -> RequestReading:
        with open(path, "rb", opener=regular) as file:
            raw = loads(file.read(BYTES_MAX))
        if not isinstance(raw, dict) or not all(isinstance(raw.get(key), str) for key in ("id", "by", "ask")):
            raise Unreadable("it has no id, by and ask")
        return RequestReading(raw["id"], raw["by"], _from_json(raw))


def _to_json(request: w.OperatorRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"ask": _WORDS[type(request)]}
    match request:
        case w.RollBack():
            body |= {
                "to_step": request.to_step,
                "skip": _pairs(request.settings.skip),
                "settings": _settings(request.settings, request.keys),
            }
        case w.LeaveOut():
            body |= {"skip": _pairs((request.samples,))}
        case w.ChangeSettings():
            body |= {"settings": _settings(request.settings, request.keys), "until_steps": request.until_steps}
        case w.Approve() | w.Deny():
            body |= {"incident": request.incident} | ({} if request.rung is None else {"rung": request.rung})
        case w.Acknowledge() | w.Resolve():
            body |= {"incident": request.incident}
        case w.Readmit():
            body |= {"node": request.node, "force": request.force}
        case w.PruneCheckpoints():
            body |= {"keep": request.keep}
        case w.Remark():
            body |= {"text": request.text}
        case w.ApplyPolicy():
            body |= {"path": request.path, "digest": request.digest, "note": request.note}
        case w.PauseRun() | w.ResumeRun() | w.HoldRun():
            pass
    return body


def _from_json(raw: Mapping[str, Any]) -> w.OperatorRequest:
    match raw["ask"]:
        case "pause":
            return w.PauseRun()
        case "resume":
            return w.ResumeRun()
        case "hold":
            return w.HoldRun()
        case "rollback":
            settings, keys = _read_settings(raw.get("settings"))
            return w.RollBack(_whole(raw, "to_step"), replace(settings, skip=_ranges(raw.get("skip"))), keys)
        case "skip":
            ranges = _ranges(raw.get("skip"))
            if len(ranges) != 1:
                raise Unreadable("skip: is not one range of samples")
            return w.LeaveOut(ranges[0])
        case "set":
            settings, keys = _read_settings(raw.get("settings"))
            until = None if raw.get("until_steps") is None else _whole(raw, "until_steps")
            return w.ChangeSettings(settings, keys, until)
        case "approve":
            return w.Approve(_whole(raw, "incident"), _rung(raw))
        case "deny":
            return w.Deny(_whole(raw, "incident"), _rung(raw))
        case "ack":
            return w.Acknowledge(_whole(raw, "incident"))
        case "resolve":
            return w.Resolve(_whole(raw, "incident"))
        case "note":
            if not isinstance(raw.get("text"), str) or not w.is_remark(raw["text"]):
                raise Unreadable(f"text: is not one printable line of at most {w.REMARK_CHARS_MAX} characters")
            return w.Remark(raw["text"])
        case "readmit":
            if not isinstance(raw.get("node"), str):
                raise Unreadable(f"node: {raw.get('node')!r} is not a name")
            return w.Readmit(raw["node"], raw.get("force") is True)
        case "apply":
            return _apply(raw)
        case "prune":
            return w.PruneCheckpoints(max(1, _whole(raw, "keep")))
        case word:
            raise Unreadable(f"ask: {word!r} is not one of {', '.join(_WORDS.values())}")


def _apply(raw: Mapping[str, Any]) -> w.ApplyPolicy:
    path, digest, note = (raw.get(key) for key in ("path", "digest", "note"))
    if not isinstance(path, str) or not w.is_remark(path):
        raise Unreadable("path: is not the path of a file, on one printable line")
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise Unreadable(f"digest: {digest!r} is not a SHA-256 in hexadecimal")
    if not isinstance(note, str) or (note and not w.is_remark(note)):
        raise Unreadable(f"note: is not one printable line of at most {w.REMARK_CHARS_MAX} characters")
    return w.ApplyPolicy(path, digest, note)


def _settings(overrides: SettingsInForce, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: to_json(getattr(overrides, key)) for key in keys}


def _read_settings(raw: object) -> tuple[SettingsInForce, tuple[str, ...]]:
    """Checked by the same rules as the trainer's own file, so that nothing is granted that a trainer could not read."""
    if not isinstance(raw, dict) or not set(raw) <= set(SETTINGS):
        raise Unreadable(f"settings: is not an object of {', '.join(SETTINGS)}")
    try:
        checked = Overrides.from_json(raw, "settings")
    except OverridesError as error:
        raise Unreadable(str(error)) from None
    changes: dict[str, Any] = {key: getattr(checked, key) for key in raw}
    return replace(SettingsInForce(), **changes), tuple(raw)


def _pairs(ranges: tuple[SampleRange, ...]) -> list[list[int]]:
    return [[r.start, r.end] for r in ranges]


def _ranges(raw: object) -> tuple[SampleRange, ...]:
    pairs = raw if isinstance(raw, list) else []
    if not all(isinstance(p, list) and len(p) == 2 and all(type(x) is int for x in p) and 0 <= p[0] < p[1] for p in pairs):
        raise Unreadable("skip: is not a list of half-open ranges [[start, end], …]")
    return tuple(SampleRange(a, b) for a, b in pairs)


def _rung(raw: Mapping[str, Any]) -> int | None:
    return None if raw.get("rung") is None else _whole(raw, "rung")


def _whole(raw: Mapping[str, Any], key: str) -> int:
    value = raw.get(key)
    if type(value) is not int or value < 0:
        raise Unreadable(f"{key}: {value!r} is not a whole number")
    return value
