"""YAML text is read as version 1.2, by either reader, or refused; it never raises for what a person wrote."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from yamlcore import CoreLoader

from sentinel.policy_files import yaml_positions as policy_yaml
from sentinel.policy_files.yaml_positions import read_yaml, write_yaml
from tests.unit.policy.policies_in_words import GOOD


def test_yaml_is_of_version_1_2():
    read = read_yaml("on: off\na: 1e-3\nb: yes\nc: 010\nd: 0o10\ne: 1_000\nf: 12:30\ng: true\nh: 2026-01-01\ni: .5\n")
    assert read.value == {
        "on": "off", "a": 0.001, "b": "yes", "c": 10, "d": 8, "e": "1_000", "f": "12:30", "g": True, "h": "2026-01-01", "i": 0.5,
    }  # fmt: skip


def test_without_libyaml_the_same_is_read(monkeypatch):
    for text in (GOOD, "a: &x 1\nb: *x\n", "a: 1\na: 2\n", "a: 1 # \x7f\n", "a: !!str 1", "# nothing\n", "[" * 99):
        monkeypatch.undo()
        fast = read_yaml(text)
        monkeypatch.setattr(policy_yaml, "Loader", CoreLoader)
        assert read_yaml(text) == fast


@given(st.text(max_size=200) | st.text(alphabet="ab:-{}[],&*!#'\"\n |>?%@` 1", max_size=80))
def test_any_text_is_read_or_refused(text):
    read = read_yaml(text)
    assert all(problem.line >= 1 and problem.column >= 1 and problem.remedy for problem in read.problems)


WORDS = st.sampled_from(["on", "off", "yes", "null", "0o10", "1e-3", "12:30", "~", "*x", "{{ value }}", "a: b", "# no"])
PLAIN = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS | st.text("ab:-#'\"é ", max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1) | WORDS, inner, max_size=3),
    max_leaves=9,
)


@given(PLAIN)
def test_what_is_written_is_read_as_the_same_value(value):
    read = read_yaml(write_yaml(value))
    assert (read.problems, read.value) == ([], value)
