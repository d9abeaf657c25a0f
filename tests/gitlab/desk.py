"""A cell at a desk: `vmatrix run` on this host in the infra cluster of the jobs' pods, with what jobs are given."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from harness import proc
from harness.infra.guest_facts import guest_vars
from harness.report.cell import CellResult
from harness.report.results import load
from tests.gitlab import deployed, foreign
from tests.gitlab.checkout import HISTORY, Checkout
from tests.gitlab.deployed import NAMESPACE_NAME, Place

SECONDS = 1800.0  # against hanging
RUN = "desk11"


def seconds(cell: CellResult) -> float:
    """Return how long a cell took without the wait for room, and without provision: the first one imports an image."""
    steps = cell.steps_of(cell.last_attempt)
    return cell.last_seconds - sum(step.seconds for step in steps if step.path == ("provision",))


def cell(there: Place, checkout: Checkout, folder: Path) -> CellResult:
    """Run the cell of a team's tier `one`, and return what became of it."""
    guests = folder / "guests.yml"
    guests.write_text(yaml.safe_dump(dict(guest_vars())), encoding="utf-8")
    given = {one.key: one.value for one in deployed.variables(there) if not one.file}
    options = f"--tier one --run-id {RUN} --provider kubeconfig --namespace {NAMESPACE_NAME}".split()
    argv: list[str | Path] = [Path(sys.executable).with_name("vmatrix"), "run", *options]
    argv += ["--infra-profile", foreign.INFRA, "--kubeconfig", there.infra.kubeconfig()]
    done = proc.run(
        argv,
        timeout=SECONDS,
        env={**given, **HISTORY, "VMATRIX_GUEST_VARS": str(guests)},
        cwd=checkout.directory,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    (found,) = load(checkout.directory / "runs" / RUN).cells
    return found
