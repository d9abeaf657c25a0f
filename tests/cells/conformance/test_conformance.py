"""The curated upstream conformance specs of the cell's Kubernetes minor.

The specs of a cell run together, once; each spec is a separate item (see ../conftest.py) with its own verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.conformance.ginkgo import Tools
from harness.validate.conformance.run import run_specs, wait_for_clean_up
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict
from harness.validate.inspection import Inspection


@pytest.fixture(scope="session")
def verdicts(
    inspection: Inspection, mirror: Mirror, artifact: Callable[[str, str], Path], timeouts: Timeouts
) -> dict[str, SpecVerdict]:
    """The verdict of every curated spec of the cell's minor, from one run."""
    version = inspection.expected.kubernetes
    try:
        tools = Tools(*(artifact(program, version) / program for program in ("e2e.test", "ginkgo", "kubectl")))
    except BadInput as unknown:
        pytest.skip(f"not run: {unknown.summary}")
    found = run_specs(
        inspection.curated.specs,
        tools,
        kubeconfig=inspection.guest.kubeconfig,
        registry=mirror.registry,
        directory=inspection.directory / "conformance",
        timeouts=timeouts,
    )
    wait_for_clean_up(inspection.api, Deadline.after(timeouts.probe_remove))
    return found


def test_conformance(
    spec_name: str,
    verdicts: dict[str, SpecVerdict],
    inspection: Inspection,
    record_property: Callable[[str, object], None],
) -> None:
    verdict = verdicts[spec_name]
    record_property("seconds", round(verdict.seconds, 3))
    if verdict.outcome is SpecOutcome.NOT_RUN:
        pytest.skip(f"not run: {verdict.text}")
    if verdict.outcome is not SpecOutcome.PASSED:
        log = inspection.directory / "conformance" / "ginkgo.log"
        pytest.fail(f"{spec_name}\n{verdict.text}\nlook at: {log}", pytrace=False)
