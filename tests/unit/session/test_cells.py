"""A check that fails on machines that are not what they were says nothing about the product."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from harness.errors import InfraError
from harness.model import Cell
from harness.session.cells import Cells, CheckOutcome

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
