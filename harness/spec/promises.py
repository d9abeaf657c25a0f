"""What a scenario promises of its phases and cannot hold: a workload or data where there is no cluster to have them.

Works on the file's plain data, as `crossref` does, which calls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.spec.declared import EACH, field, find
from harness.spec.lines import Finding, below
from harness.spec.shape import unknown


def broken(content: Any) -> Iterator[Finding]:
    """Find the promises of scenarios.yml that no run could hold, each with its place."""
    for at, phases in find(content, "scenarios", EACH, "phases"):
        if isinstance(phases, list):
            for number, phase in enumerate(phases):
                if isinstance(phase, Mapping):
                    yield from below((*at, number), _phase(phase, phases[:number]))
                    yield from below((*at, number), _hop(phase, phases[number + 1 :]))


def _phase(phase: Mapping[str, Any], before: list[Any]) -> Iterator[Finding]:
    since = _since_last_without(before)
    if "workload" in phase and not since:
        yield ("workload",), "no cluster exists before this phase for the workload to run in; remove it"
    elif "workload" in phase and phase.get("cluster") is False:
        yield ("workload",), "no cluster exists after this phase for the workload to run in; remove it"
    named = field(phase, "data_of")
    if named is not None:
        there = tuple(name for one in since[1:] if (name := field(one, "phase")) is not None)
        if named not in there:
            yield ("data_of",), unknown("earlier phase of the same cluster", named, there)


def _hop(phase: Mapping[str, Any], later: list[Any]) -> Iterator[Finding]:
    goal = next((field(one, "phase") for one in later if isinstance(one, Mapping)), None)
    name = field(phase, "phase")
    if phase.get("hop") is True and name != goal:
        said = f"the next phase is {goal}" if goal is not None else "there is none"
        yield ("hop",), f"a hop leads to a next phase of the same name, {name}, and {said}; remove `hop`"


def _since_last_without(before: list[Any]) -> list[Any]:
    """Return the phases since a cluster was made, the one that made it first; none when there is no cluster."""
    bare = [
        number for number, phase in enumerate(before) if isinstance(phase, Mapping) and phase.get("cluster") is False
    ]
    return before[bare[-1] + 1 :] if bare else before
