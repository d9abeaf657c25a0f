"""The matrix as a whole, put together from its files."""

from __future__ import annotations

from pydantic import Field

from harness.spec.base import Model, Name
from harness.spec.models.axes import Axis, AxisValue
from harness.spec.models.constraints import Constraint
from harness.spec.models.infras import Infra
from harness.spec.models.network_plugins import NetworkPlugin
from harness.spec.models.product import Product
from harness.spec.models.quarantine import QuarantineEntry
from harness.spec.models.scenarios import Scenario
from harness.spec.models.tiers import Tier
from harness.spec.models.timeouts import Timeouts
from harness.spec.models.topologies import Topology


class Space(Model):
    """What cells there may be: the axes, and everything that constrains them."""

    axes: tuple[Axis, ...]
    topologies: dict[Name, Topology]
    scenarios: dict[Name, Scenario]
    constraints: tuple[Constraint, ...] = ()
    infras: dict[Name, Infra] = Field(default_factory=dict)

    def axis(self, name: str) -> Axis:
        """Return an axis by name; KeyError when there is none."""
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise KeyError(name)

    def value(self, axis: str, value_id: str) -> AxisValue:
        """Return a value of an axis; KeyError when there is none."""
        for value in self.axis(axis).values:
            if value.id == value_id:
                return value
        raise KeyError(value_id)


class Spec(Space):
    """All of matrix/, loaded and cross-checked."""

    tiers: dict[Name, Tier]
    timeouts: Timeouts
    product: Product
    quarantine: tuple[QuarantineEntry, ...] = ()
    network_plugins: dict[Name, NetworkPlugin] = Field(default_factory=dict)
