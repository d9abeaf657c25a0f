"""What a tier's planned cells are to cover on an infra profile: allowed values, their classes, rules, strength.

The one input of planning and of its proof. Does not know how cells are found (cover) or checked (verify).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.errors import BadInput
from harness.spec.crossref import unknown
from harness.spec.models import Cover, Infra, Spec, Tier
from harness.spec.rules import Rule, lacking, matching, rules


@dataclass(frozen=True)
class LeftOut:
    """A value that no planned cell of a tier may have on an infra profile, and why.

    by_infra: the infra cannot run it, so that a pinned cell may not have it either.
    """

    axis: str
    value: str
    why: str
    by_infra: bool


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

    def allows(self, cell: Mapping[str, str]) -> bool:
        """Tell whether a cell has an allowed value on every axis and breaks no rule."""
        return all(cell.get(axis) in allowed for axis, allowed in self.values.items()) and not any(
            rule.broken_by(cell) for rule in self.rules
        )


def goal_of(spec: Spec, tier: str, infra: str) -> Goal:
    """Return what a tier's planned cells are to cover on an infra profile; BadInput without such a tier or profile."""
    wanted = tier_of(spec, tier)
    infra_of(spec, infra)
    left_out = (*needing(spec, infra), *_elsewhere(spec, tier, wanted))
    gone = {(out.axis, out.value) for out in left_out}
    return Goal(
        values={axis.name: tuple(v.id for v in axis.values if (axis.name, v.id) not in gone) for axis in spec.axes},
        classes={axis.name: {v.id: v.class_ for v in axis.values} for axis in spec.axes},
        rules=rules(spec),
        cover=wanted.cover if wanted.cover is not None else Cover(strength=1),
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
    if infra not in spec.infras:
        raise BadInput(unknown("infra profile", infra, spec.infras), hint="matrix/infras.yml lists the infra profiles")
    return spec.infras[infra]


def needing(spec: Spec, infra: str) -> Iterator[LeftOut]:
    """Yield the values that need what an infra profile does not offer."""
    for axis in spec.axes:
        for value in axis.values:
            features = lacking(spec, infra, axis.name, value.id)
            if features:
                why = f"needs {' and '.join(features)}, which {spec.infras[infra].label} does not offer"
                yield LeftOut(axis.name, value.id, why, True)


def _elsewhere(spec: Spec, name: str, tier: Tier) -> Iterator[LeftOut]:
    for axis, condition in tier.where.items():
        inside = matching(spec, axis, condition)
        for value in spec.axis(axis).values:
            if value.id not in inside:
                yield LeftOut(axis, value.id, f"excluded by `where` of the tier {name}", False)
