"""Which releases upstream has that the catalogue lacks, as the Go module proxy lists them (GOPROXY names it).

Only modules that the catalogue builds from are asked for. Releases before the first final one (-rc.1) do not count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import proc
from harness.artifacts import toolchain
from harness.artifacts.catalogue import KUBERNETES, Catalogue
from harness.artifacts.recipe import LIMITS, ArtifactLimits
from harness.errors import InfraError

FINAL = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Newer:
    """A release that the catalogue lacks, and what it has of the same or the next older minor: `listed`."""

    module: str
    version: str
    listed: str


@dataclass(frozen=True)
class Search:
    """What is newer, and of which modules nobody knows: name to what was said instead."""

    found: tuple[Newer, ...]
    unlisted: Mapping[str, str]


def find(catalogue: Catalogue, limits: ArtifactLimits = LIMITS) -> Search:
    """Return the newest patch of every minor that the catalogue has, and of every later one, where it lacks that.

    Raises:
        InfraError: the module proxy lists no module at all.
    """
    listed = {module: of for module in catalogue.modules if (of := listed_versions(catalogue, module))}
    paths = {module: catalogue.modules[module].requires[0] for module in listed}
    offered, unlisted = _offered(sorted({*paths.values()}), limits)
    if not offered:
        detail = "\n".join(unlisted.values())
        raise InfraError("the Go module proxy lists no module", hint="GOPROXY names the proxy", detail=detail)
    known = {module: of for module, of in listed.items() if paths[module] in offered}
    found = [one for module, of in known.items() for one in _newer(module, of, offered[paths[module]])]
    return Search(tuple(found), {name: unlisted[path] for name, path in paths.items() if path not in offered})


def listed_versions(catalogue: Catalogue, module: str) -> tuple[str, ...]:
    """Return the versions of a module that the catalogue builds, oldest first."""
    if module == KUBERNETES:
        return tuple(sorted(catalogue.kubernetes, key=numbers))
    found = set()
    for program in catalogue.programs.values():
        for version in program.versions if program.versions != KUBERNETES else ():
            if program.recipes(version).gomod.module == module:
                found.add(version)
    return tuple(sorted(found, key=numbers))


def numbers(version: str) -> Numbers:
    """Return a version as numbers that can be compared."""
    return tuple(int(part) for part in version.split("."))


def minor(version: str) -> str:
    """Return the minor of a version: 1.36 of 1.36.3."""
    return ".".join(version.split(".")[:2])


def _newer(module: str, listed: Sequence[str], offered: Sequence[str]) -> Iterator[Newer]:
    """Yield what is missing of one module, oldest first; versions of a minor older than the oldest listed are not."""
    newest: dict[str, str] = {}
    for version in sorted(offered, key=numbers):
        newest[minor(version)] = version
    for name, version in newest.items():
        of_minor = [one for one in listed if minor(one) == name]
        before = [one for one in listed if numbers(one) < numbers(version)]
        wanted = bool(of_minor) or numbers(name) > numbers(minor(listed[-1])) or _between(module, name, listed)
        if wanted and version not in listed and before:
            yield Newer(module, version, (of_minor or before)[-1])


def _between(module: str, name: str, listed: Sequence[str]) -> bool:
    """Tell whether every minor counts, also one between those that are listed: clusters are upgraded minor by minor."""
    return module == KUBERNETES and numbers(minor(listed[0])) < numbers(name)


def _offered(paths: Sequence[str], limits: ArtifactLimits) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, str]]:
    """Return the versions of each module by its path, and what was said of those that have none."""
    go = toolchain.find("1.21", limits)
    env = {**go.env(), "GOFLAGS": "-mod=mod"}
    words: list[str | Path] = [go.path, "list", "-m", "-e", "-versions", "-json", *paths]
    done = proc.run(words, cwd=Path("/"), env=env, timeout=limits.modules, check=False)
    answers = {str(one["Path"]): one for one in _objects(done.stdout)}
    found, unlisted = {}, {}
    for path in paths:
        one = answers.get(path, {})
        versions = tuple(version[1:] for version in one.get("Versions", ()) if FINAL.fullmatch(version))
        if versions:
            found[path] = versions
        else:
            unlisted[path] = str(one.get("Error", {}).get("Err", done.stderr.strip() or f"{path} has no version"))
    return found, unlisted


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield JSON objects that are written one behind the other."""
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        one, at = decoder.raw_decode(text, at)
        yield one
