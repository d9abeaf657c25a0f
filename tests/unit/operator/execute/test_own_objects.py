"""An executor says that it begins, and does not begin what was given up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import InfraError
from harness.kube.resources import JOB
from harness.operator.execute.own_objects import OwnObjects
from tests.unit.fake_cluster import FakeCluster


def job(**annotations: str) -> FakeCluster:
    """Return an API with the executor's Job."""
    said = {f"cluster.vmatrix.dev/{name}": value for name, value in annotations.items()}
    return FakeCluster({JOB: [{"metadata": {"name": "guest-1-deploy", "namespace": "ns", "annotations": said}}]})


def own(api: Any) -> OwnObjects:
    folder: Any = SimpleNamespace(namespace="ns", job="guest-1-deploy")
    return OwnObjects(folder, api)


def test_it_says_that_it_begins() -> None:
    api = job()
    assert own(api).elapsed() == 0
    assert "cluster.vmatrix.dev/progress" in api.all(JOB)[0]["metadata"]["annotations"]


def test_what_was_given_up_does_not_begin() -> None:
    given_up = job(**{"given-up": "true"})
    with pytest.raises(InfraError, match="given up before it began"):
        own(given_up).elapsed()
