"""A hurt run and its continuation, against the same run unhurt: bitwise."""

import os
import signal

import psutil

from tests.integration.test_trainer_launch import SIZES, Attempt, await_that, launch, run_plainly
from tests.unit.trainer import planting
from trainer.checkpoint import choose_resume, list_steps

__all__ = ["launch"]
STEPS = ("--set", "schedule.steps=14")


def shards_of(attempt, step):
    folder = attempt.run_dir / "checkpoints" / f"step-{step:08d}"
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".distcp", ".bin")}


def test_killed_or_stopped_and_resumed_equals_uninterrupted_bit_for_bit(launch):
    whole = launch(1, *STEPS, ranks=2, run="whole").finish()
    fault = ("--fault", "kill@step=7:rank=1")
    killed = launch(1, *STEPS, *fault, ranks=2)
    assert killed.wait() == 1
    assert killed.record(1) is None  # nobody writes a record after SIGKILL
    assert (killed.record(0)["code"], killed.record(0)["peer_lost"], killed.record(0)["step"]) == (1, True, 7)
    assert killed.lines("end")[0]["reason"] == "failed"
    assert (killed.run_dir / "faults" / "kill-step-7-rank-1.json").exists()

    stopped = launch(2, *STEPS, *fault, ranks=2, resume=4)
    stopped.ask(id="ov-stop", request="stop_after_checkpoint")  # waits for it at its first step
    assert stopped.wait() == 1  # torchrun's code; the records tell
    assert [stopped.record(rank)["code"] for rank in (0, 1)] == [6, 6]
    assert stopped.lines("end")[0]["reason"] == "stopped_on_request"
    step = stopped.lines("end")[0]["step"]
    assert stopped.events("override_applied")[0]["id"] == "ov-stop"
    assert list_steps(stopped.run_dir / "checkpoints")[-1] == step

    final = launch(3, *STEPS, *fault, ranks=2, resume=step).finish()
    assert final.receipt()["resume_step"] == step
    lineage = {s: killed.steps()[s] for s in range(1, 5)} | stopped.steps() | final.steps()
    assert lineage == whole.steps()
    assert shards_of(final, 14) == shards_of(whole, 14)


def has_left(process):
    """Whoever waits for it may be done with it between two looks."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_survivor_of_a_lost_peer_leaves_because_of_it_and_makes_no_step(launch):
    """Because of it: its record says so. Not by a timeout of the collective, which is half an hour, nor killed by anybody."""
    attempt = launch(1, "--set", "schedule.steps=100000", "--fault", "hang@step=3:rank=1", ranks=2)
    await_that(lambda: attempt.beat(0) is not None and attempt.beat(1) is not None, "a heartbeat of each rank")
    # Both while both live: once one is dead the other may be gone before anybody has asked for it.
    survivor, stopped = (psutil.Process(attempt.beat(rank)["pid"]) for rank in (0, 1))
    await_that(lambda: stopped.status() == psutil.STATUS_STOPPED, "rank 1 to stop itself")
    assert (attempt.run_dir / "faults" / "hang-step-3-rank-1.json").exists()
    assert attempt.beat(1)["step"] == 3
    stopped.kill()
    await_that(lambda: has_left(stopped), "rank 1 to die")
    await_that(lambda: attempt.record(0) is not None, "the survivor's record")
    await_that(lambda: has_left(survivor), "the survivor to leave")
    assert attempt.record(0)["peer_lost"]
    assert attempt.record(0)["code"] == 1
    assert len(attempt.lines("step")) == 2


def test_sigterm_to_one_rank_stops_all_after_a_checkpoint(launch):
    attempt = launch(1, "--set", "schedule.steps=100000", ranks=2)
    attempt.await_steps(2)
    os.kill(attempt.beat(1)["pid"], signal.SIGTERM)
    attempt.wait()
    assert [attempt.record(rank)["code"] for rank in (0, 1)] == [6, 6]
    assert attempt.events("checkpoint_committed")[-1]["step"] == attempt.lines("end")[0]["step"]


def test_a_flipped_bit_makes_it_resume_older_and_say_so(launch):
    first = launch(1, "--set", "schedule.steps=14").finish()
    path = first.run_dir / "checkpoints" / "step-00000012" / "__0_0.distcp"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    second = launch(2, "--set", "schedule.steps=14", resume=12).finish()
    receipt = second.receipt()
    assert (receipt["resume_step"], receipt["resume_asked"]["step"]) == (8, 12)
    assert receipt["passed_over"][0]["step"] == 12
    assert second.events("resumed_older")[0]["asked_step"] == 12
    assert {step: line for step, line in first.steps().items() if step > 8} == second.steps()
    assert (first.run_dir / "quarantine" / "attempt-0001" / "step-00000012").exists()  # replaced, not deleted


def test_planted_checkpoints_run_nothing_on_any_rank_and_the_older_one_is_taken(launch, tmp_path):
    """An index that would run code, a part that would, and then one that the run saved by itself."""
    first = launch(1, "--set", "schedule.steps=14", ranks=2).finish()
    mark, folder = tmp_path / "code-was-run", first.run_dir / "checkpoints"
    planting.plant_index(folder / "step-00000012", planting.gadgets(mark)["reduce"][0])
    planting.plant_entry(folder / "step-00000008", "model.norm.weight", planting.stored(mark)["an archive"][0], as_object=False)
    second = launch(2, "--set", "schedule.steps=14", ranks=2, resume=12).finish()
    receipt = second.receipt()
    assert receipt["resume_step"] == 4
    assert [one["step"] for one in receipt["passed_over"]] == [12, 8]
    assert ".metadata names posix.system" in receipt["passed_over"][0]["reason"]
    assert "__7_0.distcp names __builtin__.exec" in receipt["passed_over"][1]["reason"]
    assert {step: line for step, line in first.steps().items() if step > 4} == second.steps()
    assert not mark.exists()


DIE_IN_SAVE = """
import os, signal
real = os.rename
def die(here, there):
    if str(there).endswith("/step-00000008"):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(here, there)
os.rename = die
"""


def test_killed_during_a_save_the_old_checkpoint_stands_and_the_run_goes_on_from_it(tmp_path):
    """At the last moment, in the thread behind training: everything is written and nothing has its name."""
    arguments = [*SIZES, *STEPS, "--out-dir", str(tmp_path)]
    assert run_plainly(arguments, os.devnull, DIE_IN_SAVE) == -signal.SIGKILL
    assert list((tmp_path / "checkpoints").glob(".step-00000008.*.tmp/manifest.json"))
    assert list_steps(tmp_path / "checkpoints") == [4]
    found, _ = choose_resume(tmp_path, None)
    assert found.step == 4
    assert run_plainly([*arguments, "--resume"], tmp_path / "said") == 0
    assert "from step 4" in (tmp_path / "said").read_text()
    assert not list((tmp_path / "checkpoints").glob(".*")), "what the dead one left is gone"
    assert list_steps(tmp_path / "checkpoints") == [8, 12, 14], "the newest three are kept"


FILL_AFTER_A_SAVE = """
import resource
from trainer.checkpoint import writing
real = writing.commit
def commit(*arguments):
    digest = real(*arguments)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))  # the kernel writes no file beyond it
    return digest
writing.commit = commit
"""


def test_a_disk_that_takes_no_more_is_a_crash_on_record_and_costs_no_older_checkpoint(launch):
    """The save fails behind training, in the middle of a file; the loop hears of it and says so."""
    attempt = launch(1, *STEPS, first=FILL_AFTER_A_SAVE)
    assert attempt.wait() == 1
    assert attempt.record()["error"].startswith("SaveError: ")
    assert "step-00000008: rank 0 could not write it (OSError: [Errno 27] File too large" in attempt.record()["error"]
    assert (attempt.record()["peer_lost"], attempt.lines("end")[0]["reason"]) == (False, "failed")
    assert [event["step"] for event in attempt.events("checkpoint_committed")] == [4]
    assert choose_resume(attempt.run_dir, None)[0].step == 4


def test_an_attempt_that_lost_the_lease_commits_nothing_more(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lease.json").write_text('{"epoch": 2, "attempt": 2}')
    attempt = Attempt(tmp_path / "run", 1, *STEPS)
    assert attempt.wait() == 1
    assert "later attempt" in attempt.record()["error"]
    assert list_steps(tmp_path / "run" / "checkpoints") == []
