"""`sentinel node-check`: its own check is another program in its place; the verdict of others comes by exit code and one line."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.errors import UsageError
from sentinel.launcher.nvrx_health import PROTO, ask_service

RUN = CliRunner()


def invoke(*words: str) -> Any:
    return RUN.invoke(app, ["node-check", *words])


def test_its_own_check_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, words: started.append([program, *words]))
    assert invoke("--gpus", "8", "--memory", "64", "--pairs").exit_code == 0
    own = [sys.executable, sys.executable, "-m", "sentinel.client.torch.node_check"]
    assert started == [[*own, "--device", "auto", "--memory", "64", "--pairs", "--gpus", "8"]]


def test_without_torch_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(os, "execv", lambda *words: pytest.fail(f"it was started all the same: {words}"))
    found = invoke()
    assert (found.exit_code, found.stdout, "torch is not installed" in found.stderr) == (2, "", True)


@pytest.mark.parametrize(
    ("script", "code", "out", "err"),
    [
        ("exit 0", 0, "", "no health check failed"),
        ("echo 'ERROR:  nhc:  Health check failed:  check_x:  y' >&2; exit 1", 1, "check_x: y", ""),
        ("exit 9", 2, "", "it left with 9"),
    ],
)
def test_the_verdict_of_another_program(script: str, code: int, out: str, err: str) -> None:
    found = invoke("--reads", "nhc", "--", "sh", "-c", script)
    assert (found.exit_code, out in found.stdout, err in found.stderr) == (code, True, True)
    assert bool(found.stdout) == (code == 1), "only a sick node has a reason on standard output"


def test_a_program_that_is_missing_says_nothing_of_the_node() -> None:
    found = invoke("--reads", "dcgm", "--", "no-such-dcgmi")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "no-such-dcgmi cannot be run" in found.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--reads", "nagios"), "no such format; use one of dcgm, nhc, primus, nvrx"),
        (("--reads", "primus"), "needs the program"),
        (("--reads", "nvrx", "--", "true"), "asks a socket and runs nothing"),
        (("--device", "tpu"), "no such device"),
        (("--", "true"), "with --reads only"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_remedy(words: tuple[str, ...], message: str) -> None:
    found = invoke(*words)
    assert isinstance(found.exception, UsageError)
    assert message in str(found.exception)


# The node health service of nvidia-resiliency-ext.


class Channel:
    def __init__(self, target: str) -> None:
        self.target = target

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def install(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[Any]:
    """Stand-ins for gRPC and the package's own messages; what was asked."""
    asked: list[Any] = []

    def run(request: Any, timeout: float) -> Any:
        asked.append((request.args, timeout))
        if isinstance(answer, Exception):
            raise answer
        return answer

    parts = {
        "grpc": {"insecure_channel": Channel},
        f"{PROTO}.nvhcd_pb2": {"HealthCheckRequest": lambda args: SimpleNamespace(args=args)},
        f"{PROTO}.nvhcd_pb2_grpc": {"HealthCheckServiceStub": lambda channel: SimpleNamespace(RunHealthCheck=run)},
    }
    for name, members in parts.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    packages = PROTO.split(".")
    for end in range(1, len(packages) + 1):
        monkeypatch.setitem(sys.modules, ".".join(packages[:end]), ModuleType(".".join(packages[:end])))
    return asked


def test_the_service_is_asked_as_its_own_client_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    socket = tmp_path / "nvhcd.sock"
    socket.touch()
    output = '{"fail_count": 1, "failed_checks": ["ib_link"]}'
    asked = install(monkeypatch, SimpleNamespace(success=True, exit_code=0, output=output, error=""))
    found = invoke("--reads", "nvrx", "--socket", str(socket), "--timeout", "7")
    assert (found.exit_code, found.stdout) == (1, "1 health checks failed: ib_link\n")
    assert asked == [(["--no-slurm"], 7.0)]


def test_a_service_that_did_not_succeed_is_no_healthy_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    socket = tmp_path / "nvhcd.sock"
    socket.touch()
    install(monkeypatch, SimpleNamespace(success=False, exit_code=0, output='{"fail_count": 0}', error="killed"))
    assert ask_service(str(socket), 1.0) == (1, '{"fail_count": 0}', "killed")
    assert invoke("--reads", "nvrx", "--socket", str(socket)).exit_code == 2


def test_a_service_that_cannot_be_reached_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    socket = tmp_path / "nvhcd.sock"
    assert "there is no socket" in ask_service(str(socket), 1.0)[2]
    socket.touch()
    monkeypatch.setitem(sys.modules, "grpc", None)
    assert "is not installed" in ask_service(str(socket), 1.0)[2]
    monkeypatch.delitem(sys.modules, "grpc")
    install(monkeypatch, OSError("UNAVAILABLE: connection refused"))
    assert ask_service(str(socket), 1.0) == (None, "", f"{socket} did not answer: UNAVAILABLE: connection refused")
