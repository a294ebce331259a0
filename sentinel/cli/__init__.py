"""The command line. It parses and prints, one module for each group of commands; `root` puts them together."""

import sys


def main() -> None:
    """Entry point of the command `sentinel`."""
    try:
        if sys.argv[1:2] == ["run"]:
            from sentinel.signals import hold_back

            hold_back()  # the imports below take a while

        from sentinel.cli.root import main as run
    except KeyboardInterrupt:
        sys.exit(130)

    run()
