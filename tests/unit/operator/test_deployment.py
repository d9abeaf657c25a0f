"""The manager's Deployment: what it may do on a node, how it is looked at, and what it is told."""

from __future__ import annotations

from typing import Any

from harness.operator.deployment import GRACE_SECONDS, deployment
from harness.operator.manager import HEALTH_PORT
from harness.operator.registry import END_SECONDS


def pod(*controllers: str, everywhere: bool = False) -> dict[str, Any]:
    made = deployment("name", "ns", "host/vmatrix:1", controllers=controllers, everywhere=everywhere)
    assert made["spec"]["selector"]["matchLabels"].items() <= made["spec"]["template"]["metadata"]["labels"].items()
    return dict(made["spec"]["template"]["spec"])


def test_it_passes_pod_security_restricted() -> None:
    found = pod()
    (container,) = found["containers"]
    assert found["securityContext"]["runAsNonRoot"] is True
    assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(found)
    assert [list(volume) for volume in found["volumes"]] == [["name", "emptyDir"]]


def test_it_is_looked_at_where_it_answers() -> None:
    (container,) = pod()["containers"]
    assert container["ports"] == [{"name": "health", "containerPort": HEALTH_PORT}]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("liveness", "readiness", "startup")}
    assert {probe["port"] for probe in probes.values()} == {"health"}
    assert probes["readiness"]["path"] == "/readyz"
    assert GRACE_SECONDS > END_SECONDS


def test_it_is_told_where_to_look_and_what_to_run() -> None:
    own, wide, one = pod(), pod(everywhere=True), pod("machine", "claims")
    assert own["containers"][0]["args"] == ["operator", "run", "--namespace=$(POD_NAMESPACE)"]
    assert wide["containers"][0]["args"] == ["operator", "run"]
    assert one["containers"][0]["args"][-1] == "--controllers=machine,claims"
    assert {env["name"] for env in own["containers"][0]["env"]} == {"HOME", "POD_NAME", "POD_NAMESPACE"}
