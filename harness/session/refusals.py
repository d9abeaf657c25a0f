"""What keeps a command from its work: one list in order, the cheapest first, gone through before anything is made.

A check looks; it builds, starts and writes nothing. The next one is only asked when the one before found nothing, so
that a wrong word is never answered after a look at a cluster.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from harness import providers, system
from harness.artifacts import listening
from harness.errors import BadInput
from harness.infra.findings import Finding, raise_if_any
from harness.model import Cell
from harness.paths import packaged_dir
from harness.schedule.placement import Limits, Rules, demand_of
from harness.spec.project import TEMPLATES, Project, templates_dir
from harness.spec.settings import Settings

RUN, CELL, UP, SERVE = "run", "gitlab cell", "infra up", "artifacts serve"


class Cost(IntEnum):
    """What a check looks at: what was given, this host, a cluster."""

    GIVEN = 0
    HOST = 1
    CLUSTER = 2


@dataclass(frozen=True)
class Wish:
    """What a command is about to do, as far as it has such parts.

    instance: the settings that lead to the infra cluster, where no project does.
    listen: the addresses that it is to listen at, by option.
    """

    project: Project | None = None
    cells: Sequence[Cell] = ()
    instance: Settings = field(default_factory=Settings)
    listen: tuple[tuple[str, str], ...] = ()

    @property
    def settings(self) -> Settings:
        """Return the settings of the project, or of the instance."""
        return self.project.settings if self.project is not None else self.instance


@dataclass(frozen=True)
class Precheck:
    """One look, and the commands that need it. `look` returns findings, or raises BadInput."""

    cost: Cost
    commands: frozenset[str]
    look: Callable[[Wish], Iterable[Finding]]


def refuse(command: str, wish: Wish, most: Cost = Cost.CLUSTER) -> None:
    """Refuse a command that cannot work.

    Args:
        most: the dearest checks that are made.

    Raises:
        BadInput: what the first check found that found something.
    """
    for check in CHECKS:
        if command in check.commands and check.cost <= most:
            raise_if_any(list(check.look(wish)))


def _addresses(wish: Wish) -> Iterator[Finding]:
    listening.refuse_wrong(dict(wish.listen))
    return iter(())


def _settings(wish: Wish) -> Iterator[Finding]:
    providers.of(wish.settings).refuse_unusable(wish.settings)
    return iter(())


def _results(wish: Wish) -> Iterator[Finding]:
    """Refuse a directory of results that cannot be made, or written to: there is always a nearest folder that is."""
    there = next(p for p in (wish.settings.runs, *wish.settings.runs.absolute().parents) if os.path.lexists(p))
    with system.told():
        if not stat.S_ISDIR(there.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
        if not os.access(there, os.W_OK | os.X_OK):
            code = errno.EROFS if os.statvfs(there).f_flag & os.ST_RDONLY else errno.EACCES
            raise OSError(code, os.strerror(code), str(there))
    return iter(())


def _limits(wish: Wish) -> Iterator[Finding]:
    """Refuse cells that break the run's limits alone; KubeVirt's own rules may ask for more, and are asked later."""
    settings = wish.settings
    limits = Limits(settings.max_memory_mib, settings.max_cpus, settings.max_machines)
    wrong = [
        f"{cell.id} alone: {why}" for cell in wish.cells if (why := limits.refusal((), demand_of(cell, LEAST_DEMAND)))
    ]
    if wrong:
        raise BadInput(
            f"{len(wrong)} of {len(wish.cells)} cells can never start here: {wrong[0]}",
            hint="leave them out, choose smaller topologies, or raise the limits",
            detail="\n".join(wrong),
        )
    return iter(())


def _templates(wish: Wish) -> Iterator[Finding]:
    """Refuse a project's own templates of machines that cannot be rendered, by way of one cell."""
    if wish.project is not None and wish.cells and templates_dir() != packaged_dir() / TEMPLATES:
        from harness.session.explain import example_manifests  # loads much that most commands do without

        example_manifests(wish.cells[0])
    return iter(())


def _may_bring_up(wish: Wish) -> Iterator[Finding]:
    if not wish.settings.infra_up:
        providers.of(wish.settings).infra(wish.settings)  # says that it is not up
    return iter(())


def _user(wish: Wish) -> Iterable[Finding]:
    return providers.of(wish.settings).missing_rights(wish.settings)


def _listening(wish: Wish) -> Iterator[Finding]:
    listening.refuse_taken(dict(wish.listen))
    return iter(())


def _infra(wish: Wish) -> Iterable[Finding]:
    assert wish.project is not None  # noqa: S101 - commands that have this check are about cells
    return providers.first_look(wish.project, wish.cells)


def _infra_of_a_job(wish: Wish) -> Iterable[Finding]:
    """Look at an infra cluster that was given to a job; one of the job's own is not there yet."""
    assert wish.project is not None  # noqa: S101 - a job has one
    return () if providers.of(wish.settings).per_job else providers.first_look(wish.project, wish.cells)


LEAST_DEMAND = Rules(cpu_allocation_ratio=100, memory_overcommit=100, overhead_ratio=0.0)
CHECKS = (
    Precheck(Cost.GIVEN, frozenset({SERVE}), _addresses),
    Precheck(Cost.GIVEN, frozenset({RUN, CELL}), _settings),
    Precheck(Cost.GIVEN, frozenset({RUN}), _results),
    Precheck(Cost.GIVEN, frozenset({RUN}), _limits),
    Precheck(Cost.GIVEN, frozenset({RUN, CELL}), _templates),
    Precheck(Cost.HOST, frozenset({RUN}), _may_bring_up),
    Precheck(Cost.HOST, frozenset({RUN, CELL, UP}), _user),
    Precheck(Cost.HOST, frozenset({SERVE}), _listening),
    Precheck(Cost.CLUSTER, frozenset({RUN}), _infra),
    Precheck(Cost.CLUSTER, frozenset({CELL}), _infra_of_a_job),
)
