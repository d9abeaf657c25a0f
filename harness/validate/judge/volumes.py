"""Whether programs of control planes have the volumes that a cell gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.customised_seen import CustomisedFacts
from harness.validate.findings import Mismatch, on_every, unjudged
from harness.validate.variables import VOLUMES, volumes_of


def other_volumes(seen: Mapping[str, CustomisedFacts], expected: ExpectedGuest) -> list[Mismatch]:
    """Return volumes that a running program does not have, has from elsewhere, or may write to and should not."""
    asked = {program: volumes_of(program, expected.variables) for program in VOLUMES}
    if not any(asked.values()):
        return [unjudged("volumes of programs", "the cell asks for none", whole=True)]

    def judge(name: str, facts: CustomisedFacts) -> Iterator[Mismatch]:
        for program, volumes in asked.items():
            there = facts.volumes.get(program)
            if there is None:
                yield Mismatch(f"{name} {program}", "a running process", "none")
                continue
            for volume in volumes:
                path, one = volume["mountPath"], there.get(volume["mountPath"])
                where, outside = f"{name} {program} {path}", f"{volume['hostPath']} of the machine"
                if one is None or not one.same:
                    yield Mismatch(where, outside, one.why or "something else" if one else "nothing")
                elif one.read_only != bool(volume.get("readOnly", False)):
                    words = {True: "read-only", False: "to be written to"}
                    yield Mismatch(where, words[not one.read_only], words[one.read_only])

    return on_every(expected.control_plane, {n: seen[n] for n in expected.control_plane if n in seen}, judge)
