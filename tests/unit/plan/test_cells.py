"""Cells: ids that never change by accident, machines, phases and variables that follow from the values."""

from __future__ import annotations

import re

import pytest

from harness.errors import BadInput
from harness.paths import project_dir
from harness.plan import make_cell
from harness.spec import Spec, load_spec
from harness.spec.models import Axis, Scenario
from harness.spec.rules import rules
from tests.unit.spec.conftest import TODAY, write

FRESH = {"version": "v3", "os": "deb", "topology": "two", "scenario": "fresh"}
UPGRADE = {**FRESH, "scenario": "upgrade"}


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    project = tmp_path_factory.mktemp("project")
    write(project)
    return load_spec(project / "matrix", today=TODAY)


def test_an_id_is_the_slugs_in_the_axes_order_and_a_hash(spec: Spec) -> None:
    assert re.fullmatch(r"v3-deb-t2-fresh-[0-9a-f]{6}", make_cell(spec, FRESH).id)


def test_an_id_does_not_change_by_accident(spec: Spec) -> None:
    """Durations, quarantine and people's memory hang on it."""
    assert make_cell(spec, FRESH).id == "v3-deb-t2-fresh-fc607f"


def test_an_axis_that_comes_later_leaves_the_ids_of_cells_with_its_default(spec: Spec) -> None:
    values = [{"id": v, "slug": v[0], "label": v, "class": v} for v in ("none", "all")]
    later = Axis.model_validate({"name": "addons", "label": "Add-ons", "default": "none", "values": values})
    grown = spec.model_copy(update={"axes": (later, *spec.axes)})
    assert make_cell(grown, {**FRESH, "addons": "none"}).id == make_cell(spec, FRESH).id
    assert re.fullmatch(r"a-v3-deb-t2-fresh-[0-9a-f]{6}", make_cell(grown, {**FRESH, "addons": "all"}).id)


def test_the_order_in_which_values_are_given_does_not_matter(spec: Spec) -> None:
    assert make_cell(spec, dict(reversed(list(FRESH.items())))) == make_cell(spec, FRESH)


def test_another_value_makes_another_hash(spec: Spec) -> None:
    hashes = {make_cell(spec, {**FRESH, "version": v}).id.rsplit("-", 1)[1] for v in ("v1", "v2", "v3")}
    assert len(hashes) == 3


def test_machines_follow_from_the_topology(spec: Spec) -> None:
    cell = make_cell(spec, FRESH)
    assert [(m.name, m.groups) for m in cell.machines] == [("cp-0", ("control_plane", "etcd")), ("w-0", ("node",))]
    assert all(m.image == "debian" for m in cell.machines)


def test_variables_come_from_the_product_and_every_value(spec: Spec) -> None:
    product = spec.product.model_copy(update={"vars": {"product_domain": "x", "product_version": "0"}})
    cell = make_cell(spec.model_copy(update={"product": product}), FRESH)
    assert cell.vars == {"product_domain": "x", "product_version": "3"}


def test_a_phase_has_the_values_and_variables_of_its_time(spec: Spec) -> None:
    deploy, upgrade = make_cell(spec, UPGRADE).phases
    assert (deploy.name, deploy.values["version"], deploy.vars["product_version"]) == ("deploy", "v2", "2")
    assert (upgrade.name, upgrade.values["version"], upgrade.vars["product_version"]) == ("upgrade", "v3", "3")


@pytest.mark.parametrize(
    ("topology", "held", "removed"),
    [
        ("cp1-w2", {"w-1"}, {"w-1"}),
        ("cp3-w2", {"w-1", "cp-1", "cp-2"}, {"w-1", "cp-2"}),
        ("cp3-etcd3-w2", {"w-1", "cp-1", "cp-2", "etcd-1", "etcd-2"}, {"w-1", "cp-2", "etcd-2"}),
    ],
)
def test_scaling_is_of_every_kind_of_machine_that_can_be_spared(
    topology: str, held: set[str], removed: set[str]
) -> None:
    shipped = load_spec(project_dir() / "matrix")
    values = {axis.name: axis.values[0].id for axis in shipped.axes}
    cell = make_cell(shipped, {**values, "topology": topology, "scenario": "scale"})
    every = {machine.name for machine in cell.machines}
    assert [set(phase.machines) for phase in cell.phases] == [every - held, every, every]
    assert [set(phase.removed) for phase in cell.phases] == [set(), set(), removed]


HOPS = [("1.34.4", ()), ("1.35.4", ()), ("1.36.3", ())]
AT_ONCE = [("1.34.4", ()), ("1.36.3", ("1.35.4",))]


@pytest.mark.parametrize(("product", "phases"), [("playbooks", HOPS), ("operator", AT_ONCE)])
def test_hops_are_phases_but_for_a_product_that_goes_through_them(
    product: str, phases: list[tuple[str, tuple[str, ...]]]
) -> None:
    shipped = load_spec(project_dir() / "matrix")
    first = {**{axis.name: axis.values[0].id for axis in shipped.axes}, "kubernetes": "1.36.3"}
    cell = make_cell(shipped, {**first, "scenario": "upgrade-hops", "product": product})
    found = [(p.values["kubernetes"], tuple(g["cluster_kubernetes_version"] for g in p.between)) for p in cell.phases]
    assert found == phases
    given = [given for phase in cell.phases for given in (phase.vars, *phase.between)]
    assert all(variables.keys() >= cell.vars.keys() for variables in given), "all variables of a cell"


def test_what_is_changed_before_a_hop_holds_in_it_and_indices_are_those_of_played_phases(spec: Spec) -> None:
    phases: list[dict[str, object]] = [
        {"phase": "deploy", "then": "it runs", "values": {"version": ["minor", "minor"]}},
        {"phase": "backup", "then": "it is kept", "values": {"version": ["minor", "minor"]}, "vars": {"more": 1}},
        {"phase": "upgrade", "then": "the next one runs", "values": {"version": "minor"}, "hop": True},
        {"phase": "upgrade", "then": "the last one runs"},
        {"phase": "recover", "then": "it is as it was", "data_of": "upgrade"},
    ]
    upgrade = Scenario.model_validate({"label": "upgrade", "phases": phases})
    through = spec.product.phases["upgrade"].model_copy(update={"hops": True})
    product = spec.product.model_copy(update={"phases": {**spec.product.phases, "upgrade": through}})
    cell = make_cell(spec.model_copy(update={"scenarios": {"upgrade": upgrade}, "product": product}), UPGRADE)
    assert [phase.name for phase in cell.phases] == ["deploy", "backup", "upgrade", "recover"]
    (between,) = cell.phases[2].between
    assert (between["product_version"], between["more"]) == ("2", 1)
    assert cell.phases[3].data_of == 2


def test_those_held_back_take_the_place_of_the_first_that_are_destroyed(spec: Spec) -> None:
    phases: list[dict[str, object]] = [
        {"phase": "deploy", "then": "it runs", "hold_back": {"control_plane": 2}},
        {"phase": "recover", "then": "others run it", "replace": {"control_plane": 1}},
    ]
    (two,) = (one for one in spec.topologies["two"].machines if one.groups[0] == "control_plane")
    grown = spec.topologies["two"].model_copy(update={"machines": (two.model_copy(update={"count": 3}),)})
    lost = Scenario.model_validate({"label": "all lost", "phases": phases})
    cell = make_cell(
        spec.model_copy(update={"scenarios": {"fresh": lost}, "topologies": {**spec.topologies, "two": grown}}), FRESH
    )
    assert [(phase.machines, phase.lost) for phase in cell.phases] == [
        (("cp-0",), ()),
        (("cp-0", "cp-1", "cp-2"), ("cp-0",)),
    ]


def test_a_scenario_without_a_value_to_start_from_is_refused(spec: Spec) -> None:
    with pytest.raises(BadInput, match="upgrade starts from an earlier version, and v1 has none"):
        make_cell(spec, {**UPGRADE, "version": "v1"})


def test_a_too_long_id_is_refused(spec: Spec) -> None:
    raw = spec.model_dump(by_alias=True)
    for axis in raw["axes"]:
        axis["values"][0]["slug"] = "verylong" + axis["name"][:2]
    wide = Spec.model_validate(raw)
    with pytest.raises(BadInput, match="the limit is 44"):
        make_cell(wide, {axis.name: axis.values[0].id for axis in wide.axes})


def test_a_phase_knows_from_whose_beginning_its_data_may_be(spec: Spec) -> None:
    raw = spec.model_dump(by_alias=True)
    phases = raw["scenarios"]["upgrade"]["phases"]
    again = {**phases[1], "data_of": "upgrade", "workload": "keeps-answering"}
    raw["scenarios"]["upgrade"]["phases"] = [*phases, again, again]
    deploy, first, second, third = make_cell(Spec.model_validate(raw), UPGRADE).phases
    assert [p.data_of for p in (deploy, first, second, third)] == [None, None, 1, 2]
    assert [p.workload for p in (deploy, third)] == ["", "keeps-answering"]


def restarting(spec: Spec, how: str) -> Spec:
    phases = [{"phase": "deploy", "then": "x"}, {"phase": "reboot", "then": "x", "restart": how}]
    scenario = Scenario.model_validate({"label": "x", "phases": phases})
    return spec.model_copy(update={"scenarios": {**spec.scenarios, "fresh": scenario}})


@pytest.mark.parametrize(
    ("how", "who"), [("one-by-one", ("cp-0",)), ("all-at-once", ("cp-0", "w-0")), ("power-cut", ("cp-0", "w-0"))]
)
def test_all_machines_restart_but_one_by_one_not_the_node_that_looks_on(
    spec: Spec, how: str, who: tuple[str, ...]
) -> None:
    _, reboot = make_cell(restarting(spec, how), FRESH).phases
    assert (reboot.restart, reboot.restarts, reboot.machines) == (how, who, ("cp-0", "w-0"))


def test_one_by_one_needs_two_nodes(spec: Spec) -> None:
    one = spec.topologies["two"].model_copy(update={"machines": spec.topologies["two"].machines[:1]})
    alone = restarting(spec.model_copy(update={"topologies": {**spec.topologies, "two": one}}), "one-by-one")
    (rule,) = [r for r in rules(alone) if r.when == {"scenario": frozenset({"fresh"})} and "more machines" in r.why]
    assert "two" not in rule.then["topology"]


def test_a_cell_whose_id_is_known_already_is_the_same(spec: Spec) -> None:
    made = make_cell(spec, UPGRADE)
    assert make_cell(spec, UPGRADE, made.id) == made
