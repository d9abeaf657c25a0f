"""Further cells: possible ones that tell most of what may explain failures, and the cheapest of these."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from harness.plan.goal import Goal
from harness.report.suspects import Explained, Observation, Suspect, explained
from harness.session.follow_up import further, why_none
from harness.spec.models import Cover
from harness.spec.rules import Rule

VALUES = {"runtime": ("containerd", "crio"), "ip": ("ipv4", "dual", "ipv6"), "os": ("d12", "d13"), "size": ("s", "xl")}
NEVER = Rule({"runtime": frozenset({"crio"})}, {"ip": frozenset({"ipv4", "dual"})}, "no IPv6 with crio")
GOAL = Goal(VALUES, {axis: {v: v for v in known} for axis, known in VALUES.items()}, (NEVER,), Cover(strength=2))
CULPRIT = {"runtime": "crio", "ip": "dual"}


def observed(number: int, cell: dict[str, str]) -> Observation:
    failed = CULPRIT.items() <= cell.items()
    keys = frozenset({("network: test_pods", "no answer")} if failed else ())
    return Observation(f"c{number}", cell, keys, frozenset() if failed else frozenset({"network: test_pods"}))


def cells() -> list[dict[str, str]]:
    every = [dict(zip(VALUES, values, strict=True)) for values in product(*VALUES.values())]
    return [cell for cell in every if GOAL.allows(cell)]


def few() -> list[Observation]:
    """Return what a few cells say, of which one has the culprit."""
    failing = {**CULPRIT, "os": "d12", "size": "s"}
    passing = [{**failing, "runtime": "containerd"}, {**failing, "ip": "ipv4"}]
    passing += [{"runtime": "containerd", "ip": ip, "os": "d13", "size": "xl"} for ip in VALUES["ip"]]
    return [observed(n, cell) for n, cell in enumerate([failing, *passing])]


def suspect(share: float, **values: str) -> Suspect:
    return Suspect(tuple(values.items()), share, 1, 1, 0, 5)


def explanation(seen: list[Observation]) -> Explained:
    (found,) = explained(seen)
    return found


def test_a_few_further_cells_lead_to_the_culprit() -> None:
    seen = few()
    assert explanation(seen).named is None
    for number in range(4):
        row = further(GOAL, [explanation(seen)], Random(number), lambda _: 1.0)  # noqa: S311 - candidates
        if row is None:
            break
        assert GOAL.allows(row)
        seen.append(observed(10 + number, row))
    named = explanation(seen).named
    assert named is not None
    assert dict(named.values) == CULPRIT


@pytest.mark.parametrize("cheap", ["s", "xl"])
def test_of_cells_that_tell_as_much_the_cheapest_is_run(cheap: str) -> None:
    found = Explained((("a", "b"),), ("c",), (suspect(0.5, os="d12"), suspect(0.4, ip="dual")), 0.1)
    row = further(GOAL, [found], Random(1), lambda row: 1.0 if row["size"] == cheap else 9.0)  # noqa: S311 - candidates
    assert row is not None
    assert (row["size"], row["os"]) == (cheap, "d12")


def test_one_cell_tells_of_several_failures() -> None:
    failures = [
        Explained((("a", "x"),), ("c",), (suspect(0.5, os="d12"), suspect(0.4, runtime="crio")), 0.1),
        Explained((("b", "x"),), ("d",), (suspect(0.5, ip="dual"), suspect(0.4, size="xl")), 0.1),
    ]
    row = further(GOAL, failures, Random(1), lambda _: 1.0)  # noqa: S311 - candidates
    assert row is not None
    assert (row["os"] == "d12") != (row["runtime"] == "crio")
    assert (row["ip"] == "dual") != (row["size"] == "xl")


def test_no_cell_is_made_where_none_tells_more() -> None:
    sure = explanation([observed(n, cell) for n, cell in enumerate(cells() * 2)])
    assert sure.named is not None
    assert further(GOAL, [sure], Random(1), lambda _: 1.0) is None  # noqa: S311 - candidates
    nobody = Explained((("a", "b"),), ("c",), (), 1.0)
    assert further(GOAL, [nobody], Random(1), lambda _: 1.0) is None  # noqa: S311 - candidates


def open_failure(*suspects: Suspect) -> Explained:
    return Explained((("network: test_pods", "x"),), ("c",), suspects, 0.1)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (open_failure(), "it may well be chance, and no other cell can have what this one has"),
        (
            open_failure(Suspect((("node", "w"),), 0.5, 1, 1, 0, 5, around=True)),
            "no cell chooses its node, runner or hour",
        ),
        (
            open_failure(suspect(0.5, runtime="crio", ip="ipv6"), suspect(0.4, runtime="crio")),
            "no possible cell tells more of runtime crio with ip ipv6 and runtime crio",
        ),
        (
            open_failure(suspect(0.5, ip="ipv6"), suspect(0.4, runtime="containerd")),
            "every possible cell with ip ipv6 has runtime containerd, too: no IPv6 with crio",
        ),
    ],
)
def test_why_no_cell_can_be_made_is_said(found: Explained, why: str) -> None:
    assert why_none(GOAL, found) == f"network: test_pods: {why}"
