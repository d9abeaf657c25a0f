"""Which product a cell's phases are run by, and where one that has controllers may not be."""

from __future__ import annotations

import pytest

from harness.cell.product.declared import DeclaredProduct
from harness.cell.product.kinds import kind_of, products_of, refuse_shared
from harness.cell.product.playbooks import Playbooks
from harness.errors import BadInput
from harness.paths import packaged_dir
from harness.plan.cells import make_cell
from harness.spec import load_spec

SPEC = load_spec(packaged_dir() / "matrix")
BY_PLAYBOOKS = make_cell(SPEC, SPEC.tiers["smoke"].pinned[0])
BY_OPERATOR = make_cell(SPEC, SPEC.tiers["operator"].pinned[0])


def test_a_cells_value_decides_how_its_phases_are_run() -> None:
    products = products_of(SPEC, [BY_PLAYBOOKS, BY_OPERATOR, BY_PLAYBOOKS])
    assert [type(kind_of(product, packaged_dir())) for product in products] == [Playbooks, DeclaredProduct]
    assert BY_OPERATOR.id != BY_PLAYBOOKS.id
    assert "-o-" in BY_OPERATOR.id
    assert BY_OPERATOR.vars == BY_PLAYBOOKS.vars


def test_cells_with_controllers_do_not_share_a_namespace() -> None:
    refuse_shared(SPEC, [BY_PLAYBOOKS, BY_OPERATOR], None)
    refuse_shared(SPEC, [BY_PLAYBOOKS], "ours")
    with pytest.raises(BadInput, match="vmatrix operator has controllers in each cell's namespace"):
        refuse_shared(SPEC, [BY_PLAYBOOKS, BY_OPERATOR], "ours")
