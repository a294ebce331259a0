"""The launcher of JobSets against an API in memory: one JobSet per attempt, an end that is proven, nothing out of silence."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sentinel.errors import EngineDown, GiveUp, NotYet
from sentinel.launcher.asking import Reply
from sentinel.launcher.kubernetes import jobsets
from sentinel.launcher.kubernetes.pods import RUN
from sentinel.launcher.registry import LaunchPlace, open_launcher
from sentinel.model.attempts import Alive, AttemptView, Exited, NotStarted, Unseen
from tests.unit.launcher.kube_double import FROZEN, KubeBench


@pytest.fixture
def bench(tmp_path: Path) -> KubeBench:
    (tmp_path / "big").mkdir()
    return KubeBench(tmp_path / "big")


def until_seen(launcher: Any, bench: KubeBench, kind: type[AttemptView], attempt: int = 1, looks: int = 60) -> Any:
    for _ in range(looks):
        view = launcher.observe(attempt)
        if isinstance(view, kind):
            return view
        bench.kube.let_pass(1.0)
    raise AssertionError(f"it is still {view}")


def test_a_jobset_is_created_once_whoever_asks(bench: KubeBench) -> None:
    assert bench.launcher().observe(1) == NotStarted(1)
    for _ in range(3):
        assert isinstance(bench.launcher().ensure_started(bench.spec()), Alive)
    assert bench.kube.created == [bench.name()]
    assert bench.name().startswith("s-big-")
    assert bench.name().endswith("-1")
    assert isinstance(until_seen(bench.launcher(), bench, Alive), Alive)


def test_a_creation_that_nobody_heard_of_counts_as_started(bench: KubeBench) -> None:
    """kubectl was killed, or the answer was lost: the API has it all the same, and refuses a second."""
    bench.kube.answers_create = False
    with pytest.raises(EngineDown, match="did not end in time"):
        bench.launcher().ensure_started(bench.spec())
    assert isinstance(bench.launcher().ensure_started(bench.spec()), Alive)
    assert bench.kube.created == [bench.name()]


def test_already_exists_of_this_very_launch_is_started(bench: KubeBench) -> None:
    """The list of before did not have it yet: the answer to create says that it is there."""
    kube, real = bench.kube, bench.kube.jobsets
    bench.kube.answers_create = False
    with pytest.raises(EngineDown):
        bench.launcher().ensure_started(bench.spec())
    lists = [Reply(0, '{"kind": "JobSetList", "metadata": {"resourceVersion": "3"}, "items": []}')]
    kube.jobsets = lambda *words: lists.pop() if lists else real(*words)  # type: ignore[method-assign]
    kube.answers_create = True
    pods = dict(kube.pod_items)
    kube.pod_items.clear()
    real_create = kube.create

    def create(*words: Any) -> Reply:
        kube.pod_items.update(pods)
        return real_create(*words)

    kube.create = create  # type: ignore[method-assign]
    assert isinstance(bench.launcher().ensure_started(bench.spec()), Alive)
    assert kube.created == [bench.name()]


def test_an_object_of_that_name_that_is_not_this_runs_is_left_alone(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.kube.jobset_items[bench.name()]["metadata"]["labels"][RUN] = "other-00000000"
    bench.kube.pod_items.clear()
    shutil.rmtree(bench.folder())
    with pytest.raises(EngineDown, match=r"of the run other-00000000, launch launch1; it is left alone.*kubectl"):
        bench.launcher().ensure_started(bench.spec(launch="mine"))
    assert bench.kube.deleted == []
    assert bench.name() in bench.kube.jobset_items


def test_an_attempt_of_that_number_that_a_lost_journal_started_is_ended_first(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec(launch="older"))
    shutil.rmtree(bench.folder())
    assert isinstance(bench.launcher().ensure_started(bench.spec(launch="newer")), Alive)
    assert bench.kube.deleted == ["uid-1"]
    assert bench.kube.created == [bench.name()] * 2


def test_a_later_attempt_that_lives_is_ended_before_an_earlier_number_is_started(bench: KubeBench) -> None:
    """The journal was put back to an earlier day."""
    bench.launcher().ensure_started(bench.spec(5))
    shutil.rmtree(bench.folder(5))
    bench.kube.off.add("gpu-2")
    with pytest.raises(EngineDown, match="while attempt 5 may live"):
        bench.launcher().ensure_started(bench.spec(3))
    assert bench.kube.created == [bench.name(5)]
    bench.kube.off.clear()
    assert isinstance(bench.launcher().ensure_started(bench.spec(3)), Alive)


def test_two_volumes_at_one_path_are_two_runs(bench: KubeBench) -> None:
    before = bench.name()
    (bench.run_dir / "run.json").write_text('{"digest_key": "cd34"}')
    assert bench.name() != before


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_frozen_api_leads_to_no_act(bench: KubeBench, attempts: int) -> None:
    bench.launcher().ensure_started(bench.spec())
    launcher = bench.launcher()
    assert isinstance(until_seen(launcher, bench, Alive), Alive)
    bench.kube.is_frozen = True
    for _ in range(120):
        bench.kube.let_pass(1.0)
        launcher.observe(1)
    view = launcher.observe(1)
    assert isinstance(view, Unseen)
    assert not view.has_ended_here
    assert "did not end in time" in view.reason
    with pytest.raises(NotYet, match="did not end in time"):
        bench.launcher().ensure_stopped(1)
    with pytest.raises(EngineDown, match="while its pods may exist"):
        bench.launcher().ensure_started(bench.spec(attempts))
    assert (bench.kube.created, bench.kube.deleted) == ([bench.name()], [])
    assert not (bench.folder() / "exit.json").exists()
    bench.kube.is_frozen = False
    bench.kube.let_pass(10.0)
    assert isinstance(until_seen(launcher, bench, Alive), Alive)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(0, ""), Reply(0, "{}"), Reply(0, '{"kind": "JobSetList", "metadata": {}, "items": []}'),
        Reply(0, "[]", is_cut=True),
        Reply(0, '{"kind": "Status", "metadata": {"resourceVersion": "1"}}'), Reply(1, "", "Error from server (Forbidden): no"),
        Reply(0, '{"kind": "JobSetList", "metadata": {"resourceVersion": "1", "continue": "x"}, "items": []}'),
        Reply(0, '{"kind": "JobSetList", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {}}]}'), FROZEN,
    ],
)  # fmt: skip
def test_what_is_no_whole_list_starts_and_ends_nothing(bench: KubeBench, reply: Reply) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.kube.jobset_items.clear()
    bench.kube.pod_items.clear()
    bench.kube.jobsets = lambda *_: reply  # type: ignore[method-assign]
    with pytest.raises(EngineDown):
        bench.launcher().ensure_started(bench.spec(2))
    with pytest.raises(NotYet):
        bench.launcher().ensure_stopped(1)
    launcher = bench.launcher()
    for _ in range(20):
        bench.kube.let_pass(1.0)
        assert isinstance(launcher.observe(1), Unseen)


def test_a_stop_is_believed_when_no_pod_is_left(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.kube.is_slow = True
    with pytest.raises(NotYet, match=r"the API lists pod .* on gpu-1, .*touch"):
        bench.launcher().ensure_stopped(1)
    assert not (bench.folder() / "exit.json").exists()
    bench.kube.is_slow = False
    view = bench.launcher().ensure_stopped(1)
    assert isinstance(view, Exited)
    assert view.report.reason == "stopped by sentinel"
    assert view.report.first_failed_rank is None
    assert bench.kube.pod_items == {}
    assert isinstance(bench.launcher().ensure_stopped(1), Exited)


def test_a_jobset_that_is_gone_while_a_pod_of_it_is_listed_is_no_end(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.kube.jobset_items.clear()
    with pytest.raises(NotYet, match="the API lists pod"):
        bench.launcher().ensure_stopped(1)
    launcher = bench.launcher()
    for _ in range(10):
        bench.kube.let_pass(1.0)
        assert not isinstance(launcher.observe(1), Exited)
    bench.kube.pod_items.clear()
    assert isinstance(until_seen(launcher, bench, Exited), Exited)


def test_a_pod_on_an_unreachable_node_is_unknown(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec())
    launcher = bench.launcher()
    until_seen(launcher, bench, Alive)
    bench.kube.off.add("gpu-3")
    pod = bench.kube.pods_of(bench.name())[2]
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]  # as the node controller leaves it
    bench.kube.let_pass(6.0)
    launcher.observe(1)
    view = launcher.observe(1)
    assert isinstance(view, Unseen)
    assert "on gpu-3: its node is not reachable" in view.reason
    with pytest.raises(NotYet, match=r"on gpu-3: its node is not reachable; .*out-of-service"):
        launcher.ensure_stopped(1)
    with pytest.raises(NotYet):
        bench.launcher().ensure_stopped(1)
    assert [one["spec"]["nodeName"] for one in bench.kube.pod_items.values()] == ["gpu-3"], "of the others nothing is left"
    bench.kube.off.clear()  # a person deletes the Node: the pod leaves the list
    view = bench.launcher().ensure_stopped(1)
    assert isinstance(view, Exited)
    assert "on gpu-3: its node is not reachable" in view.report.reason


def test_a_node_that_was_lost_is_blamed_where_no_rank_has_a_failure_of_its_own(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec())
    for rank in range(3):
        bench.beat(rank, 40, f"gpu-{rank + 1}")
    bench.kube.pods_of(bench.name())[1]["status"] |= {"reason": "NodeLost", "message": "Node gpu-2 is unresponsive"}
    view = bench.launcher().ensure_stopped(1)
    assert isinstance(view, Exited)
    assert view.report.first_failed_rank == 1


def test_a_pod_that_fails_ends_the_attempt_and_is_blamed(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec())
    launcher = bench.launcher()
    until_seen(launcher, bench, Alive)
    bench.kube.logs[bench.kube.pods_of(bench.name())[1]["metadata"]["name"]] = "CUDA error: oh\n"
    bench.kube.end(bench.name(), 1, 137, "OOMKilled")
    unseen = until_seen(launcher, bench, Unseen)
    assert unseen.has_ended_here, "what is left of it is to be ended, and its silence is no hang"
    assert "ended with 137; the API lists pod" in unseen.reason
    assert bench.kube.deleted == [], "to look is no act"
    view = launcher.ensure_stopped(1)
    assert isinstance(view, Exited)
    assert bench.kube.deleted == ["uid-1"]
    assert [(rank.rank, rank.signal, rank.source) for rank in view.report.ranks] == [(1, 9, "reaped")], "others were asked to end"
    assert view.report.first_failed_rank == 1
    assert "ended with 137; what was left was stopped by sentinel; " in view.report.reason
    assert "on gpu-2: OOMKilled" in view.report.reason
    assert (bench.folder() / "logs" / "rank-00001.err").read_text() == "CUDA error: oh\n"
    assert json.loads((bench.folder() / "pods.json").read_text())["pods"]


def test_a_pod_that_failed_before_a_stop_is_told_from_those_that_the_stop_ended(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.kube.end(bench.name(), 2, 1)
    bench.launcher().ensure_stopped(1)
    assert [entry.name for entry in (bench.folder() / "tasks").iterdir()] == ["rank-00002.json"]


def test_ranks_that_finished_are_known_to_have_finished(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec())
    launcher = bench.launcher()
    until_seen(launcher, bench, Alive)
    for index in range(3):
        bench.kube.end(bench.name(), index, 0, "Completed")
    bench.kube.finish(bench.name(), "Completed")
    view = until_seen(launcher, bench, Exited)
    assert [(rank.code, rank.signal) for rank in view.report.ranks] == [(0, None)] * 3
    assert view.report.command_status == 0
    assert "trainer of" in (bench.folder() / "logs" / "rank-00000.err").read_text()
    bench.launcher().ensure_started(bench.spec(2))
    assert bench.kube.deleted == ["uid-1"], "what has ended is cleared away, and not waited for"


def test_a_phase_without_the_containers_word_is_no_end(bench: KubeBench) -> None:
    """Others than the kubelet set it, of a node that nobody hears."""
    bench.launcher().ensure_started(bench.spec())
    launcher = bench.launcher()
    for pod in bench.kube.pods_of(bench.name()):
        pod["status"]["phase"] = "Failed"
    bench.kube.finish(bench.name(), "Failed")
    for _ in range(10):
        bench.kube.let_pass(1.0)
        assert not isinstance(launcher.observe(1), Exited)


def test_a_jobset_that_waits_for_room_is_trouble_of_the_cluster(bench: KubeBench) -> None:
    bench.kube.is_queued = True
    with pytest.raises(EngineDown, match="0 of 3 pods are there"):
        bench.launcher().ensure_started(bench.spec())
    bench.kube.make_pods(bench.name())
    pod = bench.kube.pods_of(bench.name())[0]
    words = "0/9 nodes are available: 1 node(s) were unschedulable, 8 Insufficient nvidia.com/gpu."
    del pod["spec"]["nodeName"]
    pod["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}]}
    with pytest.raises(EngineDown, match=r"waits: Unschedulable: 0/9 nodes .* unschedulable"):
        bench.launcher().ensure_started(bench.spec())
    assert bench.kube.created == [bench.name()]
    assert bench.kube.deleted == []


def test_an_image_that_cannot_be_pulled_is_told(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec())
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    for pod in bench.kube.pods_of(bench.name()):
        pod["status"]["containerStatuses"][0]["state"] = state
    with pytest.raises(EngineDown, match="ImagePullBackOff: no such image"):
        bench.launcher().ensure_started(bench.spec())


def test_a_program_that_no_image_has_is_given_up(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.kube.end(bench.name(), 0, 128, "StartError", 'exec: "torchrun": executable file not found in $PATH')
    for pod in bench.kube.pods_of(bench.name())[1:]:
        pod["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ContainerCreating"}}
    for _ in range(2):
        with pytest.raises(GiveUp, match=r"no such program: pod .*executable file not found"):
            bench.launcher().ensure_started(bench.spec())
    assert bench.kube.pod_items == {}


def test_a_refused_creation_is_trouble_of_the_cluster_and_keeps_its_number(bench: KubeBench) -> None:
    bench.kube.refusal = "Forbidden"
    for _ in range(2):
        with pytest.raises(EngineDown, match=r"does not take it: .*Forbidden"):
            bench.launcher().ensure_started(bench.spec())
    bench.kube.refusal = ""
    assert isinstance(bench.launcher().ensure_started(bench.spec()), Alive)


def test_a_creation_that_may_still_be_carried_out_is_waited_for(bench: KubeBench) -> None:
    bench.kube.refusal = "Timeout"
    with pytest.raises(EngineDown):
        bench.launcher().ensure_started(bench.spec())
    with pytest.raises(NotYet, match="may still come to be"):
        bench.launcher().ensure_stopped(1)
    place = bench.folder() / "kubernetes.json"
    os.utime(place, (place.stat().st_mtime - jobsets.SETTLE_S, place.stat().st_mtime - jobsets.SETTLE_S))
    assert isinstance(bench.launcher().ensure_stopped(1), Exited)


def test_excluded_nodes_are_kept_off_by_affinity(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec(1, "gpu-17", "gpu-4"))
    pod = bench.kube.bodies[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in ("gpu-17", "gpu-4")]
    assert required == {"nodeSelectorTerms": [{"matchFields": fields}]}
    environment = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert environment["SENTINEL_EXCLUDE_NODES"] == "gpu-17,gpu-4"


def test_a_template_that_was_spoilt_starts_nothing_and_names_the_line(bench: KubeBench) -> None:
    place = bench.run_dir / "jobset.yaml"
    place.write_text(place.read_text().replace("parallelism: 3", "parallelism: three"))
    with pytest.raises(EngineDown, match=r"jobset\.yaml:9:9: .*parallelism: is 'three'; write a whole number"):
        bench.launcher().ensure_started(bench.spec())
    assert bench.kube.created == []


def test_what_runs_is_adopted_whatever_has_become_of_the_template(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec())
    (bench.run_dir / "jobset.yaml").unlink()
    assert isinstance(bench.launcher().ensure_started(bench.spec()), Alive)


def test_a_person_may_end_the_doubt(bench: KubeBench) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.kube.is_frozen = True
    (bench.folder() / "gone").touch()
    assert isinstance(bench.launcher().ensure_stopped(1), Exited)


def test_what_a_person_calls_gone_holds_up_no_other_attempt(bench: KubeBench) -> None:
    """A node died for good, and nobody deletes it: its pod stays in the list for ever."""
    bench.launcher().ensure_started(bench.spec())
    bench.kube.off.add("gpu-3")
    with pytest.raises(NotYet):
        bench.launcher().ensure_stopped(1)
    (bench.folder() / "gone").touch()
    assert isinstance(bench.launcher().ensure_stopped(1), Exited)
    assert isinstance(bench.launcher().ensure_started(bench.spec(2)), Alive)


def count_pod_lists(bench: KubeBench) -> list[int]:
    counted, real = [0], bench.kube.pods

    def pods(*words: str) -> Reply:
        counted[0] += 1
        return real(*words)

    bench.kube.pods = pods  # type: ignore[method-assign]
    return counted


def test_pods_of_a_large_run_are_looked_at_rarely_while_nothing_is_wrong(bench: KubeBench) -> None:
    place = bench.run_dir / "jobset.yaml"
    place.write_text(place.read_text().replace("parallelism: 3", "parallelism: 640"))  # ten seconds' worth
    bench.launcher().ensure_started(bench.spec())
    launcher, lists = bench.launcher(every="1s"), count_pod_lists(bench)
    for _ in range(30):
        assert not isinstance(launcher.observe(1), Exited)
        bench.kube.let_pass(1.0)
    assert lists[0] == 3
    bench.kube.end(bench.name(), 7, 1)
    (bench.folder() / "exits" / "rank-00007.json").write_text('{"rank": 7, "code": 1}')
    launcher.observe(1)
    assert lists[0] == 4, "a rank's own record is news"
    bench.kube.finish(bench.name(), "Failed")
    for _ in range(5):
        bench.kube.let_pass(1.0)
        launcher.observe(1)
    assert lists[0] > 6, "what is over is looked at whole"


def test_who_only_looks_never_asks_the_api(bench: KubeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    looking = open_launcher("kubernetes", {"template": "jobset.yaml"}, LaunchPlace(bench.run_dir))
    bench.launcher().ensure_started(bench.spec())
    monkeypatch.setenv("PATH", "")
    assert isinstance(looking.observe(1), Alive)
    (bench.folder() / "seen.json").unlink()
    assert "nothing from the Kubernetes API yet" in looking.observe(1).reason  # type: ignore[union-attr]


class Killed(BaseException):
    """The supervisor, by SIGKILL."""


def die_at(line: int) -> Callable[[FrameType, str, Any], Any]:
    """Of the lines of the launcher that are executed; none of those that handle an exception."""
    left = [line]

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if "/launcher/kubernetes/" not in frame.f_code.co_filename or frame.f_code.co_filename.endswith("template.py"):
            return None
        if event == "line" and sys.exc_info()[0] is None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
        return trace

    return trace


def release_locks(folder: Path) -> None:
    """As the kernel does for a process that has died."""
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}") == str(folder / "start.lock"):
                os.close(int(number))


@pytest.mark.parametrize("is_heard", [True, False])
def test_killed_after_any_line_there_is_one_jobset_of_the_name(tmp_path: Path, is_heard: bool) -> None:
    """Every fifth line, others where nobody hears the API's answer to the creation. A retry has the same launch."""
    deaths, line = 0, int(not is_heard)
    while True:
        (tmp_path / f"run-{line}").mkdir()
        bench = KubeBench(tmp_path / f"run-{line}")
        bench.kube.answers_create = is_heard
        before = sys.gettrace()
        sys.settrace(die_at(line))
        is_dead = False
        try:
            bench.launcher().ensure_started(bench.spec())
        except Killed:
            is_dead = True
        except EngineDown:
            assert not is_heard
        finally:
            sys.settrace(before)
        release_locks(bench.folder())
        bench.kube.answers_create = True
        assert isinstance(bench.launcher().ensure_started(bench.spec()), Alive), f"killed at line {line}"
        assert bench.kube.created == [bench.name()], f"killed at line {line}"
        assert bench.kube.deleted == []
        if not is_dead:
            break
        deaths, line = deaths + 1, line + 5
    assert deaths > 10
