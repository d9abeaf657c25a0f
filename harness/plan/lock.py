"""matrix/plan.lock.yml: the planned cells of each tier on each infra profile, written once and kept.

The lock remembers what a tier was planned from; when that has changed since, it is stale and says so. An axis that
comes later and has a default changes no line of it: cells name only other values on it (`also`), and a tier that has
such cells remembers what they came from beside the rest (`later`). Does not plan (build), does not prove (verify), and
does not say what a tier's cells are (tiers).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, StringConstraints

from harness.errors import BadInput
from harness.files import IndentedDumper, read_text
from harness.model import Cell
from harness.paths import MATRIX, packaged_dir
from harness.plan.cells import cell_id, chosen_of
from harness.plan.goal import Goal, goal_of, infra_of, nowhere, tier_of
from harness.spec import feasibility, lines
from harness.spec.base import NAME, Model, Name
from harness.spec.lines import TEXT, Location
from harness.spec.loader import refuse, validate
from harness.spec.models import Spec
from harness.spec.rules import Rule
from harness.spec.shape import unknown
from harness.system import lexists

WORD = re.compile(r"[A-Za-z0-9][-.A-Za-z0-9]*")
LINE = re.compile(r"( *(?:- )?)([^ :]+):(?: (.+))?")
# What may begin a line: the name of an infra profile and of a tier, the keys of a tier and of a cell.
TOP, INFRA, TIER, OF_TIER, CELL, OF_CELL = "", " " * 2, " " * 4, " " * 6, " " * 8 + "- ", " " * 10
RESOLVER = yaml.resolver.Resolver()


def read(text: str) -> dict[str, Any] | None:
    """Return what a lock holds, None where a line is none of those that vmatrix writes."""
    reading = _LockReading()
    try:
        for line in text.removesuffix("\n").split("\n"):
            if not line.startswith("# "):
                reading.add(line)
    except ValueError:
        return None
    return reading.top if all(reading.opened) else None


@dataclass(frozen=True)
class Places(Mapping[Location, int]):
    """The line of each location of a text, found when one is asked for: that is when there is a mistake to be told."""

    file: Path
    text: str

    def __getitem__(self, location: Location) -> int:
        """Return the line of a location; KeyError where it has none."""
        return self._found[location]

    def __iter__(self) -> Iterator[Location]:
        """Yield the locations."""
        return iter(self._found)

    def __len__(self) -> int:
        """Return how many locations there are."""
        return len(self._found)

    @cached_property
    def _found(self) -> Mapping[Location, int]:
        return lines.parse(self.file, self.text)[0].lines


class _LockReading:
    """A lock that is being read: the mapping that a line of each indentation belongs to, as far as there is one.

    opened: everything that further lines are to fill.
    """

    def __init__(self) -> None:
        self.top: dict[str, Any] = {}
        self.opened: list[Any] = [self.top]
        self._in: dict[str, Any] = {TOP: self.top}

    def add(self, line: str) -> None:
        """Take a line; ValueError where it is not a line of a lock, or has no place here."""
        match = LINE.fullmatch(line)
        if match is None:
            raise ValueError(line)
        begins, name, given = match.groups()
        if begins == CELL:
            self._cell(name, given)
            return
        inside = self._in.get(begins)
        key = word(name)
        if inside is None or key in inside:
            raise ValueError(line)
        self._in = {known: entry for known, entry in self._in.items() if len(known) <= len(begins)}
        inside[key] = self._opened(begins, key) if given is None else value(given)

    def _cell(self, name: str, value: str | None) -> None:
        cells = self._in.get(CELL)
        if cells is None or name != "id" or value is None:
            raise ValueError(name)
        cells.append({name: word(value)})
        self._in[OF_CELL] = cells[-1]

    def _opened(self, begins: str, key: str) -> Any:
        """Return what the lines further in will fill."""
        deeper = {TOP: INFRA, INFRA: TIER, TIER: OF_TIER, OF_TIER: CELL}.get(begins)
        if deeper is None or (begins == TOP) != (key == "plan") or (begins == OF_TIER) != (key == "cells"):
            raise ValueError(key)
        made: Any = [] if deeper == CELL else {}
        self._in[deeper] = made
        self.opened.append(made)
        return made


def value(text: str) -> Any:
    """Return a word, a list of words or a mapping of words; ValueError where a text is something else."""
    inner = text[1:-1].split(", ") if text[1:-1] else []
    if text[0] + text[-1] == "[]":
        return [word(part) for part in inner]
    if text[0] + text[-1] == "{}":
        pairs = [part.partition(": ") for part in inner]
        made = {word(key): word(content) for key, _, content in pairs}
        if len(made) < len(pairs):
            raise ValueError(text)
        return made
    return word(text)


@lru_cache(maxsize=4096)
def word(text: str) -> str:
    """Return a plain or quoted word; ValueError where YAML reads it as something else than a text."""
    quoted = len(text) > 1 and text[0] == text[-1] == "'"
    bare = text[1:-1] if quoted else text
    if WORD.fullmatch(bare) is None:
        raise ValueError(text)
    if not quoted and RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) != TEXT:  # type: ignore[no-untyped-call]
        raise ValueError(text)
    return bare


FILE = "plan.lock.yml"
WRITE = "run `vmatrix plan --write` and commit what it changes"
HEAD = """\
# Generated by `vmatrix plan --write`; the cells stay when values are added, `--repack` plans anew. Do not edit.
# inputs: a digest of what the tier was planned from on this kind of infra.
"""


Amount = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,9}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Figures(Model):
    """What takes long to find out about a tier's plan, as the lock remembers it; None for what is not known.

    scratch: how many cells a plan from scratch has, pinned ones included.  least: how many any plan has at least.
    possible: how many triples of classes some cell can have.  week, month: how many of these 7 and 30 nights cover,
    where each night has other cells.
    """

    scratch: Amount | None = None
    least: Amount | None = None
    possible: Amount | None = None
    week: Amount | None = None
    month: Amount | None = None


UNKNOWN = Figures()


@dataclass(frozen=True)
class PlannedTier:
    """What is to be locked of one tier on one infra profile: planned cells, digests of its inputs, and its figures."""

    inputs: str
    later: str | None
    cells: Sequence[Cell]
    figures: Figures


class LockedCell(Model):
    """One planned cell: its id, and its values.

    values: a value id on every axis, in the order of the file's `axes`.  also: those on later axes that are no default.
    """

    id: Annotated[str, StringConstraints(pattern=NAME)]
    values: tuple[Name, ...]
    also: dict[Name, Name] = Field(default_factory=dict)


class LockedTier(Model):
    """The planned cells of one tier on one infra profile, and digests of what they were planned from.

    inputs: all of it but the later axes.  later: all of it; None where later axes have nothing but their defaults.
    figures: what else is known of the plan.
    """

    inputs: Digest
    later: Digest | None = None
    figures: Figures = UNKNOWN
    cells: tuple[LockedCell, ...] = ()


class LockFile(Model):
    """matrix/plan.lock.yml: the axes' names, and the tiers by infra profile.

    later: axes that came later, with the default that cells have on them.
    """

    axes: tuple[Name, ...]
    later: dict[Name, Name] = Field(default_factory=dict)
    plan: dict[Name, dict[Name, LockedTier]]


@dataclass(frozen=True)
class Lock:
    """The lock as read; without any tier when there is no file yet.

    own: whether it is the project's, so that what it says counts; the packaged one is only what plans begin with.
    """

    document: lines.Document
    own: bool = True
    axes: tuple[str, ...] = ()
    later: Mapping[str, str] = field(default_factory=dict)
    plan: Mapping[str, Mapping[str, LockedTier]] = field(default_factory=dict)

    def tier(self, infra: str, tier: str) -> LockedTier | None:
        """Return what is locked for a tier, None when nothing is."""
        return self.plan.get(infra, {}).get(tier)

    def cells(self, infra: str, tier: str) -> dict[str, dict[str, str]]:
        """Return the values of a tier's locked cells by axis, by the cells' ids."""
        planned = self.tier(infra, tier)
        cells = planned.cells if planned is not None else ()
        return {
            cell.id: {**self.later, **dict(zip(self.axes, cell.values, strict=True)), **cell.also} for cell in cells
        }


def load_lock(directory: Path, *, replacing: bool = False) -> Lock:
    """Load the lock of a matrix directory, or without one the packaged lock, whose cells then keep their ids.

    Args:
        replacing: the lock is written anew, also in the place of a link that leads nowhere; otherwise that is refused.

    Raises:
        BadInput: with a line `file:line: path: what is wrong` per error.
    """
    own, packaged = directory / FILE, packaged_dir() / MATRIX / FILE
    file = own if (own.exists() if replacing else lexists(own)) else packaged
    if not lexists(file):
        return Lock(lines.Document(own, None, {}), own=False)
    document, problems = _read(file)
    parsed: LockFile | None = None
    if not problems:
        parsed, problems = validate(document, LockFile)
        problems += list(_misfits(parsed, document)) if parsed is not None else []
    if problems or parsed is None:
        raise refuse(problems)
    # what is wrong with a plan is to be put right in the project
    document = document if file == own else lines.Document(own, document.content, {})
    return Lock(document, file == own, parsed.axes, parsed.later, parsed.plan)


def _read(file: Path) -> tuple[lines.Document, list[lines.Problem]]:
    """Read the lock: as vmatrix writes it, without a YAML parser; as somebody has changed it, with one."""
    try:
        text = read_text(file)
    except BadInput:
        return lines.read(file)  # which says why
    content = read(text)
    return lines.read(file) if content is None else (lines.Document(file, content, Places(file, text)), [])


def _misfits(lock: LockFile, document: lines.Document) -> Iterator[lines.Problem]:
    """Yield what makes the lock unreadable whatever the matrix says."""
    if len({*lock.axes, *lock.later}) < len(lock.axes) + len(lock.later):
        yield document.problem(("axes",), "duplicate axis")
    for infra, tiers in lock.plan.items():
        for tier, locked_tier in tiers.items():
            names: set[str] = set()
            for number, cell in enumerate(locked_tier.cells):
                at = ("plan", infra, tier, "cells", number)
                if len(cell.values) != len(lock.axes):
                    message = (
                        f"{len(cell.values)} values for {len(lock.axes)} axes; one for each of {', '.join(lock.axes)}"
                    )
                    yield document.problem((*at, "values"), message)
                for axis in (axis for axis in cell.also if axis not in lock.later):
                    yield document.problem((*at, "also", axis), unknown("later axis", axis, lock.later))
                if cell.id in names:
                    yield document.problem((*at, "id"), f"duplicate cell {cell.id}")
                names.add(cell.id)


def runnable(spec: Spec, tier: str, infra: str) -> tuple[dict[str, str], ...]:
    """Return the pinned cells of a tier that can run on an infra profile; BadInput without such a tier or profile."""
    return tuple(cell for cell, lacks in _pinned(spec, tier, infra) if not lacks)


def not_runnable(spec: Spec, tier: str, infra: str) -> tuple[str, ...]:
    """Return a sentence for each pinned cell that cannot run there: which, and why; raises as `runnable`."""
    return tuple(
        f"the pinned cell {_id(spec, cell)} is left out: {lacks}" for cell, lacks in _pinned(spec, tier, infra) if lacks
    )


def _id(spec: Spec, values: Mapping[str, str]) -> str:
    """Return the id of a cell, also of one that cannot be made."""
    return cell_id(spec, chosen_of(spec, values))


def _pinned(spec: Spec, tier: str, infra: str) -> list[tuple[dict[str, str], str]]:
    """Return the pinned cells of a tier, each with what is lacking for it on an infra profile, "" without anything."""
    pinned = tier_of(spec, tier).pinned
    infra_of(spec, infra)
    gone = {(out.axis, out.value): out.why for out in nowhere(spec, infra)}

    def lacks(cell: Mapping[str, str]) -> str:
        missing = [f"{axis} {value} {gone[axis, value]}" for axis, value in cell.items() if (axis, value) in gone]
        why = "" if missing else feasibility.pinned_lacking(spec, cell)
        return f"scenario {cell['scenario']} {why}" if why else "; ".join(missing)

    return [(cell, lacks(cell)) for cell in pinned]


def locked(spec: Spec, tier: str, infra: str, lock: Lock) -> dict[str, dict[str, str]]:
    """Return the values of a tier's locked cells by their ids; BadInput when the lock is stale, or names errors."""
    goal = goal_of(spec, tier, infra)
    if not current(spec, tier, infra, lock, goal):
        at = lock.document.problem(("plan", infra, tier, "inputs"), f"the plan of {tier} on {infra} is out of date")
        raise BadInput(f"{at}; the matrix has changed since", hint=WRITE)
    cells = lock.cells(infra, tier)
    problems = [
        lock.document.problem(("plan", infra, tier, "cells", number, "values"), f"{mistake}; {WRITE}")
        for number, (name, values) in enumerate(cells.items())
        if (mistake := _mistake(spec, goal, name, values)) is not None
    ]
    if problems:
        raise refuse(problems)
    return cells


def current(spec: Spec, tier: str, infra: str, lock: Lock, goal: Goal) -> bool:
    """Tell whether a tier was planned from what the matrix says now."""
    planned = lock.tier(infra, tier)
    if planned is None or {*lock.axes, *lock.later} != set(goal.values):
        return False
    return (planned.inputs, planned.later) == digests(spec, tier, infra, goal, lock.axes)


def _mistake(spec: Spec, goal: Goal, name: str, values: Mapping[str, str]) -> str | None:
    """Return why no plan would have written a cell: the lock of a matrix that has not changed was edited."""
    for axis, value in values.items():
        if value not in goal.values[axis]:
            return unknown(f"value of axis {axis}", value, goal.values[axis])
    broken = [rule.why for rule in goal.rules if rule.broken_by(values)]
    if broken:
        return f"the cell breaks a constraint: {'; '.join(broken)}"
    made = _id(spec, values)
    return None if made == name else f"these values belong to {made}, not to {name}"


def headed(spec: Spec, lock: Lock | None) -> tuple[str, ...]:
    """Return the axes on which every line of the lock has a value: all but those with a default that came later."""
    known = lock.axes if lock is not None else ()
    return tuple(axis.name for axis in spec.axes if not known or axis.default is None or axis.name in known)


def digests(spec: Spec, tier: str, infra: str, goal: Goal, axes: Sequence[str]) -> tuple[str, str | None]:
    """Return the digest of a tier's inputs on some axes; and that on all, None where the others have but defaults.

    Values, classes, rules and demands count; labels and reasons do not.
    """
    pinned = runnable(spec, tier, infra)
    later = {axis: default for axis, default in goal.defaults.items() if axis not in axes}
    narrow = {axis: frozenset({default}) for axis, default in later.items()}
    usual = [cell for cell in pinned if all(cell[axis] == default for axis, default in later.items())]
    more = len(usual) < len(pinned) or any(goal.values[axis] != (default,) for axis, default in later.items())
    return (
        _digest(spec, goal, [r for rule in goal.rules if (r := _on(rule, narrow)) is not None], usual, later),
        _digest(spec, goal, goal.rules, pinned, {}) if more else None,
    )


def _on(rule: Rule, narrow: Mapping[str, frozenset[str]]) -> Rule | None:
    """Return what a rule says where some axes have one value; None where it says nothing."""
    if any(not values & rule.when.get(axis, values) for axis, values in narrow.items()):
        return None
    then = {a: ids for a, ids in rule.then.items() if a not in narrow or not narrow[a] <= ids}
    when = {a: ids for a, ids in rule.when.items() if a not in narrow}
    return replace(rule, when=when, then=then) if then else None


def _digest(
    spec: Spec,
    goal: Goal,
    rules: Sequence[Rule],
    pinned: Sequence[Mapping[str, str]],
    without: Collection[str],
) -> str:
    inputs: dict[str, Any] = {
        "axes": [
            [axis.name, axis.default, [[v.id, v.short, v.class_] for v in axis.values]]
            for axis in spec.axes
            if axis.name not in without
        ],
        "allowed": [[axis, list(values)] for axis, values in goal.values.items() if axis not in without],
        "rules": [[_sets(rule.when), _sets(rule.then)] for rule in rules],
        "cover": goal.cover.model_dump(mode="json"),
        "pinned": [{axis: value for axis, value in cell.items() if axis not in without} for cell in pinned],
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _sets(condition: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    return {axis: sorted(values) for axis, values in condition.items()}


def render(axes: Sequence[str], later: Mapping[str, str], plan: Mapping[str, Mapping[str, PlannedTier]]) -> str:
    """Return the lock's text; `later` has the axes that are not in `axes`, with their defaults."""
    content = {
        infra: {
            tier: {
                "inputs": planned.inputs,
                **({"later": planned.later} if planned.later is not None else {}),
                **({"figures": figures} if (figures := planned.figures.model_dump(exclude_none=True)) else {}),
                "cells": [_cell(cell, axes, later) for cell in planned.cells],
            }
            for tier, planned in tiers.items()
        }
        for infra, tiers in plan.items()
    }
    whole = {"axes": list(axes), **({"later": dict(later)} if later else {}), "plan": content}
    text: str = yaml.dump(whole, Dumper=IndentedDumper, default_flow_style=None, width=float("inf"), sort_keys=False)
    return HEAD + text


def _cell(cell: Cell, axes: Sequence[str], later: Mapping[str, str]) -> dict[str, Any]:
    also = {axis: cell.values[axis] for axis, default in later.items() if cell.values[axis] != default}
    return {"id": cell.id, "values": [cell.values[a] for a in axes], **({"also": also} if also else {})}
