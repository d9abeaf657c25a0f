"""Masquerade gives every machine the same address: refused before anything is made, with the setting's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cell.binding import refuse_masquerade
from harness.errors import BadInput
from harness.model import Cell, PlannedMachine
from harness.spec.settings import load_settings


def cell(machines: int) -> Cell:
    planned = tuple(PlannedMachine(f"m-{n}", ("node",), 1, 512, 10, "debian-13") for n in range(machines))
    return Cell(f"of-{machines}", {}, "fresh", (), planned, {})


def test_masquerade_is_for_clusters_of_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vmatrix.yml").write_text("runs: runs\nbinding: masquerade\n")
    sourced = load_settings(tmp_path, environment={})
    refuse_masquerade(sourced, [cell(1)])
    with pytest.raises(BadInput) as refused:
        refuse_masquerade(sourced, [cell(1), cell(2), cell(3)])
    assert refused.value.summary.startswith("vmatrix.yml:2: binding: masquerade")
    assert "of-2 and 1 more cells has 2 machines" in refused.value.summary
    assert "10.0.2.2" in refused.value.summary


def test_bridge_is_for_all(tmp_path: Path) -> None:
    refuse_masquerade(load_settings(tmp_path, environment={}), [cell(3)])
