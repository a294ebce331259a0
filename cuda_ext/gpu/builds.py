"""`python -m cuda_ext.gpu.builds`: the CUDA kernels, and beside them the same without statistics, which the bench compares with.

Side by side, because a borrowed machine has many processors and few minutes (43 and 41 s one after the other on 16 of them,
2026-11-26). The exit code tells of the first: without the second the bench goes on, and says what it could not measure.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from ..build import build
from ..sources import BuildError
from ..tiers import KernelsUnavailable, load


def main() -> int:
    with ThreadPoolExecutor(1) as beside:
        bare = beside.submit(build, "cuda", bare=True, again=True)
        try:
            build("cuda", again=True)
            print(load("cuda"), flush=True)
            code = 0
        except (BuildError, KernelsUnavailable) as error:
            print(f"cuda_ext.gpu.builds: {error}", file=sys.stderr)
            code = 1
        try:
            print(f"without statistics: {bare.result().path}")
        except BuildError as error:
            print(f"without statistics: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
