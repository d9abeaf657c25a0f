"""Changes of what a machine of the recorded guest printed, and what every judgement of machines must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch
from tests.unit.validate import guests
from tests.unit.validate.guests import Change, Json

Judge = Callable[[Mapping[str, NodeFacts], ExpectedGuest], list[Mismatch]]


def passes_a_well_guest_only(judge: Judge) -> bool:
    """Tell whether a judgement passes the recorded guest, and fails one whose machines were not seen."""
    return judge(guests.facts(), guests.expected()) == [] and judge({}, guests.expected()) != []


def finds(judge: Judge, fault: Change) -> bool:
    """Tell whether a judgement finds a fault of cp-0 and tells where, what was expected and what was seen."""
    found = judge(guests.facts(fault), guests.expected())
    return bool(found) and all(one.where and one.expected and one.seen for one in found)


def put(path: str, value: object) -> Change:
    """Return a change of one value, by its path of keys."""

    def change(raw: Json) -> None:
        *parents, last = path.split("/")
        place: Any = raw
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place[key]
        place[last] = value

    return change


def replace_flag(program: str, old: str, new: str) -> Change:
    def change(raw: Json) -> None:
        for process in raw["processes"]:
            if process["name"] == program:
                process["argv"] = [new if word == old else word for word in process["argv"]]

    return change


def without_process(program: str) -> Change:
    return lambda raw: raw.update(processes=[p for p in raw["processes"] if p["name"] != program])


def second_process(program: str) -> Change:
    return lambda raw: raw["processes"].append(next(p for p in raw["processes"] if p["name"] == program))


def in_text(path: str, old: str, new: str) -> Change:
    """Return a change of a part of one text, by its path of keys; the part must be there."""

    def change(raw: Json) -> None:
        *parents, last = path.split("/")
        for parent in parents:
            raw = raw[parent]
        assert old in raw[last]
        raw[last] = raw[last].replace(old, new)

    return change
