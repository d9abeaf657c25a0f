"""The doctor's dry run against an API that records: which pods it makes, where, and that it leaves none."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell.place import cell_labels
from harness.infra.cluster.checks import Use
from harness.infra.cluster.trial import (
    HANDLER,
    Images,
    Known,
    NetworkTrial,
    NotTried,
    Report,
    carry_out,
    check_enforcement,
    check_network,
    choose,
    known,
    read_report,
    repository,
)
from harness.infra.findings import Finding
from harness.kube import ApiFailure, Cluster
from harness.kube.resources import NAMESPACE, NETWORK_POLICY, NODE, POD, Resource

Json = dict[str, Any]
BUSYBOX = "registry.example/e2e-test-images/busybox:1.37"
WORDS = "peer=10.0.0.2\naddress=inet 10.0.0.3/24\nopen=yes\nlink=no\nclosed=yes\nstill_open=yes\n"
KUBEVIRT_PODS = {
    "spec": {
        "nodeName": "n",
        "initContainers": [{"image": "quay.io/kubevirt/virt-launcher@sha256:11"}],
        "containers": [{"image": "quay.io/kubevirt/virt-handler@sha256:22"}],
    },
    "metadata": {"name": "virt-handler-x"},
}


def node(*images: str, runtime: str = "containerd://2.1", **spec: Any) -> Json:
    return {
        "metadata": {"name": "n", "labels": {"kubevirt.io/schedulable": "true"}},
        "spec": spec,
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"containerRuntimeVersion": runtime},
            "images": [{"names": [image]} for image in images],
        },
    }


@dataclass
class Api:
    """Nodes and objects; a pod runs as soon as it is made, and the second one has its last words."""

    nodes: list[Json]
    handlers: list[Json] = field(default_factory=list)
    refused: set[tuple[str, str]] = field(default_factory=set)
    restricted: bool = False
    words: str = WORDS
    objects: dict[tuple[str, str], Json] = field(default_factory=dict)
    made: list[Json] = field(default_factory=list)

    def list(self, resource: Resource, _: str | None = None, *, labels: str = "") -> SimpleNamespace:
        if resource is NODE:
            return SimpleNamespace(items=self.nodes)
        if HANDLER in labels:
            return SimpleNamespace(items=self.handlers)
        return SimpleNamespace(items=[o for (kind, _), o in self.objects.items() if kind == resource.kind])

    def request(self, _: str, __: str, *, body: Json) -> Json:
        asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": (asked["verb"], asked["resource"]) not in self.refused}}

    def create(self, resource: Resource, body: Json) -> Json:
        context = [c.get("securityContext") for c in (body.get("spec") or {}).get("containers", [])]
        if self.restricted and any(context):
            raise ApiFailure(403, "Forbidden", 'violates PodSecurity "baseline:latest"', [], request="POST")
        body["metadata"]["uid"] = "1"
        self.objects[resource.kind, body["metadata"]["name"]] = body
        self.made.append(body)
        if resource is POD:
            ended = {"state": {"terminated": {"message": self.words}}} if "looker" in body["metadata"]["name"] else {}
            body["status"] = {"phase": "Running", "podIP": "10.0.0.2", "containerStatuses": [ended]}
        return body

    def delete(self, resource: Resource, name: str, _: str | None = None, **__: Any) -> None:
        self.objects.pop((resource.kind, name), None)
        if resource is NAMESPACE:
            self.objects.clear()


def trial(shared: str | None = None, *images: str) -> NetworkTrial:
    labels = cell_labels(run="abc123", cell="doctor", attempt=1, expires_at=1.0, environment={})
    return NetworkTrial("vmatrix-doctor-abc123-1", labels, shared, images, seconds=0.2)


def tried(api: Api, given: NetworkTrial | None = None) -> Report | NotTried:
    return carry_out(cast(Cluster, api), given or trial())


@pytest.mark.parametrize("shared", [None, "vmatrix-cells"], ids=["a separate namespace", "a shared one"])
def test_pods_are_made_looked_at_and_deleted(shared: str | None) -> None:
    api = Api([node(BUSYBOX)])

    assert tried(api, trial(shared)) == Report(bridged=False, enforced=False)

    assert api.objects == {}
    assert [o["kind"] for o in api.made] == [*([] if shared else ["Namespace"]), "NetworkPolicy", "Pod", "Pod"]
    assert all(o["metadata"]["labels"]["vmatrix.dev/cell"] == "doctor" for o in api.made)
    pods = [o for o in api.made if o["kind"] == "Pod"]
    assert all(p["metadata"]["namespace"] == (shared or "vmatrix-doctor-abc123-1") for p in pods)
    assert all(p["metadata"]["ownerReferences"][0]["kind"] == "NetworkPolicy" for p in pods), "they end with the policy"
    assert all(p["spec"]["activeDeadlineSeconds"] > 0 and p["spec"]["nodeName"] == "n" for p in pods)


def test_the_policy_is_about_the_listening_pod_alone_and_closes_one_of_its_ports() -> None:
    api = Api([node(BUSYBOX)])
    tried(api)
    _, policy, peer, looker = api.made
    selector = policy["spec"]["podSelector"]["matchLabels"].items()
    assert selector <= peer["metadata"]["labels"].items()
    assert not selector <= looker["metadata"]["labels"].items()
    environment = {e["name"]: e["value"] for e in looker["spec"]["containers"][0]["env"]}
    (port,) = policy["spec"]["ingress"][0]["ports"]
    assert str(port["port"]) == environment["OPEN"] != environment["CLOSED"]
    assert environment["PEER"] == "10.0.0.2"


def test_where_capabilities_are_refused_the_pods_do_without() -> None:
    api = Api([node(BUSYBOX)], restricted=True)
    assert isinstance(tried(api), Report)
    assert not any("securityContext" in p["spec"]["containers"][0] for p in api.made if p["kind"] == "Pod")


def test_a_pod_that_never_runs_leaves_nothing_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api([node(BUSYBOX)])
    monkeypatch.setattr(Api, "list", _pending(Api.list))
    answer = tried(api)
    assert isinstance(answer, NotTried)
    assert "ImagePullBackOff" in answer.why
    assert api.objects == {}


def _pending(real: Any) -> Any:
    waiting = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}

    def listed(self: Api, resource: Resource, *args: Any, **options: Any) -> SimpleNamespace:
        found: SimpleNamespace = real(self, resource, *args, **options)
        if resource is POD:
            return SimpleNamespace(items=[{**pod, "status": waiting} for pod in found.items])
        return found

    return listed


@pytest.mark.parametrize(
    ("shared", "refused"),
    [(None, ("create", "pods")), (None, ("create", "namespaces")), ("vmatrix-cells", ("delete", "networkpolicies"))],
)
def test_without_the_right_nothing_is_made_and_the_right_is_named(shared: str | None, refused: tuple[str, str]) -> None:
    api = Api([node(BUSYBOX)], refused={refused})
    answer = tried(api, trial(shared))
    assert isinstance(answer, NotTried)
    assert " ".join(refused) in answer.why
    assert api.made == []


def test_images_are_those_that_nodes_have_before_any_is_pulled() -> None:
    def chosen(api: Api, *others: str) -> Images | str | None:
        return choose(cast(Cluster, api), others)

    assert chosen(Api([node("nginx:1", BUSYBOX)], [KUBEVIRT_PODS]), "other") == Images("n", BUSYBOX, BUSYBOX)
    launcher, handler = "quay.io/kubevirt/virt-launcher@sha256:11", "quay.io/kubevirt/virt-handler@sha256:22"
    assert chosen(Api([node("nginx:1")], [KUBEVIRT_PODS]), "other") == Images("n", launcher, handler)
    assert chosen(Api([node("nginx:1")]), "r:5000/busybox:1") == Images("n", "r:5000/busybox:1", "r:5000/busybox:1")
    assert "no node has an image" in str(chosen(Api([node("nginx:1")])))


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("docker.io/library/busybox:1.37", "docker.io/library/busybox"),
        ("r:5000/a/b@sha256:00", "r:5000/a/b"),
        ("r:5000/b:1@sha256:00", "r:5000/b"),
        ("busybox", "busybox"),
    ],
)
def test_a_repository_has_neither_tag_nor_digest(image: str, name: str) -> None:
    assert repository(image) == name


@pytest.mark.parametrize(
    "nodes",
    [[node(BUSYBOX, runtime="vmatrix://0")], [node(BUSYBOX, unschedulable=True)], []],
    ids=["embedded KubeVirt", "cordoned", "none"],
)
def test_where_no_pod_runs_nothing_is_tried_and_nothing_said(nodes: list[Json]) -> None:
    api = Api(nodes, refused={("create", "pods")})
    assert tried(api) == NotTried()
    assert api.made == []
    assert findings(api) == []


def findings(api: Api, **use: bool) -> list[Finding]:
    wanted = Use(trial=trial(), **cast(Any, use))
    cluster = cast(Cluster, api)
    found = check_network(cluster, {"apps/v1"}, wanted.trial, bridged=wanted.bridged, isolated=wanted.isolated)
    return list(found)


def test_what_is_wrong_is_said_and_only_for_what_is_used() -> None:
    seen = findings(Api([node(BUSYBOX)]))
    assert [(f.fatal, f.what.split(" (")[0]) for f in seen] == [
        (True, "nobody answers ARP on the pod network for the other pods of a node"),
        (False, "NetworkPolicies are not enforced"),
    ]
    assert "proxy_arp=1" in seen[0].remedy
    assert findings(Api([node(BUSYBOX)]), bridged=False, isolated=False) == []


def test_a_network_that_works_has_no_findings() -> None:
    assert (
        findings(Api([node(BUSYBOX)], words=WORDS.replace("link=no", "link=yes").replace("closed=yes", "closed=no")))
        == []
    )


def test_what_could_not_be_tried_is_advice() -> None:
    kindnet = "docker.io/kindest/kindnetd:v20250512-df8de77b"
    seen = findings(Api([node(BUSYBOX, kindnet)], refused={("create", "pods")}))
    (finding,) = seen
    assert not finding.fatal
    assert "not allowed: create pods" in finding.what
    assert "kindnet" in finding.why, "that it enforces policies is known by its age"


def test_a_policy_is_networking_s() -> None:
    assert NETWORK_POLICY.path("ns") == "/apis/networking.k8s.io/v1/namespaces/ns/networkpolicies"


PTP = """peer=10.244.0.15
address=2: eth0    inet 10.244.0.14/24 brd 10.244.0.255 scope global eth0
route=default via 10.244.0.1 dev eth0
neighbours=10.244.0.1 lladdr 46:92:1f:33:7e:2f REACHABLE
open=yes
link={link}
gateway=yes
closed={closed}
still_open=yes
"""
# Calico's pods have a /32 and a gateway that is nobody's address; the node answers for it (proxy ARP on its link).
CALICO = PTP.replace("10.244.0.14/24", "10.244.0.14/32").replace("via 10.244.0.1", "via 169.254.1.1")
# The AWS VPC plugin writes the gateway's entry into each pod; the node answers for nobody.
AWS = CALICO.replace("10.244.0.1 lladdr 46:92:1f:33:7e:2f REACHABLE", "169.254.1.1 lladdr 46:92:1f:33:7e:2f PERMANENT")


@pytest.mark.parametrize(
    ("text", "bridged", "enforced"),
    [
        (PTP.format(link="yes", closed="yes"), True, False),
        (PTP.format(link="no", closed="no"), False, True),
        (PTP.format(link="unknown", closed="no"), None, True),
        (CALICO.format(link="no", closed="no"), True, True),
        (AWS.format(link="no", closed="no"), False, True),
        (
            CALICO.replace("10.244.0.1 lladdr", "169.254.1.1 lladdr")
            .replace("gateway=yes", "gateway=unknown")
            .format(link="unknown", closed="no"),
            True,
            True,
        ),
        (CALICO.replace("gateway=yes", "gateway=no").format(link="yes", closed="no"), False, True),
        (PTP.replace("still_open=yes", "still_open=no").format(link="yes", closed="no"), True, None),
    ],
    ids=[
        "proxy ARP",
        "ptp alone",
        "no right to ask",
        "Calico",
        "AWS VPC",
        "Calico, learned",
        "silent gateway",
        "the peer has gone",
    ],
)
def test_the_report_is_read(text: str, bridged: bool | None, enforced: bool | None) -> None:
    report = read_report(text)
    assert (report.bridged, report.enforced) == (bridged, enforced)
    assert bool(report.why) is (bridged is None)


def test_pods_that_do_not_reach_each_other_tell_nothing() -> None:
    report = read_report(PTP.replace("open=yes\n", "open=no\n", 1).format(link="no", closed="no"))
    assert (report.bridged, report.enforced) == (None, None)
    assert "do not reach each other" in report.why


@pytest.mark.parametrize("text", ["", "sh: not found"])
def test_a_pod_that_said_nothing_tells_nothing(text: str) -> None:
    assert read_report(text).bridged is None
    assert read_report(text).why


def test_an_image_without_ip_still_tells_of_policies() -> None:
    text = PTP.format(link="unknown", closed="yes").replace("inet 10.244.0.14/24", "")
    assert read_report(text) == Report(None, enforced=False, why="the image has no ip, or the pod no eth0")


@pytest.mark.parametrize(
    ("groups", "images", "name", "enforces"),
    [
        ({"crd.projectcalico.org"}, {"docker.io/flannel/flannel:v0.27.0"}, "Calico", True),
        ({"cilium.io"}, set(), "Cilium", True),
        (set(), {"docker.io/kindest/kindnetd:v20240513-cd2ac642"}, "kindnet", False),
        (set(), {"docker.io/kindest/kindnetd:v20240813-c6f155d6"}, "kindnet", True),
        (set(), {"ghcr.io/flannel-io/flannel:v0.27.0"}, "flannel", False),
        (set(), {"ghcr.io/flannel-io/flannel:v0.27.0", "x/kube-router:v2.6.3"}, "kube-router", True),
        (set(), {"docker.io/cloudnativelabs/kube-router@sha256:00"}, "kube-router", True),
        ({"apps"}, {"docker.io/library/nginx:1"}, "the network plugin", None),
    ],
)
def test_a_plugin_is_known_by_its_groups_and_images(
    groups: set[str], images: set[str], name: str, enforces: bool | None
) -> None:
    assert known(groups, images) == Known(name, enforces)


@pytest.mark.parametrize(
    ("plugin", "tried", "said"),
    [
        (Known(), True, ""),
        (Known("flannel", enforces=False), True, ""),
        (Known("Calico", enforces=True), None, ""),
        (Known("Calico", enforces=True), False, "are not enforced (a dry run with two pods showed it)"),
        (Known("flannel", enforces=False), None, "are not enforced (flannel is known not to)"),
        (Known(), None, "not checked whether NetworkPolicies are enforced (no image)"),
    ],
)
def test_what_was_tried_counts_more_than_a_name(plugin: Known, tried: bool | None, said: str) -> None:
    found = list(check_enforcement(plugin, tried, "no image"))
    assert len(found) == bool(said)
    assert all(said in finding.what and not finding.fatal for finding in found)
