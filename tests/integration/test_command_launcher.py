"""A whole run through the launcher `command`, over a scheduler that is three small shell scripts and real processes."""

from __future__ import annotations

from pathlib import Path

from tests.integration.supervised import Supervised, double, wait_for

SCRIPTS = {
    "start": """
        echo "$SENTINEL_JOB" >>submitted
        setsid sh -c 'echo $$ >"$SENTINEL_JOB.group"; "$@"; echo "exited $?" >"$SENTINEL_JOB"' job "$@" >/dev/null 2>&1 &
    """,
    "status": """
        if test -e "$SENTINEL_JOB"; then cat "$SENTINEL_JOB"
        elif grep -qs "$SENTINEL_JOB" submitted; then echo running
        else echo none; fi
    """,
    "stop": """
        kill -KILL -- "-$(cat "$SENTINEL_JOB.group")" && echo "exited -9" >"$SENTINEL_JOB"
    """,
}


def scheduler(tmp_path: Path) -> tuple[list[str], Path]:
    place = tmp_path / "scheduler"
    place.mkdir()
    options = ["--launcher", "command", "--launcher-option", "every=0.1s"]
    for name, script in SCRIPTS.items():
        (place / f"{name}.sh").write_text(f"cd {place}\n{script}")
        options += ["--launcher-option", f'{name}=sh {place}/{name}.sh "$@"']
    return options, place


def test_a_run_is_started_adopted_repaired_and_finished_by_three_commands(tmp_path: Path) -> None:
    options, place = scheduler(tmp_path)
    run = Supervised(tmp_path / "run", double(200, 0.02, crash=90), options=options).start()
    wait_for("step 30", lambda: run.last_step(1) >= 30)
    assert run.status()["state"] == "training"
    run.kill()
    run.options = []  # run.json names the launcher and its three commands
    run.start()
    assert run.wait() == 0, run.log
    submitted = (place / "submitted").read_text().split()
    assert len(submitted) == len(set(submitted)) == 2, "each attempt once, whatever became of the supervisor"
    assert [incident["kind"] for incident in run.incidents()] == ["crash"]
    assert run.status()["state"] == "finished"
    assert run.last_step(2) == 200


def test_a_run_is_stopped_after_a_checkpoint_and_its_job_is_gone(tmp_path: Path) -> None:
    options, _ = scheduler(tmp_path)
    run = Supervised(tmp_path / "run", double(5000, 0.01), options=options).start()
    wait_for("step 30", lambda: run.last_step(1) >= 30)
    assert run.child is not None
    run.child.send_signal(15)
    assert run.wait() == 130, run.log
    last = run.last_step(1)
    assert (run.run_dir / "checkpoints" / f"step-{last:08d}" / "manifest.json").exists()
    assert not run.living()
