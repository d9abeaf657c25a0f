"""Cells from the matrix: made from values, planned by tier, selected by what a person asks for."""

from harness.plan.cells import make_cell
from harness.plan.select import Selected, Selection, selected

__all__ = ["Selected", "Selection", "make_cell", "selected"]
