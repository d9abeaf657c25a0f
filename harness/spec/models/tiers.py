"""matrix/tiers.yml: which cells run together, what they cover, and what they may cost."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harness.spec.base import Condition, Model, Name, Real, Text, Whole

Count = Annotated[Whole, Field(ge=1)]


class Budget(Model):
    """What a tier may cost.

    cells: how many cells in all.  machines: how many of one cell.  minutes: how long one cell is expected to take.
    """

    cells: Count
    machines: Count
    minutes: Count


class Together(Model):
    """Axes whose combinations are covered at a strength of their own.

    axes: their names.  strength: how many of them every combination of classes is of.
    """

    axes: tuple[Name, ...] = Field(min_length=2)
    strength: Whole = Field(ge=2, le=6)

    @model_validator(mode="after")
    def _enough_axes(self) -> Together:
        if len(set(self.axes)) < len(self.axes):
            raise ValueError("names an axis twice")
        if self.strength > len(self.axes):
            raise ValueError(f"strength {self.strength} is more than the number of axes ({len(self.axes)})")
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

    label: what it is for, in words.
    pinned: cells that are always in, by their value on every axis.
    cover: what planned cells add; without it the pinned ones are all.
    where: the values that planned cells may have, by axis; all of an axis that is not named.
    suites: the suites of checks that run after each phase.  budget: what its cells may cost.
    fail_when: when suite `performance` fails, besides when it cannot measure: a figure is `slower` than in the runs
        before by more than their noise, or `over-slo`.
    every_hours: how often (hours) a schedule runs it: by this the report knows that a night is missing.
    rotate: whether each night has other planned cells, which cover the same; default: if a schedule runs it.
    on_change: globs of files; a merge request that changes one of them runs the pinned cells, too.
    follow_up: how many further cells a run of the whole tier may make, to tell apart what may explain its failures.
    bisect: whether it then looks for the commit that a named suspect came with, by runs of its cheapest failing cell.
    """

    label: Text
    pinned: tuple[dict[str, str], ...] = ()
    cover: Cover | None = None
    where: dict[Name, Condition] = Field(default_factory=dict)
    every_hours: Real | None = Field(default=None, gt=0, le=24 * 366)
    rotate: bool | None = None
    on_change: tuple[Text, ...] = ()
    follow_up: Whole = Field(default=0, ge=0, le=20)
    bisect: bool = False
    suites: tuple[Name, ...] = Field(min_length=1)
    fail_when: tuple[Literal["slower", "over-slo"], ...] = ()
    budget: Budget

    @property
    def rotates(self) -> bool:
        """Tell whether each night has other planned cells."""
        return self.cover is not None and (self.every_hours is not None if self.rotate is None else self.rotate)

    @model_validator(mode="after")
    def _some_cells(self) -> Tier:
        if not self.pinned and self.cover is None:
            raise ValueError("has no cells; add `pinned` cells, or `cover` to plan some")
        if self.rotate and self.cover is None:
            raise ValueError("`rotate` changes planned cells; add `cover`, or remove `rotate`")
        if self.where and self.cover is None:
            raise ValueError("`where` limits planned cells; add `cover`, or remove `where`")
        return self
