"""The curated upstream conformance specs of the cell's Kubernetes minor.

The specs of a cell run together, once; each spec is a separate item (see ../conftest.py) with its own verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.conformance.ginkgo import Extent, Tools
from harness.validate.conformance.leftovers import hurried, left_of_specs
from harness.validate.conformance.run import LOG, cut_short, refuse_missing, run_specs
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict
from harness.validate.inspection import Inspection


@dataclass(frozen=True)
class SpecRun:
    """One run of the curated specs: the verdict of each, and why their pods are still there ("": they are gone)."""

    verdicts: dict[str, SpecVerdict]
    left: str


@pytest.fixture(scope="session")
def spec_run(
    inspection: Inspection, mirror: Mirror, artifact: Callable[[str, str], Path], timeouts: Timeouts
) -> SpecRun:
    """The verdict of every curated spec of the cell's minor, from one run, and what it left."""
    version = inspection.expected.kubernetes
    try:
        tools = Tools(*(artifact(program, version) / program for program in ("e2e.test", "ginkgo", "kubectl")))
    except BadInput as unknown:
        pytest.skip(f"not run: {unknown.summary}")
    with hurried(inspection.api):
        found = run_specs(
            inspection.curated.specs,
            tools,
            kubeconfig=inspection.guest.kubeconfig,
            mirror=mirror,
            directory=inspection.directory / "conformance",
            timeouts=timeouts,
            extent=Extent(timeouts.conformance, seed=inspection.curated.seed),
        )
    return SpecRun(found, left_of_specs(inspection.api, Deadline.after(timeouts.probe_remove)))


def test_conformance(
    spec_name: str,
    spec_run: SpecRun,
    inspection: Inspection,
    record_property: Callable[[str, object], None],
) -> None:
    verdict = spec_run.verdicts[spec_name]
    record_property("seconds", round(verdict.seconds, 3))
    if verdict.outcome is SpecOutcome.NOT_RUN:
        pytest.skip(f"not run: {verdict.text}")
    if verdict.outcome is not SpecOutcome.PASSED:
        log = inspection.directory / "conformance" / LOG
        pytest.fail(f"{spec_name}\n{verdict.text}\nlook at: {log}", pytrace=False)


def test_the_specs_had_enough_time(spec_run: SpecRun, inspection: Inspection) -> None:
    if said := cut_short(spec_run.verdicts, inspection.directory / "conformance" / LOG):
        pytest.fail(said, pytrace=False)


def test_the_mirror_has_the_images_of_all_specs_but_known_ones(spec_run: SpecRun, inspection: Inspection) -> None:
    refuse_missing(spec_run.verdicts.values(), inspection.curated.may_be_missing)


def test_the_specs_pods_are_gone(spec_run: SpecRun) -> None:
    if spec_run.left:
        do = "kubectl --kubeconfig kubeconfig get pods -A -o wide; then describe the one that is left"
        pytest.fail(f"the pods of the conformance specs are not gone: {spec_run.left}\ntype: {do}", pytrace=False)
