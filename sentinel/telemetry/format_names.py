"""The formats of logs by name, as a person writes them after `--format` and in a profile."""

from __future__ import annotations

from typing import Literal, get_args

AskedFormat = Literal[
    "auto", "metrics", "csv", "megatron", "tensorboard", "wandb", "mlflow", "trainer-state", "json", "progress", "text"
]
"""auto: by the content."""
FORMATS: tuple[str, ...] = get_args(AskedFormat)[1:]
