"""What the measurements share: the cluster, the namespace of their pods, and how they tell their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness.check_result import MEASURED
from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.validate.conformance.curated import AGNHOST
from harness.validate.inspection import Inspection
from harness.validate.performance import pods
from harness.validate.performance.bench import Bench, Told
from harness.validate.performance.figures import PROPERTY, Figure, carried


@pytest.fixture(scope="module")
def bench(inspection: Inspection, mirror: Mirror, timeouts: Timeouts) -> Iterator[Bench]:
    """The cluster, settled, with an empty namespace for the measurements' pods."""
    assert inspection.view is not None  # the view is what waits
    image = inspection.probe_image(AGNHOST, mirror.images)
    with pods.namespace(inspection.api, timeouts.performance):
        yield Bench(inspection, timeouts, image)


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Told:
    """Return what writes figures down, and says them in words."""

    def write(*figures: Figure, words: str = "") -> None:
        record_property(PROPERTY, carried(figures))
        record_property(MEASURED, words or "; ".join(figure.told for figure in figures))

    return write
