"""What the plugin keeps in a pytest config: its options, and what it reads from the command line."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.errors import VmatrixError
from harness.sanitize import sanitized
from harness.spec.options import OPTIONS, Option, RunRequest
from harness.spec.options import RUN as OPTIONS_OF_RUN
from harness.spec.renamed import notice

if TYPE_CHECKING:
    from harness.model import Cell
    from harness.plugin.own_checks import OwnChecks
    from harness.plugin.own_process import OwnProcess
    from harness.session import Cells, Run, RunPlan
    from harness.session.given_cluster import ForeignCheck
    from harness.session.recheck import Recheck
    from harness.spec.settings import Sourced

PLAN: pytest.StashKey[RunPlan] = pytest.StashKey()
RUN: pytest.StashKey[Run] = pytest.StashKey()  # in the process that a person started
CELLS: pytest.StashKey[Cells] = pytest.StashKey()  # in a process in which cells live
OWN: pytest.StashKey[OwnChecks] = pytest.StashKey()  # where the project's own checks are run
VERDICT: pytest.StashKey[int] = pytest.StashKey()  # an exit code of vmatrix, where one was decided on
ALONE = "vmatrix-alone"  # the plugin of a call that loads no other plugins than PLUGINS
OWN_PROCESS: pytest.StashKey[OwnProcess] = pytest.StashKey()  # where a process loads own checks
CURRENT: pytest.StashKey[tuple[str, str]] = pytest.StashKey()  # the cell and the check that is under way
WORKER_INPUT = "vmatrix"
STACKS = "vmatrix-stacks"  # what workers are told, too: the folder for their stacks
SILENCE_SECONDS = 28.0  # after which a line says what is under way: no silence is longer than 30 s
# What pytest loads where vmatrix calls it, and the variables that say so to a worker.
PLUGINS = ("harness.plugin", "xdist.plugin", "xdist.looponfail", "testinfra.plugin")
ONLY_NAMED, NAMED = "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_PLUGINS"
RESOLVED: pytest.StashKey[Sourced] = pytest.StashKey()  # the settings, as `vmatrix run` has resolved them
EXISTING: pytest.StashKey[Recheck | ForeignCheck] = pytest.StashKey()  # of a process that checks what is there
SELECTING = ("tier", "cell", "failed", "changed_since", "rerun_failed", "recheck", "inventory")


def asked_for_cells(config: pytest.Config) -> bool:
    """Tell whether this is a run of cells."""
    return any(config.getoption(name) for name in SELECTING)


def on_worker(config: pytest.Config) -> bool:
    """Tell whether this process is a worker of a run that goes side by side."""
    return hasattr(config, "workerinput")


def stacks_of(config: pytest.Config) -> Path | None:
    """Return the folder for the stacks of workers that are ended because they hang; None: they print them."""
    base = config.option.basetemp
    return Path(base).parent if base is not None else None


def stack_of(config: pytest.Config) -> Path | None:
    """Return this worker's file in that folder."""
    told: dict[str, Any] = getattr(config, "workerinput")  # noqa: B009 - set by xdist
    folder = told.get(STACKS)
    return stack_in(Path(folder), str(told["workerid"])) if folder else None


def stack_in(folder: Path, worker: str) -> Path:
    """Return a worker's file in the folder of stacks."""
    return folder / f"{worker}.stack"


def planned(config: pytest.Config) -> RunPlan:
    """Return the run's plan, made once. Raises BadInput when something that was given cannot be used."""
    if PLAN not in config.stash and (config.getoption("recheck") or config.getoption("inventory")):
        config.stash[PLAN] = _existing(config).plan
    if PLAN not in config.stash:
        from harness.session.plan import plan_checks, plan_from, plan_run

        if on_worker(config):
            sent: dict[str, Any] = getattr(config, "workerinput")[WORKER_INPUT]  # noqa: B009 - set by xdist
            config.stash[PLAN] = plan_from(sent)
        else:
            values = {name: config.getoption(name) for name in OPTIONS_OF_RUN}
            command = shlex.join(["pytest", *config.invocation_params.args])
            planning = plan_checks if config.getoption("own_checks") else plan_run
            cells, resolved = tuple(config.getoption("cell")), config.stash.get(RESOLVED, None)
            config.stash[PLAN] = planning(RunRequest.of(values, cells=cells, command=command, resolved=resolved))
    return config.stash[PLAN]


def _existing(config: pytest.Config) -> Recheck | ForeignCheck:
    from harness.session.given_cluster import given_cluster, plan_foreign
    from harness.session.recheck import plan_recheck
    from harness.session.selection import project_of

    values = {name: config.getoption(name) for name in OPTIONS_OF_RUN}
    if config.getoption("inventory"):
        where = given_cluster(values, config.getoption("inventory"), config.getoption("facts"))
        config.stash[EXISTING] = plan_foreign(where, config.getoption("suite"))
        return config.stash[EXISTING]
    project = project_of(values, config.stash.get(RESOLVED, None))
    cell, run = config.getoption("recheck"), config.getoption("recheck_run")
    config.stash[EXISTING] = plan_recheck(project, cell, config.getoption("suite"), run)
    return config.stash[EXISTING]


def message(error: VmatrixError) -> str:
    """Return an error as a person reads it."""
    parts = [error.summary, f"hint: {error.hint}" if error.hint else "", *(str(p) for p in error.paths), error.detail]
    return sanitized("\n".join(part for part in parts if part))


def cell_of(item: pytest.Item) -> Cell | None:
    """Return the cell of an item; None for a test that is about none."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("cell") if callspec is not None else None


class Former(argparse.Action):
    """Takes a value under a former flag, and tells the present one."""

    def __call__(self, parser: object, namespace: object, values: Any, option_string: str | None = None) -> None:
        """Set the value."""
        notice(str(option_string), OPTIONS[self.dest].flag)
        setattr(namespace, self.dest, values)


def add_options(group: pytest.OptionGroup) -> None:
    """Add every option of a run, and --cell for each cell."""
    group.addoption(
        "--cell",
        action="append",
        default=[],
        metavar="CELL",
        help="Select cells: id, glob of ids or AXIS=VALUE; can be repeated.",
    )
    group.addoption("--recheck", metavar="CELL", help="Check a kept cell again; `vmatrix check` is this.")
    group.addoption(
        "--recheck-run", metavar="RUN", help="With --recheck: the run that the cell is of; default: the newest."
    )
    group.addoption(
        "--inventory",
        action="append",
        default=[],
        metavar="PATH",
        help="Check a cluster that vmatrix did not make, by its inventory; can be repeated.",
    )
    group.addoption("--facts", metavar="FILE", help="With --inventory: what that cluster must look like.")
    group.addoption(
        "--suite", action="append", default=[], metavar="SUITE", help="With --recheck or --inventory: only this suite."
    )
    group.addoption(
        "--own-checks", action="store_true", help="Only load the project's own checks; `vmatrix list` does before it."
    )
    for name in OPTIONS_OF_RUN:
        option = OPTIONS[name]
        group.addoption(option.flag, dest=name, default=None, help=option.help.replace("%", "%%"), **_value(option))
        for former in option.former:
            group.addoption(former, dest=name, action=Former, help=argparse.SUPPRESS)


def _value(option: Option) -> dict[str, Any]:
    if option.kind is bool:
        return {"action": argparse.BooleanOptionalAction}
    return {"metavar": option.metavar, "type": option.kind if option.kind in (int, float) else str}
