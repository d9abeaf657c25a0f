"""A cluster that lacks something is told so, all at once: against a small HTTP server that answers like its API."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import BadInput
from harness.infra.cluster.capacity import FreeRoom, Need, free_for_machines
from harness.infra.cluster.checks import Use, check_cluster
from harness.infra.findings import Finding, fatal
from harness.kube import Cluster
from harness.kube.client import Infra
from harness.model import Mirror
from harness.providers.kubeconfig import KubeconfigProvider

Json = dict[str, Any]
GIB = 2**30
KUBEVIRT = "/apis/kubevirt.io/v1/kubevirts"
CDI = "/apis/cdi.kubevirt.io/v1beta1/cdis"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PROFILE = "/apis/cdi.kubevirt.io/v1beta1/storageprofiles/fast"
NODES = "/api/v1/nodes"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def items(*objects: Json) -> Json:
    return {"metadata": {"resourceVersion": "1"}, "items": list(objects)}


def groups(*versions: str) -> Json:
    groups = [{"name": v.partition("/")[0], "versions": [{"groupVersion": v}]} for v in versions]
    return {"kind": "APIGroupList", "groups": groups}


def node(memory: str) -> Json:
    ready = {"type": "Ready", "status": "True"}
    allocatable = {"cpu": "4", "memory": memory, "ephemeral-storage": "100Gi", "devices.kubevirt.io/kvm": "1k"}
    labels = {"kubevirt.io/schedulable": "true"}
    return {
        "metadata": {"name": "n", "labels": labels},
        "spec": {},
        "status": {"conditions": [ready], "allocatable": allocatable},
    }


def pod(memory: str, phase: str = "Running") -> Json:
    container = {"resources": {"requests": {"cpu": "1", "memory": memory}}}
    return {
        "metadata": {"name": phase},
        "spec": {"nodeName": "n", "containers": [container]},
        "status": {"phase": phase},
    }


@dataclass
class Api:
    """What the server answers, by path; and what its authorizer refuses, as (verb, resource)."""

    answers: dict[str, Json] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    refused: set[tuple[str, str]] = field(default_factory=set)
    user: str = "system:serviceaccount:ci:runner"
    kubeconfig: Path = Path()

    def post(self, path: str, body: Json) -> Json:
        if path == WHO_AM_I:
            stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            return {"metadata": {"creationTimestamp": stamp}, "status": {"userInfo": {"username": self.user}}}
        asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": (asked["verb"], asked["resource"]) not in self.refused}}

    def seen(self) -> list[Finding]:
        return check_cluster(Infra(self.kubeconfig))


def healthy() -> dict[str, Json]:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        "/apis": groups("kubevirt.io/v1", "cdi.kubevirt.io/v1beta1"),
        KUBEVIRT: items({"metadata": {"name": "kubevirt"}, "status": {"phase": "Deployed"}}),
        CDI: items({"metadata": {"name": "cdi"}, "status": {"phase": "Deployed"}}),
        CLASSES: items({"metadata": {"name": "fast", "annotations": default}}),
        PROFILE: {"status": {"claimPropertySets": [{"accessModes": ["ReadWriteOnce"]}]}},
        NODES: items(node("8Gi")),
        "/version": {"gitVersion": "v1.36.3"},
        "/api/v1/pods": items(pod("2Gi"), pod("1Gi", "Succeeded")),
    }


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    state = Api(healthy())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            code = state.codes.get(path, 200 if path in state.answers else 404)
            self._send(code, state.answers.get(path, {"reason": "x", "message": f"no {path}"}))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(201, state.post(self.path, body))

        def _send(self, code: int, body: Json) -> None:
            text = json.dumps({"kind": "Status" if code >= 400 else "Object", **body}).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        state.kubeconfig = kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_address[1]}")
        yield state
        server.shutdown()


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_a_complete_cluster_has_no_findings_and_the_provider_is_up(api: Api) -> None:
    assert api.seen() == []
    provider = KubeconfigProvider(Infra(api.kubeconfig), Mirror("http://m", "m:5000"))
    provider.up()
    assert free_for_machines(Cluster.from_kubeconfig(api.kubeconfig)) == FreeRoom(cpus=3.0, memory_mib=6 * 1024)


def test_a_missing_kubeconfig_is_one_finding(tmp_path: Path) -> None:
    (finding,) = check_cluster(Infra(tmp_path / "none"))
    assert "does not exist" in finding.what


def test_an_unknown_context_is_one_finding(api: Api) -> None:
    (finding,) = check_cluster(Infra(api.kubeconfig, "other"))
    assert "other" in finding.what


def test_an_api_that_does_not_answer_is_one_finding_with_a_command(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        path = kubeconfig(tmp_path, f"http://127.0.0.1:{unused.getsockname()[1]}")
        (finding,) = check_cluster(Infra(path))
    assert "does not answer" in finding.what
    assert f"kubectl --kubeconfig {path} version" in finding.remedy


def test_refused_credentials_are_one_finding(api: Api) -> None:
    api.codes["/apis"] = 401
    (finding,) = api.seen()
    assert "401" in finding.what


def test_an_api_without_kubevirt_and_cdi_says_both(api: Api) -> None:
    api.answers["/apis"] = groups("apps/v1", "kubevirt.io/v1alpha3")
    seen = [f.what for f in fatal(api.seen())]
    assert seen == [
        "the API does not serve kubevirt.io/v1 (it serves kubevirt.io/v1alpha3)",
        "the API does not serve cdi.kubevirt.io/v1beta1",
    ]
    with pytest.raises(BadInput, match="2 things are missing"):
        KubeconfigProvider(Infra(api.kubeconfig), Mirror("", "")).up()


def test_kubevirt_that_is_not_deployed_is_said_with_its_phase(api: Api) -> None:
    api.answers[KUBEVIRT] = items({"metadata": {"name": "kubevirt"}, "status": {"phase": "Deploying"}})
    api.answers[CDI] = items()
    seen = [f.what for f in fatal(api.seen())]
    assert seen == ["KubeVirt is Deploying, not Deployed", "no CDI object exists"]


def test_kubevirt_that_is_degraded_is_advice(api: Api) -> None:
    conditions = [{"type": "Available", "status": "True"}, {"type": "Degraded", "status": "True", "reason": "Failing"}]
    api.answers[KUBEVIRT]["items"][0]["status"]["conditions"] = conditions

    (finding,) = api.seen()

    assert finding.what == "KubeVirt is Degraded: Failing"
    assert not finding.fatal


def test_emulation_that_kubevirt_ignores_is_advice(api: Api) -> None:
    spec = {"configuration": {"developerConfiguration": {"useEmulation": True}}}
    api.answers[KUBEVIRT]["items"][0]["spec"] = spec

    (finding,) = api.seen()

    assert finding.what == "KubeVirt has useEmulation, and n offers devices.kubevirt.io/kvm"
    assert not finding.fatal


def test_without_a_default_storage_class_disks_cannot_be_asked_for(api: Api) -> None:
    api.answers[CLASSES] = items({"metadata": {"name": "fast"}})
    (finding,) = fatal(api.seen())
    assert finding.what == "no default storage class exists"


def test_the_virtual_machines_own_default_class_is_preferred(api: Api) -> None:
    virt = {"metadata": {"name": "virt", "annotations": {"storageclass.kubevirt.io/is-default-virt-class": "true"}}}
    api.answers[CLASSES]["items"].append(virt)
    (finding,) = fatal(api.seen())
    assert "storage class virt has no claimPropertySets" in finding.what
    assert "kubectl patch storageprofile virt" in finding.remedy


def test_rights_that_are_missing_come_with_the_commands_that_give_them(api: Api) -> None:
    api.refused = {("create", "namespaces"), ("delete", "namespaces"), ("list", "nodes")}
    namespaces, nodes = api.seen()
    assert namespaces.what == "not allowed: create, delete namespaces"
    assert "--verb=create,delete --resource=namespaces" in namespaces.remedy
    assert "--serviceaccount=ci:runner" in namespaces.remedy
    assert namespaces.fatal
    assert not nodes.fatal


def test_what_can_be_done_without_is_only_asked_for_where_it_is_served(api: Api) -> None:
    api.refused = {("list", "ippools")}
    assert api.seen() == []
    api.answers["/apis"] = groups("kubevirt.io/v1", "cdi.kubevirt.io/v1beta1", "crd.projectcalico.org/v1")
    (pools,) = api.seen()
    assert pools.what == "not allowed: list ippools.crd.projectcalico.org"
    assert not pools.fatal


def test_too_little_capacity_says_what_is_free(api: Api) -> None:
    (finding,) = check_cluster(Infra(api.kubeconfig), use=Use(need=Need(memory_mib=7 * 1024, cpus=2)))
    assert finding.what.startswith("6144 MiB and 3.0 CPUs are free on 1 nodes (8192 MiB in all)")


def test_a_cluster_without_a_usable_node_is_found(api: Api) -> None:
    api.answers[NODES]["items"][0]["spec"] = {"unschedulable": True}
    (finding,) = api.seen()
    assert finding.what == "no node is ready and schedulable"


def test_what_may_not_be_looked_at_does_not_hide_the_rest(api: Api) -> None:
    api.codes[NODES] = 403
    api.answers[CLASSES] = items()
    seen = api.seen()
    assert sorted((f.fatal, f.what.partition(":")[0]) for f in seen) == [
        (False, "not checked"),
        (True, "no default storage class exists"),
    ]
