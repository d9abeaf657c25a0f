"""What the files under matrix/ hold, as frozen pydantic models; the files themselves are in `files`."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from harness.spec.base import (
    CHECK,
    MACHINE,
    Feature,
    Group,
    Quantity,
    Seconds,
    Slug,
    Steps,
    Text,
    Url,
    Variables,
    Whole,
    mebibytes,
)
from harness.spec.base import Condition as Condition
from harness.spec.base import Model as Model
from harness.spec.base import Name as Name

MachineName = Annotated[str, StringConstraints(pattern=MACHINE)]
CheckGlob = Annotated[str, StringConstraints(pattern=CHECK)]
Count = Annotated[Whole, Field(ge=1)]


class Extension(Model):
    """Why a value stays in the matrix after its makers' support, and until when (date)."""

    until: date
    why: Text


class Support(Model):
    """From when until when a value is supported by its makers (dates), and how much longer it is tested."""

    from_: date = Field(alias="from")
    until: date
    extended: Extension | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Support:
        if self.until < self.from_:
            raise ValueError(f"ends ({self.until}) before it begins ({self.from_}); `until` comes after `from`")
        if self.extended is not None and self.extended.until <= self.until:
            raise ValueError(f"`extended` ends on {self.extended.until}, not after `until`; leave it out")
        return self

    @property
    def ends(self) -> date:
        """Return the last day on which the value may stay in the matrix."""
        return self.extended.until if self.extended is not None else self.until


class AxisValue(Model):
    """One value of an axis.

    slug: stands in cell ids.  class: values of one class stand for each other when values are paired.
    vars: what it gives the playbooks.  paths: globs of files whose change can affect it.
    needs: what the infra cluster must offer (matrix/infras.yml).
    before: by a word (`patch`, `minor`), the value of the same axis that an upgrade to this one starts from.
    """

    id: Name
    slug: Slug | None = None
    label: Text
    class_: Text = Field(alias="class")
    vars: Variables = Field(default_factory=dict)
    paths: tuple[Text, ...] = ()
    image: Name | None = None
    support: Support | None = None
    needs: tuple[Feature, ...] = ()
    before: dict[Name, Name] = Field(default_factory=dict)

    @property
    def short(self) -> str:
        """Return what stands in cell ids."""
        return self.slug if self.slug is not None else re.sub(r"[^a-z0-9]", "", self.id)


class Axis(Model):
    """One thing that varies.

    default: the value that cells had before there was this axis. It stands in no cell id, so an axis that comes later
    leaves the ids, and with them the history, of the cells that there are.
    """

    name: Name
    label: Text
    default: Name | None = None
    values: tuple[AxisValue, ...] = Field(min_length=1)

    def in_ids(self, value: AxisValue) -> str:
        """Return what stands in cell ids for a value of this axis, nothing for the default."""
        return "" if value.id == self.default else value.short


class MachineGroup(Model):
    """Machines of one kind in a topology: NAME-0, NAME-1, ... Memory and disk are quantities in Mi or Gi."""

    name: MachineName
    count: Whole = Field(ge=1, le=9)
    groups: tuple[Group, ...] = Field(min_length=1)
    cpus: Whole = Field(ge=1, le=64)
    memory: Quantity
    disk: Quantity

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
    lose: how many machines of each group (the last ones) are destroyed before this phase, which has to do without them.
    hold_back_spare, remove_spare: as hold_back and remove, but only of groups of which a topology has more than that
      many machines; of the others none is taken.
    values: other values for this phase, by axis: a word of the value's `before`, or several to go back step by step.
    vars: variables for the playbooks from this phase on.
    workload: what becomes of a workload during the phase. `keeps-answering`: it and the API answer within the outages
      that timeouts.yml allows (workload_outage, api_outage), and the longest ones are reported.
    data_of: the earlier phase whose beginning the cluster's data may be from afterwards, as when a backup is restored.
      Without it, everything that was written before this phase is there afterwards.
    """

    phase: Name
    then: Text
    cluster: bool = True
    hold_back: dict[Group, Count] = Field(default_factory=dict)
    remove: dict[Group, Count] = Field(default_factory=dict)
    lose: dict[Group, Count] = Field(default_factory=dict)
    hold_back_spare: dict[Group, Count] = Field(default_factory=dict)
    remove_spare: dict[Group, Count] = Field(default_factory=dict)
    values: dict[Name, Steps] = Field(default_factory=dict)
    vars: Variables = Field(default_factory=dict)
    workload: Literal["keeps-answering"] | None = None
    data_of: Name | None = None

    @model_validator(mode="after")
    def _needed_or_spare(self) -> ScenarioPhase:
        twice = sorted((self.hold_back.keys() & self.hold_back_spare) | (self.remove.keys() & self.remove_spare))
        if twice:
            raise ValueError(f"counts {', '.join(twice)} both as needed and as spare; leave one of them out")
        return self


class Scenario(Model):
    """The ordered phases of a cell's life; the first is always `deploy`."""

    label: Text
    phases: tuple[ScenarioPhase, ...] = Field(min_length=1)

    @field_validator("phases")
    @classmethod
    def _deploy_first(cls, phases: tuple[ScenarioPhase, ...]) -> tuple[ScenarioPhase, ...]:
        if phases[0].phase != "deploy":
            raise ValueError("the first phase must be deploy: the others need a cluster")
        for field in ("hold_back", "hold_back_spare"):
            if getattr(phases[-1], field):
                raise ValueError(
                    f"the last phase holds machines back that no phase would then have; leave `{field}` out"
                )
        return phases


class Budget(Model):
    """What a tier may cost: cells in all, machines of one cell, expected minutes of one cell."""

    cells: Count
    machines: Count
    minutes: Count


class Together(Model):
    """Axes whose combinations are covered at a strength of their own."""

    axes: tuple[Name, ...] = Field(min_length=2)
    strength: Whole = Field(ge=2, le=6)

    @model_validator(mode="after")
    def _enough_axes(self) -> Together:
        if len(set(self.axes)) < len(self.axes):
            raise ValueError("names an axis twice; each once")
        if self.strength > len(self.axes):
            raise ValueError(f"strength {self.strength} of {len(self.axes)} axes; at most as many as there are axes")
        return self


class Cover(Model):
    """What a tier's planned cells must contain.

    strength: every combination of classes on this many axes, wherever the constraints leave it possible.
    each_value: every value at least once, not only every class.
    together: groups of axes with a higher strength.
    """

    strength: Whole = Field(ge=1, le=6)
    each_value: bool = True
    together: tuple[Together, ...] = ()


class Tier(Model):
    """A named selection of cells and the suites that run in them.

    pinned: cells that are always in.  cover: what planned cells add; without it the pinned ones are all.
    where: the values that planned cells may have, by axis; all of an axis that is not named.
    every_hours: how often a schedule runs it: by this the report knows that a night is missing.
    """

    label: Text
    pinned: tuple[dict[str, str], ...] = ()
    cover: Cover | None = None
    where: dict[Name, Condition] = Field(default_factory=dict)
    every_hours: float | None = Field(default=None, gt=0, le=24 * 366)
    suites: tuple[Name, ...] = Field(min_length=1)
    budget: Budget

    @model_validator(mode="after")
    def _some_cells(self) -> Tier:
        if not self.pinned and self.cover is None:
            raise ValueError("has no cell; want `pinned` cells, or `cover` for planned ones")
        if self.where and self.cover is None:
            raise ValueError("`where` is about planned cells and there are none; want `cover`, or leave `where` out")
        return self


class ProductPhase(Model):
    """The playbook of a phase, relative to the product's directory.

    paths: globs of further files (relative to the project) whose change affects this phase and no other.
    """

    playbook: Text
    paths: tuple[Text, ...] = ()


class Product(Model):
    """The deployment code under test.

    without_effect: globs of files (relative to the project) whose change affects no cell.
    """

    name: Text
    directory: Text
    phases: dict[Name, ProductPhase] = Field(min_length=1)
    vars: Variables = Field(default_factory=dict)
    without_effect: tuple[Text, ...] = ()


class Constraint(Model):
    """A rule that every cell obeys: where all of `if` holds, all of `then` holds."""

    if_: dict[Name, Condition] = Field(alias="if", min_length=1)
    then: dict[Name, Condition] = Field(min_length=1)
    why: Text


class Infra(Model):
    """A kind of infra cluster: what it offers to values that need something.

    provider: the provider whose clusters are of this kind, unless another kind is asked for.
    """

    label: Text
    provider: Literal["local", "kubeconfig"] | None = None
    offers: tuple[Feature, ...] = ()


class QuarantineEntry(Model):
    """What runs and reports but does not fail a run: cells by glob; of them one check (`suite: name`, a glob) or all.

    until: the last day (date) on which the entry counts.
    """

    cell: Text
    check: CheckGlob | None = None
    issue: Url
    reason: Text
    until: date


class Timeouts(Model):
    """Seconds, by what is waited for; or, for an outage, how long something may be without an answer."""

    golden_image: Seconds
    golden_stall: Seconds
    clone: Seconds
    machine_address: Seconds
    machine_phase: Seconds
    unschedulable: Seconds
    ssh: Seconds
    cloud_init: Seconds
    phase_deploy: Seconds
    phase_later: Seconds
    settle: Seconds
    probe_pods: Seconds
    probe_follow: Seconds
    probe_remove: Seconds
    metrics: Seconds
    volume: Seconds
    workload_outage: Seconds
    api_outage: Seconds
    conformance: Seconds
    collect: Seconds
    teardown: Seconds
    admission: Seconds
    reservation: Seconds
    job_prepare: Seconds
    job_start: Seconds
    job_end: Seconds

    def scaled(self, factor: float) -> Timeouts:
        """Return the same timeouts, stretched."""
        return Timeouts(**{name: seconds * factor for name, seconds in self})


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
