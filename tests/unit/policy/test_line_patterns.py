"""Patterns over lines: in linear time, within a line, and refused with a place and a remedy where they cannot be used."""

from __future__ import annotations

import pickle

import pytest

pytest.importorskip("re2", reason="google-re2 is not installed: pip install 'training-sentinel[logs]'")

from sentinel.policy.line_patterns import BadPattern, compile_pattern

MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    ("pattern", "block", "line", "groups"),
    [
        (r"error on GPU (?P<gpu>\d+)", b"a\n3: error on GPU 5 now\nb\n", "3: error on GPU 5 now", (("gpu", "5"),)),
        ("^b", b"ab\nb c\n", "b c", ()),
        ("c$", b"c d\nb c\n", "b c", ()),
        ("a.*b", b"a\nb\nab\n", "ab", ()),
        ("a[^x]*b", b"a\nb\nab\n", "ab", ()),
        (r"a\s+b", b"a\nb\na b\n", "a b", ()),
        ("(?s)a.*b", b"a\nb\nab\n", "ab", ()),
        ("(?i)nccl WARN", b"x\nNCCL warn y", "NCCL warn y", ()),
        ("(?P<one>a)|(?P<two>b)", b"b\n", "b", (("two", "b"),)),
        ("ü+", "x\naüü\n".encode(), "aüü", ()),
        ("x", b"\xff\xfex\n", "\ufffd\ufffdx", ()),
    ],
)  # fmt: skip
def test_the_first_line_that_it_is_found_in(pattern: str, block: bytes, line: str, groups: tuple[tuple[str, str], ...]) -> None:
    found = compile_pattern(pattern).first(block)
    assert found is not None
    assert (found.line, found.groups) == (line, groups)
    assert block[found.at :].startswith(line.encode()) or "\ufffd" in line


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*)*x=x*y", "([a-z]+)*[0-9]$", "(a?){25}a{25}$"])
def test_a_pattern_that_takes_others_for_ever_is_through_a_line_of_a_megabyte_at_once(pattern: str) -> None:
    """Python's own takes seconds for thirty characters of this, and twice as long for each more; this one takes 2 to 13 ms."""
    assert compile_pattern(pattern).first(b"a" * MEGABYTE + b"!\n") is None


@pytest.mark.parametrize(
    ("pattern", "says", "at"),
    [
        ("sick (GPU", "a bracket is not closed", 5),
        ("sick GPU)", "unexpected )", 8),
        ("a[z-b]", "invalid character class range", 2),
        ("a*+*", "repetition operator", 1),
        (r"(a)\1", "invalid escape sequence", 3),
        ("a(?=b)", "invalid perl operator", 1),
        ("a{2000}", "invalid repetition size", 1),
        (r"\Aa", "there are only lines", 0),
        ("(?-m)a", "there are only lines", 0),
        ("a*", "found in every line", 0),
        ("x|", "found in every line", 0),
    ],
)
def test_what_cannot_be_used_is_refused_at_its_place(pattern: str, says: str, at: int) -> None:
    with pytest.raises(BadPattern) as refused:
        compile_pattern(pattern)
    assert says in str(refused.value)
    assert refused.value.at == at
    assert refused.value.remedy


def test_it_travels_between_processes() -> None:
    pattern = compile_pattern("(?P<n>a)")
    again = pickle.loads(pickle.dumps(pattern))
    assert again == pattern
    assert again.names == ("n",)


def test_without_the_library_the_remedy_is_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "re2", None)
    with pytest.raises(BadPattern, match="google-re2, which is not installed") as refused:
        compile_pattern("never compiled before")
    assert "training-sentinel[logs]" in refused.value.remedy
