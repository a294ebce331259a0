"""The command line: parse and print, nothing else. One module a verb or a group of verbs; `root` puts them together."""


def main() -> None:
    """Entry point of the command `sentinel`."""
    from sentinel.cli.root import main as run

    run()
