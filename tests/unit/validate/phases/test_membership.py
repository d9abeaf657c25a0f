"""Which machines leave and join follows from the phases; one that joined was not part of the cluster before."""

from __future__ import annotations

from harness.model import Cell, Phase
from harness.validate.phases.membership import gone_by, joined_in, not_joined
from tests.unit.validate.guests import Json
from tests.unit.validate.moments import moment


def without_worker(raw: Json) -> None:
    raw["nodes"] = [node for node in raw["nodes"] if node["metadata"]["name"] != "w-0"]


def test_a_machine_that_was_no_node_and_is_one_has_joined() -> None:
    assert not_joined(moment(view=without_worker), moment(), ("w-0",)) == []


def not_ready(raw: Json) -> None:
    for node in raw["nodes"]:
        for condition in node["status"]["conditions"]:
            condition["status"] = "False"


def test_a_machine_that_was_a_node_before_or_is_no_ready_one_after_has_not_joined() -> None:
    assert [f.where for f in not_joined(moment(), moment(), ("w-0",))] == ["w-0, before the phase"]
    for view in (without_worker, not_ready):
        found = not_joined(moment(view=without_worker), moment(view=view), ("w-0",))
        assert [f.where for f in found] == ["w-0, after it"]


def test_a_member_of_etcd_that_was_one_before_has_not_joined() -> None:
    assert "is a member of etcd False" in [f.expected for f in not_joined(moment(), moment(), ("cp-0",))]


def test_nothing_seen_before_proves_nothing() -> None:
    empty = moment(view=lambda raw: raw.update(nodes=[]))
    assert not_joined(empty, moment(), ("w-0",))


def test_who_is_gone_and_who_joins_follows_from_the_phases() -> None:
    deploy = Phase("deploy", machines=("a", "b", "c"))
    phases = (
        deploy,
        Phase("scale-out", machines=("a", "b", "c", "d")),
        Phase("remove", machines=("a", "b", "c", "d"), removed=("d",)),
        Phase("recover", machines=("a", "b", "c"), lost=("c",)),
    )
    cell = Cell("c", {}, "s", phases, (), {})
    assert [gone_by(cell, index) for index in range(4)] == [(), (), ("d",), ("d", "c")]
    assert [joined_in(cell, index) for index in range(4)] == [(), ("d",), (), ()]
