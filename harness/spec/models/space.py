"""The matrix as a whole, put together from its files; and what the shortest of these hold, named in the docstrings."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from fnmatch import fnmatchcase
from string import ascii_lowercase, digits
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from harness.spec.base import CHECK, Condition, Day, Feature, Model, Name, OneOrMore, Real, Text, Url, Whole
from harness.spec.controls import Waiver
from harness.spec.models.axes import PRODUCT, Axis, AxisValue, Topology
from harness.spec.models.network_plugins import NetworkPlugin
from harness.spec.models.product import Product
from harness.spec.models.scenarios import Scenario
from harness.spec.models.tiers import Tier
from harness.spec.models.timeouts import Timeouts
from harness.spec.renamed import current_provider


class Constraint(Model):
    """A rule of matrix/constraints.yml that every cell obeys: where all of `if` holds, all of `then` holds.

    id: the name by which a project changes or removes it.
    if: conditions by axis.  then: conditions by axis.  why: the reason, in words.
    """

    id: Name | None = None
    if_: dict[Name, Condition] = Field(alias="if", min_length=1)
    then: dict[Name, Condition] = Field(min_length=1)
    why: Text


class MeasuredMemory(Model):
    """How cells are admitted by what their machines took before, and not by the memory that these declare.

    margin: factor on the most that a machine took.
    spare_mib: memory (MiB) of a node that is left free beside all machines.
    """

    margin: Annotated[Real, Field(ge=1.0, le=10.0)]
    spare_mib: Annotated[Whole, Field(ge=0)] = 0


class Infra(Model):
    """An infra profile of matrix/infras.yml: what an infra cluster offers to values that need something.

    label: what it is, in words.  offers: what values may need.
    provider: the provider whose clusters have this profile by default.
    measured_memory: for infra clusters whose nodes tell what machines take, and share their memory among them; without
    it, machines count by the memory that they declare.
    """

    label: Text
    provider: Annotated[
        Literal["embedded", "kubeconfig"] | None, BeforeValidator(lambda name: current_provider(name, "infras.yml"))
    ] = None
    offers: tuple[Feature, ...] = ()
    measured_memory: MeasuredMemory | None = None


CheckGlob = Annotated[str, StringConstraints(pattern=CHECK)]


class QuarantineEntry(Model):
    """What matrix/quarantine.yml excuses, which runs and does not fail a run: cells by glob, by their values, or by
    both; of them one check or all.

    cell: a glob of ids of cells; default: all.  where: values by axis, of which a cell has one on each.
    check: a glob of checks as `suite: name`, such as `network: test_dns*`.
    issue: the URL of where somebody works on it.  reason: why it is excused.
    until: the last day (date) on which the entry counts.
    """

    cell: Text = "*"
    where: dict[Name, OneOrMore] = Field(default_factory=dict)
    check: CheckGlob | None = None
    issue: Url
    reason: Text
    until: Day

    @model_validator(mode="after")
    def _some_cells(self) -> QuarantineEntry:
        if not self.model_fields_set & {"cell", "where"} or (not self.where and "cell" not in self.model_fields_set):
            raise ValueError("names no cells; add `cell`, a glob of their ids, or `where`, their values")
        return self

    @property
    def cells(self) -> str:
        """Return which cells are meant, in words."""
        values = [
            f"{axis} {value if isinstance(value, str) else ' or '.join(value)}" for axis, value in self.where.items()
        ]
        return ", ".join([*([self.cell] if self.cell != "*" or not values else []), *values])

    def means(self, cell: str, values: Mapping[str, str]) -> bool:
        """Tell whether a cell, by its id and its values, is one of these."""
        return fnmatchcase(cell, self.cell) and all(
            values.get(axis) in ((value,) if isinstance(value, str) else value) for axis, value in self.where.items()
        )


def _compiled(text: str) -> str:
    try:
        with warnings.catch_warnings(action="error"):  # such as of [[:alpha:]], which Python's `re` does not know
            re.compile(text)
    except (re.error, RecursionError, OverflowError, FutureWarning, DeprecationWarning) as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    for what, lines in UNREMARKABLE.items():
        if all(re.search(text, line) for line in lines):
            raise ValueError(f"fits {what}, so almost every line; add what it is about")
    return text


# Lines that say nothing, of one kind each: a pattern that fits all of a kind has no meaning to tell.
UNREMARKABLE = {
    "the empty line": ("",),
    "any word": tuple(8 * letter for letter in ascii_lowercase),
    "any number": tuple(8 * digit for digit in digits),
}


class Symptom(Model):
    """A line of a failed cell that somebody knows the meaning of (matrix/symptoms.yml).

    name: by which reports count it.  pattern: a regular expression (Python's `re`) that is looked for in each line.
    where: in what is looked for it: `messages` of what failed, `consoles` of machines, other `logs`.
    means: what it means, and what to do.  blame: whose fault it mostly is.  issue: the URL of where somebody works on
    it.  until: the last day (date) on which it is looked for.
    """

    name: Text
    pattern: Annotated[str, AfterValidator(_compiled)]
    where: tuple[Literal["messages", "consoles", "logs"], ...] = Field(
        default=("messages", "consoles", "logs"), min_length=1
    )
    means: Text
    blame: Literal["product", "infra", "harness", "user"] | None = None
    issue: Url | None = None
    until: Day | None = None


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
        return self.axis(axis).value(value_id)


class Spec(Space):
    """All of matrix/, loaded and cross-checked.

    product: what is tested.  products: what is tested in its place, by values of the axis `product`.
    """

    tiers: dict[Name, Tier]
    timeouts: Timeouts
    product: Product
    products: dict[Name, Product] = Field(default_factory=dict)
    quarantine: tuple[QuarantineEntry, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    symptoms: tuple[Symptom, ...] = ()
    network_plugins: dict[Name, NetworkPlugin] = Field(default_factory=dict)

    @property
    def together(self) -> tuple[tuple[str, ...], ...]:
        """Return the groups of axes that some tier covers together."""
        covers = (tier.cover for tier in self.tiers.values() if tier.cover is not None)
        return tuple(dict.fromkeys(group.axes for cover in covers for group in cover.together))

    def product_of(self, values: Mapping[str, str]) -> Product:
        """Return what is tested in a cell, by its value on every axis."""
        return self.products.get(values.get(PRODUCT, ""), self.product)

    def absent_products(self) -> tuple[str, ...]:
        """Return the values of the axis `product` whose products are none of this project."""
        values = (value for axis in self.axes if axis.name == PRODUCT for value in axis.values)
        return tuple(value.id for value in values if value.product is not None and value.id not in self.products)
