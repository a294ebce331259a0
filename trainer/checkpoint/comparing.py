"""What was loaded against what its manifest says was saved."""

from __future__ import annotations

import math

from sentinel.client import as_float

from ..exits import DataError
from .verifying import Verified

SAME = 1e-6  # relative: a number computed again from what was loaded


def compare_numbers(found: Verified, loaded: dict[str, float]) -> None:
    """Raises DataError naming the first number that differs from the manifest's, or how many elements are not finite.

    Both are sums of the same float32 values in float64, over another number of ranks perhaps: the order of the sum moves them by
    parts in 10**10 at most, and SAME is far above that and far below anything that matters. A manifest without numbers is
    believed by its digests alone.
    """
    if loaded["nonfinite"]:
        raise DataError(f"{found.path}: {loaded['nonfinite']:.0f} elements of what was loaded are not finite")
    saved = found.manifest.get("metrics")
    for name, actual in loaded.items() if isinstance(saved, dict) else ():
        try:
            expected = as_float(saved.get(name, actual))
        except ValueError as error:
            raise DataError(f"{found.path}: manifest.json: metrics.{name}: {error}") from None
        if not math.isclose(actual, expected, rel_tol=SAME):
            raise DataError(f"{found.path}: {name} of what was loaded is {actual:.9g}, its manifest says {expected:.9g}")
