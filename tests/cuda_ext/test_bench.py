"""The bench tells what was measured and nothing else: turns, shares, failures, records, and the table of the page."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from cuda_ext.bench import __main__ as command
from cuda_ext.bench import harness, record, table
from cuda_ext.bench.harness import BARE, COPY, OURS, Case, measure

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "BLOCK_S", {"cpu": 1e-5})
    monkeypatch.setattr(harness, "COPY_BYTES", {"cpu": 1 << 12})
    harness.copying.cache_clear()


def a_case(**changes: Any) -> Case:
    x = torch.randn(64)
    fields: dict[str, Any] = {
        "op": "double", "shape": "64", "dtype": "float32", "moved_bytes": 512,
        "ours": lambda _: x + x, "peers": {"torch": lambda: 2 * x},
    }  # fmt: skip
    return Case(**(fields | changes))


def test_every_way_takes_its_turn_and_each_round_begins_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1e-3
        return now

    monkeypatch.setattr(harness.time, "perf_counter", clock)
    monkeypatch.setattr(harness, "copying", lambda _: lambda: turns.append(COPY))
    ours = {"sentinel": OURS, "sentinel_bare": BARE}
    case = a_case(ours=lambda ops: turns.append(ours[ops.name]), peers={"torch": lambda: turns.append("torch")})

    class Bare:
        name = "sentinel_bare"

    results = measure(case, CPU, bare=Bare, rounds=4)
    ways = [COPY, OURS, BARE, "torch"]
    assert turns[-16:] == [*ways, *ways[1:], COPY, *ways[2:], COPY, OURS, "torch", COPY, OURS, BARE]
    assert results.ms == pytest.approx({OURS: 1.0, BARE: 1.0, "torch": 1.0})
    assert results.copy_gb_s == pytest.approx(2 * (1 << 12) / 1e-3 / 1e9)
    assert results.share[OURS] == pytest.approx(512 / (2 << 12))
    assert results.statistics_cost == pytest.approx([0.0, 0.0, 0.0])


def test_each_case_compiles_its_peers_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """After eight shapes of one function torch.compile would run it uncompiled, under the name of what is compiled."""
    began: list[str] = []
    monkeypatch.setitem(sys.modules, "torch._dynamo", sys)
    monkeypatch.setattr(torch.compiler, "reset", lambda: began.append("anew"))
    measure(a_case(peers={"torch.compile": lambda: began.append("called")}), CPU, rounds=4)
    assert began.index("anew") == 0
    assert began.count("anew") == 1


def test_a_way_that_fails_is_told_and_hides_no_other() -> None:
    def broken() -> None:
        raise TypeError("another version\nsecond line")

    results = measure(a_case(peers={"Liger": broken, "torch": lambda: None}), CPU, rounds=4)
    assert results.failed == {"Liger": "TypeError: another version"}
    assert set(results.ms) == {OURS, "torch"}
    assert results.statistics_cost is None
    _, ours, torchs, liger = table.lines(asdict(results)).splitlines()
    assert (ours.split()[0], torchs.split()[0]) == (OURS, "torch")
    assert ours.endswith(" of copy")
    assert ours.index(" ms") == torchs.index(" ms")
    assert liger == "    Liger could not run: TypeError: another version"


def test_without_a_copy_there_is_no_ceiling_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise MemoryError("2 GiB")

    monkeypatch.setattr(harness, "copying", lambda _: broken)
    with pytest.raises(RuntimeError, match="a copy of 0 MiB, the ceiling of all, could not run: MemoryError: 2 GiB"):
        measure(a_case(), CPU, rounds=4)


def test_an_op_whose_cases_fail_hides_no_other_and_what_it_had_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Good:
        @staticmethod
        def cases(_: torch.device, few: bool) -> Any:
            yield a_case()
            raise MemoryError("of the second")

    monkeypatch.setattr(command.importlib, "import_module", {"cuda_ext.bench.good": Good}.__getitem__)
    monkeypatch.setattr(command, "benched", lambda: ["absent", "good"])
    monkeypatch.setattr(command, "load", lambda _: "cpu: because")
    monkeypatch.setattr(command, "without_statistics", lambda _: None)
    file = tmp_path / "2026-11-30-cpu.json"
    assert command.main(["--device", "cpu", "--rounds", "4", "--record", str(file)]) == 1
    results = json.loads(file.read_text())["kernels"]
    assert results["absent"]["failed"].startswith("KeyError")
    assert [case["op"] for case in results["good"]["cases"]] == ["double"]
    assert results["good"]["failed"] == "MemoryError: of the second"
    assert "double, 64 float32" in capsys.readouterr().out


def test_alone_it_has_no_peers_and_few_shapes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And what was measured beside peers, on other shapes or before it was cut short, stays; not what other sources gave."""
    sources = {"sources": "abc"}
    monkeypatch.setattr(command.record, "describe_machine", lambda _: {"device": "CPU", "kind": "cpu", **sources})

    class Two:
        @staticmethod
        def cases(_: torch.device, few: bool) -> Any:
            yield a_case()
            if not few:
                yield a_case(shape="128")

    monkeypatch.setattr(command.importlib, "import_module", {"cuda_ext.bench.two": Two}.__getitem__)
    monkeypatch.setattr(command, "benched", lambda: ["two"])
    monkeypatch.setattr(command, "load", lambda _: "cpu: because")
    monkeypatch.setattr(command, "without_statistics", lambda _: None)
    file = tmp_path / "2026-11-30-cpu.json"
    measured: list[list[tuple[str, list[str]]]] = []
    for more in ([], ["--alone"], ["--alone"]):
        assert command.main(["--device", "cpu", "--rounds", "4", "--record", str(file), *more]) == 0
        cases = json.loads(file.read_text())["kernels"]["two"]["cases"]
        measured.append([(case["shape"], sorted(case["ms"])) for case in cases])
        if len(measured) == 2:  # a kernel was changed in the same sitting, which notes the new sources before it measures
            sources["sources"] = "def"
            record.write(file, dict(sources), {})
    both, alone = [OURS, "torch"], [OURS]
    assert measured == [[("64", both), ("128", both)], [("64", alone), ("128", both)], [("64", alone)]]


def test_the_few_shapes_are_those_that_a_gpu_is_asked_first() -> None:
    from cuda_ext.bench import add_norm, grad_stats, softmax_xent

    assert set(add_norm.FEW) == {768, 1600, 4096, 8192} <= set(add_norm.WIDTHS["cuda"])
    assert set(softmax_xent.FEW) == {50_304, 128_256} <= {columns for _, columns in softmax_xent.ON_GPU}
    assert list(grad_stats.cases_of(torch.device("cuda"), few=True)) == ["GPT-2 124M", "GPT-2 XL 1.6B"]


@pytest.mark.parametrize("argv", [["--op", "no-such-op"], ["--rounds", "3"], ["--device", "tpu"]], ids=" ".join)
def test_a_wrong_word_ends_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.main(argv)
    assert left.value.code == 2
    assert argv[1] in capsys.readouterr().err


def a_record(place: Path, kind: str = "cuda", **part: Any) -> None:
    machine = {"device": "NVIDIA H200", "kind": kind, "torch": "2.11.0+cu130", "compiler": "nvcc release 13.0"}
    record.write(place, machine, part)


def one_measured() -> dict[str, Any]:
    return asdict(
        harness.Measured(
            "add_norm forward", "65536 x 768", "bfloat16", 4_000_000_000, 0.9, 4200.0, {OURS: 1.0, "torch": 2.0, "quack": 1.25},
            {OURS: 0.952, "torch": 0.476, "quack": 0.76}, [0.001, 0.004, 0.01], {"Liger": "TypeError"},
        )
    )  # fmt: skip


def test_a_bench_that_is_ended_has_kept_every_case_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Long:
        @staticmethod
        def cases(_: torch.device, few: bool) -> Any:
            yield a_case()
            raise KeyboardInterrupt

    monkeypatch.setattr(command.importlib, "import_module", {"cuda_ext.bench.long": Long}.__getitem__)
    monkeypatch.setattr(command, "benched", lambda: ["long"])
    monkeypatch.setattr(command, "load", lambda _: "cpu: because")
    monkeypatch.setattr(command, "without_statistics", lambda _: None)
    file = tmp_path / "2026-11-30-cpu.json"
    with pytest.raises(KeyboardInterrupt):
        command.main(["--device", "cpu", "--rounds", "4", "--record", str(file)])
    results = json.loads(file.read_text())["kernels"]["long"]
    assert [case["op"] for case in results["cases"]] == ["double"]
    assert results["failed"] == "it was ended"


def test_a_record_keeps_what_is_not_measured_again(tmp_path: Path) -> None:
    place = record.place_of({"device": "NVIDIA H200", "kind": "cuda"}, tmp_path, "2026-11-30")
    assert place.name == "2026-11-30-nvidia-h200.json"
    a_record(place, stages={"build": {"ok": False}, "tests": {"ok": True}})
    a_record(place, stages={"build": {"ok": True}}, kernels={"add_norm": {"cases": [one_measured()], "failed": None}})
    results = json.loads(place.read_text())
    assert results["stages"] == {"build": {"ok": True}, "tests": {"ok": True}}
    assert (results["date"], results["device"]) == ("2026-11-30", "NVIDIA H200")
    assert not list(tmp_path.glob("*.part"))


def test_a_file_that_is_no_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "2026-11-30-nvidia-h200.json").write_text('{"stages": ')
    with pytest.raises(ValueError, match=r"2026-11-30-nvidia-h200\.json is no record of measurements .*; mend it or remove it"):
        a_record(tmp_path / "2026-11-30-nvidia-h200.json")


def test_the_page_has_the_newest_figures_of_each_kind_of_device(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nbehind\n")
    table.write_readme(tmp_path, page)
    assert page.read_text() == f"before\n{table.BEGIN}\n{table.NOT_MEASURED}\n{table.END}\nbehind\n"
    a_record(tmp_path / "2026-11-29-nvidia-h200.json", kernels={"add_norm": {"cases": [one_measured()], "failed": None}})
    a_record(tmp_path / "2026-11-30-nvidia-h200.json", stages={"build": {"ok": False}})
    a_record(tmp_path / "2026-12-01-cpu.json", "cpu", kernels={"xent": {"cases": [one_measured()], "failed": "KeyError: x"}})
    table.write_readme(tmp_path, page)
    text = page.read_text()
    assert "2026-11-29; a copy moves 4200 GB/s" in text, "the newest record without figures is no table"
    row = "| add_norm forward | 65536 x 768 | bfloat16 | 1.000 | 4000 | **95%** | "
    row_end = " | +0.4% (+0.1% … +1.0%) | torch 48%, quack 76%, Liger failed |"
    assert f"{row}90%{row_end}" in text
    assert f"{row}{row_end}" in text, "the goals are not a processor's"
    assert "2026-12-01" in text
    assert "xent: not measured to the end: KeyError: x" in text


def test_each_card_has_a_table_of_its_own_and_an_older_one_of_the_same_card_has_none(tmp_path: Path) -> None:
    measured = {"add_norm": {"cases": [one_measured()], "failed": None}}
    trained = {"telemetry on": {"tokens_per_s": {"trainer": 1000.0}}}
    for date, card in (("2026-11-28", "NVIDIA H100"), ("2026-11-29", "NVIDIA H100"), ("2026-11-30", "NVIDIA H200")):
        machine = {"device": card, "kind": "cuda", "torch": "2.11.0+cu130", "compiler": "nvcc release 13.0"}
        record.write(tmp_path / f"{date}-x.json", machine, {"kernels": measured, "trainer": trained})
    text = table.section(tmp_path)
    heads = [line.split(",")[0] + line.split(",")[3].split(";")[0] for line in text.splitlines() if line.startswith("NVIDIA")]
    assert heads == ["NVIDIA H200 2026-11-30", "NVIDIA H100 2026-11-29"]
    assert text.count("| telemetry on | **1,000** |") == 2


def test_the_page_has_what_was_measured_of_the_trainer(tmp_path: Path) -> None:
    ran = {
        "telemetry on": {
            "tokens_per_s": {"trainer": 470_123.4, "plain": 400_000.0}, "mfu": {"trainer": 0.401}, "of_plain": [1.1, 1.175, 1.2],
            "peak_memory_bytes": 3 << 33,
        },
        "without room for the plain loop": {"tokens_per_s": {"trainer": 1000.0}},
        "on and off": {"step_s": {"none": 0.1}, "cost of all": [0.001, 0.003, 0.004]},
    }  # fmt: skip
    measured = {"add_norm": {"cases": [one_measured()], "failed": None}}
    a_record(tmp_path / "2026-11-29-nvidia-h200.json", kernels=measured, trainer=ran)
    text = table.section(tmp_path)
    assert "| telemetry on | **470,123** | 40.1% | 400,000 | 117.5% (110.0% … 120.0%) | 24.0 GiB |" in text
    assert "| without room for the plain loop | **1,000** |  |  |  |  |" in text
    assert "Telemetry costs +0.30% of a step (+0.10% … +0.40%, quartiles)." in text


def test_the_page_of_the_kernels_says_what_its_records_say() -> None:
    text = table.README.read_text(encoding="utf-8")
    assert text.split(table.BEGIN)[1].split(table.END)[0].strip() == table.section().strip()
