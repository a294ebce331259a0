"""The command line. It parses and prints, one module for each group of commands; `root` puts them together."""

import sys


def main() -> None:
    """Entry point of the command `sentinel`."""
    if sys.argv[1:2] == ["run"]:
        from sentinel.signals import hold_back_warnings

        hold_back_warnings()  # the imports below take a while

    from sentinel.cli.root import main as run

    run()
