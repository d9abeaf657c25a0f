"""The condition of all add-ons together."""

from __future__ import annotations

from typing import Any

import pytest

from harness.operator.api.addons import ClusterAddon
from harness.operator.controllers.addon_states import source_digest
from harness.operator.controllers.addon_summary import addons_ready
from tests.unit.operator.controllers.looks import cluster, declared, given, seen

Json = dict[str, Any]
SHOP: Json = {"name": "shop", "manifests": {"configMap": "shop"}}
SOURCE = source_digest(ClusterAddon.model_validate(SHOP))
READY: Json = {"name": "shop", "source": SOURCE, "ready": True, "reason": "Ready"}
BROKEN: Json = {**READY, "ready": False, "reason": "NotReady", "message": "why"}
DARK: Json = {"name": "shop", "source": SOURCE, "reason": "Unreachable", "message": "no route"}
METRICS: Json = {"name": "metrics-server", "ready": False, "reason": "Missing", "message": "gone: x", "sequence": 1}
APPLIED: Json = {"digest": "d", "version": "1.36.3", "machines": ["m-0"]}


@pytest.mark.parametrize(
    ("wanted", "told", "expected"),
    [
        ([], [], (True, "NoAddons", "")),
        ([SHOP], [READY], (True, "AllReady", "")),
        ([SHOP], [], (False, "Applying", "shop: it is looked at soon")),
        ([SHOP], [{**READY, "source": "of another ConfigMap"}], (False, "Applying", "shop: it is looked at soon")),
        ([SHOP], [BROKEN], (False, "NotReady", "shop: why")),
        ([SHOP], [DARK], (None, "Unreachable", "shop: no route")),
        ([SHOP, {"name": "metrics-server"}], [DARK, METRICS], (False, "Missing", "metrics-server: gone: x")),
        ([{"name": "metrics-server"}], [], (True, "NoAddons", "")),
        ([], [METRICS], (True, "NoAddons", "")),
        ([], [{"name": "shop", "ready": False, "reason": "Pruning", "message": "a"}], (False, "Pruning", "shop: a")),
    ],
)
def test_the_condition(wanted: list[Json], told: list[Json], expected: tuple[bool | None, str, str]) -> None:
    view = seen(declared(addons=wanted), cluster(sequence=1, applied=APPLIED, addons=told), given("m-0"))
    assert addons_ready(view) == expected


def test_without_a_cluster_there_is_no_add_on() -> None:
    assert addons_ready(seen(declared(addons=[SHOP]), cluster()))[:2] == (False, "NotDeployed")
