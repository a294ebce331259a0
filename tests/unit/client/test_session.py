import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from sentinel.client import OverridesError, Session, Spec, SpecError
from sentinel.client import session as session_module


@pytest.fixture
def session(tmp_path):
    return Session(tmp_path, Spec(attempt=3))


def lines(session):
    return [json.loads(line) for line in session.metrics_path.read_text().splitlines()]


def put_overrides(session, text):
    aside = session.run_dir / "aside"
    aside.write_text(text if isinstance(text, str) else json.dumps(text))
    aside.rename(session.run_dir / "overrides.json")


def test_without_the_two_variables_there_is_no_session():
    assert Session.from_environment(environ={}) is None


@pytest.mark.parametrize(
    "environ", [{"SENTINEL_RUN_DIR": "/x"}, {"SENTINEL_ATTEMPT": "1"}, {"SENTINEL_RUN_DIR": "/x", "SENTINEL_ATTEMPT": "one"}]
)
def test_half_an_environment_is_an_error(environ):
    with pytest.raises(SpecError, match="set both"):
        Session.from_environment(environ=environ)


def test_the_session_of_an_environment_has_its_spec_and_rank(tmp_path):
    spec = tmp_path / "attempts" / "0003" / "spec.json"
    spec.parent.mkdir(parents=True)
    spec.write_text('{"v":1,"attempt":3,"overrides":{"lr_scale":0.25}}')
    environ = {"SENTINEL_RUN_DIR": str(tmp_path), "SENTINEL_ATTEMPT": "3", "RANK": "5"}
    session = Session.from_environment(environ=environ)
    assert session is not None
    assert (session.attempt, session.rank, session.spec.overrides.lr_scale) == (3, 5, 0.25)
    with pytest.raises(SpecError, match="RANK"):
        Session.from_environment(environ=environ | {"RANK": "x"})
    spec.write_text('{"v":1,"attempt":4}')
    with pytest.raises(SpecError, match="SENTINEL_ATTEMPT"):
        Session.from_environment(environ=environ)


def test_the_stream_is_receipt_steps_events_and_an_end(session):
    effective = {"lr": 1e-3, "betas": (0.9, 0.95)}
    session.start(resume_step=0, resume_digest=None, world_size=2, params=10, tokens_per_step=64, effective=effective, note="x")
    session.step(1, samples=[(0, 16)], loss=float("nan"), **{"grad_norm/h.0": 1.5})
    session.event("checkpoint_committed", step=1, path="p")
    session.end(1, "finished")
    start, step, event, end = lines(session)
    assert {key: start[key] for key in ("kind", "v", "attempt", "resume_step", "overrides", "note")} == {
        "kind": "start", "v": 1, "attempt": 3, "resume_step": 0, "overrides": {}, "note": "x"
    }  # fmt: skip
    assert start["effective"] == {"lr": 1e-3, "betas": [0.9, 0.95]}
    assert (step["kind"], step["samples"], step["loss"], step["grad_norm/h.0"]) == ("step", [[0, 16]], "NaN", 1.5)
    assert (event["event"], event["step"], event["path"]) == ("checkpoint_committed", 1, "p")
    assert (end["kind"], end["step"], end["reason"]) == ("end", 1, "finished")


def test_only_rank_zero_writes_the_stream(tmp_path):
    session = Session(tmp_path, Spec(attempt=1), rank=1)
    session.step(1, loss=2.0)
    session.end(1, "finished")
    session.abandon()
    assert not session.metrics_path.exists()


def beaten(session):
    return json.loads(session.heartbeat_path.read_text())


def test_a_heartbeat_tells_how_long_the_data_took(session, monkeypatch):
    now = iter((10.0, 10.1, 10.5, 11.0, 12.0))
    monkeypatch.setattr(session_module, "time", SimpleNamespace(monotonic=lambda: next(now), time=time.time))
    session.heartbeat(1, "data")
    assert "busy_s" not in beaten(session)
    session.heartbeat(1, "data")
    session.heartbeat(1, "forward")
    assert (beaten(session)["busy_step"], beaten(session)["busy_s"]) == (1, 0.5)
    session.heartbeat(2, "data")
    session.heartbeat(3, "forward")  # another step: nobody knows when its data began
    assert (beaten(session)["busy_step"], beaten(session)["busy_s"]) == (1, 0.5)


def test_a_trainer_that_measures_its_own_work_has_the_last_word(session):
    session.busy(1, 2.5)
    for step in (1, 2):
        session.heartbeat(step, "data")
        session.heartbeat(step, "forward")
    assert (beaten(session)["busy_step"], beaten(session)["busy_s"]) == (1, 2.5)


def test_every_line_is_one_write(session, monkeypatch):
    written = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: (written.append(bytes(data)), real(handle, data))[1])
    session.step(1, loss=1.0)
    session.step(2, loss=1.0)
    assert len(written) == 2
    assert all(line.endswith(b"}\n") for line in written)


def test_a_torn_last_line_does_not_swallow_the_next(session):
    session.metrics_path.parent.mkdir(parents=True)
    session.metrics_path.write_bytes(b'{"kind":"step","st')
    session.step(2, loss=1.0)
    assert json.loads(session.metrics_path.read_bytes().splitlines()[1])["step"] == 2


def test_a_stream_that_never_began_is_not_ended(session):
    session.abandon()
    assert not session.metrics_path.exists()
    session.heartbeat(4, "forward")
    session.step(3)
    session.abandon()
    assert (lines(session)[-1]["reason"], lines(session)[-1]["step"]) == ("failed", 4)


def test_heartbeats_follow_every_phase_and_are_rare_within_one(session, monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr(session_module, "time", SimpleNamespace(monotonic=lambda: now_s[0], time=time.time))

    def beat(step, phase):
        session.heartbeat(step, phase)
        written = json.loads(session.heartbeat_path.read_text())
        return written["step"], written["phase"]

    assert beat(1, "forward") == (1, "forward")
    assert beat(1, "backward") == (1, "backward")
    assert beat(2, "backward") == (1, "backward")  # too soon
    now_s[0] += 0.21
    assert beat(3, "backward") == (3, "backward")
    record = json.loads(session.heartbeat_path.read_text())
    assert record["pid"] == os.getpid()
    assert set(record) == {"step", "phase", "time_s", "pid", "host", "boot_id", "stack_signal"}


def test_a_rank_in_a_container_names_the_node(tmp_path, monkeypatch):
    """A pod's own name says nothing about the machine that may be sick."""
    monkeypatch.setenv("SENTINEL_NODE", "gpu-17")
    session = Session(tmp_path, Spec(attempt=3))
    session.heartbeat(0, "init")
    assert json.loads(session.heartbeat_path.read_text())["host"] == "gpu-17"


def test_a_trainer_that_takes_the_stack_signal_for_itself_is_not_sent_it(tmp_path):
    """In a process of its own: what faulthandler registers stays. The trainer's handler may end it."""
    code = (
        "import json, signal, sys\n"
        "from pathlib import Path\n"
        "from sentinel.client import Session, Spec\n"
        "from sentinel.client.stacks import STACK_SIGNAL\n"
        "session = Session(Path(sys.argv[1]), Spec(attempt=1))\n"
        "for phase in ('init', 'forward'):\n"
        "    session.heartbeat(1, phase)\n"
        "    beat = json.loads(next(Path(sys.argv[1]).rglob('rank-00000.json')).read_text())\n"
        "    print(beat.get('stack_signal') == STACK_SIGNAL)\n"
        "    signal.signal(STACK_SIGNAL, lambda *_: sys.exit(1))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "False"], done.stderr



def test_a_beat_that_cannot_be_written_does_not_end_the_run(session):
    session.heartbeat_path.parent.parent.mkdir(parents=True)
    session.heartbeat_path.parent.write_text("a file where the directory should be")
    session.heartbeat(5, "forward")
    assert session.last_step == 5


def test_an_unknown_phase_is_a_mistake_of_the_caller(session):
    with pytest.raises(AssertionError, match="lunch"):
        session.heartbeat(1, "lunch")


def test_a_live_change_is_returned_once(session):
    assert session.poll_overrides() is None
    put_overrides(session, {"id": "ov-1", "attempt": 3, "lr_scale": 0.5})
    found = session.poll_overrides()
    assert found is not None
    assert found.lr_scale == 0.5
    assert session.poll_overrides() is None
    put_overrides(session, {"id": "ov-1", "attempt": 3, "lr_scale": 0.5, "rewritten": True})
    assert session.poll_overrides() is None
    put_overrides(session, {"id": "ov-2", "attempt": 3})
    assert session.poll_overrides() is not None


def test_a_change_for_another_attempt_is_ignored(session):
    put_overrides(session, {"id": "ov-1", "attempt": 2, "lr_scale": "nonsense"})
    assert session.poll_overrides() is None


@pytest.mark.parametrize("text", ["{", "[]", {"attempt": 3}, {"id": "a", "attempt": 3, "betas": 1}])
def test_a_change_that_cannot_be_obeyed_is_said_once(session, text):
    put_overrides(session, text)
    with pytest.raises(OverridesError):
        session.poll_overrides()
    assert session.poll_overrides() is None


@pytest.mark.parametrize(
    ("lease", "may"),
    [(None, True), ('{"attempt":3}', True), ('{"attempt":2}', True), ('{"attempt":4}', False), ("{", True), ("[]", True)],
)
def test_a_leftover_attempt_may_not_commit(session, lease, may):
    if lease is not None:
        (session.run_dir / "lease.json").write_text(lease)
    assert session.may_commit() is may


@pytest.mark.parametrize(
    ("own", "lease", "may"),
    [
        ("a", '{"attempt":3,"launch":"a"}', True),
        ("a", '{"attempt":3,"launch":"b"}', False),
        ("a", '{"attempt":3,"launch":null}', True),
        ("a", '{"attempt":3}', True),
        (None, '{"attempt":3,"launch":"b"}', True),
        ("a", '{"attempt":2,"launch":"b"}', True),
        ("a", '{"attempt":4,"launch":"a"}', False),
    ],
)
def test_nor_may_another_launch_of_its_number(session, own, lease, may):
    session.spec = dataclasses.replace(session.spec, launch=own)
    (session.run_dir / "lease.json").write_text(lease)
    assert session.may_commit() is may


def test_an_exit_record_holds_code_error_and_the_end_of_the_traceback(session):
    session.heartbeat(7, "forward")
    try:
        raise RuntimeError("x" * 20_000)
    except RuntimeError as error:
        session.record_exit(1, error, peer_lost=True)
    record = json.loads(session.exit_path.read_text())
    assert (record["rank"], record["code"], record["step"], record["peer_lost"]) == (0, 1, 7, True)
    assert record["error"].startswith("RuntimeError: xxx")
    assert len(record["traceback"]) <= 8000
    session.record_exit(0)
    assert json.loads(session.exit_path.read_text())["error"] is None


def test_output_goes_to_the_attempts_log_even_from_native_code_and_crashes(tmp_path):
    code = (
        "from pathlib import Path; import os, sys, faulthandler; from sentinel.client import Session, Spec\n"
        f"Session(Path({str(tmp_path)!r}), Spec(attempt=1), rank=2).redirect_output()\n"
        "print('hello'); print('trouble', file=sys.stderr); os.write(1, b'native\\n'); sys.stdout.flush()\n"
        "faulthandler._sigsegv()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    logs = tmp_path / "attempts" / "0001" / "logs"
    assert sorted((logs / "rank-00002.out").read_text().split()) == ["hello", "native"]
    assert "trouble" in (logs / "rank-00002.err").read_text()
    assert "Segmentation fault" in (logs / "rank-00002.err").read_text()


def test_the_client_needs_the_standard_library_only():
    code = (
        "import sys; before = set(sys.modules); from sentinel.client import *\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(names - set(sys.stdlib_module_names) - {'sentinel'}))\n"
        "print(*(name for name in sys.modules if name.startswith('sentinel.')))"
    )
    root = Path(session_module.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    foreign, own = done.stdout.splitlines()
    assert foreign == "[]"
    assert all(name.startswith("sentinel.client") for name in own.split())


def test_a_shorter_beat_leaves_nothing_of_a_longer_one(session):
    session.busy(1_000_000_000, 12.345678)
    session._host = "h" * 250
    session.heartbeat(1_000_000_000, "optimizer")
    inode, size = session.heartbeat_path.stat().st_ino, session.heartbeat_path.stat().st_size
    session._host = "h"
    session.heartbeat(2, "data")
    beat = json.loads(session.heartbeat_path.read_text())
    assert (beat["step"], beat["phase"], beat["host"]) == (2, "data", "h")
    assert (session.heartbeat_path.stat().st_ino, session.heartbeat_path.stat().st_size) == (inode, size)
