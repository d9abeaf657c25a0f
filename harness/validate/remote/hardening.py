"""Looks at how hard a guest is to break into: makes a Secret, and has every machine look for what is in it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import POD, SECRET
from harness.spec.models import Timeouts
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.benchmark_places import HEALTH, HIDDEN, patterns
from harness.validate.facts.cluster import Json
from harness.validate.facts.hardening_seen import HardeningFacts, hardening_of
from harness.validate.hosts import MACHINE, run_on_each
from harness.validate.pods import HTTP_PORT
from harness.validate.probes import NAME, PROBE, Probes

PROGRAM = MACHINE / "hardening.py"
PLACE = "default"


@dataclass(frozen=True)
class HardeningLook:
    """What every machine showed, and the key in etcd of the Secret that was there meanwhile."""

    seen: Mapping[str, HardeningFacts]
    made: str


def look_at_hardening(
    api: Cluster, hosts: Mapping[str, Any], expected: ExpectedGuest, timeouts: Timeouts
) -> HardeningLook:
    """Make a Secret, look at every machine, and delete the Secret.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """
    name, marker = f"vmatrix-{secrets.token_hex(8)}", f"marker-{secrets.token_hex(16)}"
    meta = {"name": name, "namespace": PLACE}
    api.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"text": marker}})
    folder = expected.leaves.certificates
    common = {
        "ca": f"{folder}/ca.crt" if folder is not None else "",
        "files": patterns(expected),
        "strangers": [*HEALTH, *HIDDEN],
        "marker": marker,
        "name": f"{name}-absent",
    }
    given = {machine: {**common, "address": expected.addresses[machine]} for machine in hosts}
    try:
        seen = run_on_each(hosts, PROGRAM, hardening_of, timeouts, given=given)
    finally:
        api.delete(SECRET, name, PLACE)
    return HardeningLook(seen, f"/registry/secrets/{PLACE}/{name}")


def profiles_of_kubelets(api: Cluster, expected: ExpectedGuest) -> dict[str, int]:
    """Return the status with which each kubelet answers an admin who asks for a profile, by node."""
    path = "/api/v1/nodes/{}/proxy/debug/pprof/cmdline"
    return {node: api.send("GET", path.format(node)).code for node in expected.nodes}


def statuses_of_pods(probes: Probes) -> dict[str, str]:
    """Return /proc/self/status of a process in a probe pod, by node."""
    found = {}
    pods = {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in _running(probes.api)}
    for node in probes.dialling:
        path = f"{POD.path(NAME, f'{pods.get(node)}:{HTTP_PORT}', 'proxy')}/shell"
        answer = probes.api.send("GET", path, query={"cmd": "cat /proc/self/status"}, read_seconds=probes.proxy_seconds)
        body = answer.body if isinstance(answer.body, dict) else _json(answer.body)
        found[node] = str(body.get("output", answer.body))
    return found


def _running(api: Cluster) -> list[Json]:
    """Return the probe pods that there are now: a fault may have had them made anew."""
    there = api.list(POD, NAME, labels=f"app={PROBE}").items
    return [pod for pod in there if "deletionTimestamp" not in pod["metadata"] and "nodeName" in pod["spec"]]


def _json(text: Any) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}
