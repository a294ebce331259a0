"""Every row of the table in docs/design/slurm.md: what an answer of Slurm's means. Unknown is never gone, and never lives."""

from __future__ import annotations

import time

import pytest

from sentinel.launcher.slurm.answers import (
    APART_S,
    JOB_COLUMNS,
    LIVING,
    OVER,
    Absence,
    JobLine,
    Listed,
    Reply,
    SlurmStep,
    Unclear,
    Unlisted,
    find_others,
    judge_forgotten_job,
    judge_other_job,
    judge_steps,
    read_job_line,
    read_steps,
)
from sentinel.launcher.slurm.nodes import (
    NOTHING,
    NodeWords,
    choose_nodes,
    judge_emptiness,
    judge_left,
    read_node_states,
    read_probe,
)
from sentinel.launcher.slurm.settings import Wanted
from tests.unit.launcher.slurm_double import StepDouble, step_line

NAME = "s-big-1f0c93aa-7"
BATCH = step_line(StepDouble("71.batch", "batch", ["n1"]))
GONE, HERE = Unlisted(), Listed((SlurmStep("71.3", NAME, "RUNNING"),))


def line(name: str = NAME, state: str = "RUNNING", number: str = "71.3") -> str:
    return step_line(StepDouble(number, name, ["n1", "n2"], state))


def job_line(*cells: str) -> str:
    return "".join(f"{cell:{width}}"[:width] for cell, width in zip(cells, JOB_COLUMNS.values(), strict=True)) + "\n"


def look(output: str, **reply: object) -> object:
    return judge_steps(read_steps(Reply(0, output, **reply), "71"), NAME)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", sorted(LIVING))
def test_a_line_of_its_name_lives(state: str) -> None:
    assert look(BATCH + line(state=state)) == Listed((SlurmStep("71.3", NAME, state, "n1,n2"),))


@pytest.mark.parametrize("state", [*sorted(OVER), "A_STATE_OF_A_LATER_VERSION"])
def test_a_line_that_is_there_is_no_end(state: str) -> None:
    seen = look(BATCH + line(state=state))
    assert isinstance(seen, Unclear)
    assert state in seen.reason
    assert seen.steps[0].id == "71.3"


def test_two_steps_of_one_name_are_both_told() -> None:
    seen = look(BATCH + line() + line(number="71.4"))
    assert isinstance(seen, Listed)
    assert [step.id for step in seen.steps] == ["71.3", "71.4"]


def test_it_is_unlisted_where_the_jobs_other_steps_are_listed() -> None:
    assert isinstance(look(BATCH), Unlisted)
    assert isinstance(look(BATCH + line("s-big-1f0c93aa-71")), Unlisted), "attempt 7 is not attempt 71"


def test_an_empty_list_is_unknown() -> None:
    seen = look("")
    assert isinstance(seen, Unclear)
    assert "not even that of its batch script" in seen.reason


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(1, "", "slurm_get_job_steps error: Unable to contact slurm controller (connect failure)"), "Unable to contact"),
        (Reply(None, BATCH), "did not end in time"),
        (Reply(0, BATCH, is_cut=True), "more than was read"),
        (Reply(0, BATCH, "squeue: error: Invalid job step format specification: T"), "and with an error"),
        (Reply(1, BATCH, "slurm_load_jobs error: Invalid job id specified"), "Invalid job id"),
        (Reply(0, BATCH + "what is this\n"), "cannot be read"),
        (Reply(0, BATCH + "71.3\n"), "cannot be read"),
    ],
)
def test_what_is_no_answer_is_unknown(reply: Reply, why: str) -> None:
    seen = judge_steps(read_steps(reply, "71"), NAME)
    assert isinstance(seen, Unclear)
    assert why in seen.reason
    assert not seen.steps


def test_of_an_array_only_its_own_task_is_read() -> None:
    """Slurm 22.05: the last task of an array has the array's number, by which squeue lists the others, too."""
    others = [StepDouble("71_1.batch", "batch", ["n3"], job="72"), StepDouble("71_1.0", NAME, ["n3"], job="72")]
    listed = "".join(map(step_line, [StepDouble("71_2.batch", "batch", ["n1"]), *others]))
    assert isinstance(look(listed), Unlisted), "what is listed is of another task"
    assert look(listed + line(number="71_2.4")) == Listed((SlurmStep("71.4", NAME, "RUNNING", "n1,n2"),)), "as scontrol reads it"
    assert isinstance(look("".join(map(step_line, others))), Unclear), "none of its own"
    jobs = job_line("71", "RUNNING", "n1") + job_line("72", "COMPLETED", "n3")
    assert read_job_line(Reply(0, jobs), "71") == JobLine("RUNNING", "n1")
    assert isinstance(read_job_line(Reply(0, jobs), "70"), Unclear)


def test_a_list_of_nodes_that_is_cut_is_none() -> None:
    nodes = ",".join(f"host-{number:06d}" for number in range(6000))
    assert isinstance(read_job_line(Reply(0, job_line("71", "RUNNING", nodes)), "71"), Unclear)


def test_a_step_may_be_named_in_any_way() -> None:
    assert isinstance(look(BATCH + line("a\x0bb\x85\u2028é") + line()), Listed)


def test_a_job_that_is_forgotten_is_over_where_its_controller_has_run_ever_since() -> None:
    nothing = judge_steps(read_steps(Reply(0, ""), "71"), NAME)
    unknown = Reply(1, "", "slurm_load_jobs error: Invalid job id specified")
    up = Reply(0, "AuthType = x\nBOOT_TIME               = 2026-11-01T00:00:00\n")
    later_s = time.mktime((2026, 11, 1, 0, 10, 1, 0, 0, -1))
    assert isinstance(judge_forgotten_job(nothing, unknown, up, later_s), Unlisted)
    for job, controller, launched_s in (
        (unknown, up, later_s - 2.0),  # within what two clocks may differ
        (unknown, Reply(None), later_s),
        (unknown, Reply(0, "BOOT_TIME = (null)\n"), later_s),
        (unknown, Reply(0, ""), later_s),
        (Reply(1, "", "Unable to contact slurm controller"), up, later_s),
        (Reply(None, "", "Invalid job id specified"), up, later_s),
    ):
        assert isinstance(judge_forgotten_job(nothing, job, controller, launched_s), Unclear)
    assert judge_forgotten_job(HERE, unknown, up, later_s) == HERE


def test_two_looks_apart_prove_an_end() -> None:
    absence = Absence()
    assert not absence.add(GONE, {}, 10.0)
    assert not absence.is_contradicted
    assert not absence.add(GONE, {}, 10.0 + APART_S / 2)
    assert absence.add(GONE, {}, 10.0 + APART_S)


@pytest.mark.parametrize("between", [HERE, Unclear("squeue: it did not end in time")])
def test_anything_else_between_them_begins_anew(between: Listed | Unclear) -> None:
    absence = Absence()
    assert not absence.add(GONE, {}, 0.0)
    assert not absence.add(between, {}, 5.0)
    assert absence.why_not
    assert not absence.add(GONE, {}, 10.0), "it is the first of two again"
    assert absence.add(GONE, {}, 11.0)


def test_a_heartbeat_that_changes_contradicts() -> None:
    absence = Absence()
    assert not absence.add(GONE, {0: b"1", 1: b"1"}, 0.0)
    assert not absence.add(GONE, {0: b"1", 1: b"2"}, 5.0)
    assert "the heartbeat of rank 1 changes" in absence.why_not
    assert absence.is_contradicted
    assert absence.add(GONE, {0: b"1", 1: b"2"}, 6.0)


def test_steps_of_other_attempts_are_found_by_exact_names() -> None:
    steps = read_steps(
        Reply(0, BATCH + line() + line("s-big-1f0c93aa-71") + line("s-big-1f0c93aa-x") + line("s-bigger-1f0c93aa-3")), "71"
    )
    assert not isinstance(steps, Unclear)
    assert list(find_others(steps, "s-big-1f0c93aa-", 7)) == [71]


def test_another_job_without_steps_is_over_by_its_own_state_alone() -> None:
    nothing = judge_steps(read_steps(Reply(0, ""), "71"), NAME)
    assert isinstance(judge_other_job(nothing, JobLine("CANCELLED", "n1")), Unlisted)
    for state in ("RUNNING", "COMPLETING", "REQUEUED"):
        assert isinstance(judge_other_job(nothing, JobLine(state, "n1")), Unclear)
    assert isinstance(judge_other_job(nothing, read_job_line(Reply(1, "", "Invalid job id specified"), "71")), Unclear)
    assert isinstance(judge_other_job(nothing, read_job_line(Reply(0, ""), "71")), Unclear)
    assert judge_other_job(HERE, JobLine("CANCELLED", "n1")) == HERE


def test_a_node_says_what_is_left() -> None:
    assert judge_left("n1", "2.3", "1", "PID JOBID STEPID LOCALID GLOBALID StepId=2.3 does not exist on node n1.") == NOTHING
    for code, words in (
        ("1", "StepId=2.33 does not exist on node n1."),
        ("1", "StepId=2.3 does not exist on node (null)."),
        ("127", "sh: scontrol: not found"),
        ("0", "PID      JOBID    STEPID   LOCALID GLOBALID"),  # a slurmstepd without a task: it starts, or it ends
        ("", ""),
    ):
        assert "does not say" in judge_left("n1", "2.3", code, words)
    assert "live on n1" in judge_left("n1", "2.3", "0", "PID      JOBID    STEPID   LOCALID GLOBALID 21 2 3 0 1")


def test_nothing_is_left_where_every_node_says_so_or_is_given_up() -> None:
    empty, lives = NodeWords({"2.3": NOTHING}), NodeWords({"2.3": "processes live"})
    nodes, job = ("n1", "n2"), ("n1", "n2", "n3")
    assert judge_emptiness("2.3", nodes, job, (), {"n1": empty, "n2": empty}) == ""
    assert judge_emptiness("2.3", nodes, job, ("n2",), {"n1": empty}) == "", "the controller calls it DOWN"
    assert judge_emptiness("2.3", nodes, ("n1", "n3"), (), {"n1": empty}) == "", "its job has lost it"
    assert "n2 does not answer" in judge_emptiness("2.3", nodes, job, (), {"n1": empty})
    assert "processes live" in judge_emptiness("2.3", nodes, job, (), {"n1": empty, "n2": lives})
    assert "does not say" in judge_emptiness("2.3", nodes, job, (), {"n1": empty, "n2": NodeWords({})})


def test_a_probe_is_read_line_by_line() -> None:
    words = read_probe(
        "noise\nsentinel-probe|n1||\nsentinel-probe|n2||\n"
        "sentinel-probe|n2|2.3|1|StepId=2.3 does not exist on node n2. \nsentinel-pro"
    )
    assert list(words) == ["n1", "n2"]
    assert words["n1"].steps == {}
    assert words["n2"].steps == {"2.3": NOTHING}


def test_states_of_nodes() -> None:
    lines = "NodeName=n1 Arch=x86 State=MIXED Weight=1\nNodeName=n2 Arch=x86 State=DOWN*+DRAIN Weight=1 Reason=State=IDLE\n"
    assert read_node_states(Reply(0, lines)) == {"n1": frozenset({"MIXED"}), "n2": frozenset({"DOWN", "DRAIN"})}
    assert isinstance(read_node_states(Reply(0, "nodes: all well\n")), Unclear)
    assert isinstance(read_node_states(Reply(1, lines, "no")), Unclear)


@pytest.mark.parametrize(
    ("wanted", "excluded", "silent", "drained", "chosen"),
    [
        (Wanted(), (), (), (), ("n1", "n2", "n3", "n4")),
        (Wanted(spares=1), (), (), (), ("n1", "n2", "n3")),
        (Wanted(spares=1), (), ("n2",), (), ("n1", "n3", "n4")),
        (Wanted(spares=1), ("n1.cluster.example",), (), (), ("n2", "n3", "n4")),
        (Wanted(nodes=2), (), (), ("n1",), ("n2", "n3")),
        (Wanted(spares=1), (), (), ("n1", "n2"), ("n1", "n3", "n4")),
        (Wanted(spares=1, least=2), ("n1",), ("n2",), (), ("n3", "n4")),
    ],
)
def test_nodes_of_the_next_attempt(
    wanted: Wanted, excluded: tuple[str, ...], silent: tuple[str, ...], drained: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    nodes = ("n1", "n2", "n3", "n4")
    assert choose_nodes(nodes, 4, excluded, [node for node in nodes if node not in silent], drained, wanted) == chosen


def test_too_few_nodes_are_told_with_who_is_missing() -> None:
    why = choose_nodes(("n1", "n2", "n3"), 4, ("n1",), ("n1", "n3"), (), Wanted())
    assert why == (
        "1 of the 4 nodes of the job can take part (n2 is silent; n1 is left out until uncordoned; 1 lost by the job), "
        "and 4 are needed"
    )
