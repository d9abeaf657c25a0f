"""The files under matrix/ as frozen pydantic models. Cross-references between files are checked in `crossref`."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+$", max_length=10)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=40)]
Group = Literal["control_plane", "etcd", "node"]

QUANTITY = re.compile(r"^([1-9][0-9]*)(Mi|Gi)$")
MEBIBYTES = {"Mi": 1, "Gi": 1024}


class Model(BaseModel):
    """Frozen, and strict about unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Support(Model):
    """From when until when a value is supported by its makers (dates)."""

    from_: date = Field(alias="from")
    until: date


class AxisValue(Model):
    """One value of an axis: `slug` stands in cell ids, `vars` goes to the playbooks, `paths` are what affects it."""

    id: Name
    slug: Slug | None = None
    label: str
    class_: str = Field(alias="class")
    vars: dict[str, Any] = Field(default_factory=dict)
    paths: tuple[str, ...] = ()
    image: Name | None = None
    support: Support | None = None

    @property
    def short(self) -> str:
        """Return what stands in cell ids."""
        return self.slug if self.slug is not None else re.sub(r"[^a-z0-9]", "", self.id)


class Axis(Model):
    """One thing that varies."""

    name: Name
    label: str
    values: tuple[AxisValue, ...] = Field(min_length=1)


class MachineGroup(Model):
    """Machines of one kind in a topology: NAME-0, NAME-1, ... Memory and disk are quantities in Mi or Gi."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]{0,9}$")]
    count: int = Field(ge=1, le=9)
    groups: tuple[Group, ...] = Field(min_length=1)
    cpus: int = Field(ge=1, le=64)
    memory: str
    disk: str

    @field_validator("memory", "disk")
    @classmethod
    def _quantity(cls, value: str) -> str:
        if not QUANTITY.match(value):
            raise ValueError("want a whole number of Mi or Gi, such as 2Gi")
        return value

    @property
    def memory_mib(self) -> int:
        """Return the guest's memory in MiB."""
        return mebibytes(self.memory)

    @property
    def disk_gib(self) -> int:
        """Return the disk's size in GiB, rounded up."""
        return -(-mebibytes(self.disk) // 1024)


class Topology(Model):
    """Machines and their groups."""

    machines: tuple[MachineGroup, ...] = Field(min_length=1)


class ScenarioPhase(Model):
    """One phase of a scenario; `then` says in words what must be true afterwards."""

    phase: Name
    then: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class Scenario(Model):
    """The ordered phases of a cell's life; the first is always `deploy`."""

    label: str
    phases: tuple[ScenarioPhase, ...] = Field(min_length=1)

    @field_validator("phases")
    @classmethod
    def _deploy_first(cls, phases: tuple[ScenarioPhase, ...]) -> tuple[ScenarioPhase, ...]:
        if phases[0].phase != "deploy":
            raise ValueError("the first phase must be deploy: the others need a cluster")
        return phases


class Budget(Model):
    """What a tier may cost: machines at once, expected minutes per cell."""

    machines: int = Field(ge=1)
    minutes: int = Field(ge=1)


class Tier(Model):
    """A named selection of cells and the suites that run in them."""

    label: str
    pinned: tuple[dict[str, str], ...] = ()
    suites: tuple[Name, ...] = Field(min_length=1)
    budget: Budget


class ProductPhase(Model):
    """The playbook of a phase, relative to the product's directory."""

    playbook: str


class Product(Model):
    """The deployment code under test."""

    name: str
    directory: str
    phases: dict[str, ProductPhase]
    vars: dict[str, Any] = Field(default_factory=dict)


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


class Timeouts(Model):
    """Seconds, by what is waited for."""

    golden_image: float = Field(gt=0)
    golden_stall: float = Field(gt=0)
    clone: float = Field(gt=0)
    machine_address: float = Field(gt=0)
    unschedulable: float = Field(gt=0)
    ssh: float = Field(gt=0)
    cloud_init: float = Field(gt=0)
    phase_deploy: float = Field(gt=0)
    settle: float = Field(gt=0)
    probe_pods: float = Field(gt=0)
    probe_follow: float = Field(gt=0)
    probe_remove: float = Field(gt=0)
    conformance: float = Field(gt=0)
    collect: float = Field(gt=0)
    teardown: float = Field(gt=0)

    def scaled(self, factor: float) -> Timeouts:
        """Return the same timeouts, stretched."""
        return Timeouts(**{name: seconds * factor for name, seconds in self})


class TimeoutsFile(Model):
    """matrix/timeouts.yml"""

    timeouts: Timeouts


class ProductFile(Model):
    """matrix/product.yml"""

    product: Product


class Spec(Model):
    """All of matrix/, loaded and cross-checked."""

    axes: tuple[Axis, ...]
    topologies: dict[Name, Topology]
    scenarios: dict[Name, Scenario]
    tiers: dict[Name, Tier]
    timeouts: Timeouts
    product: Product

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


def mebibytes(quantity: str) -> int:
    """Convert a quantity such as 2Gi or 1536Mi to MiB."""
    match = QUANTITY.match(quantity)
    if match is None:
        raise ValueError(quantity)
    return int(match[1]) * MEBIBYTES[match[2]]
