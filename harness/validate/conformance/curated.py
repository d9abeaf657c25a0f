"""The curated conformance specs: matrix/conformance/<minor>.yml, one list per Kubernetes minor.

Spec names change from minor to minor, so the lists share nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import yaml_text
from harness.errors import BadInput
from harness.paths import MATRIX, packaged_dir
from harness.reading import read_text
from harness.spec.project import matrix_dir

# Each list names these images, which other checks run, too.
AGNHOST = "agnhost"
BUSYBOX = "busybox"
CHECKS = {AGNHOST: "the network checks", BUSYBOX: "the storage checks"}


@dataclass(frozen=True)
class ConformanceSpec:
    """One upstream spec: its full name in ginkgo, and the images it runs, as repository:tag without registry."""

    name: str
    images: tuple[str, ...]


@dataclass(frozen=True)
class ConformanceList:
    """The list of one Kubernetes minor. `images` maps the list's image names to repository:tag.

    may_be_missing: of these, as repository:tag, those that a mirror need not have: their specs are not run then.
    seed: ginkgo's, which orders the specs; 0 for another one each time.
    """

    minor: str
    images: Mapping[str, str]
    specs: tuple[ConformanceSpec, ...]
    may_be_missing: frozenset[str] = frozenset()
    seed: int = 0


def curated_path(minor: str) -> Path:
    """Return the file of a minor's list: the project's, or the packaged one."""
    own, packaged = (folder / "conformance" / f"{minor}.yml" for folder in (matrix_dir(), packaged_dir() / MATRIX))
    return own if own.is_file() or not packaged.is_file() else packaged


def load_curated(minor: str) -> ConformanceList:
    """Load the list of a Kubernetes minor.

    Raises:
        BadInput: it does not exist or is malformed.
    """
    path = curated_path(minor)
    if not path.is_file():
        raise BadInput(
            f"Kubernetes {minor} has no conformance list",
            hint=f"write {path} with names of that minor's `e2e.test --list-tests`",
            paths=[path],
        )
    try:
        return _read(minor, yaml_text.document(read_text(path), path))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(
            f"{path} is malformed: {type(error).__name__}: {error}",
            hint="it needs `kubernetes`, `images` (name: repository:tag) and `specs` ([{name, images}]); it may have "
            "`may_be_missing` (names of images) and `seed` (a number)",
            paths=[path],
        ) from error


def _read(minor: str, raw: Any) -> ConformanceList:
    if str(raw["kubernetes"]) != minor:
        raise ValueError(f"`kubernetes` is {raw['kubernetes']}, not {minor}")
    images = {str(name): str(image) for name, image in raw["images"].items()}
    for image, checks in CHECKS.items():
        if image not in images:
            raise ValueError(f"`images` lacks {image}, which {checks} need")
    specs = tuple(
        ConformanceSpec(str(entry["name"]), tuple(images[name] for name in entry.get("images", ())))
        for entry in raw["specs"]
    )
    names = [spec.name for spec in specs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not specs:
        raise ValueError(f"specs named twice: {twice}" if twice else "`specs` is empty")
    optional = frozenset(images[name] for name in raw.get("may_be_missing", ()))
    seed = raw.get("seed", 0)
    if type(seed) is not int or seed < 0:
        raise ValueError(f"`seed` is {seed!r}, not a number from 0 on")
    return ConformanceList(minor, images, specs, optional, seed)
