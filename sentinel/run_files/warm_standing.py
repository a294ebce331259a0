"""RUN_DIR/warm.json: how the reserve for the next attempt stands, written by the supervisor for whoever asks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import WARM_NAME
from sentinel.client.strict_json import dumps, loads, printable

State = Literal["none", "coming", "ready"]


@dataclass(frozen=True, slots=True)
class WarmStanding:
    """`why`: there is none. `memory_bytes`: what its processes hold, shared pages by their part. `last`: of the newest launch of
    this supervisor, warm, or why it was cold; empty before there was one."""

    state: State
    why: str = ""
    ranks: int = 0
    ready: int = 0
    memory_bytes: int = 0
    last: str = ""

    @property
    def words(self) -> str:
        if self.state == "none":
            return f"none: {self.why}"
        memory = f"{self.memory_bytes / 2**20:.0f} MiB"
        return f"{self.ready} of {self.ranks} ranks wait for the next attempt, {memory}"


def write_warm(run_dir: Path, standing: WarmStanding) -> None:
    """A disk that says no is passed over: it is for showing."""
    with suppress(OSError):
        write_atomically(run_dir / WARM_NAME, dumps({"v": 1, **asdict(standing)}).encode() + b"\n", durable=False)


def read_warm(run_dir: Path) -> WarmStanding | None:
    """None where no supervisor was asked for one, or where it cannot be read."""
    try:
        value: dict[str, Any] = loads(read_regular(run_dir / WARM_NAME))
        state = value["state"]
        if state not in get_args(State):
            return None
        numbers = {name: int(value[name]) for name in ("ranks", "ready", "memory_bytes")}
        return WarmStanding(state, printable(str(value["why"])), **numbers, last=printable(str(value["last"])))
    except (OSError, ValueError, KeyError, TypeError):
        return None
