"""Which images a registry has."""

from __future__ import annotations

import pytest

from harness.errors import InfraRetriable
from harness.validate.conformance.registry import has_image, missing_images

SECONDS = 10.0


def test_an_image_is_there_or_not(registry: str) -> None:
    assert has_image(registry, "e2e-test-images/agnhost:2.63.0", SECONDS)
    assert missing_images(registry, ["e2e-test-images/agnhost:2.63.0", "nginx:1"], SECONDS) == {"nginx:1"}


def test_a_broken_registry_is_not_a_missing_image(registry: str) -> None:
    with pytest.raises(InfraRetriable, match="500"):
        has_image(registry, "broken:1", SECONDS)


def test_a_dead_registry_is_not_a_missing_image() -> None:
    with pytest.raises(InfraRetriable, match="does not answer"):
        has_image("127.0.0.1:1", "agnhost:1", SECONDS)
