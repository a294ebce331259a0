"""Unchanged programs that behave as Megatron-LM and nanoGPT do, under a profile alone: killed, hung, poisoned, made NaN."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from sentinel.model import facts as f
from sentinel.trainers import loading
from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, wait_for
from tests.trainers.kit import give_up, hurt, passed_over, proofs, supervise, told

KIND = {"apiVersion": "sentinel/v1", "kind": "RemediationPolicy", "metadata": {"name": "own"}}
SHIPPED = Path(loading.__file__).parent / "shipped"


def megatron(out: Path, iterations: int, **faults: object) -> list[str]:
    words = ("--save", out, "--load", out, "--train-iters", iterations, "--lr", "1e-3", "--step-s", 0.02)
    return hurt("megatron_like.py", *words, **faults)


def nanogpt(out: Path, iterations: int, **faults: object) -> list[str]:
    return hurt("nanogpt_like.py", f"--out_dir={out}", f"--max_iters={iterations}", "--step_s=0.02", **faults)


def test_a_killed_megatron_goes_on_from_its_newest_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = supervise(tmp_path / "run", "megatron", megatron(out, 120, kill=70))
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"], incident["steps_lost"]) == ("crash", "recovered", 9)
    assert told(out)[1][-2:] == ["--load", str(out)], "the tracker names the step"
    assert sorted(run.surviving()) == list(range(1, 121)), "every iteration stands in the stream once"
    reason = json.loads((run.run_dir / "attempts" / "0001" / "exit.json").read_text())["reason"]
    assert reason == "rank 0 was ended by signal 9 (SIGKILL)", "nobody killed the follower, which had rows still to write"


@pytest.mark.slow
@pytest.mark.parametrize(("trainer", "command"), [("megatron", megatron), ("nanogpt", nanogpt)])
@pytest.mark.parametrize("kill", [61, 79])
def test_a_kill_costs_no_more_steps_than_the_trainers_own_resume(
    tmp_path: Path, trainer: str, command: Callable[..., list[str]], kill: int
) -> None:
    """The same program with the same fault, started a second time by hand, beside the run that a supervisor restarts."""
    alone, out = tmp_path / "alone", tmp_path / "out"
    first = subprocess.run(command(alone, 100, kill=kill), capture_output=True, text=True, timeout=60)
    assert first.returncode == -signal.SIGKILL
    words = ["--init_from=resume"] if trainer == "nanogpt" else []
    again = subprocess.run([*command(alone, 100, kill=kill), *words], capture_output=True, text=True, timeout=60, check=True)
    resumed = min(map(int, re.findall(r"\biter(?:ation)? +(\d+)", again.stdout)))
    run = supervise(tmp_path / "run", trainer, command(out, 100, kill=kill))
    (incident,) = run.incidents()
    counted_from_0 = 1 if trainer == "nanogpt" else 0
    trained = min(line["step"] for line in run.lines(2) if line["kind"] == "step") - counted_from_0
    assert (incident["kind"], incident["state"]) == ("crash", "recovered")
    assert trained >= resumed


@pytest.mark.slow
def test_a_megatron_that_saves_and_leaves_with_0_on_a_signal_has_not_finished(tmp_path: Path) -> None:
    """Whoever sent it asked the ranks, and not Sentinel: the machine was taken away, and the run goes on."""
    out = tmp_path / "out"
    run = Supervised(
        tmp_path / "run", [*megatron(out, 300), "--exit-signal-handler"], "demo", ["--trainer", "megatron"]
    ).start()
    wait_for("steps", lambda: run.last_step(1) > 50)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(out) in process.cmdline() and process.cmdline()[0] == sys.executable:
                process.terminate()
    assert run.wait(120.0) == 0, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"], incident["steps_lost"]) == ("preempted", "recovered", 0)
    assert sorted(run.surviving()) == list(range(1, 301))
    assert run.status()["total_steps"] == 300


def test_a_trainer_that_dies_before_its_follower_is_up_is_still_the_rank_that_died(tmp_path: Path) -> None:
    run = supervise(tmp_path / "run", "megatron", megatron(tmp_path / "out", 40, kill=2))
    reason = json.loads((run.run_dir / "attempts" / "0001" / "exit.json").read_text())["reason"]
    assert reason == "rank 0 was ended by signal 9 (SIGKILL)"
    assert sorted(run.surviving()) == list(range(1, 41))


def test_a_profile_that_matches_nothing_is_said_with_the_one_that_would(tmp_path: Path) -> None:
    out, own = tmp_path / "out", tmp_path / "own.yaml"
    shipped = (SHIPPED / "megatron.yaml").read_text()
    own.write_text(shipped.replace("iter_{step:07d}", "ckpt_{step:07d}").replace("name: megatron", "name: own"))
    run = supervise(tmp_path / "run", str(own), megatron(out, 60))
    start = re.escape(f"source: trainer: no file matches ckpt_{{step:07d}} under {out}; there are iter_0000020")
    assert len(re.findall(rf"{start}.*: --trainer megatron\?\n", run.log)) == 1, run.log
    assert "--trainer megatron?" in run_sentinel("events", str(run.run_dir)).stdout


@pytest.mark.slow
def test_a_follower_that_dies_is_started_again_and_no_row_is_lost(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", megatron(tmp_path / "out", 400), "demo", ["--trainer", "megatron"]).start()
    wait_for("steps", lambda: run.last_step(1) > 50)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "sentinel.trainers.follow" in process.cmdline() and str(tmp_path) in " ".join(process.cmdline()):
                process.kill()
    assert run.wait(120.0) == 0, run.log
    assert not run.incidents()
    assert sorted(run.surviving()) == list(range(1, 401))


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_a_megatron_survives_a_kill_a_hang_a_nan_and_a_poisoned_window_in_one_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    faults = {"kill": 70, "hang": 150, "nan": 330, "poison": [650, 680]}
    run = supervise(tmp_path / "run", "megatron", megatron(out, 1100, **faults), deadline_s=900.0)
    incidents = run.incidents()
    assert [one["kind"] for one in incidents[:3]] == ["crash", "hang", "non_finite"]
    assert {one["state"] for one in incidents} == {"recovered"}
    assert "stopped by a signal" in run.log, "a hang is found by what its process does"
    assert incidents[2]["onset_step"] == 330
    assert incidents[2]["remedies"][-1]["rollback_to_step"] <= 320
    assert proofs(incidents[-1])["skip"] == "observed"
    assert (out / "latest_checkpointed_iteration.txt").read_text() == "1100"


@pytest.mark.slow
@pytest.mark.parametrize(("interval", "iterations"), [(1, 800), (10, 1600)])
def test_a_poisoned_window_is_skipped_by_its_own_flag_and_that_is_seen(tmp_path: Path, interval: int, iterations: int) -> None:
    """Of a line for every iteration by its number, of one for every tenth by the samples that it counts as skipped."""
    out = tmp_path / "out"
    command = [*megatron(out, iterations, poison=[350, 380]), "--log-interval", str(interval)]
    run = supervise(tmp_path / "run", "megatron", command)
    assert all(incident["state"] == "recovered" for incident in run.incidents())
    arguments = told(out)[-1]
    skipped = {int(word) for word in arguments[arguments.index("--iterations-to-skip") + 1 :] if word.isdigit()}
    assert skipped >= set(range(350, 380)), "as printed"
    resumed = run.incidents()[-1]["remedies"][-1]["rollback_to_step"]
    assert not {step for step in skipped if step > resumed} & run.surviving().keys()
    assert [proofs(incident).get("skip") for incident in run.incidents()][-1] == "observed"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "faults"), [("crash", {"kill": 70}), ("hang", {"hang": 70})])
def test_one_of_which_nothing_is_known_is_started_again_as_it_is(tmp_path: Path, kind: str, faults: dict[str, int]) -> None:
    out = tmp_path / "out"
    run = supervise(tmp_path / "run", "exit-only", hurt("megatron_like.py", "--save", out, "--step-s", 0.02, **faults))
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == (kind, "recovered")
    first, second = told(out)
    assert first == second
    assert (out / "iter_0000060").is_dir(), "nothing of it was moved"


@pytest.mark.slow
@pytest.mark.parametrize("faults", [{"kill": 210}, {"nan": 330}, {"poison": [350, 380]}])
def test_one_as_blooms_survives_and_its_skip_costs_no_iterations(tmp_path: Path, faults: dict[str, object]) -> None:
    out = tmp_path / "out"
    words = ("--save", out, "--load", out, "--train-iters", 700, "--lr", "1e-4")
    run = supervise(tmp_path / "run", "megatron-deepspeed", hurt("megatron_deepspeed_like.py", *words, **faults))
    assert run.incidents()
    assert all(incident["state"] == "recovered" for incident in run.incidents())
    assert sorted(run.surviving()) == list(range(1, 701))
    last = told(out)[-1]
    assert ("--skip-train-iteration-range" in last) is ("poison" in faults)
    if "poison" in faults:
        start, end = map(int, last[last.index("--skip-train-iteration-range") + 1].split("-"))
        assert start <= 350
        assert end >= 379
        assert proofs(run.incidents()[-1])["skip"] == "asserted", "its lines show nothing of it"


def under_torchrun(words: list[str]) -> list[str]:
    at = words.index(sys.executable)
    return [*words[:at], sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words[at + 1 :]]


@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.parametrize(("start", "faults"), [(list, {}), (under_torchrun, {"rank": 1})])
def test_a_loop_as_nanogpts_survives_all_four_alone_and_as_two_ranks(
    tmp_path: Path, start: Callable[[list[str]], list[str]], faults: dict[str, int]
) -> None:
    """Each save writes over its only file. A poisoned batch does not come again behind a resume: batches are drawn anew."""
    out = tmp_path / "out"
    words = nanogpt(out, 900, kill=110, hang=210, nan=330, drawn=[560, 600], **faults)
    run = supervise(tmp_path / "run", "nanogpt", start(words), deadline_s=900.0)
    incidents = run.incidents()
    assert [one["kind"] for one in incidents[:3]] == ["crash", "hang", "non_finite"]
    assert {one["state"] for one in incidents} == {"recovered"}
    assert [one["blamed_rank"] for one in incidents[:2]] == [faults.get("rank", 0)] * 2
    assert told(out)[1][-1] == "--init_from=resume"
    assert proofs(incidents[-1]) == {"lr_scale": "asserted", "clip_norm": "asserted"}, "its lines show neither"
    assert any("cannot skip samples" in reason for reason in passed_over(incidents[-1]))


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_a_poison_that_cannot_be_left_out_is_said_to_be_that(tmp_path: Path) -> None:
    """It comes again however far back and slowly: a person is called, with what the trainer lacks."""
    run = give_up(tmp_path / "run", "nanogpt", nanogpt(tmp_path / "out", 900, poison=[260, 900]))
    incident = run.incidents()[0]
    assert incident["state"] == "exhausted"
    assert sum("cannot skip samples" in reason for reason in passed_over(incident)) == 3
    assert run.log.count("A PERSON IS NEEDED") == 1


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_one_that_refuses_an_argument_of_the_profile_goes_on_without_it(tmp_path: Path) -> None:
    """Before, three launches in a row died of it, and the run was called a broken job."""
    policy, out = tmp_path / "own.yaml", tmp_path / "out"
    rungs = [
        {"rollback": {"before_onset": "20 steps"}, "clip_norm": 0.3},
        {"rollback": {"before_onset": "20 steps"}, "lr": "0.5x"},
        {"page": {}, "then": "stop_now"},
    ]
    policy.write_text(json.dumps({"extends": "demo", "spec": {"playbooks": {"numeric": rungs}}} | KIND))
    command = nanogpt(out, 600, drawn=[260, 300], lacks=["grad_clip"])
    run = supervise(tmp_path / "run", "nanogpt", command, str(policy), deadline_s=900.0)
    (incident,) = run.incidents()
    first, second = incident["remedies"]
    assert first["outcome"] == "passed_over"
    assert first["reason"] == "the trainer refuses --grad_clip: ValueError: Unknown config key: grad_clip"
    assert (second["outcome"], proofs(incident)) == ("worked", {"lr_scale": "asserted"})


@pytest.mark.slow
def test_one_that_ignores_the_flag_to_resume_is_stopped_before_it_saves_over_what_it_had(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = Supervised(tmp_path / "run", nanogpt(out, 500, kill=210, forgets=1), "demo", ["--trainer", "nanogpt"]).start()
    assert run.wait(240.0) == 1, run.log
    assert [incident["kind"] for incident in run.incidents()] == ["crash", "override_mismatch"]
    assert "asked to resume from step 200: it ignores how the profile nanogpt asks for that" in run.log
    assert len(told(out)) == 2, "not tried again"
    assert sorted(run.surviving())[-1] < 25, "before its first save"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "faults"), [("crash", {"kill": 130, "rank": 1}), ("crash", {"kill": 130}), ("hang", {"hang": 130, "rank": 1})]
)
def test_two_ranks_under_torchrun_survive_and_the_right_one_is_blamed(tmp_path: Path, kind: str, faults: dict[str, int]) -> None:
    run = supervise(tmp_path / "run", "megatron", under_torchrun(megatron(tmp_path / "out", 300, **faults)))
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == (kind, "recovered")
    assert incident["blamed_rank"] == faults.get("rank", 0)
    assert sorted(run.surviving()) == list(range(1, 301))


@pytest.mark.slow
def test_a_megatron_that_saves_on_sigterm_is_stopped_without_losing_a_step(tmp_path: Path) -> None:
    """Its save takes longer than a trainer that says nothing has after a SIGTERM, and nobody kills it."""
    out = tmp_path / "out"
    command = [*megatron(out, 400), "--step-s", "0.02", "--save-s", "13", "--save-interval", "390", "--exit-signal-handler"]
    run = Supervised(tmp_path / "run", command, "demo", ["--trainer", "megatron"]).start()
    wait_for("thirty steps", lambda: len(run.surviving()) >= 30)
    assert run_sentinel("stop", str(run.run_dir)).returncode == 0
    assert run.wait() == 130
    saved = int((out / "latest_checkpointed_iteration.txt").read_text())
    assert saved < 390, "not one of its own saves"
    assert max(run.surviving()) == saved
    reason = json.loads((run.run_dir / "attempts" / "0001" / "exit.json").read_text())["ranks"][0]
    assert (reason["code"], reason["signal"]) == (0, None)
    again = Supervised(run.run_dir, command, "demo", ["--trainer", "megatron"]).start()
    assert again.wait() == 0
    assert again.status()["state"] == "finished"
    assert told(out)[1][-2:] == ["--load", str(out)]
    assert sorted(again.surviving()) == list(range(1, 401))


@pytest.mark.slow
def test_one_that_cannot_be_asked_is_ended_at_once_and_goes_on_from_its_newest_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [*megatron(out, 400), "--step-s", "0.02"]
    run = Supervised(tmp_path / "run", command, "demo", ["--trainer", "megatron"]).start()
    wait_for("thirty steps", lambda: len(run.surviving()) >= 30)
    assert run_sentinel("stop", str(run.run_dir)).returncode == 0
    assert run.wait() == 130
    asked = next(entry for entry in run.facts() if isinstance(entry.fact, f.AttemptStopping))
    ended = next(entry for entry in run.facts() if isinstance(entry.fact, f.AttemptEnded))
    assert ended.at_s - asked.at_s < 10.0, "nobody waited for an answer that cannot come"
    again = Supervised(run.run_dir, command, "demo", ["--trainer", "megatron"]).start()
    assert again.wait() == 0
    assert told(out)[1][-2] == "--load"
