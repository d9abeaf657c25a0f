"""The options of a run, from the table, for pytest's parser."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from harness.spec.options import OPTIONS, RUN, Option
from harness.spec.renamed import notice


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
    for name in RUN:
        option = OPTIONS[name]
        group.addoption(option.flag, dest=name, default=None, help=option.help.replace("%", "%%"), **_value(option))
        for former in option.former:
            group.addoption(former, dest=name, action=Former, help=argparse.SUPPRESS)


def _value(option: Option) -> dict[str, Any]:
    if option.kind is bool:
        return {"action": argparse.BooleanOptionalAction}
    return {"metavar": option.metavar, "type": option.kind if option.kind in (int, float) else str}
