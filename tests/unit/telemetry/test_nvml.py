"""The NVML source over the real helper, the real nvidia-ml-py and a compiled driver that does what a sick one does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.launcher.process_tree import read_process
from sentinel.model.readings import HardwareReading, SourceReading
from sentinel.telemetry.gpu_ranks import rank_of_process, visible_devices
from sentinel.telemetry.gpu_sample import GpuSample, read_sample
from sentinel.telemetry.nvml import NO_DRIVER, RETRY_S, SILENT_S, NvmlSource
from tests.integration.supervised import wait_for
from tests.nvml_stub import Stub, compiled_folder, until, values

HEALTHY = {
    "gpus": 2, "gpu0_temperature": 41, "gpu0_ecc_uncorrected": 0, "gpu0_ecc_corrected": 7, "gpu0_recovery": 0, "gpu0_throttle": 4,
    "gpu0_pending": 0, "gpu0_failure": 0, "gpu0_nvlink": 3,
}  # fmt: skip


@pytest.fixture
def stub(tmp_path):
    compiled_folder()
    stub = Stub(tmp_path)
    stub.set(**HEALTHY)
    return stub


@pytest.fixture
def source(stub):
    source = stub.source()
    yield source
    source.close()


def blind(readings):
    return [reading for reading in readings if isinstance(reading, SourceReading) and not reading.ok]


def seen(readings):
    return len(values(readings, "seen")) == 2


def test_work_memory_and_power_are_seen_and_unknown_where_the_driver_does_not_tell(stub, source) -> None:
    stub.set(gpu0_busy=97, gpu0_memory=150_000_000_000, gpu0_used=120_000_000_000, gpu0_power=688_123)
    until(source, seen)
    first, second = source.gpus
    assert (first.busy_percent, first.power_mw) == (97, 688_123)
    assert (first.memory_used_bytes, first.memory_total_bytes) == (120_000_000_000, 150_000_000_000)
    assert (second.busy_percent, second.power_mw, second.memory_used_bytes, second.memory_total_bytes) == (None,) * 4


def test_healthy_gpus_are_seen_and_what_is_not_supported_stays_unknown(source) -> None:
    readings = until(source, seen)
    readings += source.poll(0.0)
    assert readings[0] == SourceReading("nvml", ok=True, reason="2 GPUs")
    first, second = source.gpus
    assert (first.device, first.name, first.uuid, first.serial) == ("0000:3b:00", "Stub 9000", "GPU-00000000", "")
    assert (first.temperature_c, first.ecc_corrected, first.nvlink_errors, first.recovery_action) == (41, 7, 9, 0)
    assert first.throttle == ()  # a power cap set in software slows no sick GPU
    unknown = (second.temperature_c, second.ecc_uncorrected, second.row_remap_pending, second.recovery_action, second.throttle)
    assert unknown == (None,) * 5
    told = {reading.what for reading in readings if isinstance(reading, HardwareReading) and reading.device == second.device}
    assert told == {"seen", "gpu_lost"}  # that it answers is all that is known of it
    assert source.why_not == ""


def test_an_xid_comes_at_once_and_the_drivers_word_after_it_even_unchanged(stub, source) -> None:
    until(source, seen)
    stub.set(event=1, xid=119, event_gpu=0)
    readings = until(source, lambda found: values(found, "recovery_action") == [0.0])
    assert values(readings, "xid") == [119.0]
    stub.set(event=2, xid=79, gpu0_recovery=2)
    readings = until(source, lambda found: values(found, "recovery_action") == [2.0])
    (xid,) = [reading for reading in readings if isinstance(reading, HardwareReading) and reading.what == "xid"]
    assert (xid.device, xid.value, xid.source) == ("0000:3b:00", 79.0, "nvml")


def test_counters_and_states_are_told_when_they_change(stub, source) -> None:
    until(source, seen)
    stub.set(gpu0_ecc_uncorrected=2, gpu0_pending=1, gpu0_throttle=0x48, gpu0_temperature=93)
    readings = until(source, lambda found: values(found, "throttle") == [1.0])
    assert (values(readings, "ecc_uncorrected"), values(readings, "row_remap_pending")) == ([2.0], [1.0])
    text = next(reading.text for reading in readings if isinstance(reading, HardwareReading) and reading.what == "throttle")
    assert text == "clocks are held down by hardware slowdown and thermal slowdown at 93 °C"


def test_a_gpu_that_is_lost_while_it_is_watched(stub, source) -> None:
    until(source, seen)
    stub.set(gpu1_lost=1)
    readings = until(source, lambda found: values(found, "gpu_lost") == [1.0])
    assert [reading.device for reading in readings if isinstance(reading, HardwareReading)] == ["0000:3c:00"]
    assert blind(readings) == []


def test_a_gpu_that_was_lost_before_has_a_name_all_the_same(stub, source) -> None:
    stub.set(gpu1_lost=1)
    readings = until(source, seen)
    assert {gpu.device: gpu.lost for gpu in source.gpus} == {"0000:3b:00": False, "gpu 1": True}
    assert blind(readings) == []


def test_a_call_that_never_returns_ends_with_a_killed_helper_and_a_blind_source(stub, source) -> None:
    until(source, seen, now_s=100.0)
    pid = source._helper.pid
    stub.set(hang=1)
    until(source, lambda _: stub.is_stuck, now_s=101.0)
    source.poll(101.0)  # what it said before it got stuck
    assert source.poll(100.0 + SILENT_S) == []
    (word,) = source.poll(101.5 + SILENT_S)
    assert not word.ok
    assert f"pid {pid}) said nothing for 30 s: a call to the NVIDIA driver does not return" in word.reason
    assert source.gpus == ()
    until(source, lambda _: read_process(pid) is None, now_s=140.0)
    assert source.poll(140.0 + RETRY_S - 0.1) == []
    assert source._helper is None
    stub.set(hang=None)
    readings = until(source, lambda found: SourceReading("nvml", ok=True, reason="2 GPUs") in found, now_s=140.0 + RETRY_S)
    assert values(readings, "seen") == []  # nothing changed meanwhile, so nothing is told again


def test_a_helper_that_is_killed_comes_back_after_a_pause_that_grows(stub, source) -> None:
    until(source, seen, now_s=10.0)
    now_s = 10.0
    for pause_s in (RETRY_S, 2 * RETRY_S, 4 * RETRY_S):
        pid = source._helper.pid
        os.kill(pid, signal.SIGKILL)
        (word,) = until(source, lambda found: bool(blind(found)), now_s=now_s)[-1:]
        assert word.reason == f"the NVML helper (pid {pid}) is gone"
        until(source, lambda _: source._helper is None, now_s=now_s)
        assert source.poll(now_s + pause_s - 0.1) == []
        assert source._helper is None
        now_s += pause_s
        until(source, lambda found: SourceReading("nvml", ok=True, reason="2 GPUs") in found, now_s=now_s)


class Unkillable:
    """A helper in state D: SIGKILL waits with it."""

    pid, is_silent, is_over = 7, False, False
    kills = 0

    def read_lines(self) -> list[bytes]:
        return []

    def kill(self) -> None:
        self.kills += 1

    def close(self) -> None:
        raise AssertionError("it is still there")


def test_beside_a_helper_that_the_kernel_holds_no_other_is_started() -> None:
    source = NvmlSource(None, ("/no/such/program",), signs=())
    helper = source._helper = Unkillable()
    source._last_report_s = 0.0
    assert [word.ok for word in source.poll(SILENT_S + 1.0)] == [False]
    for now_s in (100.0, 1e4, 1e6):
        assert source.poll(now_s) == []
    assert source._helper is helper
    assert helper.kills == 1


def test_a_driver_that_fails_says_so_and_is_asked_again_later(stub, source) -> None:
    stub.set(init=999)
    (word,) = until(source, lambda found: bool(blind(found)))
    assert word.reason.startswith("NVML: ")
    stub.set(init=0)
    until(source, lambda _: source._helper is None)
    until(source, seen, now_s=RETRY_S)


def test_without_events_the_counters_are_read_all_the_same(stub, source) -> None:
    stub.set(no_events=1)
    until(source, seen)
    stub.set(gpu0_ecc_uncorrected=1)
    until(source, lambda found: values(found, "ecc_uncorrected") == [1.0])


@pytest.mark.parametrize("code", [9, 12])  # driver not loaded, library not found
def test_no_driver_is_said_once_and_nothing_is_started_again(stub, source, code) -> None:
    stub.set(init=code)
    (word,) = until(source, bool)
    assert (word.what, word.source) == ("absent", "nvml")
    assert word.text.startswith(NO_DRIVER)
    assert source.is_absent
    assert source._helper is None
    assert source.poll(1e9) == []


def test_without_a_sign_of_a_driver_no_process_is_started(tmp_path) -> None:
    source = NvmlSource(tmp_path, ("/no/such/program",), signs=(str(tmp_path / "nvidiactl"),))
    assert source.poll(0.0) == [HardwareReading("nvml", "absent", NO_DRIVER, source._host)]
    assert source.poll(1.0) == []


def test_a_library_that_is_not_there(tmp_path) -> None:
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "sentinel.telemetry.nvml_helper"], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    assert b'"absent"' in done.stdout or b'"sample"' in done.stdout  # the latter on a machine that has a GPU


def test_a_helper_that_cannot_be_started_is_blindness_with_its_reason() -> None:
    source = NvmlSource(None, ("/no/such/program",), signs=())
    (word,) = source.poll(0.0)
    assert word == SourceReading("nvml", False, "the NVML helper cannot be started: /no/such/program: No such file or directory")
    assert source.poll(RETRY_S - 1.0) == []


def test_whatever_a_helper_prints_is_survived(tmp_path) -> None:
    lines = [
        '{"kind":"sample","gpus":[1,{"index":0,"bus":7,"pids":["x"],"throttle":[3],"recovery_action":-1}]}', "null", "{", "[]",
        '{"kind":"xid"}', '{"kind":"xid","xid":79,"bus":5}', '{"kind":"later"}', '{"kind":"sample"}', "x" * 3_000_000,
    ]  # fmt: skip
    (tmp_path / "junk").write_text("\n".join(lines))
    junk = f"print(open({str(tmp_path / 'junk')!r}).read())"
    source = NvmlSource(None, (sys.executable, "-c", junk), signs=())
    readings = until(source, lambda found: bool(blind(found)))
    assert values(readings, "xid") == [79.0]
    assert values(readings, "recovery_action") == []
    source.close()


def test_the_helper_leaves_when_the_supervisor_is_gone(stub) -> None:
    source = stub.source()
    until(source, seen)
    process = source._helper._process
    process.stdin.close()
    assert process.wait(60) == 0
    source.close()


def test_a_helper_of_ours_runs_in_a_session_of_its_own_and_carries_no_mark_of_a_run(stub, monkeypatch) -> None:
    monkeypatch.setenv("SENTINEL_RUN_DIR", "/somewhere")
    source = stub.source()
    until(source, seen)
    assert os.getsid(source._helper.pid) == source._helper.pid
    assert b"SENTINEL_RUN_DIR" not in Path(f"/proc/{source._helper.pid}/environ").read_bytes()
    source.close()


def test_a_rank_is_known_by_its_process_and_kept_when_it_dies(stub, tmp_path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    rank = subprocess.Popen(["sleep", "600"], env={"SENTINEL_RUN_DIR": str(run_dir), "RANK": "11", "PATH": os.environ["PATH"]})
    try:
        assert wait_for("its environment", lambda: rank_of_process(rank.pid, str(run_dir))) == 11  # none while it is in exec
        assert rank_of_process(rank.pid, str(tmp_path)) is None
        stub.set(gpu0_pid=rank.pid)
        source = stub.source(run_dir)
        readings = until(source, seen)
        assert {r.device: r.rank for r in readings if isinstance(r, HardwareReading)} == {"0000:3b:00": 11, "0000:3c:00": None}
        until(source, lambda found: any(getattr(r, "device", "") == "0000:3c:00" and not r.used for r in found))  # nobody of ours
    finally:
        rank.kill()
        rank.wait(60)
    stub.set(event=1, xid=94, gpu0_pid=None)
    readings = until(source, lambda found: bool(values(found, "xid")))
    assert [r.rank for r in readings if getattr(r, "what", "") == "xid"] == [11]
    source.close()


def gpu(index: int, uuid: str) -> GpuSample:
    return GpuSample(index, f"0000:{index:02x}:00", False, uuid=uuid)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [(None, (0, 1, 2)), ("", ()), ("-1", ()), ("2,0", (2, 0)), ("2, 0,7,1", (2, 0)), ("GPU-bb", (1,)), ("GPU-", ()),
     ("0,0", (0,)), ("MIG-1", None), ("9999999999999", ())],
)  # fmt: skip
def test_cuda_visible_devices_is_read_as_cuda_reads_it(setting, expected) -> None:
    gpus = [gpu(0, "GPU-aa"), gpu(1, "GPU-bb"), gpu(2, "GPU-cc")]
    assert visible_devices(gpus, setting) == (None if expected is None else tuple(gpus[index].device for index in expected))


def test_a_gpu_that_cuda_does_not_see_is_not_used(stub, monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    source = stub.source()
    readings = until(source, seen)
    places = {r.device: (r.used, r.place) for r in readings if isinstance(r, HardwareReading) and r.what == "seen"}
    assert places == {"0000:3b:00": (False, None), "0000:3c:00": (True, (0, 1))}
    source.close()


def test_a_sample_says_what_is_wrong_in_words() -> None:
    told = {"index": 0, "bus": "00000000:3B:00.0", "lost": True, "recovery_action": 1, "row_remap_failure": 1}
    sample = read_sample(told | {"throttle": ["power brake"], "ecc_uncorrected": 2})
    assert sample is not None
    assert len(sample.troubles) == 5
    assert read_sample({"index": 0}).troubles == ()  # type: ignore[union-attr]
    assert read_sample("x") is None
