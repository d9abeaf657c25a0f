"""A guest under inspection whose API does not answer."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from harness.errors import InfraRetriable, ProductError
from harness.kube.portforward import note
from harness.kube.tunnels import Tunnels
from harness.model import GuestCluster
from harness.validate.inspection import Inspection
from tests.unit.validate import guests


def unanswered(tmp_path: Path) -> GuestCluster:
    """Return a guest at whose API's address nobody listens."""
    kubeconfig = tmp_path / "kubeconfig"
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "guest", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "admin", "user": {}}],
        "contexts": [{"name": "admin", "context": {"cluster": "guest", "user": "admin"}}],
        "current-context": "admin",
    }
    kubeconfig.write_text(json.dumps(text), encoding="utf-8")
    return dataclasses.replace(guests.guest(), kubeconfig=kubeconfig)


def test_an_api_that_does_not_answer_is_the_products_fault(tmp_path: Path) -> None:
    guest = unanswered(tmp_path)
    with pytest.raises(ProductError, match=r"does not answer at https://127\.0\.0\.1:1") as failed:
        Inspection(guest, ssh_options=(), settle_seconds=0).wait_for_api()
    assert "vmatrix login cell-1 cp-0" in failed.value.hint
    assert "refused" in failed.value.detail


def test_an_api_behind_a_way_that_is_broken_is_the_infras_fault(tmp_path: Path) -> None:
    guest = unanswered(tmp_path)
    path, log = tmp_path / "tunnels.json", tmp_path / "tunnels.log"
    Tunnels(tmp_path / "infra", None, "ns", {}, log).save(path)
    note(log, "10.0.0.1", 6443, "503 Service Unavailable")
    machines = tuple(dataclasses.replace(m, tunnels=path) for m in guest.environment.machines)
    guest = dataclasses.replace(guest, environment=dataclasses.replace(guest.environment, machines=machines))
    with pytest.raises(InfraRetriable, match="the tunnel to the guest's API server is broken: 503 Service Unavailable"):
        Inspection(guest, ssh_options=(), settle_seconds=0).wait_for_api()
