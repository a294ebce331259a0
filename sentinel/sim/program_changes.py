"""What a simulated attempt runs, and how a fault changes it between two launches."""

from __future__ import annotations

from dataclasses import replace

from sentinel.model.environment import Environment

PROGRAM = Environment(
    code=(("trainer/model.py", "a" * 64), ("trainer/train.py", "b" * 64)),
    configs=(("config.yaml", "c" * 64),),
    interpreter="CPython 3.12.3 (/usr/bin/python3)",
    distributions=(("numpy", "2.1.0"), ("torch", "2.13.0")),
    variables=(("NCCL_DEBUG", "WARN"),),
)
CHANGES = {
    "code": replace(PROGRAM, code=(("trainer/model.py", "d" * 64), ("trainer/train.py", "b" * 64))),
    "library": replace(PROGRAM, distributions=(("numpy", "2.1.0"), ("torch", "2.14.0"))),
    "unread": replace(PROGRAM, interpreter=None, distributions=None, unknown=("interpreter and distributions: it was not said",)),
}
