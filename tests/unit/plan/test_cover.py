"""Plans cover every possible combination, keep the cells that are there, and waste none."""

from __future__ import annotations

from dataclasses import replace

from covertable.evaluate import evaluate
from covertable.main import Controller
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.plan.cover import _array, _keys, _rows, completed, conditions, cover, field_of, judgement
from harness.plan.goal import Goal
from harness.plan.verify import verify
from harness.spec.models import Cover, Together
from harness.spec.rules import Rule
from tests.unit.plan.small import every_cell, goals


def axis(name: str, values: int, classes: int | None = None) -> tuple[tuple[str, ...], dict[str, str]]:
    ids = tuple(f"{name}{n}" for n in range(values))
    return ids, {v: f"{name}-{n % (classes or values)}" for n, v in enumerate(ids)}


def goal_of(cover: Cover, *rules: Rule, **axes: tuple[tuple[str, ...], dict[str, str]]) -> Goal:
    return Goal({a: values for a, (values, _) in axes.items()}, {a: of for a, (_, of) in axes.items()}, rules, cover)


@settings(max_examples=120, deadline=None)
@given(goals(), st.integers(0, 3))
def test_every_possible_combination_is_covered_by_sound_cells(goal: Goal, seed: int) -> None:
    cells = cover(goal, seed=seed)
    assert verify(goal, cells).complete
    assert all(cell in every_cell(goal) for cell in cells)


@settings(max_examples=60, deadline=None)
@given(goals(), st.data())
def test_cells_that_are_there_count_and_only_the_rest_is_planned(goal: Goal, data: st.DataObject) -> None:
    cells = every_cell(goal)
    there = data.draw(st.lists(st.sampled_from(cells), max_size=4)) if cells else []
    new = cover(goal, there=there)
    assert verify(goal, [*there, *new]).complete
    assert cover(goal, there=[*there, *new]) == ()
    assert len(new) <= len(cover(goal)) + len(there)


@settings(max_examples=60, deadline=None)
@given(goals(), st.integers(0, 3))
def test_the_same_input_makes_the_same_plan(goal: Goal, seed: int) -> None:
    assert cover(goal, seed=seed) == cover(goal, seed=seed)


@settings(max_examples=60, deadline=None)
@given(goals(), st.data())
def test_cells_without_a_new_axis_get_a_value_on_it_and_keep_the_others(goal: Goal, data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(sorted(goal.values)))
    whole = every_cell(goal)
    old = [{a: v for a, v in cell.items() if a != gone} for cell in whole]
    made = list(completed(goal, old))
    assert [{a: v for a, v in cell.items() if a != gone} for cell in made] == old
    assert all(cell in whole for cell in made)


def test_another_seed_makes_another_plan() -> None:
    goal = goal_of(Cover(strength=2), a=axis("a", 4), b=axis("b", 4), c=axis("c", 4))
    assert len({str(cover(goal, seed=seed)) for seed in range(4)}) > 1


def test_members_of_one_class_stand_for_each_other_and_each_is_there_once() -> None:
    goal = goal_of(Cover(strength=2), os=axis("os", 12, 3), net=axis("net", 4), size=axis("size", 3))
    cells = cover(goal)
    assert len(cells) == 12  # 3 classes times 4; pairs of the twelve values would take 48
    assert {cell["os"] for cell in cells} == set(goal.values["os"])
    assert verify(goal, cells).complete


def test_more_members_than_pairs_get_cells_of_their_own() -> None:
    goal = goal_of(Cover(strength=2), os=axis("os", 9, 2), net=axis("net", 2))
    cells = cover(goal)
    assert len(cells) == 9
    assert verify(goal, cells).complete


def test_without_each_value_the_classes_are_enough() -> None:
    goal = goal_of(Cover(strength=2, each_value=False), os=axis("os", 9, 2), net=axis("net", 2))
    assert len(cover(goal)) == 4


def test_members_are_chosen_so_that_one_rule_of_values_holds() -> None:
    rule = Rule({"os": frozenset({"os0"})}, {"net": frozenset({"net1"})}, "os0 knows net1 only")
    goal = goal_of(Cover(strength=2), rule, os=axis("os", 2, 1), net=axis("net", 3), size=axis("size", 2))
    cells = cover(goal)
    assert {c["net"] for c in cells if c["os"] == "os0"} == {"net1"}
    assert verify(goal, cells).complete


def test_groups_of_axes_get_a_strength_of_their_own() -> None:
    group = Together(axes=("a", "b", "c"), strength=3)
    goal = goal_of(Cover(strength=2, together=(group,)), a=axis("a", 3), b=axis("b", 3), c=axis("c", 2), d=axis("d", 3))
    cells = cover(goal)
    assert {(x["a"], x["b"], x["c"]) for x in cells} == {
        (a, b, c) for a in goal.values["a"] for b in goal.values["b"] for c in goal.values["c"]
    }
    assert len(cells) == 18
    assert verify(goal, cells).complete


def test_what_only_several_rules_together_forbid_does_not_keep_anything_from_being_covered() -> None:
    rules = (
        Rule({"a": frozenset({"a0"})}, {"m": frozenset({"m0", "m1"})}, "one"),
        Rule({"b": frozenset({"b0"})}, {"m": frozenset({"m1", "m2"})}, "two"),
        Rule({"c": frozenset({"c0"})}, {"m": frozenset({"m0", "m2"})}, "three"),
    )
    axes = {name: axis(name, 3) for name in "abc"}
    goal = goal_of(Cover(strength=2), *rules, m=axis("m", 3, 1), **axes)
    cells = cover(goal)
    assert verify(goal, cells).complete
    assert ("a0", "b0", "c0") not in {(c["a"], c["b"], c["c"]) for c in cells}


def test_names_with_dots_are_names() -> None:
    goal = goal_of(Cover(strength=2), a=axis("a", 2))
    values = {"x.y": ("1.2", "1.3"), "x": ("1.2", "1.3")}
    classes = {name: {v: v for v in ids} for name, ids in values.items()}
    rule = Rule({"x.y": frozenset({"1.2"})}, {"x": frozenset({"1.3"})}, "dots")
    dotted = replace(goal, values=values, classes=classes, rules=(rule,))
    assert verify(dotted, cover(dotted)).complete


def test_an_axis_without_a_possible_value_leaves_no_cell() -> None:
    never = Rule({"a": frozenset({"a0", "a1"})}, {"b": frozenset()}, "never")
    goal = goal_of(Cover(strength=2), never, a=axis("a", 2), b=axis("b", 2))
    assert cover(goal) == ()
    assert verify(goal, ()).complete


def test_one_value_on_every_axis_is_one_cell() -> None:
    goal = goal_of(Cover(strength=2), a=axis("a", 1), b=axis("b", 1))
    assert cover(goal) == ({"a": "a0", "b": "b0"},)
    assert cover(goal, there=[{"a": "a0", "b": "b0"}]) == ()


def test_the_only_cell_that_can_be_planned_is_planned_beside_another_that_is_pinned() -> None:
    only = Goal({"a": ("a1",), "b": ("b0",)}, {"a": {"a0": "x", "a1": "y"}, "b": {"b0": "z"}}, (), Cover(strength=1))
    goal = replace(only, cover=Cover(strength=1, each_value=False))
    for each in (only, goal):
        (made,) = cover(each, there=[{"a": "a0", "b": "b0"}])
        assert made == {"a": "a1", "b": "b0"}
        assert verify(each, [made]).complete
        assert cover(each, there=[made]) == ()


@settings(max_examples=60, deadline=None)
@given(goals(), st.integers(1, 9).map(str))
def test_the_rows_of_a_salt_are_those_of_an_array_that_begins_with_it(goal: Goal, salt: str) -> None:
    """The copy of an array is given its salt afterwards, in attributes that covertable may rename."""
    field = field_of(goal, by_value=False)
    assume(all(field.domains.values()))
    array, keys = _array(field, []), _keys(field)
    assume(keys)
    assert array is not None
    own = Controller(
        array.factors,
        strength=array.strength,
        sub_models=array.sub_models,
        constraints=conditions(field, keys),
        salt=salt,
    )
    expected = [{axis: row[key] for axis, key in keys.items()} for row in own.make()]
    assert list(_rows(field, [], array, salt)) == expected
    assert list(_rows(field, [], array, salt)) == expected, "the array itself has not changed"


@settings(max_examples=60, deadline=None)
@given(goals(), st.data())
def test_a_condition_as_a_function_says_of_every_beginning_of_a_row_what_covertable_says(
    goal: Goal, data: st.DataObject
) -> None:
    field = field_of(goal, by_value=False)
    keys = _keys(field)
    axes = data.draw(st.sets(st.sampled_from(sorted(keys)))) if keys else set()
    row = {keys[axis]: data.draw(st.sampled_from(sorted(field.members[axis]))) for axis in sorted(axes)}
    known = conditions(field, keys)
    assert [judgement(condition)(row) for condition in known] == [evaluate(condition, row) for condition in known]
