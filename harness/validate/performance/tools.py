"""The image of the programs that measure from pods, and whether the mirror has it."""

from __future__ import annotations

from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.validate.conformance.registry import missing_images

IMAGE = "performance-tools:1"


def tools_image(mirror: Mirror, timeouts: Timeouts) -> str | None:
    """Return the image as nodes pull it; None where the mirror does not have it.

    Raises:
        InfraRetriable: the mirror does not answer.
    """
    if missing_images(mirror.registry, [IMAGE], timeouts.registry_request):
        return None
    return f"{mirror.images}/{IMAGE}"
