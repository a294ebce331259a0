"""An attached loop in the test's own process: a tiny model, a session of its own, and what the stream says afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from sentinel.client import dumps, write_atomically
from sentinel.client.torch import Run, attach

DEADLINE_DRAINS = 500
EVERYTHING = ("samples", "clip", "settings", "save")


class Loop:
    """A whole training program. `uses`: which calls of the client it makes. `before(step)` runs at the beginning of a step.
    `saves_itself`: by functions of its own."""

    def __init__(
        self,
        *,
        lr: Any = 0.1,
        uses: tuple[str, ...] = EVERYTHING,
        saves_itself: bool = True,
        **attached: Any,
    ) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Linear(4, 1)
        groups = [{"params": [self.model.weight], "weight_decay": 0.1}, {"params": [self.model.bias], "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=lr)
        self.uses = uses
        self.rates: list[float] = []  # with which the optimizer stepped
        self.taken: list[list[int]] = []
        self.saved: list[int] = []
        self.saves_itself = saves_itself
        self.run: Run = attach(self.model, self.optimizer, **({"total_steps": 6, "clip": 1.0, "save_every": 3} | attached))

    def save(self, place: str) -> None:
        torch.save([self.model.state_dict(), self.optimizer.state_dict()], f"{place}/state.pt")

    def load(self, place: str) -> None:
        model, optimizer = torch.load(f"{place}/state.pt")
        self.model.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)

    def train(self, before: Callable[[int], Any] = lambda step: None) -> Loop:
        for step in self.run.steps(self.run.restore(self.load) if self.saves_itself else self.run.restore()):
            before(step)
            self.one(step)
        return self

    def one(self, step: int) -> None:
        rows = self.run.next_samples(2) if "samples" in self.uses else [step]
        self.taken.append(rows)
        inputs = torch.tensor([[float(row % 7), 1.0, 2.0, float(step % 3)] for row in rows])
        loss = (self.model(inputs) - 1).square().mean()
        loss.backward()
        norm: Any = self.run.clip_(self.model.parameters()) if "clip" in self.uses else 0.0
        if "settings" in self.uses:
            with self.run.settings():
                self.rates.append(self.optimizer.param_groups[0]["lr"])
                self.optimizer.step()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.run.log(loss=loss, grad_norm=norm)
        if "save" in self.uses and (self.run.save(step, self.save) if self.saves_itself else self.run.save(step)):
            self.saved.append(step)


def supervise(run_dir: Path, monkeypatch: Any, attempt: int = 1, resume: Any = None, **overrides: Any) -> None:
    """What a supervisor does before a launch."""
    asked = {"id": f"ov-{attempt}", "attempt": attempt, **overrides}
    spec = {"v": 1, "attempt": attempt, "resume": resume, "overrides": asked}
    write_atomically(run_dir / "attempts" / f"{attempt:04d}" / "spec.json", dumps(spec).encode())
    monkeypatch.setenv("SENTINEL_RUN_DIR", str(run_dir))
    monkeypatch.setenv("SENTINEL_ATTEMPT", str(attempt))


def ask(run: Run, name: str, **overrides: Any) -> None:
    """A live change, and wait until the run could hear of it."""
    assert run._session is not None
    assert run._reporter is not None
    write_atomically(run._session.run_dir / "overrides.json", dumps({"v": 1, "id": name, "attempt": 1, **overrides}).encode())
    for _ in range(DEADLINE_DRAINS):
        if run._reporter.change is not None:
            return
        run._reporter._looked_s = 0.0  # it looks at most so often
        run._reporter.drain(10.0)
    raise AssertionError(f"{name} was not found")


def lines(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in found if kind is None or line["kind"] == kind]


def stream(run_dir: Path, kind: str | None = None, attempt: int = 1) -> list[dict[str, Any]]:
    return lines(run_dir / "attempts" / f"{attempt:04d}" / "metrics.jsonl", kind)


def events(run_dir: Path, name: str, attempt: int = 1) -> list[dict[str, Any]]:
    return [line for line in stream(run_dir, "event", attempt) if line["event"] == name]


def numbers(loop: Loop) -> Iterator[float]:
    for parameter in loop.model.parameters():
        yield from parameter.flatten().tolist()
