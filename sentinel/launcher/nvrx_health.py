"""One question to the node health service of nvidia-resiliency-ext, over its socket. Its own client treats a service that cannot
be reached as healthy; here that is unknown.

The messages are those of the installed package (`shared_utils/proto/nvhcd.proto`): `RunHealthCheck(args) -> success, exit_code,
output, error`.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

PROTO = "nvidia_resiliency_ext.shared_utils.proto"
ARGS = ("--no-slurm",)  # as its own client asks


def ask_service(socket: str, timeout_s: float) -> tuple[int | None, str, str]:
    """Exit code, None without an answer; output; what went wrong. Never raises."""
    if not os.path.exists(socket):
        return None, "", f"there is no socket {socket}"
    try:
        grpc = importlib.import_module("grpc")
        messages = importlib.import_module(f"{PROTO}.nvhcd_pb2")
        sys.modules.setdefault("nvhcd_pb2", messages)  # the generated stub imports it by this name
        stubs = importlib.import_module(f"{PROTO}.nvhcd_pb2_grpc")
    except ImportError as error:
        return None, "", f"nvidia-resiliency-ext with its gRPC client is not installed: {error}"
    try:
        return _ask(grpc, messages, stubs, f"unix://{os.path.abspath(socket)}", timeout_s)
    except Exception as error:  # noqa: BLE001 - of a foreign client: grpc.RpcError and whatever its versions raise
        return None, "", f"{socket} did not answer: {' '.join(str(error).split())[:300]}"


def _ask(grpc: Any, messages: Any, stubs: Any, target: str, timeout_s: float) -> tuple[int | None, str, str]:
    with grpc.insecure_channel(target) as channel:
        request = messages.HealthCheckRequest(args=list(ARGS))
        answer = stubs.HealthCheckServiceStub(channel).RunHealthCheck(request, timeout=timeout_s)
    code = int(answer.exit_code)
    return (code if answer.success or code else 1), str(answer.output), str(answer.error)
