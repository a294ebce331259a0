"""`python -m cuda_ext`: a line that says which kernels run and why, and a sentence for what a person gets wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cuda_ext import __main__ as command
from cuda_ext.build import Built
from cuda_ext.registers import Kernel, read_kernels, shortened, summary, table
from cuda_ext.sources import BuildError
from cuda_ext.tiers import ENVIRONMENT, Tier

ROOT = Path(__file__).resolve().parents[2]
LOG = """\
nvcc -O3 -c /csrc/cuda/layer_norm.cu -o norm.o
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN8sentinel4normIfEEvPKT_l' for 'sm_80'
ptxas info    : Function properties for _ZN8sentinel4normIfEEvPKT_l
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 128 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 12.3 ms
ptxas info    : Compiling entry function '_ZN8sentinel4normIfEEvPKT_l' for 'sm_90'
ptxas info    : Function properties for _ZN8sentinel4normIfEEvPKT_l
    24 bytes stack frame, 20 bytes spill stores, 36 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
"""


def run_command(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    outside = {key: value for key, value in os.environ.items() if key != ENVIRONMENT}
    command_line = [sys.executable, "-m", "cuda_ext", *argv]
    return subprocess.run(command_line, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False, env=outside | environ)


def test_one_line_says_which_kernels_run_and_why() -> None:
    done = run_command(**{ENVIRONMENT: "torch"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "torch: it was asked for\n", "")


def test_what_cannot_be_had_ends_with_1_and_a_sentence() -> None:
    done = run_command("--kernels", "cuda", CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("cuda_ext: the cuda kernels were asked for and cannot be had: no GPU is visible to torch")


@pytest.mark.parametrize(
    ("argv", "output"),
    [
        (["--kernels", "gpu"], "kernels='gpu': must be one of cuda, cpu, torch"),
        (["--bild"], "unrecognized arguments: --bild"),
        (["--check", "--build"], "not allowed with argument"),
        (["--check", "--kernels", "cpu"], "--check is about the CUDA kernels"),
        (["--build-all", "--kernels", "cpu"], "--build-all is about all kernels"),
    ],
    ids=" ".join,
)
def test_a_wrong_word_ends_with_2_and_a_sentence(argv: list[str], output: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.main(argv)
    assert left.value.code == 2
    assert output in capsys.readouterr().err


def test_build_builds_what_is_missing_once_and_tells_the_tier(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built: list[str] = []
    monkeypatch.setattr(command, "build", lambda kind, **_: built.append(kind))
    monkeypatch.setattr(command, "load", lambda *_, **__: Tier("cpu", "because", (Path("x.so"),) if built else ()))
    assert command.main(["--build"]) == 0
    assert command.main(["--build"]) == 0
    assert built == ["cpu"]
    assert capsys.readouterr().out == "cpu: because\ncpu: because\n"


def test_build_where_nothing_can_be_built_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "load", lambda *_, **__: Tier("torch", "no C++ compiler"))
    assert command.main(["--build"]) == 1
    assert capsys.readouterr().err == "cuda_ext: nothing can be built: no C++ compiler\n"


@pytest.mark.parametrize("fails", [False, True])
def test_build_all_says_a_line_for_each_kind_and_an_absent_compiler_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fails: bool
) -> None:
    def find(kind: str) -> None:
        if kind == "cuda":
            raise BuildError("no nvcc on PATH")

    def build(kind: str, **_: object) -> Built:
        if fails:
            raise BuildError("c++ of op.cpp failed with 1")
        return Built(Path(f"/cache/{kind}.so"), "")

    monkeypatch.setattr(command, "find_compiler", find)
    monkeypatch.setattr(command, "build", build)
    assert command.main(["--build-all"]) == (1 if fails else 0)
    output = capsys.readouterr()
    assert output.out == "cuda: not compiled: no nvcc on PATH\n" + ("" if fails else "cpu: /cache/cpu.so\n")
    assert output.err == ("cuda_ext: cpu: c++ of op.cpp failed with 1\n" if fails else "")


@pytest.mark.parametrize(
    ("missing", "log"), [([], LOG), (["op"], LOG.replace("20 bytes", "0 bytes").replace("36 bytes", "0 bytes"))]
)
def test_check_ends_with_1_for_a_spill_and_for_an_op_without_a_kernel(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: list[str], log: str
) -> None:
    monkeypatch.setattr(command, "build", lambda *_, **__: Built(Path("x.so"), log))
    monkeypatch.setattr(command, "register", lambda _: None)
    monkeypatch.setattr(command, "without_kernel", lambda _: missing)
    assert command.main(["--check"]) == 1
    output = capsys.readouterr().out
    assert f"2 kernels, {0 if missing else 1} spill; ops without a CUDA kernel: {'op' if missing else 'none'}" in output


def test_check_of_a_file_that_is_no_library_ends_with_1_and_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "x.so").write_text("no library")
    monkeypatch.setattr(command, "build", lambda *_, **__: Built(tmp_path / "x.so", LOG))
    assert command.main(["--check"]) == 1
    assert capsys.readouterr().err.endswith("; delete it to have it built again\n")


def test_check_without_nvcc_ends_with_1_and_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> Built:
        raise BuildError("no nvcc on PATH")

    monkeypatch.setattr(command, "build", refuse)
    assert command.main(["--check"]) == 1
    assert capsys.readouterr().err == "cuda_ext: no nvcc on PATH\n"


def test_the_log_of_ptxas_is_read_kernel_by_kernel() -> None:
    symbol = "_ZN8sentinel4normIfEEvPKT_l"
    assert read_kernels(LOG) == [
        Kernel("layer_norm", symbol, "sm_80", 40, 0, 0, 128),
        Kernel("layer_norm", symbol, "sm_90", 255, 24, 56, 0),
    ]
    head, row = table(read_kernels(LOG)).splitlines()
    assert head.split() == ["kernel", "sm_80", "sm_90"]
    assert row.startswith("layer_norm: ")
    assert "40 registers, 0 spilled, 128 shared" in row
    assert "255 registers, 56 spilled, 24 stack" in row


def test_variants_of_a_kernel_are_told_in_a_row_and_what_spills_by_name() -> None:
    more = LOG.replace("normIfE", "normIdE").replace("Used 40", "Used 56").replace("layer_norm.cu", "wide_norm.cu")
    names = {"_ZN8sentinel4normIfEEvPKT_l": "norm<float>", "_ZN8sentinel4normIdEEvPKT_l": "norm<double>"}
    kernels = [replace(kernel, source="norm", symbol=names[kernel.symbol]) for kernel in read_kernels(LOG + more)]
    row, spilling = summary(kernels).split("\n\n")
    assert row.splitlines()[1].split("  ") == [
        "norm: norm (2)", "40 to 56 registers, 0 spilled, 128 shared", "255 registers, 56 spilled, 24 stack",
    ]  # fmt: skip
    assert [line.split("  ")[0] for line in spilling.splitlines()[2:]] == ["norm: norm<float>", "norm: norm<double>"]


@pytest.mark.parametrize(
    ("whole", "short"),
    [
        ("void sentinel::(anonymous namespace)::norm<float, (int)4, (bool)1>(float const*, long)", "norm<float, 4, 1>"),
        ("sentinel::scale(float*, float const*)", "scale"),
        ("_ZN8sentinel", "_ZN8sentinel"),
    ],
)
def test_a_kernel_is_named_as_a_person_would(whole: str, short: str) -> None:
    assert shortened(whole) == short
