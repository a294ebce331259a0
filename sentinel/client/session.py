"""A trainer's side of the run directory: one `Session` per rank and attempt.

    session = Session.from_environment()          # None when nobody supervises this run
    session.heartbeat(0, "init")
    session.start(resume_step=0, resume_digest=None, world_size=8, params=124_439_808, tokens_per_step=524_288,
                  effective={"lr": 6e-4})
    session.step(1, loss=11.0, lr=6e-4, samples=[[0, 512]])
    session.end(20_000, "finished")
    session.record_exit(0)

Every rank makes its own. metrics.jsonl belongs to rank 0: on other ranks `start`, `step`, `event` and `end` do nothing, so that
the same code can run on all of them. Nothing here waits for another process and nothing raises for a file that is missing.
Beats and stream may each have a thread of its own; two threads must not write the stream at once.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import never_make
from sentinel.client.heartbeat_file import HeartbeatFile
from sentinel.client.logged import whole_number
from sentinel.client.machine import read_boot_id, read_host
from sentinel.client.masked_records import describe_error, mask_event
from sentinel.client.output import redirect_output
from sentinel.client.overrides import Overrides, OverridesError
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import LEASE_NAME, OVERRIDES_NAME, attempt_folder, rank_file, spec_path, stream_path
from sentinel.client.spare_place import SparePlace, write_record
from sentinel.client.spec import Spec, SpecError, read_spec
from sentinel.client.stacks import OwnStacks
from sentinel.client.stream import END_REASONS, Stream
from sentinel.client.strict_json import dumps, loads

PHASES = ("init", "compile", "data", "forward", "backward", "optimizer", "eval", "checkpoint", "idle")
HEARTBEAT_GAP_S = 0.2  # within one phase at most five a second; a change of phase is always written


class Session:
    """The streams and records one rank of one attempt writes, and the instructions it reads."""

    def __init__(self, run_dir: Path, spec: Spec, rank: int = 0) -> None:
        self.run_dir = run_dir
        self.spec = spec
        self.rank = rank
        self.attempt = spec.attempt
        self.attempt_dir = attempt_folder(run_dir, spec.attempt)
        self.heartbeat_path = rank_file(self.attempt_dir / "heartbeats", rank)
        self._beats = HeartbeatFile(self.heartbeat_path)
        self.exit_path = rank_file(self.attempt_dir / "exits", rank)
        self._spare = SparePlace(run_dir, spec.attempt)  # named now: later the run directory may not be readable
        self.metrics_path = stream_path(run_dir, spec.attempt)
        self.stream = Stream(self.metrics_path, spec.attempt)
        self._host, self._boot_id = read_host(), read_boot_id()
        self.last_step = 0  # of the latest heartbeat
        self._last_beat: tuple[str, float] = ("", 0.0)
        self._stacks = OwnStacks(run_dir, spec.attempt, rank, lambda: self._last_beat)
        self._loads_since: tuple[int, float] | None = None  # the step whose data phase this rank is in, and since when
        self._busy_is_given = False
        self._busy: tuple[int, float] | None = None  # a step done, and the seconds of own work in it
        self._seen_file: tuple[int, int, int] | None = None
        self._seen_id = spec.overrides.id

    @classmethod
    def from_environment(cls, rank: int | None = None, environ: Mapping[str, str] | None = None) -> Session | None:
        """The session named by SENTINEL_RUN_DIR and SENTINEL_ATTEMPT; None if neither is set. Raises SpecError.

        `rank` defaults to RANK, as torchrun and most launchers set it, or 0.
        """
        environ = os.environ if environ is None else environ
        where, attempt = environ.get("SENTINEL_RUN_DIR"), environ.get("SENTINEL_ATTEMPT")
        if where is None and attempt is None:
            return None
        if not where or not attempt or not attempt.isdecimal():
            raise SpecError(
                f"environment: SENTINEL_RUN_DIR={where!r}, SENTINEL_ATTEMPT={attempt!r}: "
                "set both, a directory and a whole number, or neither"
            )
        if rank is None:
            rank = _rank_of(environ)
        run_dir = Path(where)
        path = spec_path(run_dir, int(attempt))
        spec = read_spec(path)
        if spec.attempt != int(attempt):
            raise SpecError(f"{path}: attempt: {spec.attempt} is not the {attempt} of SENTINEL_ATTEMPT")
        never_make(run_dir)
        return cls(run_dir, spec, rank)

    # -- liveness ------------------------------------------------------------------------------------------------------

    def heartbeat(self, step: int, phase: str) -> None:
        """Say what this rank is doing. Call it from the main thread, as often as convenient: it limits itself.

        A beat that cannot be written is left out: a disk that is full for a second must not end a run. Beats tell how long
        this rank took for its data in the newest step, unless `busy` tells more.
        """
        now_s = time.monotonic()
        self.last_step = step = whole_number(step)
        self._watch_loading(step, phase, now_s)
        if self._last_beat[0] == phase and now_s - self._last_beat[1] < HEARTBEAT_GAP_S:
            return
        assert phase in PHASES, f"{phase!r} is no phase; use one of {PHASES}"
        if not self._last_beat[0]:
            self._stacks.offer()
        self._last_beat = (phase, now_s)
        beat: dict[str, Any] = {"step": step, "phase": phase, "time_s": time.time(), "pid": os.getpid(), "host": self._host}
        if self._boot_id:
            beat["boot_id"] = self._boot_id
        beat |= self._stacks.fields(phase)
        if self._busy is not None:
            beat |= {"busy_step": self._busy[0], "busy_s": round(self._busy[1], 6)}
        with contextlib.suppress(OSError):
            self._beats.write(beat)

    def busy(self, step: int, seconds: float) -> None:
        """What this rank did on its own in a step, before it met the others: loading, and whatever else it can measure
        (forward and backward where the first collective comes after them). Peers are compared by it, so all ranks
        must measure alike. The next heartbeat carries it, in place of the time from `data` to the phase after it."""
        self._busy, self._busy_is_given = (step, seconds), True

    def _watch_loading(self, step: int, phase: str, now_s: float) -> None:
        since, self._loads_since = self._loads_since, None
        if phase == "data":
            self._loads_since = since if since is not None and since[0] == step else (step, now_s)
        elif since is not None and since[0] == step and not self._busy_is_given:
            self._busy = (step, now_s - since[1])

    # -- the stream ----------------------------------------------------------------------------------------------------

    def start(
        self,
        *,
        resume_step: int,
        resume_digest: str | None,
        world_size: int,
        params: int,
        tokens_per_step: int | None,
        effective: Mapping[str, Any],
        overrides: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Write the receipt. `effective` must be read back from the live optimizer and sampler after the checkpoint was loaded;
        it alone proves anything. `overrides` repeats what was asked, and is filled in where it is not given."""
        if self.rank != 0:
            return
        self.stream.start(
            resume_step=resume_step,
            resume_digest=resume_digest,
            world_size=world_size,
            params=params,
            tokens_per_step=tokens_per_step,
            effective=effective,
            overrides=self.spec.overrides.in_force() if overrides is None else overrides,
            **more,
        )

    def step(self, /, step: int, *, samples: Sequence[Sequence[int]] | None = None, **metrics: Any) -> None:
        """One optimizer step is done. Names of metrics: PROTOCOL.md; a name with a slash goes in as **{"grad_norm/h.0": 1.0}."""
        if self.rank == 0:
            self.stream.step(step, samples=samples, **metrics)

    def event(self, /, event: str, *, step: int | None = None, **fields: Any) -> None:
        """Something worth a line happened: checkpoint_committed, override_applied, …"""
        if self.rank == 0:
            self.stream.event(event, step=step, **mask_event(fields, self.spec))

    def end(self, step: int, reason: str) -> None:
        """The last line of the stream; it is synced to disk. `reason`: finished, stopped_on_request or failed."""
        assert reason in END_REASONS, f"{reason!r} is no reason to end; use one of {END_REASONS}"
        if self.rank == 0:
            self.stream.end(step, reason)

    def abandon(self) -> None:
        """End the stream as failed, if it was ever started: for the way out of an error."""
        if self.stream.is_begun:
            self.end(self.last_step, "failed")

    # -- instructions --------------------------------------------------------------------------------------------------

    def poll_overrides(self) -> Overrides | None:
        """A live change for this attempt that has not been returned yet, else None. Costs one stat when nothing changed.

        One naming another attempt is ignored. Raises OverridesError, once per version of the file, for one that cannot be read.
        """
        path = self.run_dir / OVERRIDES_NAME
        try:
            status = path.stat()
        except OSError:
            return None
        version = (status.st_mtime_ns, status.st_ino, status.st_size)
        if version == self._seen_file:
            return None
        self._seen_file = version
        try:
            raw = loads(read_regular(path))
        except (OSError, ValueError) as error:
            raise OverridesError(f"{path}: cannot be read ({error}); write it aside and rename it") from None
        if isinstance(raw, dict) and raw.get("attempt") != self.attempt:
            return None
        overrides = Overrides.from_json(raw, str(path))
        if overrides.id is None:
            raise OverridesError(f"{path}: id: is missing; the answer names it")
        if overrides.id == self._seen_id:
            return None
        self._seen_id = overrides.id
        return overrides

    def may_commit(self) -> bool:
        """False once the run's lease names a later attempt, or another launch of this number (the run directory was put back to
        an earlier day, and went on from there): this one is a leftover and must not commit a checkpoint."""
        try:
            lease = loads(read_regular(self.run_dir / LEASE_NAME))
        except (OSError, ValueError):
            return True  # no lease, or one that cannot be read, proves nothing about a successor
        holder, launch = (lease.get("attempt"), lease.get("launch")) if isinstance(lease, dict) else (None, None)
        if holder == self.attempt and isinstance(launch, str) and self.spec.launch is not None:
            return launch == self.spec.launch
        return not isinstance(holder, int) or holder <= self.attempt

    # -- on the way out ------------------------------------------------------------------------------------------------

    def redirect_output(self) -> None:
        """Send stdout and stderr, native writes and crash dumps included, to attempts/N/logs/rank-NNNNN.{out,err}. Where a disk
        refuses these files, both stay where they are. Raises OSError for another reason."""
        redirect_output(self.attempt_dir / "logs", self.rank)

    def record_exit(self, code: int, error: BaseException | str | None = None, step: int | None = None, **more: Any) -> None:
        """Write down why this rank leaves; the supervisor trusts this over any launcher's exit code. Durable.

        Where the run directory cannot be written, the record goes to a second place (`spare_place.py`). Raises no OSError: a
        record that nothing takes is told on stderr, and the exit code says the rest.
        """
        record: dict[str, Any] = {"rank": self.rank, "code": code} | describe_error(error, self.spec)
        record |= {"step": self.last_step if step is None else whole_number(step), "time_s": time.time()}
        record |= {"pid": os.getpid(), "host": self._host}
        write_record(self.exit_path, dumps(record | more).encode(), self._spare)


def _rank_of(environ: Mapping[str, str]) -> int:
    text = environ.get("RANK", "0")
    if not text.isdecimal():
        raise SpecError(f"environment: RANK={text!r} is not a whole number")
    return int(text)
