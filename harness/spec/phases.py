"""Phases that scenarios have and a product lacks, and words that are no phase of either.

A product need not have every phase: scenarios with others are left out of its plans. So only a word that neither the
project nor what ships with vmatrix knows is a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.paths import MATRIX, packaged_dir
from harness.spec import lines
from harness.spec.declared import EACH, field, find
from harness.spec.lines import Finding, below
from harness.spec.models import Product, Spec
from harness.spec.shape import nearest, shown, unknown

FIRST = "deploy"  # of every scenario
PRODUCTS = ("product.yml", "products/*.yml")  # of the folder of the matrix
ANSWERS = "answers"
DELIVERED_BEFORE = ("rolls-back", "comes-back")  # what needs a revision that answers already


def lacking(spec: Spec, scenario: str, product: Product | None = None) -> tuple[str, ...]:
    """Return the phases of a scenario that a product, by default that of product.yml, does not have, each once."""
    has = (product if product is not None else spec.product).phases
    asked = (p.phase for p in spec.scenarios[scenario].phases if p.restart is None)
    return tuple(dict.fromkeys(phase for phase in asked if phase not in has))


def of_scenarios(content: Any, product: tuple[str, ...] | None) -> Iterator[Finding]:
    """Find words in scenarios.yml that are no phase; `product` has the products', None where they are not known."""
    if product is None:
        return
    for at, phase in _of(content):
        if phase not in product and phase not in (known := _shipped(*PRODUCTS, more=product)):
            yield at, f"{unknown('phase', phase, known)}; a phase of your own is one of product.yml, too"


def of_product(content: Any, scenarios: Any) -> Iterator[Finding]:
    """Find phases of product.yml that no scenario has, and a product that cannot deploy."""
    named = [(at, str(at[-1])) for at, _ in find(content, "product", "phases", EACH)]
    if named and all(phase != FIRST for _, phase in named):
        yield ("product", "phases"), f"the phase {FIRST} is missing; every scenario begins with it"
    present = [phase for _, phase in _of(scenarios)]
    for at, phase in named if present else ():
        if phase not in present and phase not in (known := _shipped("scenarios.yml", more=tuple(present))):
            yield at, f"no scenario has the phase {shown(phase)}; {nearest(phase, known)}"


def _of(scenarios: Any) -> Iterator[tuple[lines.Location, str]]:
    """Yield the phases of scenarios that a product must have."""
    for at, phase in find(scenarios, "scenarios", EACH, "phases", EACH):
        if isinstance(phase, dict) and "restart" not in phase and isinstance(name := phase.get("phase"), str):
            yield (*at, "phase"), name


def _shipped(*patterns: str, more: tuple[str, ...]) -> tuple[str, ...]:
    """Return the phases in files that ship with vmatrix, after some that are known already."""
    files = [file for pattern in patterns for file in sorted((packaged_dir() / MATRIX).glob(pattern))]
    phases = (phase for file in files for phase in phases_in(lines.read(file)[0].content))
    return tuple(dict.fromkeys((*more, *phases)))


def phases_in(content: Any) -> Iterator[str]:
    """Yield the phases that a file names: of a product, or of scenarios."""
    yield from (str(at[-1]) for at, _ in find(content, "product", "phases", EACH))
    yield from (phase for _, phase in _of(content))


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
        lived = since or _of_the_cluster_before(before)
        there = tuple(name for earlier in lived[1:] if (name := field(earlier, "phase")) is not None)
        if named not in there:
            yield ("data_of",), unknown("earlier phase of the same cluster", named, there)
    delivery = field(phase, "delivery")
    if delivery is not None and not since:
        yield ("delivery",), "no cluster exists before this phase to deploy the application beside; remove it"
    elif delivery in DELIVERED_BEFORE and not any(field(earlier, "delivery") == ANSWERS for earlier in since):
        yield ("delivery",), f"nothing was delivered before this phase; an earlier one has `delivery: {ANSWERS}`"
    if "delivery_into" in phase and delivery is None:
        yield ("delivery_into",), "nothing is said of an application in this phase; add `delivery`, or remove it"


def _hop(phase: Mapping[str, Any], later: list[Any]) -> Iterator[Finding]:
    goal = next((field(following, "phase") for following in later if isinstance(following, Mapping)), None)
    name = field(phase, "phase")
    if phase.get("hop") is True and name != goal:
        following_words = f"the next phase is {goal}" if goal is not None else "there is none"
        yield ("hop",), f"a hop leads to a next phase of the same name, {name}, and {following_words}; remove `hop`"


def _of_the_cluster_before(before: list[Any]) -> list[Any]:
    """Return the phases of the cluster that is gone, of whose data another one may begin as a clone."""
    while before and isinstance(before[-1], Mapping) and before[-1].get("cluster") is False:
        before = before[:-1]
    return _since_last_without(before)


def _since_last_without(before: list[Any]) -> list[Any]:
    """Return the phases since a cluster was made, the one that made it first; none when there is no cluster."""
    bare = [
        number for number, phase in enumerate(before) if isinstance(phase, Mapping) and phase.get("cluster") is False
    ]
    return before[bare[-1] + 1 :] if bare else before
