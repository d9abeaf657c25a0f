"""Why a cell is in its tier."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.plan.lock import load_lock
from harness.plan.tiers import tier_cells
from harness.session.explain import why
from harness.spec import load_spec
from tests.unit.plan.planned import project_matrix as matrix

__all__ = ["matrix"]


def test_why_a_cell_is_there_is_what_the_tier_lacks_without_it(matrix: Path) -> None:
    spec, lock = load_spec(matrix), load_lock(matrix)
    cells = tier_cells(spec, "nightly", "embedded", lock)
    found = [why(spec, "nightly", "embedded", cell.id, lock) for cell in cells]
    assert [w.pinned for w in found] == [True] + [False] * (len(cells) - 1)
    assert all(set(w.only) <= set(w.first) for w in found)
    assert all(w.only for w in found if not w.pinned)
    assert all(
        dict(c.values.items() if combination.by_value else ()).items() <= dict(c.values).items()
        for c, w in zip(cells, found, strict=True)
        for combination in w.first
    )
    combinations = [str(combination) for w in found for combination in w.first]
    assert len(combinations) == len(set(combinations))
    assert "kubernetes 1.34 + topology one" in combinations


def test_why_of_a_pinned_tier_names_no_combinations(matrix: Path) -> None:
    spec = load_spec(matrix)
    (cell,) = tier_cells(spec, "smoke", "embedded")
    assert (why(spec, "smoke", "embedded", cell.id).pinned, why(spec, "smoke", "embedded", cell.id).first) == (True, ())
    with pytest.raises(BadInput, match="tier smoke has no cell 'x' on embedded"):
        why(spec, "smoke", "embedded", "x")
