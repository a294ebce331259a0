"""How the bundled trainer is started, for `sentinel demo` and `sentinel drill --real`: its command, and whether it can be.

Nothing of it is imported: trainer and sentinel meet in files only.
"""

from __future__ import annotations

import importlib.util
import sys

from sentinel.errors import UsageError

BATCH_SIZE = 16  # sequences a step, over all ranks
SEQ_LEN = 128
THREADS = 1  # a rank: the model is too small to gain from more, and two cores must be enough


def check_trainer(purpose: str = "the demonstration trains") -> None:
    """Raises UsageError with the remedy where the bundled trainer cannot run."""
    missing = [name for name in ("torch", "numpy", "trainer") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{purpose} with the bundled trainer, and {' and '.join(missing)} cannot be found; "
            "install it with: pip install 'training-sentinel[trainer]'"
        )


def launch_words(ranks: int) -> list[str]:
    """torchrun with a free port of its own choice, and the trainer under it; the trainer's options follow. torchrun restarts
    nothing: that is our work."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    return [sys.executable, *torchrun, "--nproc-per-node", str(ranks), "--max-restarts", "0", "-m", "trainer"]


def size_words(steps: int, checkpoint_every: int, batch: int = BATCH_SIZE) -> list[str]:
    """How long a run is and how often it is saved."""
    sizes = f"schedule.steps={steps}", f"data.batch_size={batch}", f"data.seq_len={SEQ_LEN}"
    return ["--set", *sizes, f"checkpoint.every={checkpoint_every}", f"parallel.threads={THREADS}"]


def precision_words(precision: str) -> list[str]:
    return ["--set", f"numerics.precision={precision}"]


def fault_words(faults: tuple[str, ...]) -> list[str]:
    return [word for fault in faults for word in ("--fault", fault)]
