"""Cells from the matrix: made from values, planned by tier, selected by what a person asks for."""

from harness.plan.cells import make_cell
from harness.plan.select import PlanSelection, Selected, selected

__all__ = ["PlanSelection", "Selected", "make_cell", "selected"]
