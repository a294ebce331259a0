"""A trainer's word that its imports may be made ahead: `sentinel run --warm` then has the next attempt's ranks waiting.

    from sentinel.client import warm
    warm.offer("torch", "mytrainer.train")      # once, anywhere, while it trains

What is offered is imported in a process that does not know yet which attempt it is for. Offer no module whose import touches a
device, starts a thread, writes a file, or reads the rank, the arguments or SENTINEL_*. The program itself is read from disk and
run at its turn, as ever. Standard library only; nothing happens where nobody supervises.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.run_layout import warm_offer_path
from sentinel.client.strict_json import dumps

MODULES_MAX = 256


def offer(*modules: str) -> None:
    """Say it, as rank 0; other ranks may call it and say nothing. A disk that takes no file makes the next launch a cold one.

    Raises:
        ValueError: a word is no module's name.
    """
    for name in modules:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"warm.offer: {name!r} is no module's name; write it as in `import`, such as mytrainer.train")
    where, attempt = os.environ.get("SENTINEL_RUN_DIR"), os.environ.get("SENTINEL_ATTEMPT", "")
    if not where or not attempt.isdecimal() or os.environ.get("RANK", "0") != "0":
        return
    value = {"v": 1, "modules": list(modules)[:MODULES_MAX]}
    with contextlib.suppress(OSError):
        write_atomically(warm_offer_path(Path(where), int(attempt)), dumps(value).encode() + b"\n", durable=False)
