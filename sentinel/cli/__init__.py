"""The command line. It parses and prints, one module for each group of commands; `root` puts them together."""

import gc
import sys

GARBAGE_LOOK = 200_000  # new objects between two looks for garbage; looking through what is imported took a tenth of a start


def main() -> None:
    """Entry point of the command `sentinel`."""
    gc.set_threshold(GARBAGE_LOOK, *gc.get_threshold()[1:])
    try:
        if sys.argv[1:2] == ["run"]:
            from sentinel.signals import hold_back

            hold_back()  # the imports below take a while

        from sentinel.cli.root import main as run
    except KeyboardInterrupt:
        sys.exit(130)

    try:
        run()
    finally:
        gc.freeze()  # else the interpreter looks through everything once more before it leaves: 24 ms of `--help`
