"""What is different between two policies, in words."""

from __future__ import annotations

from pathlib import Path

from sentinel.policy.schema import PolicySpec
from sentinel.policy_files.difference import SECTIONS, VALUE_CHARS_MAX, differences, differences_text
from sentinel.policy_files.loading import PolicyFile, read_policy_file, shipped_policies, shipped_policy_path

HEAD = "apiVersion: sentinel/v1\nkind: RemediationPolicy\nmetadata: {name: mine}\nextends: default\n"


def shipped(name: str) -> PolicyFile:
    return read_policy_file(shipped_policy_path(name))


def written(folder: Path, spec: str) -> PolicyFile:
    path = folder / "mine.yaml"
    path.write_text(f"{HEAD}{spec}")
    return read_policy_file(path)


def words(folder: Path, spec: str) -> str:
    return differences_text(differences(shipped("default"), written(folder, spec)))


def test_nothing_where_both_say_the_same(tmp_path: Path) -> None:
    assert words(tmp_path, "spec: {}\n") == ""
    assert words(tmp_path, "spec: {detectors: {spike: {z: 8.0, window: 200 steps}}}\n") == "", "the same in other words"


def test_settings_stand_under_their_section_with_the_values_before_and_after(tmp_path: Path) -> None:
    spec = "spec:\n  mode: observe\n  detectors: {spike: {z: 12}, plateau: off}\n  budget: {per_cause: 2 per 1h}\n"
    assert words(tmp_path, spec).splitlines() == [
        "mode:",
        "  act, now observe",
        "detectors:",
        "  spike.z: 8, now 12",
        '  plateau: {"improvement": 0.005, "window": "10000 steps"}, now off',
        "budget:",
        "  per_cause: not set, now 2 per 1h",
    ]


def test_rules_and_playbooks_that_came_went_or_changed(tmp_path: Path) -> None:
    spec = """\
remove: [rules.Plateau, playbooks.hardware, rules.GpuFault]
spec:
  rules:
    - {alert: Spike, for: 9 steps}
    - {alert: Jump, expr: loss > 9, playbook: tell}
    - {alert: HardwareWarning, playbook: tell}
  playbooks:
    restart:
      - resume: {from: newest}
      - rollback: {before_onset: 300 steps}
      - page: {severity: critical}
        then: stop_now
    quiet: [{page: {severity: warning}, then: keep_training}]
    tell: [{page: {severity: info}, then: keep_training}]
"""
    found = dict(differences(shipped("default"), written(tmp_path, spec)))
    assert found["rules"][0] == "Spike.for: 2 steps, now 9 steps"
    assert "Plateau is gone (on plateau)" in found["rules"]
    assert "Jump is new: expr loss > 9, playbook tell" in found["rules"]
    assert "restart, rung 2: " in found["playbooks"][0]
    assert "restart, rung 4 is gone: " in "\n".join(found["playbooks"])
    assert "hardware is gone (3 rungs)" in found["playbooks"]
    assert "quiet is new (1 rung)" in found["playbooks"]
    assert "tell, rung 1.page.severity: warning, now info" in found["playbooks"]


def test_all_shipped_policies_can_be_compared_and_every_line_is_short() -> None:
    files = [shipped(name) for name in shipped_policies()]
    for before in files:
        for after in files:
            found = differences(before, after)
            assert (not found) == (before.policy.spec == after.policy.spec)
            assert all(len(line) < 3 * VALUE_CHARS_MAX for _, lines in found for line in lines)


def test_every_section_of_a_policy_is_compared() -> None:
    """A dry run that leaves one out says "nothing would be different" of a policy that pages, or not."""
    assert set(SECTIONS) == set(PolicySpec.model_fields)


def test_a_check_of_nodes_is_a_difference(tmp_path: Path) -> None:
    (tmp_path / "short").mkdir()
    (tmp_path / "long").mkdir()
    short = written(tmp_path / "short", "spec:\n  node_check: [healthy]\n")
    long = written(tmp_path / "long", "spec:\n  node_check: {command: [healthy, gpu], at_most: 2}\n")
    assert differences_text(differences(shipped("default"), short)) == 'node_check:\n  not set, now ["healthy"]'
    changed = 'node_check:\n  ["healthy"], now {"command": ["healthy", "gpu"], "at_most": 2}'
    assert differences_text(differences(short, long)) == changed


def test_patterns_records_and_windows_stand_there_by_their_names(tmp_path: Path) -> None:
    spec = """\
spec:
  record: {level: "median(loss, 50 steps)"}
  logs:
    - {name: Licence, match: '^licence expired', class: licence, retry: false}
  paging:
    mute:
      - {name: nights, timezone: UTC, times: [22:00-07:00]}
"""
    (tmp_path / "base").mkdir()
    before = written(tmp_path / "base", spec)
    assert differences_text(differences(shipped("default"), before)).splitlines() == [
        "record:",
        "  level: not set, now median(loss, 50 steps)",
        "logs:",
        '  Licence is new: {"match": "^licence expired", "class": "licence", "retry": false}',
        "paging:",
        '  mute: nights is new: {"timezone": "UTC", "times": ["22:00-07:00"]}',
    ]
    after = written(tmp_path, spec.replace("expired", "expires").replace("07:00", "06:00"))
    assert differences_text(differences(before, after)).splitlines() == [
        "logs:",
        "  Licence.match: ^licence expired, now ^licence expires",
        "paging:",
        '  mute: nights.times: ["22:00-07:00"], now ["22:00-06:00"]',
    ]
    assert "mute: nights is gone: " in differences_text(differences(after, shipped("default")))
