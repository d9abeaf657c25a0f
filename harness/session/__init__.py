"""One run of cells: what is planned, the run itself, the cells' lives in a process, and which cell may begin when.

What is here is loaded when it is asked for: to choose cells takes none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.session.cells import Cells
    from harness.session.plan import RunPlan, plan_run
    from harness.session.run import Run

LATER = {"Cells": "cells", "RunPlan": "plan", "plan_run": "plan", "Run": "run"}

__all__ = ["Cells", "Run", "RunPlan", "plan_run"]


def __getattr__(name: str) -> Any:
    """Return one of the names above from its module."""
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{LATER[name]}"), name)
