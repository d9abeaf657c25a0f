"""Cells from the matrix: made from values, selected by tier, id and glob."""

from harness.plan.cells import make_cell
from harness.plan.select import select

__all__ = ["make_cell", "select"]
