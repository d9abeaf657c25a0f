"""Filters mean what they say: ids, globs, values, classes, failures, changes; each cell says why it was chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput, NothingSelected
from harness.model import Cell
from harness.plan.cells import make_cell
from harness.plan.changed import Changes
from harness.plan.select import Failed, PlanSelection, Selected, choose, selected
from harness.spec import Spec, load_spec
from tests.unit.spec.conftest import TODAY, write

Planned = dict[str, tuple[Cell, ...]]
ALL = PlanSelection()


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    project: Path = tmp_path_factory.mktemp("project")
    write(project)
    return load_spec(project / "matrix", today=TODAY)


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Planned:
    """Four cells; the second is in two tiers."""

    def cell(version: str, os: str, topology: str, scenario: str) -> Cell:
        return make_cell(spec, {"version": version, "os": os, "topology": topology, "scenario": scenario})

    shared = cell("v2", "deb", "two", "fresh")
    return {
        "smoke": (shared,),
        "all": (
            cell("v3", "ubu", "one", "fresh"),
            shared,
            cell("v3", "deb", "two", "upgrade"),
            cell("v1", "deb", "one", "fresh"),
        ),
    }


def names(found: tuple[Selected, ...]) -> list[str]:
    """Return the ids without their hashes."""
    return [one.cell.id.rpartition("-")[0] for one in found]


def test_everything_is_each_cell_once(spec: Spec, planned: Planned) -> None:
    found = choose(spec, planned, ALL)
    assert names(found) == ["v2-deb-t2-fresh", "v3-ubu-t1-fresh", "v3-deb-t2-up", "v1-deb-t1-fresh"]
    assert found[0].tiers == ("smoke", "all")
    assert found[0].why == "every cell"


@pytest.mark.parametrize(
    ("filters", "chosen"),
    [
        (("v3-*",), ["v3-ubu-t1-fresh", "v3-deb-t2-up"]),
        (("v1-*", "*-ubu-*"), ["v3-ubu-t1-fresh", "v1-deb-t1-fresh"]),
        (("os=deb",), ["v2-deb-t2-fresh", "v3-deb-t2-up", "v1-deb-t1-fresh"]),
        (("version=v1", "version=v2"), ["v2-deb-t2-fresh", "v1-deb-t1-fresh"]),
        (("os=deb", "topology=two", "version=v3"), ["v3-deb-t2-up"]),
        (("version=class:2", "scenario=fresh"), ["v2-deb-t2-fresh", "v3-ubu-t1-fresh"]),
        (("version=class:[2-9]", "os=d*"), ["v2-deb-t2-fresh", "v3-deb-t2-up"]),
        (("version=v[12]", "v1-*", "v3-*"), ["v1-deb-t1-fresh"]),
    ],
)
def test_filters_are_alternatives_on_one_axis_and_all_hold_across_axes(
    spec: Spec, planned: Planned, filters: tuple[str, ...], chosen: list[str]
) -> None:
    found = choose(spec, planned, PlanSelection(filters=filters))
    assert names(found) == chosen
    assert all(any(word in one.why for word in filters) for one in found)


def test_a_whole_id_is_a_filter(spec: Spec, planned: Planned) -> None:
    cell = planned["all"][2]
    assert [one.cell for one in choose(spec, planned, PlanSelection(filters=(cell.id,)))] == [cell]


def test_a_tier_narrows(spec: Spec, planned: Planned) -> None:
    assert names(choose(spec, planned, PlanSelection(tier="smoke", filters=("os=deb",)))) == ["v2-deb-t2-fresh"]


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        (PlanSelection(tier="smok"), "unknown tier 'smok'; did you mean 'smoke'"),
        (PlanSelection(filters=("verison=v1",)), "unknown axis 'verison'; did you mean 'version'"),
        (PlanSelection(filters=("version=v9",)), "unknown value of axis version 'v9'; known: v1, v2, v3"),
        (PlanSelection(filters=("os=class:debs",)), "unknown class of axis os 'debs'; did you mean 'deb'"),
        (PlanSelection(failed=Failed("abcdef", ("gone-1", "gone-2"))), "no longer in the plan: gone-1, gone-2"),
    ],
)
def test_what_there_is_not_is_bad_input(spec: Spec, planned: Planned, selection: PlanSelection, said: str) -> None:
    with pytest.raises(BadInput, match=said.replace("?", r"\?")) as caught:
        choose(spec, planned, selection)
    assert caught.value.exit_code == 2
    assert caught.value.hint


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        (PlanSelection(filters=("v3-*", "v9-*")), "no cell matches 'v9-\\*' in any tier"),
        (PlanSelection(tier="smoke", filters=("v3-*",)), "no cell matches 'v3-\\*' in tier smoke"),
        (PlanSelection(filters=("version=v1", "os=ubu")), "no cell has version=v1 and os=ubu"),
        (PlanSelection(failed=Failed("abcdef", ())), "every cell of run abcdef passed"),
        (PlanSelection(changed=Changes("main", ("docs/x",))), "no file changed since main affects a cell"),
    ],
)
def test_what_fits_nothing_is_nothing_selected(
    spec: Spec, planned: Planned, selection: PlanSelection, said: str
) -> None:
    with pytest.raises(NothingSelected, match=said) as caught:
        choose(spec, planned, selection)
    assert caught.value.exit_code == 4
    assert caught.value.hint


def test_failed_cells_of_a_run(spec: Spec, planned: Planned) -> None:
    failed = Failed("abcdef", (planned["all"][3].id, planned["smoke"][0].id))
    found = choose(spec, planned, PlanSelection(failed=failed))
    assert names(found) == ["v2-deb-t2-fresh", "v1-deb-t1-fresh"]
    assert found[1].why == "did not pass in run abcdef"
    assert names(choose(spec, planned, PlanSelection(tier="smoke", failed=failed))) == ["v2-deb-t2-fresh"]


def test_affected_cells_and_one_control(spec: Spec, planned: Planned) -> None:
    changes = Changes("main", ("docs/a", "playbooks/roles/upgrade/tasks/main.yml"))
    found = choose(spec, planned, PlanSelection(changed=changes))
    assert names(found) == ["v2-deb-t2-fresh", "v3-deb-t2-up"]
    assert found[0].why == "control: no change affects it"
    assert found[1].why == "playbooks/roles/upgrade/tasks/main.yml affects phase upgrade"


def test_an_unknown_path_is_the_whole_tier(spec: Spec, planned: Planned) -> None:
    found = choose(spec, planned, PlanSelection(tier="all", changed=Changes("main", ("playbooks/new/file",))))
    assert [one.cell for one in found] == list(planned["all"])
    assert all("playbooks/new/file may affect every cell" in one.why for one in found)


def test_a_tier_that_an_infra_cannot_run_says_why(spec: Spec) -> None:
    needy = spec.model_dump(by_alias=True)
    needy["axes"][1]["values"][0]["needs"] = ["host-kernel"]
    with pytest.raises(NothingSelected, match="tier smoke has no cell on there") as caught:
        selected(Spec.model_validate(needy), "there", PlanSelection(tier="smoke"))
    assert "deb" in caught.value.detail
    assert "host-kernel" in caught.value.detail


def test_a_tier_without_a_plan_needs_none(spec: Spec) -> None:
    assert names(selected(spec, "here", PlanSelection(tier="smoke"))) == ["v2-deb-t2-fresh"]


def test_an_unknown_infra_is_bad_input(spec: Spec) -> None:
    with pytest.raises(BadInput, match="'hree'; did you mean 'here'"):
        selected(spec, "hree", PlanSelection(tier="smoke"))
