"""The proof of a plan agrees with brute force, and no gap and no unsound cell escapes it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from harness.plan.cover import cover
from harness.plan.goal import Goal, LeftOut
from harness.plan.verify import Combination, Proof, verify
from harness.spec.models import Cover
from harness.spec.rules import Rule
from tests.unit.plan.small import Tuple, every_cell, goals, has

PAIRS = Goal(
    values={"os": ("d12", "d13"), "net": ("fl", "ro"), "size": ("s", "l")},
    classes={"os": {"d12": "d", "d13": "d", "u24": "u"}, "net": {"fl": "fl", "ro": "ro"}, "size": {"s": "s", "l": "l"}},
    rules=(
        Rule({"net": frozenset({"ro"})}, {"size": frozenset({"s"})}, "routes are for small ones"),
        Rule({"size": frozenset({"s"})}, {"os": frozenset({"d13", "u24"})}, "small ones are new"),
    ),
    cover=Cover(strength=2),
    left_out=(LeftOut("os", "u24", "needs internet", "infra"),),
)


def tuples(combinations: tuple[Combination, ...]) -> set[Tuple]:
    return {c.values * 2 if c.by_value else c.values for c in combinations}


@settings(max_examples=120, deadline=None)
@given(goals())
def test_what_no_cell_covers_is_what_brute_force_finds_possible(goal: Goal) -> None:
    possible = {found for cell in every_cell(goal) for found in has(goal, cell)}
    proof = verify(goal, [])
    assert tuples(proof.missing) == possible
    assert not {i.combination.values for i in proof.impossible if not i.combination.by_value} & possible
    assert verify(goal, every_cell(goal)).complete


@settings(max_examples=60, deadline=None)
@given(goals())
def test_the_counts_are_those_of_brute_force(goal: Goal) -> None:
    cells = every_cell(goal)[::3]
    proof = verify(goal, cells)
    missing = {found for cell in every_cell(goal) for found in has(goal, cell)} - {
        found for cell in cells for found in has(goal, cell)
    }
    assert tuples(proof.missing) == missing
    assert sum(c.feasible - c.covered for c in proof.counts) == len(proof.missing)


@settings(max_examples=60, deadline=None)
@given(goals())
def test_a_plan_that_loses_a_cell_is_caught(goal: Goal) -> None:
    cells = list(cover(goal))
    assert verify(goal, cells).complete
    for number in range(len(cells)):
        assert not verify(goal, cells[:number] + cells[number + 1 :]).complete


@settings(max_examples=60, deadline=None)
@given(goals())
def test_the_reasons_forbid_a_combination_and_none_can_be_spared(goal: Goal) -> None:
    for impossible in verify(goal, []).impossible:
        assert impossible.why
        assert not reachable(goal, impossible.combination, impossible.why)
        for spared in impossible.why:
            assert reachable(goal, impossible.combination, tuple(w for w in impossible.why if w != spared))


def reachable(goal: Goal, combination: Combination, reasons: tuple[str, ...]) -> bool:
    """Tell whether a cell has the combination when only these reasons count."""
    outs = {(o.axis, o.value) for o in goal.left_out if f"{o.axis} {o.value}: {o.why}" in reasons}
    rules = tuple(rule for rule in goal.rules if rule.why in reasons)
    return any(
        outs.isdisjoint(cell.items())
        and all(
            (cell[a] if combination.by_value else goal.classes[a][cell[a]]) == name for a, name in combination.values
        )
        for cell in every_cell(goal, rules, left_out=True)
    )


def test_what_only_two_rules_together_forbid_names_both() -> None:
    rules = (
        Rule({"net": frozenset({"ro"})}, {"size": frozenset({"s"})}, "routes are for small ones"),
        Rule({"size": frozenset({"s"})}, {"os": frozenset({"d13"})}, "small ones are new"),
    )
    classes = {**PAIRS.classes, "os": {"d12": "old", "d13": "new"}}
    proof = verify(replace(PAIRS, rules=rules, classes=classes, left_out=()), [])
    both = Combination((("os", "old"), ("net", "ro")))
    assert {i.combination: i.why for i in proof.impossible}[both] == ("routes are for small ones", "small ones are new")


def test_a_left_out_value_is_named_where_its_absence_makes_a_pair_impossible() -> None:
    rule = Rule({"net": frozenset({"ro"})}, {"os": frozenset({"u24"})}, "routes want Ubuntu")
    proof = verify(replace(PAIRS, rules=(rule,)), [])
    assert {"os u24: needs internet", "routes want Ubuntu"} in [set(i.why) for i in proof.impossible]


def test_a_cell_that_breaks_a_rule_is_named_and_covers_nothing() -> None:
    cells = every_cell(PAIRS)
    proof = verify(PAIRS, [*cells, {"os": "d13", "net": "ro", "size": "l"}])
    assert [(b.number, b.why) for b in proof.broken] == [(len(cells), ("routes are for small ones",))]
    assert not proof.complete
    assert not verify(PAIRS, [{"os": "d13", "net": "ro", "size": "l"}]).counts[0].covered


def test_cells_that_are_none_of_the_infra_or_of_the_matrix_are_named() -> None:
    assert broken(PAIRS, {"os": "u24", "net": "fl", "size": "l"}) == ("os u24 needs internet",)
    assert broken(PAIRS, {"os": "d13", "net": "fl"}) == ("no value for size",)
    assert broken(PAIRS, {"os": "d99", "net": "fl", "size": "l"}) == ("unknown os d99",)
    assert broken(PAIRS, {"os": "d13", "net": "fl", "size": "l", "x": "y"}) == ("unknown axis x",)


def broken(goal: Goal, cell: dict[str, str]) -> tuple[str, ...]:
    proof: Proof = verify(goal, [cell])
    (found,) = proof.broken
    return found.why
