"""One run of the curated specs against a guest, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.model import Mirror
from harness.until import Deadline
from harness.validate.conformance.ginkgo import Extent, Tools
from harness.validate.conformance.leftovers import hurried, left_of_specs
from harness.validate.conformance.run import run_specs
from harness.validate.conformance.verdicts import SpecVerdict
from harness.validate.inspection import Inspection

FOLDER = "conformance"  # of the run's files, among those of checks


@dataclass(frozen=True)
class SpecRun:
    """One run of the curated specs: the verdict of each, and why their pods are still there ("": they are gone)."""

    verdicts: dict[str, SpecVerdict]
    left: str


def run_curated(inspection: Inspection, mirror: Mirror, artifact: Callable[[str, str], Path]) -> SpecRun:
    """Run the curated specs of the guest's minor.

    Args:
        artifact: returns the folder of a program's files, by its name and version.

    Raises:
        BadInput: there is no such program.
    """
    version, timeouts = inspection.expected.kubernetes, inspection.timeouts
    tools = Tools(*(artifact(program, version) / program for program in ("e2e.test", "ginkgo", "kubectl")))
    with hurried(inspection.api):
        found = run_specs(
            inspection.curated.specs,
            tools,
            kubeconfig=inspection.guest.kubeconfig,
            mirror=mirror,
            directory=inspection.directory / FOLDER,
            timeouts=timeouts,
            extent=Extent(timeouts.conformance, seed=inspection.curated.seed),
        )
    return SpecRun(found, left_of_specs(inspection.api, Deadline.after(timeouts.probe_remove)))
