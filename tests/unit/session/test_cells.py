"""Whose fault a failed check is, and with which programs checks are made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from harness import providers
from harness.artifacts.catalogue import Catalogue, load
from harness.errors import BadInput, InfraError
from harness.kube.failures import ApiFailure, Unreachable
from harness.model import Cell
from harness.session.cells import Cells, CheckOutcome
from harness.spec.settings import Settings
from harness.until import TimedOut

CELL = Cell("c", {}, "s", (), (), {})


def recorded(
    tmp_path: Path, *, changed: str, asserted: bool, error: BaseException | None = None, own: bool = False
) -> dict[str, Any]:
    plan: Any = SimpleNamespace(directory=tmp_path)
    cells = Cells(plan, open_site=lambda: cast(Any, None), console=Console(quiet=True))
    life: Any = SimpleNamespace(
        machines_changed=lambda _: changed, guests=[], checks_failed=[], attempt=SimpleNamespace(number=1)
    )
    cells._lives[CELL.id] = life
    cells.record_check(
        CELL,
        CheckOutcome(
            suite="nodes",
            name="services",
            stage="deploy",
            outcome="failed",
            seconds=1.0,
            detail="kubelet is not active",
            error=error,
            asserted=asserted,
            properties={},
            own=own,
        ),
    )
    (line,) = (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.parametrize(
    ("changed", "asserted", "error", "blame"),
    [
        ("", True, None, "product"),
        ("machine w-0 died: OOMKilled (exit code 137)", True, None, "infra"),
        ("", False, InfraError("no"), "infra"),
        ("", False, ValueError("x"), "harness"),
        ("", False, TimedOut("two probe pods on each of cp-0, w-0 to be ready"), "product"),
        ("machine w-0 died: OOMKilled (exit code 137)", False, TimedOut("probe pods to be ready"), "infra"),
    ],
)
def test_whose_fault_a_failed_check_is(
    tmp_path: Path, changed: str, asserted: bool, error: BaseException | None, blame: str
) -> None:
    line = recorded(tmp_path, changed=changed, asserted=asserted, error=error)
    assert line["blame"] == blame
    assert changed in line["detail"]
    assert "kubelet is not active" in line["detail"]


@pytest.mark.parametrize(
    ("asserted", "error", "blame"),
    [(True, AssertionError(), "product"), (False, KeyError("x"), "user"), (False, InfraError("no"), "infra")],
    ids=["asserted", "raised by its own code", "an error with a blame"],
)
def test_whose_fault_a_failed_check_of_the_project_is(
    tmp_path: Path, asserted: bool, error: BaseException, blame: str
) -> None:
    assert recorded(tmp_path, changed="", asserted=asserted, error=error, own=True)["blame"] == blame


@dataclass
class Shelf:
    """A store that notes what it is asked for."""

    catalogue: Catalogue = field(default_factory=load)
    obtained: list[str] = field(default_factory=list)

    def obtain(self, name: str, version: str) -> Any:
        """Note it; refuse what the catalogue does not have, as a store does."""
        self.catalogue.require(name, version)
        self.obtained.append(f"{name}@{version}")
        return SimpleNamespace(directory=Path("/cache"))


def test_upstreams_tests_of_a_version_that_no_catalogue_knows_are_those_of_its_minor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf = Shelf()
    monkeypatch.setattr(providers, "store_of", lambda *_: shelf)
    plan: Any = SimpleNamespace(project=SimpleNamespace(settings=None, timeouts=None))
    cells = Cells(plan, open_site=lambda: cast(Any, None), console=Console(quiet=True))
    for version in ("1.36.1", "1.36.99"):
        assert cells.artifact("e2e.test", version) == Path("/cache/files")
    assert shelf.obtained == ["e2e.test@1.36.1", "e2e.test@1.36.3"]
    with pytest.raises(BadInput, match=r"e2e\.test has no version 1\.99\.0"):
        cells.artifact("e2e.test", "1.99.0")


@pytest.mark.parametrize(
    "error", [ApiFailure(503, "", "no", [], request="GET /"), Unreachable("no"), OSError(28, "full")]
)
def test_an_infra_cluster_that_is_gone_keeps_no_cell_from_its_end(error: Exception) -> None:
    ended: list[str] = []

    def life(name: str) -> Any:
        def teardown() -> None:
            ended.append(name)
            if name == "one":
                raise error

        cell = Cell(name, {}, "s", (), (), {})
        return SimpleNamespace(cell=cell, torn_down=False, failed=False, collect=lambda: None, teardown=teardown)

    plan: Any = SimpleNamespace(cleanup="vmatrix reap --run r", project=SimpleNamespace(settings=Settings()))
    cells = Cells(plan, open_site=lambda: cast(Any, None), console=Console(quiet=True))
    cells._lives |= {name: life(name) for name in ("one", "two")}
    cells.close_all()
    assert ended == ["one", "two"]
    assert cells.leak is not None
    assert cells.leak.summary.startswith("cell one could not be removed: ")
    assert cells.leak.hint.endswith("vmatrix reap --run r")


@pytest.mark.parametrize(
    ("settings", "failed", "kept"),
    [
        ({}, True, False),
        ({"keep_on_failure": True}, True, True),
        ({"keep_on_failure": True}, False, False),
        ({"keep_on_failure": True, "keep": "never"}, True, False),
        ({"keep": "failed"}, True, True),
        ({"keep": "failed"}, False, False),
        ({"keep": "always"}, True, True),
        ({"keep": "always"}, False, True),
        ({"keep": "never"}, True, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("interrupted", [False, True])
def test_which_cells_are_kept(
    tmp_path: Path, settings: dict[str, Any], failed: bool, kept: bool, interrupted: bool
) -> None:
    plan: Any = SimpleNamespace(
        directory=tmp_path,
        project=SimpleNamespace(settings=Settings(**settings)),
        cleanup="vmatrix reap --run abcdef",
        provider_options=(),
        fail_fast=False,
    )
    cells = Cells(plan, open_site=lambda: cast(Any, None), console=Console(quiet=True))
    cells.keep = not interrupted
    done: list[str] = []
    life: Any = SimpleNamespace(
        cell=CELL,
        failed=failed,
        torn_down=False,
        kept=False,
        collect=lambda: done.append("collect"),
        teardown=lambda: done.append("teardown"),
        attempt=SimpleNamespace(number=1),
    )
    cells._lives[CELL.id] = life
    cells.shell = lambda _: done.append("shell")
    cells.close(CELL)
    shell = ["shell"] if failed and not interrupted else []
    assert done == ["collect", *shell, *([] if kept and not interrupted else ["teardown"])]
    assert life.kept == (kept and not interrupted)
    if life.kept:
        (line,) = (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()
        assert json.loads(line)["event"] == "kept"


@pytest.mark.parametrize(
    ("fail_fast", "failed", "stopped"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_run_that_is_to_fail_fast_begins_no_further_cell(fail_fast: bool, failed: bool, stopped: bool) -> None:
    plan: Any = SimpleNamespace(fail_fast=fail_fast)
    cells = Cells(plan, open_site=lambda: cast(Any, None), console=Console(quiet=True))
    assert (cells.stopped, cells.begun(CELL)) == (False, False)
    cells._lives[CELL.id] = cast(Any, SimpleNamespace(failed=failed))
    assert (cells.stopped, cells.begun(CELL)) == (stopped, True)
