"""`python -m cuda_ext`: which kernels run here, and why, in one line.

Exit code 0; 1 if the requested tier is not available or a check fails; 2 for an unknown option.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .build import build
from .compilers import find_compiler
from .registers import read_kernels, summary, table
from .registry import register, without_kernel
from .sources import KINDS, BuildError
from .tiers import KernelsUnavailable, first_line, load


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="Which kernels run here, and why, in one line.")
    parser.add_argument("--kernels", metavar="cuda|cpu|torch", help="ask for these, as SENTINEL_KERNELS does")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--build", action="store_true", help="compile now what would be compiled at first use")
    action.add_argument("--build-all", action="store_true", help="compile with every compiler that is here, for other GPUs too")
    action.add_argument("--check", action="store_true", help="compile the CUDA kernels, without a GPU too, and say what they use")
    parser.add_argument("--verbose", action="store_true", help="all that compilers say; with --check each kernel")
    args = parser.parse_args(argv)
    if args.kernels and (args.check or args.build_all):
        about = "--check is about the CUDA kernels" if args.check else "--build-all is about all kernels"
        parser.error(f"{about}: --kernels says nothing to it")
    try:
        if args.check:
            return check(args.verbose)
        if args.build_all:
            return build_all(args.verbose)
        tier = load(args.kernels, may_build=False)
        if args.build:
            if tier.name == "torch":
                raise BuildError(f"nothing can be built: {tier.why}")
            if not tier.libraries:
                build(tier.name, verbose=args.verbose, again=True)
                tier = load(args.kernels)
        print(tier)
    except ValueError as error:
        parser.error(str(error))
    except (BuildError, KernelsUnavailable) as error:
        print(f"cuda_ext: {error}", file=sys.stderr)
        return 1
    return 0


def build_all(verbose: bool) -> int:
    """Prints a line for each kind. A compiler that is not installed is no failure; a failed compile is one."""
    failed = 0
    for kind in KINDS:
        try:
            find_compiler(kind)
        except BuildError as error:
            print(f"{kind}: not compiled: {error}")
            continue
        try:
            print(f"{kind}: {build(kind, verbose=verbose, again=True).path}")
        except BuildError as error:
            print(f"cuda_ext: {kind}: {error}", file=sys.stderr)
            failed = 1
    return failed


def check(verbose: bool) -> int:
    """Compiles, links, loads and registers the CUDA kernels; fails if one spills. Needs no GPU."""
    built = build("cuda", verbose=verbose, again=True)
    kernels = read_kernels(built.log)
    print(table(kernels) if verbose else summary(kernels))
    try:
        register(built.path)
    except OSError as error:
        raise BuildError(f"{built.path} cannot be loaded: {first_line(error)}; delete it to have it built again") from error
    missing, spilling = without_kernel("cuda"), [kernel for kernel in kernels if kernel.spilled_bytes]
    absent = ", ".join(missing) or "none"
    print(f"\n{built.path}: {len(kernels)} kernels, {len(spilling)} spill; ops without a CUDA kernel: {absent}")
    return 1 if missing or spilling or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
