"""The files under matrix/ as frozen pydantic models. Cross-references between files are checked in `crossref`."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+$", max_length=10)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=40)]
Group = Literal["control_plane", "etcd", "node"]
Feature = Literal["host-kernel", "vm-kernel", "internet"]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+/\S+$")]

QUANTITY = re.compile(r"^([1-9][0-9]*)(Mi|Gi)$")
MEBIBYTES = {"Mi": 1, "Gi": 1024}


class Model(BaseModel):
    """Frozen, and strict about unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Extension(Model):
    """Why a value stays in the matrix after its makers' support, and until when (date)."""

    until: date
    why: str = Field(min_length=1)


class Support(Model):
    """From when until when a value is supported by its makers (dates), and how much longer it is tested."""

    from_: date = Field(alias="from")
    until: date
    extended: Extension | None = None

    @property
    def ends(self) -> date:
        """Return the last day on which the value may stay in the matrix."""
        return max(self.until, self.extended.until) if self.extended is not None else self.until


class Unlike(Model):
    """A condition that holds for every value but these."""

    not_: str | tuple[str, ...] = Field(alias="not")


class OfClass(Model):
    """A condition that holds for the values of these classes."""

    class_: str | tuple[str, ...] = Field(alias="class")


class UnlikeClass(Model):
    """A condition that holds for the values of every class but these."""

    not_class: str | tuple[str, ...]


Condition = str | tuple[str, ...] | Unlike | OfClass | UnlikeClass


class AxisValue(Model):
    """One value of an axis.

    slug: stands in cell ids.  class: values of one class stand for each other when values are paired.
    vars: what it gives the playbooks.  paths: globs of files whose change can affect it.
    needs: what the infra cluster must offer (matrix/infras.yml).
    before: by a word (`patch`, `minor`), the value of the same axis that an upgrade to this one starts from.
    """

    id: Name
    slug: Slug | None = None
    label: str
    class_: str = Field(alias="class")
    vars: dict[str, Any] = Field(default_factory=dict)
    paths: tuple[str, ...] = ()
    image: Name | None = None
    support: Support | None = None
    needs: tuple[Feature, ...] = ()
    before: dict[Name, Name] = Field(default_factory=dict)

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
    """One phase of a scenario.

    then: in words, what must be true afterwards.
    cluster: whether there is a cluster afterwards; without one the tier's suites do not run after this phase.
    hold_back: how many machines of each group (the last ones) the inventory does not name yet; the next phase has them.
    remove: how many machines of each group (the last ones) this phase takes out of the cluster.
    values: other values for this phase, by axis: a word of the value's `before`, or several to go back step by step.
    vars: variables for the playbooks from this phase on.
    """

    phase: Name
    then: str
    cluster: bool = True
    hold_back: dict[Group, int] = Field(default_factory=dict)
    remove: dict[Group, int] = Field(default_factory=dict)
    values: dict[Name, Name | tuple[Name, ...]] = Field(default_factory=dict)
    vars: dict[str, Any] = Field(default_factory=dict)


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
    """What a tier may cost: cells in all, machines of one cell, expected minutes of one cell."""

    cells: int = Field(ge=1)
    machines: int = Field(ge=1)
    minutes: int = Field(ge=1)


class Together(Model):
    """Axes whose combinations are covered at a strength of their own."""

    axes: tuple[Name, ...] = Field(min_length=2)
    strength: int = Field(ge=2, le=6)


class Cover(Model):
    """What a tier's planned cells must contain.

    strength: every combination of classes on this many axes, wherever the constraints leave it possible.
    each_value: every value at least once, not only every class.
    together: groups of axes with a higher strength.
    """

    strength: int = Field(ge=1, le=6)
    each_value: bool = True
    together: tuple[Together, ...] = ()


class Tier(Model):
    """A named selection of cells and the suites that run in them.

    pinned: cells that are always in.  cover: what planned cells add; without it the pinned ones are all.
    where: the values that planned cells may have, by axis; all of an axis that is not named.
    """

    label: str
    pinned: tuple[dict[str, str], ...] = ()
    cover: Cover | None = None
    where: dict[Name, Condition] = Field(default_factory=dict)
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


class Constraint(Model):
    """A rule that every cell obeys: where all of `if` holds, all of `then` holds."""

    if_: dict[Name, Condition] = Field(alias="if", min_length=1)
    then: dict[Name, Condition] = Field(min_length=1)
    why: str = Field(min_length=1)


class Infra(Model):
    """A kind of infra cluster: what it offers to values that need something."""

    label: str
    offers: tuple[Feature, ...] = ()


class QuarantineEntry(Model):
    """What runs and reports but does not fail a run: cells by glob; of them one check (`suite: name`, a glob) or all.

    until: the last day (date) on which the entry counts.
    """

    cell: str = Field(min_length=1)
    check: str | None = None
    issue: Url
    reason: str = Field(min_length=1)
    until: date


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
    phase_later: float = Field(gt=0)
    settle: float = Field(gt=0)
    probe_pods: float = Field(gt=0)
    probe_follow: float = Field(gt=0)
    probe_remove: float = Field(gt=0)
    conformance: float = Field(gt=0)
    collect: float = Field(gt=0)
    teardown: float = Field(gt=0)
    admission: float = Field(gt=0)
    reservation: float = Field(gt=0)

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
    constraints: tuple[Constraint, ...] = ()
    infras: dict[Name, Infra] = Field(default_factory=dict)
    quarantine: tuple[QuarantineEntry, ...] = ()

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
