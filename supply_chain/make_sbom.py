"""`make sbom`: the bill of materials of a lock, as CycloneDX 1.6 in JSON.

Names, versions and hashes are the lock's; licences, and who needs whom, are what the installed packages declare. The same lock
and the same packages give the same bytes: there is no time in it, and the serial number comes from the content.
"""

from __future__ import annotations

import importlib.metadata
import sys
import tomllib
import uuid
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

from .locks import EXTRAS, ROOT, Lock, LockError, Row, lock_path, normalized, read_lock
from .make_locks import wanted

PROJECT = "training-sentinel"
LICENCE_CHARACTERS_MAX = 80  # a field that is longer holds the licence's whole text
CLASSIFIER = "License :: OSI Approved :: "
# The namespace of our serial numbers: uuid5 gives the same number for the same content.
NO_SERIAL = uuid.UUID(int=0)
SERIAL_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, f"sbom.{PROJECT}")


def sbom_path(name: str) -> Path:
    return lock_path(name).with_name(f"{name}.cdx.json")


def declared_licences(row: Row) -> list[str]:
    """The SPDX expression if the package has one, or else the field of older packages, or its classifiers.

    Raises LockError where the package is absent, or another version of it is installed: its licence may be another as well.
    """
    try:
        metadata = importlib.metadata.metadata(row.name)
    except importlib.metadata.PackageNotFoundError:
        raise LockError(f"{row.name} is not installed, and its licence unknown; run `make install`") from None
    if metadata["Version"] != row.version:
        raise LockError(f"{row.name} {metadata['Version']} is installed, the lock has {row.version}; run `make install lock`")
    if metadata["License-Expression"]:
        return [metadata["License-Expression"]]
    field = (metadata["License"] or "").strip()
    if field and "\n" not in field and len(field) <= LICENCE_CHARACTERS_MAX:
        return [field]
    return [one.removeprefix(CLASSIFIER) for one in metadata.get_all("Classifier") or [] if one.startswith(CLASSIFIER)]


def build_component(row: Row, made: LicenseFactory) -> Component:
    licences: list[License] = [made.make_from_string(one) for one in declared_licences(row)]
    purl = PackageURL(type="pypi", name=row.name, version=row.version)
    return Component(
        type=ComponentType.LIBRARY,
        name=row.name,
        version=row.version,
        bom_ref=str(purl),
        purl=purl,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=row.sha256)],
        licenses=licences,
    )


def read_needs(lock: Lock, direct: list[Requirement]) -> dict[str, set[str]]:
    """Who needs whom, by name, on this platform: an extra of a package counts where somebody asks for it.

    Raises LockError for what is needed and not locked.
    """
    locked, needs = {row.name for row in lock.rows}, {row.name: set[str]() for row in lock.rows}
    waiting = [(PROJECT, one) for one in direct]
    seen = set[tuple[str, str]]()
    while waiting:
        by, needed = waiting.pop()
        name = normalized(needed.name)
        if name not in locked:
            raise LockError(f"{by} needs {name}, which the lock does not have; run `make lock`")
        needs.setdefault(by, set()).add(name)
        for extra in {"", *needed.extras} - {extra for seen_name, extra in seen if seen_name == name}:
            seen.add((name, extra))
            declared = [Requirement(one) for one in importlib.metadata.requires(name) or ()]
            waiting += [(name, one) for one in declared if one.marker is None or one.marker.evaluate({"extra": extra})]
    return needs


def build_sbom(name: str) -> str:
    path = lock_path(name)
    lock, made = read_lock(path), LicenseFactory()
    components = [build_component(row, made) for row in lock.rows]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["version"]
    purl, licences = PackageURL(type="pypi", name=PROJECT, version=version), [made.make_from_string(project["license"])]
    ours = Component(
        type=ComponentType.APPLICATION, name=PROJECT, version=version, bom_ref=str(purl), purl=purl, licenses=licences
    )
    properties = [Property(name="sentinel:lock", value=path.name), Property(name="sentinel:holds_for", value=str(lock.holds_for))]
    metadata = BomMetaData(component=ours, properties=properties)
    metadata.timestamp = None  # the library would put the time of the run in it
    bom = Bom(serial_number=NO_SERIAL, metadata=metadata, components=components)
    direct = [Requirement(one) for one in wanted(EXTRAS[name])]
    by_name = {PROJECT: ours} | {one.name: one for one in components}
    for needing, needed in read_needs(lock, direct).items():
        bom.register_dependency(by_name[needing], [by_name[one] for one in needed])
    bom.serial_number = uuid.uuid5(SERIAL_NAMESPACE, JsonV1Dot6(bom).output_as_string())
    return f"{JsonV1Dot6(bom).output_as_string(indent=2)}\n"


def main() -> int:
    for name in EXTRAS:
        try:
            text = build_sbom(name)
        except LockError as error:
            print(f"{sbom_path(name).name}: {error}", file=sys.stderr)
            return 1
        sbom_path(name).write_text(text, encoding="utf-8")
        print(f"{sbom_path(name).relative_to(ROOT)}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
