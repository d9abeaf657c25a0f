"""What could explain failures: the culprit is named, nobody else is, and what says nothing changes nothing."""

from __future__ import annotations

from itertools import product

import pytest

from harness.history.record import AttemptRecord, CheckNote, CheckRow, CheckTable, Record
from harness.model import Outcome
from harness.plan.goal import Goal
from harness.report.suspects import Observation, Suspect, explained, lines_of, since, worth_showing
from harness.spec.models import Cover
from harness.spec.rules import Rule

CHECK, OTHER = "network: test_pods", "nodes: test_ready"
AXES = {"runtime": ("containerd", "crio"), "ip": ("ipv4", "dual", "ipv6"), "os": ("d12", "d13"), "mode": ("a", "b")}
CELLS = [dict(zip(AXES, values, strict=True)) for values in product(*AXES.values())]


def seen(number: int, failed: bool, *, around: dict[str, str] | None = None, infra: bool = False) -> Observation:
    keys = frozenset({(CHECK, "no answer")} if failed else ())
    passed = frozenset({OTHER} if failed else {CHECK, OTHER})
    return Observation(
        f"c{number}",
        CELLS[number],
        frozenset() if infra else keys,
        passed,
        frozenset((around or {}).items()),
        keys if infra else frozenset(),
    )


def night(culprit: dict[str, str], *also: int) -> list[Observation]:
    return [seen(n, culprit.items() <= cell.items() or n in also) for n, cell in enumerate(CELLS)]


@pytest.mark.parametrize(
    "culprit",
    [{"runtime": "crio"}, {"runtime": "crio", "ip": "dual"}, {"runtime": "crio", "ip": "dual", "os": "d12"}],
)
def test_a_value_a_pair_and_a_triple_are_named(culprit: dict[str, str]) -> None:
    (found,) = explained(night(culprit), together=[("runtime", "ip", "os")])
    assert found.named is not None
    assert dict(found.named.values) == culprit
    cells = sum(culprit.items() <= cell.items() for cell in CELLS)
    assert (found.named.failed, found.named.judged) == (cells, cells)
    assert (found.named.others_failed, found.named.others) == (0, len(CELLS) - cells)


def test_a_failure_by_chance_beside_it_does_not_hide_it() -> None:
    (found,) = explained(night({"runtime": "crio", "ip": "dual"}, 0))
    assert found.named is not None
    assert dict(found.named.values) == {"runtime": "crio", "ip": "dual"}
    assert found.named.evidence == "4 of 4 cells with both failed, 1 of 20 others"


def test_a_lone_failure_names_nobody() -> None:
    (found,) = explained([seen(n, n == 5) for n in range(len(CELLS))])
    assert found.named is None
    assert found.by_chance
    assert worth_showing([found]) == [found]
    assert lines_of(found) == [f"most likely by chance (100 %): 1 of {len(CELLS)} cells failed: {CHECK}"]


def test_a_passing_cell_clears_what_it_has() -> None:
    (found,) = explained([seen(0, True), *(seen(n, False) for n in range(1, len(CELLS)))])
    assert all(len(suspect.values) > 2 for suspect in found.suspects)


def test_cells_that_say_nothing_change_nothing() -> None:
    whole = night({"runtime": "crio"})
    silent = Observation("x", {**CELLS[0], "runtime": "crio"}, frozenset(), frozenset())
    assert explained([*whole, silent])[0].suspects == explained(whole)[0].suspects


def test_the_infrastructure_is_explained_by_where_cells_ran_alone() -> None:
    where = [{"node w-1": "used"} if n % 3 == 0 else {"node w-2": "used"} for n in range(len(CELLS))]
    found = explained([seen(n, n % 3 == 0, around=where[n], infra=True) for n in range(len(CELLS))])
    assert [one.named and (one.named.values, one.named.around) for one in found] == [((("node w-1", "used"),), True)]
    assert lines_of(found[0])[0].startswith("not the matrix, but where or when cells ran: node w-1 used")


def test_a_node_is_named_where_no_value_fits() -> None:
    where = [{"node": "w-1" if n in (1, 6, 11, 16, 20) else "w-2"} for n in range(len(CELLS))]
    (found,) = explained([seen(n, where[n]["node"] == "w-1", around=where[n]) for n in range(len(CELLS))])
    assert found.named is not None
    assert found.named.around


def test_a_check_that_often_fails_by_chance_is_less_evidence() -> None:
    cells = night({"runtime": "crio", "ip": "dual", "os": "d12"})
    usual, flaky = (explained(cells, flakes={CHECK: rate})[0].chance for rate in (0.01, 0.3))
    assert usual < flaky


def test_failures_of_the_same_cells_are_explained_once() -> None:
    cells = [
        Observation(
            one.cell, one.values, one.failed | {(OTHER, "x")} if one.failed else one.failed, one.passed - {OTHER}
        )
        for one in night({"runtime": "crio"})
    ]
    (found,) = explained(cells)
    assert [title for title, _ in found.keys] == [CHECK, OTHER]


def test_without_a_cell_that_passed_nothing_is_shown() -> None:
    assert worth_showing(explained([seen(0, True)])) == []
    assert explained([]) == ()


def test_lines_say_what_and_how_sure() -> None:
    (found,) = explained(night({"runtime": "crio"}))
    (line,) = lines_of(found)
    assert line.startswith("runtime crio (")
    assert line.endswith("12 of 12 cells with it failed, 0 of 12 others: network: test_pods")
    (open_one,) = explained([seen(n, n == 5) for n in (5, 6, 12)])
    assert not open_one.by_chance
    assert "or chance (" in lines_of(open_one)[0]
    assert Suspect((("a", "b"),), 1.0, 1, 1, 0, 1).said == "a b"


GOAL = Goal(
    {axis: tuple(values) for axis, values in AXES.items()},
    {},
    (Rule({"mode": frozenset({"b"})}, {"ip": frozenset({"dual"})}, "b is of both families"),),
    Cover(strength=2),
)


def test_what_no_possible_cell_has_apart_is_one_suspect() -> None:
    possible = [cell for cell in CELLS if GOAL.allows(cell)]
    cells = [
        Observation(f"c{n}", cell, frozenset({(CHECK, "x")} if bad else ()), frozenset(() if bad else {CHECK}))
        for n, cell in enumerate(possible)
        for bad in [cell["mode"] == "b" and cell["os"] == "d12"]
    ]
    (two,), (one,) = explained(cells), explained(cells, goal=GOAL)
    assert {suspect.values for suspect in two.suspects} >= {(("ip", "dual"), ("os", "d12"), ("mode", "b"))}
    assert [dict(suspect.values) for suspect in one.suspects] == [{"os": "d12", "mode": "b"}]


def record(number: int, outcome: str, **axes: str) -> Record:
    letter = "p" if outcome == "passed" else "f"
    return Record(
        f"r{number}",
        f"r{number}",
        f"c{number}",
        f"2026-11-{number:02}T00:00:00Z",
        f"2026-11-{number:02}T01:00:00Z",
        Outcome(outcome),
        axes=axes,
        attempts=(AttemptRecord(1, Outcome(outcome)),),
        checks=CheckTable((CHECK,), (CheckRow("deploy", letter),)),
        notes=() if letter == "p" else (CheckNote((CHECK,), "x", blame="product"),),
    )


@pytest.mark.parametrize(
    ("outcomes", "ends"),
    [
        (("passed", "passed", "failed", "failed"), ("r2", "r3")),
        (("failed", "passed", "failed"), ("r2", "r3")),
        (("passed", "failed", "passed"), None),
        (("failed", "failed"), None),
        ((), None),
    ],
)
def test_since_when_values_fail_is_of_any_cell_that_has_them(
    outcomes: tuple[str, ...], ends: tuple[str, str] | None
) -> None:
    own = [record(n, outcome, ip="dual", os=f"d{n}") for n, outcome in enumerate(outcomes, 1)]
    others = [record(9, "failed", ip="ipv4"), record(10, "passed", ip="ipv4")]
    found = since([*own, *others], [("ip", "dual")], [CHECK])
    assert (found and tuple(one.run for one in found)) == ends
