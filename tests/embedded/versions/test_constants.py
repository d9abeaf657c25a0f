"""What the catalogue says of a Kubernetes release is what that release's own kubeadm says."""

from __future__ import annotations

import pytest

from harness import proc
from harness.artifacts import refs
from harness.artifacts.catalogue import IMAGE_PREFIX, load
from harness.artifacts.store import Store

CATALOGUE = load()
SECONDS = 60.0


@pytest.mark.parametrize("version", CATALOGUE.kubernetes)
def test_kubeadm_asks_for_the_images_that_guests_find(version: str) -> None:
    kubeadm = Store().obtain("kubeadm", version).file("kubeadm")
    options = ["--kubernetes-version", f"v{version}", "--image-repository", "here"]
    listed = proc.run([kubeadm, "config", "images", "list", *options], timeout=SECONDS).stdout.split()
    asked = {image.removeprefix("here/") for image in listed}
    offered = {f"{ref.name.removeprefix(IMAGE_PREFIX)}:{ref.version}" for ref in refs.images(CATALOGUE, version)}
    assert len(asked) == 7
    assert asked <= offered
