"""What the files of a product mention, without knowing what they are: playbooks, templates, scripts.

Only what no file mentions is certain: what one mentions may be a comment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from harness.errors import BadInput
from harness.reading import read_bytes

MADE = re.compile(rb"add_host|group_by")  # actions that make groups while a playbook runs
NAMED = re.compile(rb"\b(?:key|groups?|groupname) *[:=] *((?:\{\{.*?\}\}|[^\n,}])*)")  # what they name
LARGEST = 1 << 20  # bytes of a file that is searched; playbooks, templates and scripts are far smaller


def mentions(words: tuple[str, ...], directory: Path, sources: Path | None) -> bool:
    """Tell whether any file of the product or of its sources has one of some words."""
    wanted = re.compile("|".join(map(re.escape, words)).encode())
    return any(wanted.search(text) is not None for text in _all_texts(directory, sources))


def made_later(names: Collection[str], directory: Path, sources: Path | None) -> bool:
    """Tell whether a task of the product's may make a group of one of these names."""
    for text in _all_texts(directory, sources):
        if MADE.search(text) is None:
            continue
        for name in (found.decode(errors="replace").strip().strip("\"'[]") for found in NAMED.findall(text)):
            pattern = ".*".join(map(re.escape, re.split(r"\{\{.*?\}\}", name)))
            if any(re.fullmatch(pattern, word) for word in names):
                return True
    return False


def _all_texts(directory: Path, sources: Path | None) -> Iterator[bytes]:
    """Yield the files of the product and of its sources."""
    yield from _texts(directory)
    if sources is not None and not sources.is_relative_to(directory):
        yield from _texts(sources)


def _texts(folder: Path) -> Iterator[bytes]:
    for above, below, files in os.walk(folder, followlinks=True):
        below[:] = [name for name in below if not name.startswith(".") and name not in ("node_modules", "runs")]
        for path in (Path(above) / name for name in files):
            try:
                if path.stat().st_size <= LARGEST:
                    yield read_bytes(path, largest=LARGEST)
            except (BadInput, OSError):
                continue
