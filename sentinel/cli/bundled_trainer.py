"""How the bundled trainer is started, for `sentinel demo` and `sentinel drill --real`: its command, and whether it can be.

Nothing of it is imported: trainer and sentinel meet in files only.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from sentinel.errors import UsageError
from sentinel.launcher.sample_text import CHECKED_OUT, INSTALLED
from sentinel.shipped import PACKAGE

BATCH_SIZE = 16  # sequences a step, over all ranks
SEQ_LEN = 128
SLOWED_S = 0.1  # a step, where a reserve of ranks is to be there before a fault strikes
THREADS = 1  # a rank: the model is too small to gain from more, and two cores must be enough


def is_installed() -> bool:
    """Whether the trainer lies beside this `sentinel` under the name that a wheel gives it. Without one this is a checkout."""
    return (PACKAGE.parent / INSTALLED).is_dir()


def trainer_module() -> str:
    return INSTALLED if is_installed() else CHECKED_OUT


def source_paths() -> tuple[str, ...]:
    """What is watched for changes, as `--code` would name it. An installed trainer lies among the libraries, where a program's
    own source is not looked for; that of a checkout is found by its command from there alone."""
    is_led_to = not is_installed() and Path.cwd() == PACKAGE.parent
    return () if is_led_to else (str(PACKAGE.parent / trainer_module()),)


def check_trainer(purpose: str = "the demonstration trains") -> None:
    """Raises UsageError with the remedy where the bundled trainer cannot run, or another would run in its place."""
    missing = [name for name in ("torch", "numpy", trainer_module()) if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{purpose} with the bundled trainer, and {' and '.join(missing)} cannot be found; "
            "install it with: pip install 'training-sentinel[trainer]'"
        )
    if not is_installed():
        _check_working_directory(purpose)


def _check_working_directory(purpose: str) -> None:
    """In a checkout Python may need the working directory to find the trainer, and so looks there first."""
    here = Path.cwd()
    for name in (CHECKED_OUT, PACKAGE.name):
        theirs = here / name
        if theirs.is_dir() and theirs.resolve() != (PACKAGE.parent / name):
            raise UsageError(
                f"{purpose} with the bundled trainer, and in {here} Python would import {theirs} in place of "
                f"{PACKAGE.parent / name}; start it in another folder"
            )


def launch_words(ranks: int) -> list[str]:
    """torchrun with a free port of its own choice, and the trainer under it; the trainer's options follow. torchrun restarts
    nothing: that is our work. An installed one is found without the working directory (-P), where anybody's `sentinel` may lie;
    torchrun starts a module without that option, so it is given the whole command."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    sizes = ["--nproc-per-node", str(ranks), "--max-restarts", "0"]
    if is_installed():
        return [sys.executable, "-P", *torchrun, *sizes, "--no-python", sys.executable, "-P", "-u", "-m", INSTALLED]
    return [sys.executable, *torchrun, *sizes, "-m", CHECKED_OUT]


def size_words(steps: int, checkpoint_every: int, batch: int = BATCH_SIZE) -> list[str]:
    """How long a run is and how often it is saved."""
    sizes = f"schedule.steps={steps}", f"data.batch_size={batch}", f"data.seq_len={SEQ_LEN}"
    return ["--set", *sizes, f"checkpoint.every={checkpoint_every}", f"parallel.threads={THREADS}"]


def precision_words(precision: str) -> list[str]:
    return ["--set", f"numerics.precision={precision}"]


def fault_words(faults: tuple[str, ...]) -> list[str]:
    return [word for fault in faults for word in ("--fault", fault)]


def slowed_words(ranks: int) -> list[str]:
    """Every rank takes SLOWED_S more for each step: in milliseconds a step, it would be over before a reserve is there."""
    return fault_words(tuple(f"slow@step=1:rank={rank},for={SLOWED_S:g}:always" for rank in range(ranks)))
