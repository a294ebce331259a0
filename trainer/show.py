"""python -m trainer.show RUN_DIR --sample N: the text of a sample, for a person who wants to see why it was skipped.

The data order is that of the newest attempt (or --attempt K): its command line, the checkpoint it resumed from and its overrides.
Nothing of the text reaches the terminal as a command: what cannot be printed is shown as an escape.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sentinel.client import Spec, SpecError, loads, read_spec
from sentinel.client.run_layout import attempts_folder, spec_path

from .data_order import Order, Position
from .exits import PROGRAM, ConfigError, TrainerError
from .printable import printable

MODULES = (PROGRAM, "trainer", "sentinel_trainer")  # an attempt may be older than the installation


def newest_attempt(run_dir: Path) -> int:
    """The highest number with a spec.json. Raises ConfigError."""
    folder = attempts_folder(run_dir)
    found = [int(p.name) for p in folder.glob("*") if p.name.isdecimal() and (p / "spec.json").is_file()]
    if not found:
        raise ConfigError(f"{run_dir}: holds no attempts/N/spec.json; name the directory of a supervised run")
    return max(found)


def show(run_dir: Path, attempt: int, index: int) -> str:
    """What a person reads about a sample. Raises TrainerError and SpecError."""
    spec = read_spec(spec_path(run_dir, attempt))
    module = next((name for name in MODULES if name in spec.argv), None)
    if module is None:
        raise ConfigError(f"attempt {attempt} runs {' '.join(spec.argv)!r}, which is not the bundled trainer (-m {PROGRAM})")
    from .command_line import parse_arguments
    from .data import open_corpus  # torch comes with it
    from .fault_injection.data import PoisonedLoader

    launch = parse_arguments(spec.argv[spec.argv.index(module) + 1 :])
    config = launch.config
    position = _position(run_dir, spec, Position.first(config.data_seed))
    corpus = open_corpus(config)
    loader = PoisonedLoader(corpus, Position.first(config.data_seed), launch.faults, device=None)
    name, offset = corpus.place_of(position.sequence_of(index, corpus.size))
    unit = corpus.text.unit
    poisoned = "; poisoned by a --fault, as it was trained on" if loader.is_poisoned(index, position) else ""
    about = f"sample {index}: {corpus.seq_len + 1} {unit}s from {name}, {unit} {offset}, in the data order of attempt {attempt}"
    return f"{about}{poisoned}\n{printable(loader.text_of(index, position))}"


def _position(run_dir: Path, spec: Spec, first: Position) -> Position:
    """The data orders in force: those of the checkpoint it resumed from, and a new one where the launch asked for it."""
    position = first
    if spec.resume is not None:
        try:
            manifest = loads((run_dir / spec.resume.path / "manifest.json").read_bytes())
            orders = tuple(Order(start, seed) for start, seed in manifest["orders"])
            position = Position(orders, manifest["cursor"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"{spec.resume.path}: its data order cannot be read ({error}); the configured one is shown", file=sys.stderr)
    seed = spec.overrides.data_seed
    return position if seed is None else position.reordered(seed)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {PROGRAM}.show", description="Print the text of one training sample.")
    parser.add_argument("run_dir", type=Path, help="the directory of a supervised run")
    parser.add_argument("--sample", type=int, required=True, metavar="N", help="its index in the data order")
    parser.add_argument("--attempt", type=int, metavar="K", help="in the data order of this attempt; default the newest")
    args = parser.parse_args(arguments)
    try:
        if args.sample < 0:
            raise ConfigError(f"--sample {args.sample}: samples are counted from 0")
        print(
            show(args.run_dir, newest_attempt(args.run_dir) if args.attempt is None else args.attempt, args.sample),
            flush=True,
        )
    except (TrainerError, SpecError) as error:
        print(f"trainer.show: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader (`| head`) has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


if __name__ == "__main__":
    sys.exit(main())
