"""Cells that share a namespace are found by whatever is left of them, and taken away with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell.found import CellSelector, find
from harness.cell.labels import cell_labels
from harness.cell.teardown import reap
from harness.kube.client import ApiFailure, Cluster
from harness.kube.resources import NETWORK_POLICY, Resource
from harness.model import LABEL_ATTEMPT, LABEL_EXPIRES

SHARED = "vmatrix-cells"


class Api:
    """A namespace of which only a policy is left; others' objects are not the cell's."""

    def __init__(self, code: int | None = None) -> None:
        labels = cell_labels(run="run123", cell="a-cell", attempt=2, expires_at=1.0, environment={})
        self.policies = {"a-cell-run123-2-cell": labels}
        self.code = code

    def list(self, resource: Resource, _: str | None = None, *, labels: str = "") -> SimpleNamespace:
        if resource is not NETWORK_POLICY:
            return SimpleNamespace(items=[])
        if self.code is not None:
            raise ApiFailure(self.code, "Forbidden", "not allowed", [], request="GET /")
        wanted = [pair.split("=") for pair in labels.split(",") if "=" in pair]
        return SimpleNamespace(
            items=[
                {"metadata": {"name": name, "labels": found}}
                for name, found in self.policies.items()
                if all(found.get(key) == value for key, value in wanted)
            ]
        )

    def delete(self, resource: Resource, name: str, namespace: str, **_: Any) -> None:
        assert (resource, namespace) == (NETWORK_POLICY, SHARED)
        del self.policies[name]


@pytest.fixture
def api() -> Api:
    return Api()


def test_a_policy_alone_identifies_a_cell_and_is_reaped_with_it(api: Api) -> None:
    cluster = cast(Cluster, api)

    gone = reap(cluster, CellSelector(namespace=SHARED, only_expired=True), seconds=1.0)

    assert [(found.run, found.cell, found.attempt) for found in gone] == [("run123", "a-cell", 2)]
    assert api.policies == {}


def test_whoever_may_not_look_at_policies_has_made_none() -> None:
    assert find(cast(Cluster, Api(code=403)), CellSelector(namespace=SHARED)) == []


def test_any_other_refusal_is_told() -> None:
    with pytest.raises(ApiFailure):
        find(cast(Cluster, Api(code=500)), CellSelector(namespace=SHARED))


@pytest.mark.parametrize("written", ["never", "", "nan", "inf", "1e999"])
def test_labels_that_somebody_has_changed_hide_no_cell(api: Api, written: str) -> None:
    labels = api.policies["a-cell-run123-2-cell"]
    labels |= {LABEL_ATTEMPT: written, LABEL_EXPIRES: written}
    (found,) = find(cast(Cluster, api), CellSelector(namespace=SHARED))
    assert (found.cell, found.attempt, found.expires_at) == ("a-cell", 1, None)
