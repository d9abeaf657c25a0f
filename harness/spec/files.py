"""The files under matrix/, each with the one key that it has."""

from __future__ import annotations

from pydantic import Field

from harness.spec.base import Model, Name
from harness.spec.images import ImagesFile
from harness.spec.models import Axis, Constraint, Infra, Product, QuarantineEntry, Scenario, Tier, Timeouts, Topology


class ConstraintsFile(Model):
    """matrix/constraints.yml"""

    constraints: tuple[Constraint, ...] = ()


class InfrasFile(Model):
    """matrix/infras.yml"""

    infras: dict[Name, Infra] = Field(min_length=1)


class QuarantineFile(Model):
    """matrix/quarantine.yml"""

    quarantine: tuple[QuarantineEntry, ...] = ()


class AxesFile(Model):
    """matrix/axes.yml"""

    axes: tuple[Axis, ...] = Field(min_length=1)


class TopologiesFile(Model):
    """matrix/topologies.yml"""

    topologies: dict[Name, Topology]


class ScenariosFile(Model):
    """matrix/scenarios.yml"""

    scenarios: dict[Name, Scenario]


class TiersFile(Model):
    """matrix/tiers.yml"""

    tiers: dict[Name, Tier]


class TimeoutsFile(Model):
    """matrix/timeouts.yml"""

    timeouts: Timeouts


class ProductFile(Model):
    """matrix/product.yml"""

    product: Product


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
}
