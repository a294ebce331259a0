"""The locks hold what pyproject.toml asks for in the versions of constraints.txt, each with its hash; the bills of materials hold
the locks. What pip does with one is `tests/integration/test_install_locked.py`'s."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from supply_chain import install
from supply_chain.locks import EXTRAS, FOLDER, ROOT, Lock, LockError, Platform, lock_path, misfit, normalized, read_lock
from supply_chain.make_locks import build_row, glibc_needed, wanted, write_lock

LOCKS = sorted(EXTRAS)
HERE = Platform("cpython-3.11", "linux", "x86_64", (2, 31))


@pytest.fixture(params=LOCKS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def versions(lock: Lock) -> dict[str, str]:
    return {row.name: row.version for row in lock.rows}


def sbom(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"{name}.cdx.json").read_text(encoding="utf-8")))


def strings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
    elif isinstance(value, str):
        yield value


def test_each_row_has_one_version_and_one_hash(name: str) -> None:
    """`read_lock` refuses every line that is neither a comment nor a whole row."""
    rows = read_lock(lock_path(name)).rows
    assert len(rows) > 20
    assert [row.name for row in rows] == sorted({normalized(row.name) for row in rows}), "sorted, and each package once"


def test_a_lock_has_the_versions_of_the_constraints(name: str) -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normalized(line.partition("==")[0]): line.partition("==")[2] for line in lines if not line.startswith("#")}
    faults = [
        f"{package} is {version} in the lock and {pinned.get(package, 'absent')} in constraints.txt: `make install lock sbom`"
        for package, version in versions(read_lock(lock_path(name))).items()
        if package not in pinned or Version(version).public != Version(pinned[package]).public
    ]
    assert not faults, "\n".join(faults)


def test_a_lock_has_what_the_project_asks_for(name: str) -> None:
    locked = versions(read_lock(lock_path(name)))
    for one in map(Requirement, wanted(EXTRAS[name])):
        assert normalized(one.name) in locked, f"pyproject.toml asks for {one}: `make install lock sbom`"
        assert one.specifier.contains(locked[normalized(one.name)]), f"{one} does not take {locked[normalized(one.name)]}"


def test_the_supervisors_lock_is_part_of_the_whole_and_has_no_torch() -> None:
    supervisor, everything = (set(read_lock(lock_path(one)).rows) for one in ("supervisor", "everything"))
    assert supervisor < everything
    assert not {"torch", "numpy"} & {row.name for row in supervisor}


def test_the_lock_of_everything_is_what_make_install_installs() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"-c constraints\.txt -e '\.\[([\w,-]+)\]'", text)
    assert found is not None
    assert tuple(found[1].split(",")) == EXTRAS["everything"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")) + sorted(FOLDER.glob("*.json")), ids=lambda path: path.name)
def test_no_lock_says_where_its_files_came_from(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("http://cyclonedx.org/schema/bom-1.6.schema.json", "")
    assert not re.findall(r"\S*://\S*|--\w+-url|--find-links|(?<=\s)/\w\S*", text)


def test_another_platform_is_refused_and_the_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "this_platform", lambda: Platform("cpython-3.12", "darwin", "arm64", None))
    monkeypatch.setattr(sys, "argv", ["install", "--venv", str(tmp_path / "venv")])
    assert install.main() == 1
    told = capsys.readouterr().err
    held = read_lock(lock_path("supervisor")).holds_for
    assert f"it holds for {held}, and this is cpython-3.12 darwin arm64" in told
    assert "make install-locked PYTHON=" in told
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize(
    ("here", "why"),
    [
        (HERE, None),
        (Platform("cpython-3.11", "linux", "x86_64", (2, 40)), None),
        (Platform("cpython-3.12", "linux", "x86_64", (2, 40)), "this is cpython-3.12 linux x86_64 glibc-2.40"),
        (Platform("cpython-3.11", "linux", "aarch64", (2, 40)), "this is cpython-3.11 linux aarch64"),
        (Platform("cpython-3.11", "linux", "x86_64", (2, 9)), "its wheels need glibc 2.31 or newer"),
        (Platform("cpython-3.11", "linux", "x86_64", None), "without glibc"),
    ],
)
def test_a_lock_fits_its_own_platform_alone(here: Platform, why: str | None) -> None:
    found = misfit(HERE, here)
    assert (found is None) == (why is None), found
    assert why is None or why in str(found)


def test_an_environment_that_is_there_is_not_added_to(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").touch()
    with pytest.raises(LockError, match=r"is there already.*VENV="):
        install.check_place(tmp_path)


def test_a_line_that_is_no_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.lock.txt"
    for line in ("typer==0.29.2", "typer", "-r other.txt", "typer==0.29.2 --hash=md5:00"):
        path.write_text(f"# holds for: {HERE}\n{line}\n")
        with pytest.raises(LockError, match=re.escape(f"some.lock.txt:2: {line!r} is no NAME==VERSION")):
            read_lock(path)


def entry(name: str, version: str, tags: str, digest: str = "ab" * 32) -> dict[str, Any]:
    url = f"https://user:secret@index.example/{name}-{version.replace('+', '%2B')}-{tags}.whl"
    archive = {"url": url, "archive_info": {"hashes": {"sha256": digest}}}
    return {"metadata": {"name": name, "version": version}, "download_info": archive}


def test_a_lock_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    entries = [entry("Torch_Like", "2.13.0+cpu", "cp311-cp311-manylinux_2_28_x86_64"), entry("a.b", "1.0", "py3-none-any")]
    text = write_lock("everything", entries, Platform("cpython-3.11", "linux", "x86_64", (2, 40)))
    (tmp_path / "lock.txt").write_text(text)
    lock = read_lock(tmp_path / "lock.txt")
    assert lock.holds_for == Platform("cpython-3.11", "linux", "x86_64", (2, 28))
    assert [(row.name, row.version) for row in lock.rows] == [("a-b", "1.0"), ("torch-like", "2.13.0+cpu")]
    assert "torch-like 2.13.0+cpu is a build of its own (cpu)" in text
    assert "example" not in text
    assert "secret" not in text


@pytest.mark.parametrize(
    ("wheel", "glibc"),
    [
        ("a-1-py3-none-any.whl", (0, 0)),
        ("a-1-cp36-abi3-manylinux2010_x86_64.manylinux_2_12_x86_64.manylinux_2_28_x86_64.whl", (2, 12)),
        ("a-1-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", (2, 27)),
        ("a-1-cp310-abi3-manylinux2014_x86_64.whl", (2, 17)),
    ],
)
def test_the_oldest_glibc_is_read_from_the_tags(wheel: str, glibc: tuple[int, int]) -> None:
    assert glibc_needed(wheel) == glibc


def test_what_has_no_wheel_or_no_hash_is_not_locked() -> None:
    without = entry("a", "1.0", "py3-none-any")
    without["download_info"]["archive_info"] = {}
    for one in (without, entry("a", "1.0", "py3-none-any") | {"download_info": {"url": "https://index.example/a-1.0.tar.gz"}}):
        with pytest.raises(LockError, match=r"a 1\.0: the index has no wheel of it with a SHA-256"):
            build_row(one)


def test_the_bill_of_materials_is_the_lock_row_by_row(name: str) -> None:
    bill, lock = sbom(name), read_lock(lock_path(name))
    found = [(one["name"], one["version"], one["hashes"]) for one in bill["components"]]
    assert found == [(row.name, row.version, [{"alg": "SHA-256", "content": row.sha256}]) for row in lock.rows]
    for one in bill["components"]:
        assert one["purl"] == one["bom-ref"] == f"pkg:pypi/{one['name']}@{one['version'].replace('+', '%2B')}"
        assert one["licenses"], f"{one['name']} declares no licence"
    named = {one["name"]: one["value"] for one in bill["metadata"]["properties"]}
    assert named == {"sentinel:lock": lock_path(name).name, "sentinel:holds_for": str(lock.holds_for)}


def test_the_bill_of_materials_names_who_needs_whom(name: str) -> None:
    """And so that nothing is locked that nobody needs."""
    bill = sbom(name)
    needs = {one["ref"]: set(one.get("dependsOn", ())) for one in bill["dependencies"]}
    ours = bill["metadata"]["component"]["bom-ref"]
    reached, waiting = set[str](), [ours]
    while waiting:
        one = waiting.pop()
        waiting += needs[one] - reached
        reached |= needs[one]
    assert reached == {one["bom-ref"] for one in bill["components"]}
    direct = {normalized(Requirement(one).name) for one in wanted(EXTRAS[name])}
    assert {ref.removeprefix("pkg:pypi/").partition("@")[0] for ref in needs[ours]} == direct


def test_a_bill_of_materials_has_what_the_specification_requires(name: str) -> None:
    bill = sbom(name)
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", bill["serialNumber"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = bill["metadata"]["component"]
    assert (ours["type"], ours["name"], ours["version"]) == ("application", project["name"], project["version"])
    assert {one["type"] for one in bill["components"]} == {"library"}
    assert "timestamp" not in bill["metadata"], "the same lock gives the same bytes"
    for one in bill["components"]:
        for licence in one["licenses"]:
            assert ("expression" in licence) != ("license" in licence)
            assert "expression" in licence or len({"id", "name"} & set(licence["license"])) == 1
    assert all(strings(bill)), "no empty string"


def test_a_bill_of_materials_passes_the_published_schema(name: str) -> None:
    pytest.importorskip("cyclonedx", reason="cyclonedx-python-lib is not installed (`make install`)")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = (FOLDER / f"{name}.cdx.json").read_text(encoding="utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_the_same_lock_gives_the_same_bytes(name: str) -> None:
    pytest.importorskip("cyclonedx", reason="cyclonedx-python-lib is not installed (`make install`)")
    from supply_chain.make_sbom import build_sbom, sbom_path

    try:
        made = build_sbom(name)
    except LockError as error:
        pytest.skip(f"this environment is not the lock's: {error}")
    assert made == sbom_path(name).read_text(encoding="utf-8"), "`make sbom`"
