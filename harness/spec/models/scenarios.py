"""matrix/scenarios.yml: the phases of a cell's life."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from harness.spec.base import Group, Model, Name, Steps, Text, Variables, Whole

Count = Annotated[Whole, Field(ge=1)]
Restart = Literal["one-by-one", "all-at-once", "power-cut"]
Delivered = Literal["answers", "rolls-back", "comes-back"]


class ScenarioPhase(Model):
    """One phase of a scenario.

    phase: the phase of the product (matrix/product.yml) that runs; with `restart`, a name for what happens.
    then: in words, what must be true afterwards.
    cluster: whether there is a cluster afterwards; without one the tier's suites do not run after this phase.
    hold_back: how many machines of each group (the last ones) the inventory does not name yet; the next phase has them.
    remove: how many machines of each group (the last ones) this phase takes out of the cluster.
    lose: how many machines of each group (the last ones) are destroyed before this phase, which has to do without them.
    replace: how many machines of each group (the first ones) are destroyed likewise; others that were held back come in
      their place.
    hold_back_spare, remove_spare: as hold_back and remove, but only of groups of which a topology has more than that
      many machines; of the others none is taken.
    hop: a step between two others, with the values of that step; the next phase has the same name. Left out for
      products whose phase says `hops`: it goes through the steps by itself.
    values: other values for this phase, by axis: a word of the value's `before`, or several to go back step by step.
    vars: variables for the playbooks from this phase on.
    workload: what becomes of a workload during the phase. `keeps-answering`: it and the API answer within the outages
      that timeouts.yml allows (workload_outage, api_outage), and the longest ones are reported.
    restart: machines restart instead of a phase of the product, and the cluster must come back by itself within the
      time `restart` of timeouts.yml. `one-by-one`: each reboots when the one before is a Ready node again, all but the
      machine that sends the requests of `workload`. `all-at-once`: all reboot together. `power-cut`: all are reset
      together, without warning.
    data_of: the earlier phase whose beginning the cluster's data may be from afterwards, as when a backup is restored.
      After a phase without a cluster, it is one of the cluster before, of which this phase begins a clone.
      Without it, everything that was written before this phase is there afterwards.
    delivery: what becomes of an application whose revisions the product builds and deploys. `answers`: a revision is
      pushed in the phase, and answers. `rolls-back`: one that never becomes ready is pushed, and the one before it
      answers all through. `comes-back`: objects of the application are deleted, and are there again.
    delivery_into: where that application runs; `guest`: in the guest cluster; without it, beside the machines.
    """

    phase: Name
    then: Text
    cluster: bool = True
    hop: bool = False
    hold_back: dict[Group, Count] = Field(default_factory=dict)
    remove: dict[Group, Count] = Field(default_factory=dict)
    lose: dict[Group, Count] = Field(default_factory=dict)
    replace: dict[Group, Count] = Field(default_factory=dict)
    hold_back_spare: dict[Group, Count] = Field(default_factory=dict)
    remove_spare: dict[Group, Count] = Field(default_factory=dict)
    values: dict[Name, Steps] = Field(default_factory=dict)
    vars: Variables = Field(default_factory=dict)
    workload: Literal["keeps-answering"] | None = None
    restart: Restart | None = None
    data_of: Name | None = None
    delivery: Delivered | None = None
    delivery_into: Literal["guest"] | None = None

    @model_validator(mode="after")
    def _needed_or_spare(self) -> ScenarioPhase:
        twice = sorted((self.hold_back.keys() & self.hold_back_spare) | (self.remove.keys() & self.remove_spare))
        if twice:
            raise ValueError(f"counts {', '.join(twice)} both as needed and as spare; remove one of them")
        return self

    @model_validator(mode="after")
    def _only_restarts(self) -> ScenarioPhase:
        if self.restart is None:
            return self
        wrong = sorted({*self.model_fields_set} - {"phase", "then", "restart", "workload"})
        if wrong:
            raise ValueError(f"a phase with `restart` runs nothing of the product; remove {', '.join(wrong)}")
        if self.workload and self.restart != "one-by-one":
            raise ValueError("no workload answers while all machines restart; remove `workload`")
        return self

    @model_validator(mode="after")
    def _only_a_step(self) -> ScenarioPhase:
        if self.hop and not self.values:
            raise ValueError("a hop has `values` of its own: those of the step between; add them or remove `hop`")
        wrong = sorted({*self.model_fields_set} - {"phase", "then", "hop", "values", "workload"}) if self.hop else []
        if wrong:
            raise ValueError(f"a hop changes only values, as some products leave it out; remove {', '.join(wrong)}")
        return self


class Scenario(Model):
    """The ordered phases of a cell's life; the first is always `deploy`.

    label: what happens, in words.  phases: the phases, in their order.
    """

    label: Text
    phases: tuple[ScenarioPhase, ...] = Field(min_length=1)

    @field_validator("phases")
    @classmethod
    def _deploy_first(cls, phases: tuple[ScenarioPhase, ...]) -> tuple[ScenarioPhase, ...]:
        if phases[0].phase != "deploy":
            raise ValueError("the first phase must be deploy: the others need a cluster")
        if phases[0].restart is not None:
            raise ValueError("the first phase must deploy a cluster; remove its `restart`")
        for field in ("hold_back", "hold_back_spare"):
            if getattr(phases[-1], field):
                raise ValueError(
                    f"the last phase cannot hold back machines: no later phase would add them; remove `{field}`"
                )
        return phases
