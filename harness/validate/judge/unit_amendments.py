"""Part of surroundings.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.programs import MachineSetup
from harness.validate.findings import Mismatch, on_every, same_set, together, unjudged

Setups = Mapping[str, MachineSetup]


def amended_units(setups: Setups, expected: ExpectedGuest) -> list[Mismatch]:
    """Return files that amend units although the product has none such, and limits of kubelet and the runtime."""
    said = expected.leaves.drop_ins
    if said is None:
        why = "product.yml does not say which files amend units (drop_ins)"
        return [unjudged("settings of units", why, whole=True)]

    def judge(name: str, seen: MachineSetup) -> Iterator[Mismatch]:
        for unit, files in seen.drop_ins.items():
            yield from same_set(f"{name} {unit}", "files that amend it", set(said) & set(files), files)
        for program, path, value in seen.limits:
            yield Mismatch(f"{name} {program}", f"no limit in {path}", value)

    return together(on_every(expected.machines, setups, judge))
