"""`sentinel autopsy --policy`: a policy's own patterns beside what the logs say by themselves; and what its checker refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("re2", reason="google-re2 is not installed: pip install 'training-sentinel[logs]'")

from sentinel.cli.root import app
from sentinel.errors import PolicyError
from sentinel.policy_files.explain import explain_rules
from sentinel.policy_files.loading import load_policy, read_policy_file

HEAD = "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: mine}\nextends: default\nspec:\n  logs:\n"
ENTRIES = r"""    - {name: Told, match: only told, page: warning}
    - {name: Link, match: link (?P<port>\w+) down, class: "bad link {{ port }}", retry: false, text: "look at {{ port }}"}
    - {name: Ecc, match: 'ECC error on GPU (?P<gpu>\d+)', class: "sick GPU {{ gpu }}", node: exclude}
"""
CRASH = "iteration 7 | loss 2.0\nRuntimeError: something\n"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + ENTRIES)
    return path


def autopsy(*words: str | Path) -> str:
    done = CliRunner().invoke(app, ["autopsy", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_first_entry_that_was_found_decides_and_says_what_to_do(tmp_path: Path, policy: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "rank-00000.log").write_text(CRASH)
    (logs / "rank-00003.log").write_text("only told\nok\nECC error on GPU 5\n" + CRASH)
    said = autopsy("--policy", policy, logs)
    assert "by the policy: sick GPU 5 on rank 3 (Ecc, leave its node out): rank-00003.log:3: ECC error on GPU 5" in said
    (logs / "rank-00001.log").write_text("x\nlink mlx5 down\n")
    said = autopsy("--policy", policy, logs)
    assert "bad link mlx5 on rank 1 (Link, a relaunch cannot help): rank-00001.log:2: look at mlx5: link mlx5 down" in said
    assert "by the policy" not in autopsy(logs)


def test_one_log_of_all_ranks_and_a_packed_one_by_their_labels(tmp_path: Path, policy: Path) -> None:
    packed = tmp_path / "slurm.out.gz"
    packed.write_bytes(gzip.compress(("ok\n" * 900_000 + "[rank7]: ECC error on GPU 1\n" + CRASH).encode()))
    document = json.loads(autopsy("--policy", policy, "--json", packed))
    assert document["by_policy"] == {
        "name": "Ecc", "class": "sick GPU 1", "rank": 7, "log": str(packed), "line": 900_001, "evidence": "ECC error on GPU 1",
        "exclude_node": True, "retry": True,
    }  # fmt: skip


def test_where_nothing_matches_nothing_is_said(tmp_path: Path, policy: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("only told\n" + CRASH)
    assert "by_policy" not in json.loads(autopsy("--policy", policy, "--json", log))


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{name: A, match: 'sick (GPU'}", "mine.yaml:7:30: spec.logs[0].match: this is no pattern: a bracket is not closed"),
        ("{name: A, match: 'a(?=b)'}", "mine.yaml:7:26: spec.logs[0].match: this is no pattern: invalid perl operator"),
        ("{name: A, match: 'x*'}", "it is found in an empty line"),
        ("{name: A, match: 7}", "7 is not a pattern"),
        ("{name: A, match: x, class: 'sick {{ gpu }}'}", "'class' names 'gpu', and the pattern has no such group"),
        ("{name: A, match: '(?P<gpu>x)', text: '{{ gpv }}'}", "did you mean 'gpu'?"),
        ("{name: A, match: x, node: drain}", "'drain' is not 'exclude', the only value here"),
        ("{name: A, match: x, page: info}", "'info' is not known here"),
        ("{name: Spike, match: x}", "'Spike' is also an alert"),
    ],
)
def test_what_cannot_be_used_is_refused_where_it_stands(tmp_path: Path, entry: str, says: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{HEAD}    - {entry}\n")
    with pytest.raises(PolicyError) as refused:
        load_policy(path)
    assert says in str(refused.value)


def test_a_node_that_the_command_cannot_leave_out_is_asked_about(policy: Path) -> None:
    assert "spec.logs[2].node: the command is not declared" in read_policy_file(policy, {"skip"}).print_warnings()
    assert "spec.logs" not in read_policy_file(policy, {"skip", "exclude"}).print_warnings()


def test_explain_lists_them(policy: Path) -> None:
    said = explain_rules(load_policy(policy))
    assert "Told (a line of a log that matches only told): a warning page" in said
    assert "recorded only; of an attempt that died: the crash is 'sick GPU {{ gpu }}', its node is left out" in said
    assert "a person is called at once" in said
