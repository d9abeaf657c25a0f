"""The whole set [Conformance] of the cell's Kubernetes minor.

The specs of a cell run together, once; each spec is a separate item (see ../conftest.py) with its own verdict.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.artifacts.catalogue import load
from harness.spec.suites import CERTIFICATION
from harness.validate.conformance import upstream
from harness.validate.conformance.ginkgo import LOG, cut_short
from harness.validate.conformance.upstream import WholeRun
from harness.validate.conformance.verdicts import SpecOutcome
from harness.validate.findings import Mismatch, NotRun, require
from harness.validate.inspection import Inspection

Artifact = Callable[[str, str], Path]


@pytest.fixture
def found(whole_run: Callable[[str], WholeRun]) -> WholeRun:
    """What the selected specs came to."""
    return whole_run(CERTIFICATION)


def test_spec(
    spec_name: str, found: WholeRun, inspection: Inspection, record_property: Callable[[str, object], None]
) -> None:
    """The upstream conformance spec passes."""
    verdict = found.verdicts[spec_name]
    for name, value in upstream.properties(verdict).items():
        record_property(name, value)
    if why := upstream.unjudged(verdict):
        raise NotRun(why)
    log = str(inspection.directory / CERTIFICATION / LOG)
    wrong = [] if verdict.outcome is SpecOutcome.PASSED else [Mismatch("the spec", "to pass", verdict.text)]
    require(wrong, claim=spec_name, look=log, do=f"grep -n -F {shlex.quote(spec_name)} {log}")


def test_the_specs_had_enough_time(found: WholeRun, inspection: Inspection) -> None:
    """Every spec ran to its end before the limit of the whole run; look at `timeouts.yml`."""
    if said := cut_short(found.verdicts, inspection.directory / CERTIFICATION / LOG):
        pytest.fail(said, pytrace=False)


def test_the_list_of_specs_is_e2e_tests_own(inspection: Inspection, artifact: Artifact) -> None:
    """The list of specs in `matrix/conformance/upstream` is e2e.test's own; the failure says how to renew it."""
    version, minor = inspection.expected.kubernetes, inspection.expected.minor
    if lines := upstream.other_specs(artifact("e2e.test", version) / "e2e.test", minor, CERTIFICATION):
        do = f"vmatrix conformance list {version} > matrix/conformance/upstream/{minor}.yml"
        raise AssertionError("\n".join([f"the list of specs of {minor} is not that of e2e.test {version}", *lines, do]))


def test_the_list_of_images_is_e2e_tests_own(inspection: Inspection, artifact: Artifact) -> None:
    """The images that the mirror makes for specs are those that e2e.test asks for."""
    version = inspection.expected.kubernetes
    if lines := upstream.other_images(artifact("e2e.test", version) / "e2e.test", load(), version):
        do = "name them in harness/artifacts/e2e_images.yml"
        raise AssertionError("\n".join([f"the list of images is not that of e2e.test {version}", *lines, do]))


def test_the_mirror_has_every_image_that_vmatrix_makes(found: WholeRun) -> None:
    """Every image for specs that vmatrix makes is in the mirror."""
    upstream.refuse_unpushed(found)


def test_the_specs_pods_are_gone(found: WholeRun) -> None:
    """No pod of the specs is left after the last spec."""
    if found.left:
        do = "kubectl --kubeconfig kubeconfig get pods -A -o wide"
        pytest.fail(f"the pods of the specs are not gone: {found.left}\ntype: {do}", pytrace=False)
