"""Clearing the cache of products of what no project uses any more.

Kept is what this project's products use now, what another project that still exists has used, and whatever a process
uses or makes. All else was for a former revision or former requirements, or is of an installation that was killed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts.workdir import LOCK
from harness.cell.product import cached, kinds
from harness.errors import BadInput
from harness.files import if_unlocked
from harness.spec.project import Project


@dataclass(frozen=True)
class StaleEntry:
    """An entry that no project uses, and its size in bytes."""

    directory: Path
    size: int

    @property
    def name(self) -> str:
        """Return its kind and its key."""
        return str(self.directory.relative_to(cached.root().parent))


def stale(project: Project | None) -> tuple[StaleEntry, ...]:
    """Return what no project uses and nobody works on, in the order of the paths; removes nothing.

    Args:
        project: this one; None outside of any.
    """
    declared = frozenset(_declared(project)) if project is not None else frozenset()
    found = []
    for lock in sorted(cached.root().glob(f"*/{LOCK}*")):
        folder = lock.with_name(lock.name.removeprefix(LOCK))
        if not folder.is_dir() or (cached.finished(folder) and _wanted(folder, declared, project)):
            continue
        with if_unlocked(lock) as free:
            if free:
                found.append(StaleEntry(folder, sum(path.lstat().st_size for path in folder.rglob("*"))))
    return tuple(found)


def remove(entry: StaleEntry) -> bool:
    """Remove a stale entry; tell whether it was done, or another process has it."""
    with if_unlocked(cached.lock_of(entry.directory)) as free:
        if free:
            (entry.directory / cached.FINISHED).unlink(missing_ok=True)  # first: nobody takes half of it for whole
            shutil.rmtree(entry.directory)
        return free


def _declared(project: Project) -> Iterator[Path]:
    """Yield what the project's products use; of one whose sources are not there, nobody can tell more."""
    for product in (project.spec.product, *project.spec.products.values()):
        with suppress(BadInput):
            yield from kinds.entries_of(project, [product])


def _wanted(folder: Path, declared: frozenset[Path], project: Project | None) -> bool:
    here = {project.directory.absolute()} if project is not None else set()
    return folder in declared or any(other.is_dir() for other in cached.projects_of(folder) - here)
