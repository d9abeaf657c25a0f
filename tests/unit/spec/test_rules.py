"""What cells need of an infra cluster, by their values; which rules follow from a constraint."""

from __future__ import annotations

from harness.model import Cell, Phase
from harness.paths import packaged_dir
from harness.spec import Spec, load_spec
from harness.spec.models import AxisValue
from harness.spec.rules import lacking, needed, needs_of, rules


def a_cell(values: dict[str, str], before: dict[str, str] | None = None) -> Cell:
    phases = (Phase("deploy", values=before or values), Phase("upgrade", values=values))
    return Cell("a-cell", values, "upgrade", phases, (), {})


def with_value(spec: Spec, axis: str, value: AxisValue) -> Spec:
    axes = tuple(a.model_copy(update={"values": (*a.values, value)}) if a.name == axis else a for a in spec.axes)
    return spec.model_copy(update={"axes": axes})


SPEC = with_value(
    load_spec(packaged_dir() / "matrix"),
    "runtime",
    AxisValue.model_validate({"id": "in-pods", "slug": "ip", "label": "l", "class": "c", "needs": ["pods"]}),
)
PLAIN = {"runtime": SPEC.axis("runtime").values[0].id}


def test_cells_together_need_what_one_of_them_needs() -> None:
    with_pods = a_cell({"runtime": "in-pods"})
    assert needed(SPEC, [a_cell(PLAIN)]) == frozenset()
    assert needed(SPEC, [a_cell(PLAIN), with_pods]) == {"pods"}


def test_the_value_that_a_cell_starts_from_counts() -> None:
    assert needs_of(SPEC, a_cell(PLAIN, before={"runtime": "in-pods"})) == {"pods"}


def test_every_infra_profile_offers_pods() -> None:
    for infra in SPEC.infras:
        assert lacking(SPEC, infra, "runtime", "in-pods") == ()


def test_without_a_constraint_the_rules_are_those_that_do_not_follow_from_it() -> None:
    whole = rules(SPEC)
    following = [rule for rule in whole if rule.origin is not None]
    assert len(following) > len(SPEC.constraints)
    for number, written in enumerate(whole[: len(SPEC.constraints)]):
        others = SPEC.constraints[:number] + SPEC.constraints[number + 1 :]
        left = tuple(rule for rule in whole if rule is not written and rule.origin is not written)
        assert left == rules(SPEC.model_copy(update={"constraints": others})), written.why
