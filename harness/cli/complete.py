"""Words that a shell completes: tiers, cells, values of axes, runs and machines. What cannot be read has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from harness import yaml_text
from harness.errors import VmatrixError
from harness.files import read_text
from harness.paths import settings_dir
from harness.rundir import RunDir
from harness.spec.settings import Settings, load_settings

Words = Callable[[Any, str], list[str]]
LAST = "last"


def _quiet(words: Callable[[Any], Iterator[str]]) -> Words:
    """Return what gives words to the shell; a mistake in a file is no message in the middle of a command line."""

    def complete(ctx: Any, incomplete: str) -> list[str]:
        try:
            return [word for word in dict.fromkeys(words(ctx)) if word.startswith(incomplete)]
        except (VmatrixError, OSError, ValueError, KeyError, TypeError):
            return []

    return complete


def _settings() -> Settings:
    return load_settings(settings_dir()).settings


def _tiers(_: Any) -> Iterator[str]:
    from harness.spec.project import Project

    yield from Project.load(_settings()).spec.tiers


def _planned(_: Any) -> Iterator[str]:
    from harness.session.choice import choose
    from harness.spec.project import Project

    project = Project.load(_settings())
    yield from (one.cell.id for one in choose(project.spec, project.settings))
    yield from (f"{axis.name}={value.id}" for axis in project.spec.axes for value in axis.values)


def _runs(_: Any) -> Iterator[str]:
    yield from (run.path.name for run in RunDir.all_in(_settings().runs))
    yield LAST


def _made(_: Any) -> Iterator[str]:
    """Yield the cells of the runs of this directory: those that exist are among them."""
    for run in RunDir.all_in(_settings().runs):
        yield from run.cells()


def _machines(ctx: Any) -> Iterator[str]:
    """Yield the machines of the cell that stands before."""
    cell = (getattr(ctx, "params", None) or {}).get("cell")
    for run in RunDir.all_in(_settings().runs):
        file = run.attempt(str(cell)).hosts
        if file.is_file():
            yield from yaml_text.document(read_text(file), file)["all"]["hosts"]


tiers, planned, runs, made, machines = map(_quiet, (_tiers, _planned, _runs, _made, _machines))
OPTIONS = {"TIER": tiers, "RUN": runs}  # by an option's word for its value
