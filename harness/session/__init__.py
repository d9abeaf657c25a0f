"""One run of cells: what is planned, the run itself, the cells' lives in a process, and which cell may begin when."""

from harness.session.cells import Cells
from harness.session.plan import RunPlan, plan_run
from harness.session.run import Run

__all__ = ["Cells", "Run", "RunPlan", "plan_run"]
