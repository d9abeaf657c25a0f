"""What a phase that removes a cluster has left behind on machines, lost or changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.validate.judge.mismatch import Mismatch, on_every
from harness.validate.remote.gather import MachineState

KINDS = ("file", "mount", "link", "route", "unit", "process", "control group", "kernel setting")  # never empty
LISTED = 15  # differences of one machine that a message names


def not_as_before(
    names: Sequence[str], before: Mapping[str, MachineState], after: Mapping[str, MachineState]
) -> list[Mismatch]:
    """Return how machines differ from what they were before their deployment."""

    def judge(name: str, now: MachineState) -> Iterator[Mismatch]:
        was = before.get(name)
        if was is None:
            yield Mismatch(name, "a record of the machine before its deployment", "none")
            return
        for kind in KINDS:
            if not was.get(kind) or not now.get(kind):
                yield Mismatch(f"{name}, {kind}", "something to compare", "nothing")
        found = differences(was, now)
        more = len(found) - LISTED
        for seen in [*found[:LISTED], *([f"{more} more differences"] if more > 0 else [])]:
            yield Mismatch(name, "the state before the deployment", seen)

    return on_every(names, after, judge)


def differences(before: MachineState, after: MachineState) -> list[str]:
    """Return what one state has that the other has not, one line each, sorted."""
    found = []
    for kind in before:
        was, now = before[kind], after[kind]
        found += [f"{kind} left behind: {name} {now[name]}".rstrip() for name in now.keys() - was.keys()]
        found += [f"{kind} lost: {name} {was[name]}".rstrip() for name in was.keys() - now.keys()]
        both = was.keys() & now.keys()
        found += [f"{kind} changed: {name}: {was[name]} -> {now[name]}" for name in both if was[name] != now[name]]
    return sorted(found)
