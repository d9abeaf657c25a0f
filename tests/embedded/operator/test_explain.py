"""`vmatrix operator explain --against`: a file compared with objects that a real API server has stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from harness.cli import app
from harness.kube.objects import dig
from harness.operator.api.cluster import CurrentOperation, DeclaredCluster
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE
from harness.operator.decide.desired import desired
from harness.operator.decide.observed import Observed, begun, observed
from harness.operator.decide.operations import next_operation
from harness.operator.decide.variables import load_releases
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.unit.operator.api import objects
from tests.unit.operator.api.objects import defaulted

SETS = (objects.wanted_set("cp", "control-plane", "worker"),)
VARIABLES = {"cluster_timeout_scale": 2.0, "cluster_drain_timeout": 60, "cluster_kubelet_config": {"a": {"b": [1.5]}}}


def explained(folder: Path, declared: Declared, kubeconfig: Path, **spec: Any) -> dict[str, Any]:
    """Return what would be done if an object with this spec were applied over the one that is there."""
    body = objects.deployment(*SETS, name="guest", namespace=declared.namespace, **spec)
    file = folder / "guest.yml"
    file.write_text(yaml.safe_dump(body), encoding="utf-8")
    words = ["operator", "explain", "--json", "-f", str(file), "--against", "guest", "--kubeconfig", str(kubeconfig)]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    (one,) = json.loads(result.stdout)
    return dict(one)


def test_a_file_is_compared_with_what_the_api_has(
    declared: Declared, manager: StartManager, infra: EmbeddedProvider, tmp_path: Path
) -> None:
    spec: dict[str, Any] = {"version": "1.36.1", "variables": VARIABLES, "network": {"vxlan": {"mtu": 1400}}}
    claim = {"cluster": "guest", "set": "cp", "uid": declared.deployment("guest", *SETS, **spec)["metadata"]["uid"]}
    declared.machine("m-1")
    assert explained(tmp_path, declared, infra.kubeconfig(), **spec)["now"]["waits"] == "WaitingForMachines"
    declared.api.merge(MACHINE, "m-1", {"spec": {"claim": claim}}, declared.namespace)
    assert explained(tmp_path, declared, infra.kubeconfig(), **spec)["now"]["waits"] == "WaitingForAuthority"
    manager("authority")
    until(lambda: has_authority(declared), deadline=Deadline.after(WAIT_SECONDS), what="CAs", interval=INTERVAL)
    assert explained(tmp_path, declared, infra.kubeconfig(), **spec)["now"] == {"operation": "deploy", "attempt": 1}

    deploy(declared)
    same = explained(tmp_path, declared, infra.kubeconfig(), **spec)
    assert (same["plan"], same["now"]) == ([], {})
    other = explained(tmp_path, declared, infra.kubeconfig(), **{**spec, "version": "1.36.3"})
    assert [step["operation"] for step in other["plan"]] == ["upgrade"]
    assert "spec.version: 1.36.1 -> 1.36.3" in other["plan"][0]["why"]
    assert other["now"]["operation"] == "upgrade"


def has_authority(declared: Declared) -> bool | NotYet:
    """Tell whether the CAs of the cluster are made."""
    return bool(dig(declared.get("guest", CLUSTER), "status", "authority", "usable")) or NotYet("they are not made")


def deploy(declared: Declared) -> None:
    """Write into the Cluster what controllers write when a deployment begins, and when it has succeeded."""
    operation = next_operation(*seen(declared))
    assert isinstance(operation, CurrentOperation)
    current = begun(Observed(datetime.now(UTC)), operation).running
    assert current is not None
    write(declared, {"operation": current.model_dump(by_alias=True), "sequence": operation.sequence})
    assert seen(declared)[1].running == current  # no key is pruned, and none changes
    running = dig(declared.get("guest", CLUSTER), "status", "operation")
    write(declared, {"operation": None, "applied": running["applies"]})


def seen(declared: Declared) -> tuple[Any, Observed]:
    """Return the wish and the world as the API has them."""
    machines = [DeclaredMachine.model_validate(m) for m in declared.api.list(MACHINE, declared.namespace).items]
    state = DeclaredCluster.model_validate(declared.get("guest", CLUSTER))
    world = observed(state, machines, datetime.now(UTC))
    cd = defaulted(declared.get("guest", CLUSTER_DEPLOYMENT))
    return desired(cd, machines, load_releases(), world.applied), world


def write(declared: Declared, status: dict[str, Any]) -> None:
    """Merge something into the status of the Cluster."""
    declared.api.merge(CLUSTER, "guest", {"status": status}, declared.namespace, subresource="status")
