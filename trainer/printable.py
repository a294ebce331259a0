"""Text of data and models on a terminal: nothing of it acts there as a command."""

from __future__ import annotations


def printable(text: bytes) -> str:
    """Lines stay lines; every other character that is not plain ASCII print becomes an escape."""
    shown = []
    for character in text.decode("utf-8", errors="backslashreplace"):
        if character == "\n" or (character.isprintable() and character.isascii()):
            shown.append(character)
        else:
            shown.append(character.encode("unicode_escape").decode("ascii"))
    return "".join(shown)
