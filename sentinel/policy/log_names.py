"""The names of entries over logs whose author gave them none: by what they look for, never by where they stand in the list.

    name_of_entry("mlx5_[0-9]+: link down", None)            # mlx5-link-down-c89745
    name_of_entry("ECC error on GPU (?P<gpu>.)", "sick GPU")  # sick-GPU-abb142

The journal knows entries by their names, so a name is the same in every policy that has the entry, whatever stands around it.
"""

from __future__ import annotations

import hashlib
import re

PLACE = re.compile(r"\{\{\s*(\w*)\s*\}\}")
WORDS_CHARS_MAX = 40
DIGEST_CHARS = 6  # of at most a hundred entries with the same words
_SYNTAX = re.compile(r"\\.|\[[^]]*\]|\(\?[^)>:]*[>:)]|\{[^}]*\}")
_WORD = re.compile(r"[A-Za-z0-9]+")


def name_of_entry(pattern: str, class_: str | None) -> str:
    """The words of the class, or of the pattern without its syntax, and a digest of the pattern."""
    text = PLACE.sub(" ", class_) if class_ is not None else _SYNTAX.sub(" ", pattern)
    words = "-".join(_WORD.findall(text))[:WORDS_CHARS_MAX].lstrip("-0123456789").rstrip("-")
    digest = hashlib.sha256(pattern.encode(errors="surrogatepass")).hexdigest()[:DIGEST_CHARS]
    return f"{words or 'log'}-{digest}"
