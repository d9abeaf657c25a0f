"""What the files under matrix/ hold, as frozen pydantic models: a module for each file, and the whole as `Spec`."""

from __future__ import annotations

from pydantic import Field

from harness.spec.base import Model, Name
from harness.spec.models.axes import AxesFile, Axis, AxisValue, Extension, Support
from harness.spec.models.constraints import Constraint, ConstraintsFile
from harness.spec.models.images import BuildSource, DiskImage, ImagesFile, UrlSource
from harness.spec.models.infras import Infra, InfrasFile
from harness.spec.models.network_plugins import Gateway, NetworkPlugin, NetworkPluginsFile
from harness.spec.models.product import Product, ProductFile, ProductPhase
from harness.spec.models.quarantine import QuarantineEntry, QuarantineFile
from harness.spec.models.scenarios import Scenario, ScenarioPhase, ScenariosFile
from harness.spec.models.tiers import Budget, Cover, Tier, TiersFile, Together
from harness.spec.models.timeouts import Timeouts, TimeoutsFile
from harness.spec.models.topologies import MachineGroup, TopologiesFile, Topology

__all__ = [
    "FILES",
    "Axis",
    "AxisValue",
    "Budget",
    "BuildSource",
    "Constraint",
    "Cover",
    "DiskImage",
    "Extension",
    "Gateway",
    "Infra",
    "MachineGroup",
    "NetworkPlugin",
    "Product",
    "ProductPhase",
    "QuarantineEntry",
    "Scenario",
    "ScenarioPhase",
    "Space",
    "Spec",
    "Support",
    "Tier",
    "Timeouts",
    "Together",
    "Topology",
    "UrlSource",
]

FILES: dict[str, type[Model]] = {
    "axes.yml": AxesFile,
    "topologies.yml": TopologiesFile,
    "scenarios.yml": ScenariosFile,
    "tiers.yml": TiersFile,
    "timeouts.yml": TimeoutsFile,
    "product.yml": ProductFile,
    "constraints.yml": ConstraintsFile,
    "infras.yml": InfrasFile,
    "quarantine.yml": QuarantineFile,
    "images.yml": ImagesFile,
    "network_plugins.yml": NetworkPluginsFile,
}


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
