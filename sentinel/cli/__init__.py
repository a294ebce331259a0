"""The command line. It parses and prints, one module for each group of commands; `root` puts them together."""


def main() -> None:
    """Entry point of the command `sentinel`."""
    from sentinel.cli.root import main as run

    run()
