"""Whole sets of upstream's specs, and lists of their images, against the real e2e.test of their version."""

from __future__ import annotations

import pytest

from harness.artifacts import e2e_images
from harness.artifacts.catalogue import load
from harness.artifacts.store import Store
from harness.spec.suites import UPSTREAM
from harness.validate.conformance import upstream
from harness.validate.conformance.upstream import load_upstream
from harness.validate.expected import minor_of

LISTED = sorted(e2e_images.load().lists)
SETS = [
    (version, suite) for version in LISTED for suite in sorted(UPSTREAM) if load_upstream(minor_of(version)).of(suite)
]


@pytest.mark.parametrize(("version", "suite"), SETS)
def test_a_set_is_what_e2e_test_lists(version: str, suite: str) -> None:
    e2e_test = Store().obtain("e2e.test", version).file("e2e.test")
    assert upstream.other_specs(e2e_test, minor_of(version), suite) == []


@pytest.mark.parametrize("version", LISTED)
def test_every_image_that_e2e_test_lists_is_made_or_named_as_missing(version: str) -> None:
    e2e_test = Store().obtain("e2e.test", version).file("e2e.test")
    assert upstream.other_images(e2e_test, load(), version) == []
