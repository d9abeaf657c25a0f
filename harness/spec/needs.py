"""What cells need of an infra cluster: the features that their values ask for (matrix/infras.yml)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.model import Cell
from harness.spec.base import Feature
from harness.spec.models import Space

IPV6: Feature = "ipv6"


def needed(spec: Space, cells: Iterable[Cell]) -> frozenset[Feature]:
    """Return what at least one of the cells needs, in any of its phases."""
    return frozenset(feature for cell in cells for feature in needs_of(spec, cell))


def needs_of(spec: Space, cell: Cell) -> frozenset[Feature]:
    """Return what one cell needs: its values, and the earlier ones that it starts from."""
    moments: list[Mapping[str, str]] = [cell.values, *(phase.values for phase in cell.phases)]
    chosen = {pair for values in moments for pair in values.items()}
    values = (value for axis in spec.axes for value in axis.values if (axis.name, value.id) in chosen)
    return frozenset(feature for value in values for feature in value.needs)
