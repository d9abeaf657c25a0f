"""Links on a job's page (`artifacts:reports:annotations`): what came out, and where to look.

https://docs.gitlab.com/ci/yaml/artifacts_reports/#artifactsreportsannotations
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from harness.files import write_atomically
from harness.gitlab.variables import Job

FILE = "annotations.json"
LABEL_LENGTH = 240  # GitLab's schema refuses labels from 256 characters on


@dataclass(frozen=True)
class Link:
    """A label and where it leads."""

    label: str
    url: str


def artifact(job: Job, path: str) -> str:
    """Return the page of a file (or, ending in a slash, of a folder) of the job's artifacts."""
    what = "browse" if path.endswith("/") else "file"
    return f"{job.url}/artifacts/{what}/{quote(path)}"


def write(directory: Path, links: Mapping[str, Sequence[Link]]) -> None:
    """Write the file: sections of links; a link without an address is left out, since GitLab refuses the whole file."""
    content = {
        section: [{"external_link": {"label": _short(link.label), "url": link.url}} for link in those if link.url]
        for section, those in links.items()
    }
    write_atomically(directory / FILE, json.dumps({s: those for s, those in content.items() if those}))


def add(directory: Path, links: Mapping[str, Sequence[Link]]) -> None:
    """Add sections to the file, before what it has of the same name; one that cannot be read is replaced."""
    try:
        there = json.loads((directory / FILE).read_text(encoding="utf-8"))
        known = {
            s: [Link(e["external_link"]["label"], e["external_link"]["url"]) for e in es] for s, es in there.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        known = {}
    write(directory, {s: [*links.get(s, ()), *known.get(s, ())] for s in {**links, **known}})


def _short(label: str) -> str:
    line = " ".join(label.split())
    return line if len(line) <= LABEL_LENGTH else f"{line[: LABEL_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"
