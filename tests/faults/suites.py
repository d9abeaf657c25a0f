"""The checks of tests/cells in this process: everything of a guest is gathered once for all of them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import pytest

from harness.errors import Blame
from harness.model import Cell, Mirror
from harness.session.cells import blame_of
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.conformance.curated import AGNHOST
from harness.validate.findings import NotJudged, parts_not_judged
from harness.validate.inspection import Inspection
from harness.validate.probes import Probes, place_probes, remove_probes
from harness.validate.variables import HasAddOn

CELLS = Path(__file__).parents[1] / "cells"
SUITES = (
    "nodes",
    "cluster",
    "network",
    "policies",
    "hardening",
)  # that find faults, in the order in which they are tried
OF_INSPECTION = ("expected", "api", "view", "facts", "hosts")


GATHERED = ("facts", "files", "running", "setups", "packets", "keys", "boots", "states", "kubelets")


@dataclass(frozen=True)
class Said:
    """What a check said. failed: that the product is to blame; else the harness or the infra would be blamed."""

    check: str
    text: str
    failed: bool


@dataclass
class Checks:
    """The checks of one cell. A new `look` for each pass; the probe pods stay."""

    cell: Cell
    mirror: Mirror
    kept: dict[str, Any] = field(default_factory=dict)

    def failures(self, inspection: Inspection, suites: Sequence[str], *, add_ons: bool = True) -> list[Said]:
        """Run suites; return what did not pass.

        Args:
            add_ons: whether to run the checks of add-ons, which work for seconds.
        """
        gather(inspection)
        look = _Look(self, inspection, inspection.timeouts)
        found: list[Said] = []
        with look.opened:
            for suite in suites:
                for module in modules(suite):
                    for name, check in checks_in(module):
                        if self._applies(module, check) and (add_ons or not _of_add_on(module, check)):
                            found += look.ask(f"{suite}: {name}", module, check)
        return found

    def probes(self, inspection: Inspection) -> Probes:
        """Return the probe pods, placed once."""
        if "probes" not in self.kept:
            image = f"{self.mirror.images}/{inspection.curated.images[AGNHOST]}"
            self.kept["probes"] = place_probes(inspection.api, inspection.expected.nodes, image, inspection.timeouts)
        probes: Probes = self.kept["probes"]
        return probes

    def clear(self, inspection: Inspection) -> None:
        """Remove the probe pods."""
        if self.kept.pop("probes", None) is not None:
            remove_probes(inspection.api, Deadline.after(inspection.timeouts.probe_remove))

    def _applies(self, module: ModuleType, check: Callable[..., None]) -> bool:
        return all(mark.kwargs["phase"](self.cell, 0) for mark in _marks(module, check))


@dataclass
class _Look:
    checks: Checks
    inspection: Inspection
    timeouts: Timeouts
    made: dict[str, Any] = field(default_factory=dict)
    opened: ExitStack = field(default_factory=ExitStack)  # fixtures that tidy up

    def ask(self, name: str, module: ModuleType, check: Callable[..., None]) -> Iterator[Said]:
        for given in _parameters(check):
            yield from self._ask(name, module, check, given)

    def _ask(self, name: str, module: ModuleType, check: Callable[..., None], given: dict[str, Any]) -> Iterator[Said]:
        try:
            with parts_not_judged():
                check(**self._arguments(check, module, given))
        except (NotJudged, pytest.skip.Exception):
            return
        except AssertionError as wrong:
            yield Said(name, str(wrong), failed=True)
        except Exception as trouble:  # noqa: BLE001 - whatever a fault does to a check, it is not a finding
            found = blame_of(trouble, asserted=False, check=name) is Blame.PRODUCT
            yield Said(name, f"{type(trouble).__name__}: {trouble}", failed=found)

    def _arguments(
        self, function: Callable[..., Any], module: ModuleType, given: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, Any]:
        names = inspect.signature(function).parameters
        return {name: given[name] if name in given else self._value(name, module) for name in names}

    def _value(self, name: str, module: ModuleType) -> Any:
        if name in OF_INSPECTION:
            return getattr(self.inspection, name)
        known = {
            "inspection": self.inspection,
            "mirror": self.checks.mirror,
            "timeouts": self.timeouts,
            "cell": self.checks.cell,
            "phase": 0,
            "waivers": (),
        }
        if name in known:
            return known[name]
        if name == "probes":
            return self.checks.probes(self.inspection)
        if name not in self.made:
            function = getattr(module, name)._get_wrapped_function()
            arguments = self._arguments(function, module)
            if inspect.isgeneratorfunction(function):
                self.made[name] = self.opened.enter_context(contextmanager(function)(**arguments))
            else:
                self.made[name] = function(**arguments)
        return self.made[name]


def _parameters(check: Callable[..., None]) -> list[dict[str, Any]]:
    """Return the arguments of a check that its mark `parametrize` gives, one set for each time that it runs."""
    given = [mark.args for mark in getattr(check, "pytestmark", []) if mark.name == "parametrize"]
    return [{name: value} for name, values in given for value in values] or [{}]


def gather(inspection: Inspection) -> None:
    """Gather everything of machines at once, for checks that would gather one after the other.

    What fails here fails once more for the check that asks for it.
    """
    with suppress(Exception):
        assert inspection.view is not None
        with ThreadPoolExecutor(len(GATHERED)) as pool:
            for name in GATHERED:
                pool.submit(getattr, inspection, name)


def _marks(module: ModuleType, check: Callable[..., None]) -> list[Any]:
    """Return the conditions of a check."""
    given = getattr(module, "pytestmark", [])
    marks = [*(given if isinstance(given, list) else [given]), *getattr(check, "pytestmark", [])]
    return [mark for mark in marks if mark.name == "when"]


def _of_add_on(module: ModuleType, check: Callable[..., None]) -> bool:
    return any(isinstance(mark.kwargs["phase"], HasAddOn) for mark in _marks(module, check))


def modules(suite: str) -> list[ModuleType]:
    """Return the modules of a suite."""
    files = sorted((CELLS / suite).glob("test_*.py"))
    return [importlib.import_module(f"tests.cells.{suite}.{file.stem}") for file in files]


def checks_in(module: ModuleType) -> list[tuple[str, Callable[..., None]]]:
    """Return the checks of a module, by name."""
    return [(name, one) for name, one in vars(module).items() if name.startswith("test_") and inspect.isfunction(one)]


def names() -> set[str]:
    """Return all checks of the suites that faults name: SUITE: NAME."""
    return {f"{suite}: {name}" for suite in SUITES for module in modules(suite) for name, _ in checks_in(module)}
