"""The conformance lists and the catalogue say the same: a list for every minor, and the images that its release has."""

from __future__ import annotations

import pytest

from harness.artifacts.catalogue import load
from harness.validate.conformance.curated import load_curated

CATALOGUE = load()


@pytest.mark.parametrize("version", CATALOGUE.kubernetes)
def test_the_images_that_most_specs_run_are_those_of_the_release(version: str) -> None:
    release = CATALOGUE.release(version)
    listed = load_curated(version.rpartition(".")[0]).images
    for name, repository in (
        ("agnhost", "e2e-test-images/agnhost"),
        ("busybox", "e2e-test-images/busybox"),
        ("pause", "pause"),
    ):
        assert listed[name] == f"{repository}:{release.images[repository]}"
