"""Labels and taints of Nodes: what has to be written, and what never is."""

from __future__ import annotations

from typing import Any

import pytest

from harness.operator.controllers.nodehealth import (
    MACHINE_LABEL,
    MANAGER,
    TAINTS,
    NodeMarks,
    labels_to_apply,
    taints_to_merge,
)
from tests.unit.operator.controllers.objects import machine

Json = dict[str, Any]
GPU: Json = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
OTHER: Json = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-11-23T12:00:00Z"}


def marks(*taints: Json, **labels: str) -> NodeMarks:
    return NodeMarks.of(machine("m-0"), {"spec": {"labels": labels, "taints": list(taints)}}) or pytest.fail("none")


def node(*taints: Json, ours: tuple[str, ...] = (), said: str | None = None, **labels: str) -> Json:
    """Return a Node; `ours` are labels that were applied here, `said` the annotation of taints."""
    fields: Json = {"f:metadata": {"f:labels": {f"f:{key}": {} for key in ours}}}
    managed = [
        {"manager": MANAGER, "operation": "Apply", "fieldsV1": fields},
        {"manager": MANAGER, "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:no": {}}}}},
        {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:os": {}}}}},
    ]
    meta = {"name": "n", "uid": "u", "resourceVersion": "7", "labels": labels, "managedFields": managed}
    annotations = {"annotations": {TAINTS: said}} if said else {}
    return {"metadata": {**meta, **annotations}, "spec": {"taints": list(taints)}}


def applied(found: Json, wanted: NodeMarks) -> Json | None:
    body = labels_to_apply(found, wanted)
    assert body is None or {name: body["metadata"][name] for name in ("name", "uid")} == {"name": "n", "uid": "u"}
    labels: Json | None = body["metadata"]["labels"] if body is not None else None
    return labels


MINE = {MACHINE_LABEL: "m-0"}


def test_a_node_gets_the_labels_of_its_set_and_its_machine() -> None:
    assert applied(node(os="linux"), marks(rack="a")) == {"rack": "a", **MINE}
    assert applied(node(ours=("rack", MACHINE_LABEL), rack="a", os="linux", **MINE), marks(rack="a")) is None


def test_a_label_that_was_changed_or_removed_comes_back() -> None:
    ours = ("rack", MACHINE_LABEL)
    assert applied(node(ours=ours, rack="b", **MINE), marks(rack="a")) == {"rack": "a", **MINE}
    assert applied(node(ours=ours[1:], **MINE), marks(rack="a")) == {"rack": "a", **MINE}


def test_a_label_that_left_the_set_is_not_applied_any_more() -> None:
    found = node(ours=("rack", MACHINE_LABEL), rack="a", **MINE)
    assert applied(found, marks()) == MINE


def test_labels_of_others_are_no_reason_to_write() -> None:
    assert applied(node(ours=(MACHINE_LABEL,), os="linux", no="no", **MINE), marks()) is None


def test_where_the_set_is_not_known_nothing_is_changed() -> None:
    assert NodeMarks.of(machine("m-0"), None) is None


def test_a_machine_whose_name_is_too_long_for_a_label_has_none() -> None:
    assert NodeMarks.of(machine("m" * 64), {"spec": {}}) == NodeMarks({})


def merged(found: Json, wanted: NodeMarks) -> tuple[list[Json], str | None] | None:
    patch = taints_to_merge(found, wanted)
    if patch is None:
        return None
    assert patch["metadata"]["resourceVersion"] == "7"
    return patch["spec"]["taints"], patch["metadata"]["annotations"][TAINTS]


SAID = "gpu=yes:NoSchedule"


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        (node(OTHER), marks(GPU), ([OTHER, GPU], SAID)),
        (node(OTHER, GPU, said=SAID), marks(GPU), None),
        (node(OTHER, said=SAID), marks(GPU), ([OTHER, GPU], SAID)),  # somebody removed it
        (node({**GPU, "value": "no"}, said=SAID), marks(GPU), ([GPU], SAID)),  # or changed it
        (node(OTHER, GPU, said=SAID), marks(), ([OTHER], None)),  # it left the set
        (node(OTHER, GPU), marks(), None),  # somebody else's
        (node(OTHER, GPU), marks(GPU), ([OTHER, GPU], SAID)),  # is ours from now on
        (node(OTHER), marks(), None),
        (node(said=SAID), marks(), ([], None)),
        (node({**GPU, "effect": "NoExecute"}, GPU, said=SAID), marks(), ([{**GPU, "effect": "NoExecute"}], None)),
    ],
)
def test_taints_are_set_and_taken_away_and_others_stay(
    found: Json, wanted: NodeMarks, expected: tuple[list[Json], str | None] | None
) -> None:
    assert merged(found, wanted) == expected


def test_an_empty_value_is_none() -> None:
    bare = {"key": "gpu", "effect": "NoSchedule"}
    wanted = marks({**bare, "value": ""})
    assert merged(node(bare, said="gpu=:NoSchedule"), wanted) is None
