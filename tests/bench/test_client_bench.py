"""What an attached loop pays: each call of `sentinel.client.torch` alone, supervised and not, and the digest of a large save
behind training. Nothing about time is asserted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sentinel.client import dumps, write_atomically
from sentinel.client.torch import Run, attach

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]
ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CALLS = 3000
STEPS = 400


def supervise(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(run_dir / "attempts/0001/spec.json", dumps({"v": 1, "attempt": 1, "overrides": {"id": "ov-1"}}).encode())
    monkeypatch.setenv("SENTINEL_RUN_DIR", str(run_dir))
    monkeypatch.setenv("SENTINEL_ATTEMPT", "1")


def made(width: int, device: str, **words: Any) -> tuple[Run, Any, Any]:
    model = torch.nn.Linear(width, width, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return attach(model, optimizer, total_steps=10**9, clip=1.0, **words), model, optimizer


def times(call: Callable[[], Any], wait: Callable[[], Any] = lambda: None) -> list[float]:
    """Microseconds of each call, rising. `wait` is not counted: a real step lies between two calls."""
    found = []
    for _ in range(CALLS):
        began_s = time.perf_counter()
        call()
        found.append((time.perf_counter() - began_s) * 1e6)
        wait()
    return sorted(found)


def told(what: str, found: list[float]) -> None:
    print(f"{what}: median {found[len(found) // 2]:.2f} us, p99 {found[len(found) * 99 // 100]:.1f} us")


@pytest.mark.parametrize("kind", ["unsupervised", "supervised"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_GPU)])
def test_a_step_call_by_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, device: str) -> None:
    if kind == "supervised":
        supervise(tmp_path, monkeypatch)
    run, _, _ = made(8, device)
    steps = run.steps(run.restore(print))
    next(steps)
    loss, norm = torch.ones((), device=device), torch.ones((), device=device)

    def block() -> None:
        with run.settings():
            pass

    block()
    run.log(loss=1.0)  # the receipt
    drain = run._reporter.drain if run._reporter is not None else lambda timeout_s: None
    told(f"{kind}, {device}: log of two floats", times(lambda: run.log(loss=1.0, grad_norm=2.0), lambda: drain(1.0)))
    told(f"{kind}, {device}: log of two tensors", times(lambda: run.log(loss=loss, grad_norm=norm), lambda: drain(1.0)))
    told(f"{kind}, {device}: settings", times(block))
    told(f"{kind}, {device}: next of steps", times(lambda: next(steps)))
    told(f"{kind}, {device}: next_samples(512)", times(lambda: run.next_samples(512), run._sampler.begin_step))
    run._sampler.size = 1_000_000
    told(f"{kind}, {device}: next_samples(64) of a data set", times(lambda: run.next_samples(64), run._sampler.begin_step))


def test_a_save_behind_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small model, and 256 MB that it saves: the steps while that is read back for its digest, beside steps without a save."""
    supervise(tmp_path, monkeypatch)
    torch.set_num_threads(1)
    run, model, optimizer = made(256, "cpu", save_every=10**9)
    batch, ballast = torch.ones(64, 256), torch.ones(1 << 26)
    run.restore(print)
    seconds: dict[str, list[float]] = {"quiet": [], "behind": []}
    wrote_s: list[float] = []

    def save(place: str) -> None:
        began_s = time.perf_counter()
        torch.save([model.state_dict(), optimizer.state_dict(), ballast], f"{place}/state.pt")
        wrote_s.append(time.perf_counter() - began_s)

    blocked_s = 0.0
    for step in run.steps(1):
        began_s = time.perf_counter()
        model(batch).square().mean().backward()
        with run.settings():
            optimizer.step()
        optimizer.zero_grad()
        run.log(loss=1.0)
        committer = run._checkpoints._committer
        busy = committer is not None and committer._thread is not None and committer._thread.is_alive()
        seconds["behind" if busy else "quiet"].append(time.perf_counter() - began_s)
        if step == STEPS:
            began_s = time.perf_counter()
            run.save(step, save, now=True)
            blocked_s = time.perf_counter() - began_s
        if step > STEPS and not busy:
            break
    told_ms = ", ".join(f"{name} {sorted(found)[len(found) // 2] * 1e3:.2f} ms ({len(found)})" for name, found in seconds.items())
    print(f"save: blocked {blocked_s:.2f} s, of which the program's own torch.save {wrote_s[0]:.2f} s; steps, median: {told_ms}")
