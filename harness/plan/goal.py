"""What a tier's planned cells are to cover on an infra profile: allowed values, their classes, rules, strength.

The one input of planning and of its proof. Does not know how cells are found (cover) or checked (verify).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from harness.errors import BadInput
from harness.spec import feasibility, phases
from harness.spec.models import Cover, Infra, Spec, Tier
from harness.spec.models.axes import PRODUCT
from harness.spec.rules import Rule, lacking, matching, rules
from harness.spec.shape import unknown

LeftOutBy = Literal["infra", "product", "tier", "matrix"]


@dataclass(frozen=True)
class LeftOut:
    """A value that no planned cell of a tier may have on an infra profile, and why.

    by: what leaves it out; but for the tier, a pinned cell may not have it either. `matrix`: it has no such versions.
    """

    axis: str
    value: str
    why: str
    by: LeftOutBy


@dataclass(frozen=True)
class Goal:
    """What is to be covered.

    values: the ids that a planned cell may have, by axis, in the axes' order.
    classes: the class of each value, those left out included.
    rules: what every cell obeys.  left_out: the values that are not allowed.
    machines: how many a cell has, by topology; fewer are cheaper.
    defaults: the value that cells had before there was an axis, by axis, where one is named.
    """

    values: Mapping[str, tuple[str, ...]]
    classes: Mapping[str, Mapping[str, str]]
    rules: tuple[Rule, ...]
    cover: Cover
    left_out: tuple[LeftOut, ...] = ()
    machines: Mapping[str, int] | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def emptied(self) -> dict[str, list[str]]:
        """Return the axes on which no value is left, so that no cell can be planned, with what left the values out."""
        return {
            axis: [f"{axis} {', '.join(values)}: {why}" for why, values in self._gone(axis).items()]
            for axis, allowed in self.values.items()
            if not allowed
        }

    def _gone(self, axis: str) -> dict[str, list[str]]:
        reasons: dict[str, list[str]] = {}
        for out in self.left_out:
            if out.axis == axis:
                reasons.setdefault(out.why, []).append(out.value)
        return reasons

    def allows(self, cell: Mapping[str, str]) -> bool:
        """Tell whether a cell has an allowed value on every axis and breaks no rule."""
        return all(cell.get(axis) in allowed for axis, allowed in self.values.items()) and not any(
            rule.broken_by(cell) for rule in self.rules
        )


def goal_of(spec: Spec, tier: str | None, infra: str) -> Goal:
    """Return what a tier's planned cells are to cover on an infra profile; BadInput without such a tier or profile.

    Args:
        tier: None for what any cell may have there, whatever its tier.
    """
    tier_definition = tier_of(spec, tier) if tier is not None else None
    infra_of(spec, infra)
    elsewhere = _elsewhere(spec, tier, tier_definition) if tier is not None and tier_definition is not None else ()
    left_out = (*nowhere(spec, infra), *elsewhere)
    gone = {(out.axis, out.value) for out in left_out}
    return Goal(
        values={axis.name: tuple(v.id for v in axis.values if (axis.name, v.id) not in gone) for axis in spec.axes},
        classes={axis.name: {v.id: v.class_ for v in axis.values} for axis in spec.axes},
        rules=(*rules(spec), *_playable(spec)),
        cover=tier_definition.cover
        if tier_definition is not None and tier_definition.cover is not None
        else Cover.model_construct(strength=1),
        left_out=left_out,
        machines={name: sum(m.count for m in topology.machines) for name, topology in spec.topologies.items()},
        defaults={axis.name: axis.default for axis in spec.axes if axis.default is not None},
    )


def tier_of(spec: Spec, tier: str) -> Tier:
    """Return a tier by name; BadInput names the nearest when there is none."""
    if tier not in spec.tiers:
        raise BadInput(unknown("tier", tier, spec.tiers), hint="`vmatrix list` shows the tiers and their cells")
    return spec.tiers[tier]


def infra_of(spec: Spec, infra: str) -> Infra:
    """Return an infra profile by name; BadInput names the nearest when there is none."""
    return profile_in(spec.infras, infra)


def profile_in(infras: Mapping[str, Infra], name: str) -> Infra:
    """Return one of some infra profiles by name; BadInput names the nearest when there is none."""
    if name not in infras:
        raise BadInput(unknown("infra profile", name, infras), hint="matrix/infras.yml lists the infra profiles")
    return infras[name]


def nowhere(spec: Spec, infra: str) -> Iterator[LeftOut]:
    """Yield the values that no cell can have on an infra profile, pinned or planned."""
    return chain(needing(spec, infra), unplayed(spec), ungrouped(spec), unstarted(spec), others(spec))


def needing(spec: Spec, infra: str) -> Iterator[LeftOut]:
    """Yield the values that need what an infra profile does not offer."""
    for axis in spec.axes:
        for value in axis.values:
            features = lacking(spec, infra, axis.name, value.id)
            if features:
                why = f"needs {' and '.join(features)}, which {spec.infras[infra].label} does not offer"
                yield LeftOut(axis.name, value.id, why, "infra")


def unplayed(spec: Spec) -> Iterator[LeftOut]:
    """Yield the scenarios with phases that each of the products lacks."""
    for value in spec.axis("scenario").values:
        missing = phases.lacking(spec, value.id)
        if missing and all(phases.lacking(spec, value.id, product) for product in spec.products.values()):
            words = f"phase{'s' if len(missing) > 1 else ''} {' and '.join(missing)}"
            why = f"needs the {words}, which {spec.product.name} does not have"
            yield LeftOut("scenario", value.id, why, "product")


def ungrouped(spec: Spec) -> Iterator[LeftOut]:
    """Yield the topologies with machines in none of the product's groups."""
    for value in spec.axis("topology").values:
        missing = spec.product.lacking(spec.topologies[value.id])
        if missing:
            why = f"has machines for {' and '.join(missing)} alone, a group that {spec.product.name} does not have"
            yield LeftOut("topology", value.id, why, "product")


def unstarted(spec: Spec) -> Iterator[LeftOut]:
    """Yield the scenarios that start from what no value of the matrix has before it."""
    return (
        LeftOut("scenario", name, feasibility.axis_lacking(spec, name), "matrix")
        for name in sorted(feasibility.left_out(spec))
    )


def _playable(spec: Spec) -> Iterator[Rule]:
    """Yield, for each product, rules that keep it to the scenarios and topologies that it has."""
    scenarios = [value.id for value in spec.axis("scenario").values]
    beside = {*spec.products, *spec.absent_products()}
    own = {v.id: spec.product for axis in spec.axes if axis.name == PRODUCT for v in axis.values if v.id not in beside}
    for value, product in {**own, **spec.products}.items():
        has = frozenset(name for name in scenarios if not phases.lacking(spec, name, product))
        if len(has) < len(scenarios):
            why = f"{product.name} does not have the phases of other scenarios"
            yield Rule({PRODUCT: frozenset({value})}, {"scenario": has}, why)
        there = [each.id for each in spec.axis("topology").values]
        grouped = frozenset(name for name in there if not product.lacking(spec.topologies[name]))
        if len(grouped) < len(there):
            why = f"{product.name} does not have the groups of other topologies' machines"
            yield Rule({PRODUCT: frozenset({value})}, {"topology": grouped}, why)


def others(spec: Spec) -> Iterator[LeftOut]:
    """Yield the values that stand for products which are none of this project."""
    why = f"is another product, and this project has one of its own, {spec.product.name}"
    return (LeftOut(PRODUCT, value, why, "product") for value in spec.absent_products())


def _elsewhere(spec: Spec, name: str, tier: Tier) -> Iterator[LeftOut]:
    for axis, condition in tier.where.items():
        inside = matching(spec, axis, condition)
        for value in spec.axis(axis).values:
            if value.id not in inside:
                yield LeftOut(axis, value.id, f"excluded by `where` of the tier {name}", "tier")
