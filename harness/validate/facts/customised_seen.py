"""Part of customised.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml


@dataclass(frozen=True)
class SeenVolume:
    """A volume as a process sees it: whether it is the machine's own file or folder, and whether it can be written."""

    same: bool
    read_only: bool
    why: str


@dataclass(frozen=True)
class SeenScheduler:
    """A running scheduler.

    file: the file of its flag --config, "" without that flag.  content: of the file, as the process sees it.
    newer: by how many seconds the file is newer than the process.  status: of /configz.  running: what it has in
    effect.
    """

    file: str
    content: Any
    newer: float
    status: int
    running: Mapping[str, Any]


@dataclass(frozen=True)
class CustomisedFacts:
    """One machine: volumes by program and path in its container; the scheduler, None where none runs."""

    volumes: Mapping[str, Mapping[str, SeenVolume]]
    scheduler: SeenScheduler | None


def customised_of(raw: Mapping[str, Any]) -> CustomisedFacts:
    """Read what machine/customised.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    seen = raw["scheduler"]
    return CustomisedFacts(
        volumes={
            program: {path: SeenVolume(*one) for path, one in there.items()}
            for program, there in raw["volumes"].items()
        },
        scheduler=None
        if seen is None
        else SeenScheduler(
            seen["file"], _content(seen["content"]), float(seen["newer"]), int(seen["status"]), seen["running"]
        ),
    )


def _content(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:  # a finding, and not the machine's fault
        return f"no YAML: {error}"
