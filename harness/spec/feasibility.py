"""Feasibility of a well-formed matrix: values that no cell can have, rules without effect, ids that are too long.

Every judgement is made over all infra profiles: what one of them can run is possible.

A project may have fewer values than what ships with vmatrix: a scenario that ships and starts from earlier values
is then left out of its plans, and so is a pinned cell that ships and whose value lost what was before it. A
constraint that ships and is about what is not there rules nothing. A scenario, a pinned cell or a constraint that is
the project's own, or that it changes, and that could never be is a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

from harness.paths import MATRIX, packaged_dir
from harness.spec import lines
from harness.spec.declared import EACH, Wild, field, find, parsed
from harness.spec.layers import is_packaged
from harness.spec.lines import Document, Finding, Problem, below
from harness.spec.models import DiskImage, Space, Tier
from harness.spec.models.axes import ID_LENGTH, completed, id_length
from harness.spec.rules import Rule, Rulebook, conflict, earlier, lacking, matching, possible, rules, words

Narrow = Mapping[str, frozenset[str]]


def check(space: Space, documents: Mapping[str, Document]) -> list[Problem]:
    """Return what can never be in a matrix, with the remedy. Its space of cells is well-formed; tiers may not be."""
    by_infra = {infra: possible(space, infra) for infra in space.infras}
    known = Possibilities(space, Rulebook.of(rules(space)), by_infra)
    findings: dict[str, Iterator[Finding]] = {
        "axes.yml": _axes(known),
        "constraints.yml": _constraints(known, documents["constraints.yml"]),
        "tiers.yml": _tiers(known, documents["tiers.yml"].content),
        "topologies.yml": _disks(known, documents["images.yml"].content),
    }
    return [documents[name].problem(at, message) for name, all_ in findings.items() for at, message in all_]


@dataclass(frozen=True)
class Possibilities:
    """The values that each infra profile can run, and the rules that cells obey."""

    space: Space
    book: Rulebook
    by_infra: Mapping[str, Narrow]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return the rules that cells obey."""
        return self.book.rules

    @cached_property
    def left_out(self) -> frozenset[str]:
        """Return the scenarios that no cell can have because a project's own axes lack what they start from."""
        return left_out(self.space)

    def why_not(self, narrow: Narrow, book: Rulebook | None = None) -> str:
        """Say why no cell can have its values in some sets, on any infra profile; nothing when one can."""
        obeyed = self.book if book is None else book
        reasons: dict[str, list[str]] = {}
        for infra, values in self.by_infra.items():
            domains = {axis: ids & narrow.get(axis, ids) for axis, ids in values.items()}
            if obeyed.feasible(domains):
                return ""
            reasons.setdefault(self._reason(infra, domains, narrow, obeyed.rules), []).append(infra)
        if len(reasons) == 1:
            return next(iter(reasons))
        return "; ".join(f"on {' and '.join(infras)}: {reason}" for reason, infras in reasons.items())

    def _reason(self, infra: str, domains: Narrow, narrow: Narrow, obeyed: Sequence[Rule]) -> str:
        for axis, ids in domains.items():
            if not ids and not narrow.get(axis, True):
                return f"no {axis} is left"
            if not ids:
                allowed = sorted(narrow.get(axis, ())) or [value.id for value in self.space.axis(axis).values]
                lacks = dict.fromkeys(f for v in allowed for f in lacking(self.space, infra, axis, v))
                return f"{axis} {' and '.join(allowed)} needs {' and '.join(lacks)}" if lacks else f"no {axis} is left"
        return "; ".join(dict.fromkeys(rule.why for rule in conflict(domains, obeyed)))


def _axes(known: Possibilities) -> Iterator[Finding]:
    without = known.left_out
    for a, axis in enumerate(known.space.axes):
        for v, value in enumerate(axis.values):
            if axis.name == "scenario" and value.id in without:
                continue
            why = known.why_not({axis.name: frozenset({value.id})})
            if why:
                at = ("axes", a, "values", v, "id")
                yield at, f"no cell can have {value.id}: {why}; change that, or remove the value"
    longest = _too_long(known)
    if longest:
        slugs = ", ".join(f"{axis} {slug}" for axis, slug in longest.items() if slug)
        message = f"a cell's id can be {id_length(longest)} characters long, the limit is {ID_LENGTH}"
        yield ("axes",), f"{message}; use shorter slugs than {slugs}"


def _too_long(known: Possibilities) -> dict[str, str]:
    """Return the slugs by axis of a cell that can be and whose id is too long, the longest one; nothing without one.

    Of axes without a default: the slugs of others are left out of an id that has no room for them.
    """
    axes = [axis for axis in known.space.axes if axis.default is None]
    by_length: list[dict[int, str]] = [{len(axis.in_ids(v)): axis.in_ids(v) for v in axis.values} for axis in axes]
    lengths = (
        dict(zip((axis.name for axis in axes), slugs, strict=True)) for slugs in product(*map(dict.values, by_length))
    )
    for slugs in sorted(lengths, key=id_length, reverse=True):
        if id_length(slugs) <= ID_LENGTH:
            break
        narrow = {
            axis.name: frozenset(v.id for v in axis.values if len(axis.in_ids(v)) == len(slugs[axis.name]))
            for axis in axes
        }
        if not known.why_not(narrow):
            return slugs
    return {}


def _disks(known: Possibilities, images: Any) -> Iterator[Finding]:
    """Find machines whose disk is smaller than the image of a system that they can have."""
    sizes = {
        image.name: image.size_gib
        for _, image_entry in find(images, "images", EACH)
        if (image := parsed(DiskImage, image_entry))
    }
    for topology, topology_entry in known.space.topologies.items():
        for number, machine in enumerate(topology_entry.machines):
            larger = (v for v in known.space.axis("os").values if sizes.get(v.image or "", 0) * 1024 > machine.disk_mib)
            for value in larger:
                if not known.why_not({"topology": frozenset({topology}), "os": frozenset({value.id})}):
                    need = f"{sizes[value.image or '']}Gi"
                    message = f"is smaller than the disk image of {value.id}, which has {need}; use {need} or more"
                    yield ("topologies", topology, "machines", number, "disk"), message
                    break


def _constraints(known: Possibilities, document: Document) -> Iterator[Finding]:
    everything = _all(known.space)
    fewer = _fewer_than_ship(known.space)
    for c, rule in enumerate(known.rules[: len(known.space.constraints)]):
        at = ("constraints", c)
        if fewer and is_packaged(document.place_of(at)[0]):
            continue
        others = Rulebook.of([other for other in known.rules if other is not rule and other.origin is not rule])
        empty = [axis for axis, ids in rule.then.items() if not ids]
        if empty:
            message = f"allows no value of axis {empty[0]}, so its `if` could never hold; allow at least one"
            yield (*at, "then", empty[0]), message
            continue
        if all(ids == everything[axis] for axis, ids in rule.then.items()):
            yield (*at, "then"), "has no effect: it allows every value; remove the constraint"
            continue
        why = known.why_not(rule.when, others)
        if why:
            yield (*at, "if"), f"can never apply: {why}; remove the constraint"
            continue
        both = {axis: rule.when.get(axis, ids) & rule.then.get(axis, ids) for axis, ids in everything.items()}
        why = known.why_not(both, others)
        if why:
            yield (*at, "then"), f"no cell of its `if` can satisfy it: {why}; change one of them"


def _fewer_than_ship(space: Space) -> bool:
    """Return whether an axis lacks a value that ships with vmatrix."""
    here = {axis.name: {value.id for value in axis.values} for axis in space.axes}
    shipped = ((field(axis, "name"), axis) for _, axis in find(_shipped("axes.yml"), "axes", EACH))
    return any(
        field(value, "id") not in here.get(name or "", ())
        for name, axis in shipped
        for _, value in find(axis, "values", EACH)
    )


def _all(space: Space) -> dict[str, frozenset[str]]:
    return {axis.name: frozenset(value.id for value in axis.values) for axis in space.axes}


def _tiers(known: Possibilities, content: Any) -> Iterator[Finding]:
    for at, raw in find(content, "tiers", EACH):
        tier = parsed(Tier, raw)
        if tier is not None:
            yield from below(at, _tier(known, tier))


def _tier(known: Possibilities, tier: Tier) -> Iterator[Finding]:
    values = _all(known.space)
    if tier.where and set(tier.where) <= set(values):
        narrow = {axis: matching(known.space, axis, condition) for axis, condition in tier.where.items()}
        why = known.why_not(narrow)
        if why and all(narrow.values()):
            yield ("where",), f"no cell can be planned: {why}; allow more values"
    pinned = tuple(completed(known.space.axes, cell) for cell in tier.pinned)
    for infra, can in known.by_infra.items():
        there = [cell for cell in pinned if all(cell.get(axis) in ids for axis, ids in can.items())]
        if len(there) > tier.budget.cells:
            remedy = "raise it, or pin fewer"
            yield ("pinned",), f"{len(there)} cells for {infra}, the tier's budget is {tier.budget.cells}; {remedy}"
    first: dict[tuple[tuple[str, str], ...], int] = {}
    for p, cell in enumerate(pinned):
        if set(cell) != set(values) or any(cell[axis] not in ids for axis, ids in values.items()):
            continue  # said by crossref
        if cell["scenario"] in known.left_out or pinned_lacking(known.space, cell):
            continue
        at = ("pinned", p)
        same = first.setdefault(tuple(sorted(cell.items())), p)
        if same != p:
            yield at, f"duplicates pinned[{same}]; remove one"
        yield from ((at, message) for message in _pinned(known, tier, cell))


def _pinned(known: Possibilities, tier: Tier, cell: Mapping[str, str]) -> Iterator[str]:
    broken = [rule.why for rule in known.rules if rule.broken_by(cell)]
    if broken:
        yield f"the cell breaks a rule: {'; '.join(dict.fromkeys(broken))}; change one of its values"
    elif not any(all(value in can[axis] for axis, value in cell.items()) for can in known.by_infra.values()):
        why = known.why_not({axis: frozenset({value}) for axis, value in cell.items()})
        yield f"no infra profile can run the cell: {why}; change one of its values"
    machines = sum(machine.count for machine in known.space.topologies[cell["topology"]].machines)
    if machines > tier.budget.machines:
        remedy = "raise it, or pin a smaller topology"
        yield f"the cell needs {machines} machines, the tier's budget is {tier.budget.machines}; {remedy}"


def axis_lacking(space: Space, scenario: str) -> str:
    """Return why no value of an axis has what a scenario starts from; nothing where one has."""
    for phase in space.scenarios[scenario].phases:
        for axis, steps in phase.values.items():
            if not any(earlier(space, axis, value, words(steps)) for value in space.axis(axis).values):
                return f"starts from an earlier {axis} ({', '.join(words(steps))}), which no value has"
    return ""


def left_out(space: Space) -> frozenset[str]:
    """Return the scenarios that ship with vmatrix and that no cell of a matrix can have for that."""
    names = [value.id for value in space.axis("scenario").values]
    axes = [name for name in names if axis_lacking(space, name)]
    return frozenset(axes) & _names("scenarios.yml", "scenarios", EACH) if axes else frozenset()


def pinned_lacking(space: Space, cell: Mapping[str, str]) -> str:
    """Return why a project's own axes leave out a pinned cell that ships; nothing where they do not.

    Only what starts from earlier values of the axes that ship is left out: a mistake in what ships stays one.
    """
    if not any(raw.items() <= cell.items() for raw in _pinned_starts()):
        return ""
    for phase in space.scenarios[cell["scenario"]].phases:
        for axis, steps in phase.values.items():
            here = earlier(space, axis, space.value(axis, cell[axis]), words(steps))
            if here is None and _ships_earlier(axis, cell[axis], words(steps)):
                return f"starts from an earlier {axis} ({', '.join(words(steps))}), which {cell[axis]} does not have"
    return ""


def _ships_earlier(axis: str, value: str, steps: tuple[str, ...]) -> bool:
    """Return whether a value as it ships has so many others before it."""
    shipped = [axes for _, axes in find(_shipped("axes.yml"), "axes", EACH) if field(axes, "name") == axis]
    before = {str(v["id"]): v.get("before", {}) for axes in shipped for _, v in find(axes, "values", EACH)}
    at: str | None = value
    for step in steps:
        at = before.get(at, {}).get(step) if at is not None else None
    return at is not None


def words_of(scenario: str, axis: str) -> frozenset[str]:
    """Return the words of `before` on an axis as vmatrix ships it, for a scenario that ships; none for others."""
    if scenario not in _names("scenarios.yml", "scenarios", EACH):
        return frozenset()
    shipped = [entry for _, entry in find(_shipped("axes.yml"), "axes", EACH) if field(entry, "name") == axis]
    return frozenset(str(at[-1]) for entry in shipped for at, _ in find(entry, "values", EACH, "before", EACH))


def ships(axis: str, word: str) -> bool:
    """Return whether an axis as it ships has a value, or a class of values, of that name."""
    shipped = [entry for _, entry in find(_shipped("axes.yml"), "axes", EACH) if field(entry, "name") == axis]
    values = [value for entry in shipped for _, value in find(entry, "values", EACH)]
    return any(word in (field(value, "id"), field(value, "class")) for value in values)


@cache
def _pinned_starts() -> tuple[dict[str, Any], ...]:
    """Return the pinned cells that ship."""
    cells = (raw for _, raw in find(_shipped("tiers.yml"), "tiers", EACH, "pinned", EACH))
    return tuple(raw for raw in cells if isinstance(raw, dict))


def _names(file: str, *steps: str | Wild) -> frozenset[str]:
    return frozenset(str(at[-1]) for at, _ in find(_shipped(file), *steps))


def _shipped(file: str) -> Any:
    return _read(packaged_dir() / MATRIX / file)


@cache
def _read(file: Path) -> Any:
    return lines.read(file)[0].content
