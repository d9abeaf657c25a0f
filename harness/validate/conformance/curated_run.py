"""One run of the curated specs against a guest, and what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.kube import Cluster
from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.conformance.curated import ConformanceList
from harness.validate.conformance.ginkgo import Extent, Tools
from harness.validate.conformance.leftovers import hurried, left_of_specs, specs_namespaces
from harness.validate.conformance.run import run_specs
from harness.validate.conformance.verdicts import SpecVerdict

FOLDER = "conformance"  # of the run's files, among those of checks


@dataclass(frozen=True)
class SpecRun:
    """One run of the curated specs: the verdict of each, and why their pods are still there ("": they are gone).

    left: None where specs did not delete what they made.
    """

    verdicts: dict[str, SpecVerdict]
    left: str | None


def run_curated(
    curated: ConformanceList,
    tools: Tools,
    *,
    api: Cluster,
    kubeconfig: Path,
    mirror: Mirror,
    directory: Path,
    timeouts: Timeouts,
    stays: bool,
) -> SpecRun:
    """Run the curated specs of a guest's minor.

    Args:
        api: of the guest.  mirror: where the guest takes images from.  directory: for the run's files.
        stays: whether specs leave what they made, since the guest goes when they have ended.
    """
    verdicts = partial(
        run_specs,
        curated.specs,
        tools,
        kubeconfig=kubeconfig,
        mirror=mirror,
        directory=directory,
        timeouts=timeouts,
        extent=Extent(timeouts.conformance, seed=curated.seed, stays=stays),
    )
    if stays:
        return SpecRun(verdicts(), None)
    earlier = specs_namespaces(api)
    with hurried(api):
        found = verdicts()
    return SpecRun(found, left_of_specs(api, Deadline.after(timeouts.probe_remove), besides=earlier))
