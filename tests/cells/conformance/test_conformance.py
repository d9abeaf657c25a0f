"""The curated upstream conformance specs of the cell's Kubernetes minor.

The specs of a cell run together, once; each spec is a separate item (see ../conftest.py) with its own verdict.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.errors import BadInput
from harness.validate.conformance.curated import FOLDER, SpecRun
from harness.validate.conformance.ginkgo import LOG, cut_short, refuse_missing
from harness.validate.conformance.verdicts import SpecOutcome
from harness.validate.findings import NotRun
from harness.validate.inspection import Inspection


@pytest.fixture(scope="session")
def spec_run(curated_run: Callable[[], SpecRun]) -> SpecRun:
    """The verdict of every curated spec of the cell's minor, from one run, and what it left."""
    try:
        return curated_run()
    except BadInput as unknown:
        raise NotRun(unknown.summary) from unknown


def test_conformance(
    spec_name: str,
    spec_run: SpecRun,
    inspection: Inspection,
    record_property: Callable[[str, object], None],
) -> None:
    """The curated upstream spec passes; the failure has the spec's own message and the place of its log."""
    verdict = spec_run.verdicts[spec_name]
    record_property("seconds", round(verdict.seconds, 3))
    if verdict.outcome is SpecOutcome.NOT_RUN:
        raise NotRun(verdict.text)
    if verdict.outcome is not SpecOutcome.PASSED:
        log = inspection.directory / FOLDER / LOG
        pytest.fail(f"{spec_name}\n{verdict.text}\nlook at: {log}", pytrace=False)


def test_the_specs_had_enough_time(spec_run: SpecRun, inspection: Inspection) -> None:
    """Every curated spec ran to its end before the limit of the whole run; look at `timeouts.yml`."""
    if said := cut_short(spec_run.verdicts, inspection.directory / FOLDER / LOG):
        pytest.fail(said, pytrace=False)


def test_the_mirror_has_the_images_of_all_specs_but_known_ones(spec_run: SpecRun, inspection: Inspection) -> None:
    """The mirror has the images of all curated specs, but for those that `may_be_missing` names."""
    refuse_missing(spec_run.verdicts.values(), inspection.curated.may_be_missing)


def test_the_specs_pods_are_gone(spec_run: SpecRun) -> None:
    """No pod of the specs is left after the last spec."""
    if spec_run.left is None:
        raise NotRun("the cell is deleted next, and the specs' pods with it")
    if spec_run.left:
        do = "kubectl --kubeconfig kubeconfig get pods -A -o wide"
        pytest.fail(f"the pods of the conformance specs are not gone: {spec_run.left}\ntype: {do}", pytrace=False)
