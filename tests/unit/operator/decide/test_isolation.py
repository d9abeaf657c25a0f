"""Who reaches the machines of an isolated cluster, whom they reach, and what is said of it: evaluated, row by row."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from harness.errors import InfraError
from harness.kube.client import Json
from harness.machines.network_rules import LAUNCHER, LAUNCHER_NAME, block, in_namespace, rule_to
from harness.operator.api.cluster import AppliedState
from harness.operator.api.components import ReleaseSites
from harness.operator.api.crds import crds
from harness.operator.api.endpoint import EndpointState, EndpointType
from harness.operator.api.isolation import API_CLIENT_LABEL, IsolationState
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import CLUSTER_DEPLOYMENT
from harness.operator.decide.due import Wait, WaitReason
from harness.operator.decide.isolation import (
    FIELD,
    OPEN_TO_ALL,
    STATUSES,
    Enforcement,
    IsolatedMachines,
    IsolationReason,
    IsolationRefused,
    enforcement,
    failed_state,
    policy,
    policy_name,
    reached_by,
    selects,
    state_of,
    told,
    tolerates,
)
from harness.operator.decide.observed import Observed
from harness.operator.decide.operations import next_operation
from tests.unit.cell.policies import End, connects
from tests.unit.operator.api.objects import SOURCE, defaulted, deployment, machine
from tests.unit.operator.decide.wishes import CP, MACHINES, NOW, WORKERS, claimed, deployed, operation, wish
from tests.unit.pages import ROOT

HOME, OPERATOR = "team", "vmatrix-operator"
MANAGER = in_namespace(OPERATOR, {"app.kubernetes.io/name": OPERATOR})
ENABLED: Json = {"enabled": True}


def launcher(address: str, name: str, namespace: str = HOME, **labels: str) -> End:
    """Return the launcher pod of a machine, with KubeVirt's labels."""
    return End(address, namespace, {**LAUNCHER, LAUNCHER_NAME: name, "kubevirt.io/created-by": f"uid-{name}", **labels})


def made(name: str, **spec: Any) -> DeclaredMachine:
    """Return a Machine that leads through an instance of its name, unless `spec` says otherwise."""
    given = {"through": {"virtualMachineInstance": name}, **spec}
    return DeclaredMachine.model_validate(machine(name, HOME, **{k: v for k, v in given.items() if v is not None}))


def isolated(
    name: str = "guest",
    machines: tuple[DeclaredMachine, ...] = (made("m-0"), made("m-1")),
    *,
    labelled: dict[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return the policy of a cluster, whose isolation is enabled."""
    body = deployment(name=name, namespace=HOME, **{"isolation": ENABLED, **spec})
    body["metadata"]["uid"] = f"uid-{name}"
    whole = defaulted(body)
    return policy(
        body,
        whole,
        IsolatedMachines.of(machines, labelled or {}),
        managers=[MANAGER],
        reached=[rule_to(one, FIELD) for one in reached_by(whole)],
    )


OWN, OTHER_OWN = launcher("10.1.0.1", "m-0"), launcher("10.1.0.2", "m-1")
THEIRS = launcher("10.1.0.3", "n-0")
STRANGER = launcher("10.1.0.4", "vm", "other-team")
SAME_NAME = launcher("10.1.0.5", "m-0", "other-team")  # a machine of that name in another namespace
EXECUTOR = End("10.1.0.6", HOME, {"cluster.vmatrix.dev/cluster": "guest", "cluster.vmatrix.dev/operation": "deploy"})
OTHER_EXECUTOR = replace(EXECUTOR, labels={**EXECUTOR.labels, "cluster.vmatrix.dev/cluster": "other"})
FOREIGN_EXECUTOR = replace(EXECUTOR, namespace="other-team")
NO_EXECUTOR = replace(EXECUTOR, labels={"cluster.vmatrix.dev/cluster": "guest"})
THE_MANAGER = End("10.1.0.7", OPERATOR, {"app.kubernetes.io/name": OPERATOR, "pod-template-hash": "1"})
NOT_THE_MANAGER = replace(THE_MANAGER, namespace=HOME)
CLIENT = End("10.1.0.8", HOME, {API_CLIENT_LABEL: "guest"})
OTHER_CLIENT = replace(CLIENT, labels={API_CLIENT_LABEL: "other"})
FOREIGN_CLIENT = replace(CLIENT, namespace="other-team")
POD = End("10.1.0.9", HOME, {"app": "any"})
VIRT_API = End("10.1.0.10", "kubevirt", {"kubevirt.io": "virt-api"})
DNS = End("10.1.0.11", "kube-system", {"k8s-app": "kube-dns"})
MIRROR, API_SERVER, METADATA, UPSTREAM = (End(a) for a in ("10.0.0.1", "10.0.0.2", "169.254.169.254", "93.184.215.14"))
# Who connects to a machine, at which port, and whether that comes about.
WAYS_IN: list[tuple[str, End, int, str, bool]] = [
    ("own machine, SSH", OTHER_OWN, 22, "TCP", True),
    ("own machine, etcd", OTHER_OWN, 2380, "TCP", True),
    ("own machine, VXLAN", OTHER_OWN, 8472, "UDP", True),
    ("another cluster's machine, SSH", THEIRS, 22, "TCP", False),
    ("another cluster's machine, API", THEIRS, 6443, "TCP", False),
    ("another cluster's machine, VXLAN", THEIRS, 8472, "UDP", False),
    ("another namespace's machine", STRANGER, 22, "TCP", False),
    ("a machine of the same name elsewhere", SAME_NAME, 22, "TCP", False),
    ("executor, SSH", EXECUTOR, 22, "TCP", True),
    ("executor, API", EXECUTOR, 6443, "TCP", False),
    ("another cluster's executor", OTHER_EXECUTOR, 22, "TCP", False),
    ("an executor of another namespace", FOREIGN_EXECUTOR, 22, "TCP", False),
    ("a pod with the cluster's label alone", NO_EXECUTOR, 22, "TCP", False),
    ("manager, SSH", THE_MANAGER, 22, "TCP", True),
    ("manager, API", THE_MANAGER, 6443, "TCP", True),
    ("manager, etcd", THE_MANAGER, 2379, "TCP", False),
    ("a pod that looks like the manager", NOT_THE_MANAGER, 22, "TCP", False),
    ("virt-api, SSH", VIRT_API, 22, "TCP", True),
    ("virt-api, API", VIRT_API, 6443, "TCP", True),
    ("client of the API", CLIENT, 6443, "TCP", True),
    ("client of the API, SSH", CLIENT, 22, "TCP", False),
    ("another cluster's client", OTHER_CLIENT, 6443, "TCP", False),
    ("a client in another namespace", FOREIGN_CLIENT, 6443, "TCP", False),
    ("any pod, API", POD, 6443, "TCP", False),
    ("any address, API", UPSTREAM, 6443, "TCP", False),
    ("any address, SSH", UPSTREAM, 22, "TCP", False),
]
# Whom a machine connects to, at which port, and whether that comes about.
WAYS_OUT: list[tuple[str, End, int, str, bool]] = [
    ("own machine", OTHER_OWN, 6443, "TCP", True),
    ("another cluster's machine, SSH", THEIRS, 22, "TCP", False),
    ("another cluster's machine, VXLAN", THEIRS, 8472, "UDP", False),
    ("another namespace's machine", STRANGER, 22, "TCP", False),
    ("DNS", DNS, 53, "UDP", True),
    ("DNS over TCP", DNS, 53, "TCP", True),
    ("metrics of DNS", DNS, 9153, "TCP", False),
    ("mirror", MIRROR, 8080, "TCP", True),
    ("registry", MIRROR, 5000, "TCP", True),
    ("another port of the mirror's host", MIRROR, 22, "TCP", False),
    ("infra API", API_SERVER, 6443, "TCP", False),
    ("metadata of a cloud", METADATA, 80, "TCP", False),
    ("internet", UPSTREAM, 443, "TCP", False),
    ("any pod", POD, 8080, "TCP", False),
    ("manager", THE_MANAGER, 8081, "TCP", False),
    ("executor", EXECUTOR, 22, "TCP", False),
]


@pytest.mark.parametrize(("who", "source", "port", "protocol", "reached"), WAYS_IN, ids=[row[0] for row in WAYS_IN])
def test_who_connects_to_a_machine(who: str, source: End, port: int, protocol: str, reached: bool) -> None:
    assert connects([isolated()], source, OWN, port, protocol) is reached, who
    assert connects([], source, OWN, port, protocol), "without the policy anybody does"


@pytest.mark.parametrize(("whom", "target", "port", "protocol", "reached"), WAYS_OUT, ids=[row[0] for row in WAYS_OUT])
def test_whom_a_machine_connects_to(whom: str, target: End, port: int, protocol: str, reached: bool) -> None:
    assert connects([isolated()], OWN, target, port, protocol) is reached, whom
    assert connects([], OWN, target, port, protocol), "without the policy it reaches anybody"


def test_two_isolated_clusters_of_a_namespace_are_apart_and_each_is_whole() -> None:
    both = [isolated(), isolated("other", (made("n-0"), made("n-1")))]
    assert connects(both, OWN, OTHER_OWN, 10250)
    assert connects(both, THEIRS, launcher("10.1.0.12", "n-1"), 10250)
    for one, two in ((OWN, THEIRS), (THEIRS, OWN)):
        assert not any(connects(both, one, two, port, kind) for port in (22, 6443) for kind in ("TCP", "UDP"))


def test_importers_and_other_pods_of_the_namespace_are_not_concerned() -> None:
    assert connects([isolated()], POD, UPSTREAM, 443)
    assert connects([isolated()], POD, CLIENT, 80)


@dataclass(frozen=True)
class Api:
    """Who reaches the API of an endpoint of a type."""

    anybody: bool
    spec: Json


ENDPOINTS: dict[EndpointType, Api] = {
    "Local": Api(False, {}),
    "Service": Api(False, {}),
    "LoadBalancer": Api(True, {"address": "192.0.2.50"}),
    "Ingress": Api(True, {"host": "api.example.com"}),
    "Gateway": Api(True, {"host": "api.example.com", "gatewayRef": {"name": "g"}}),
    "VIP": Api(True, {"address": "192.0.2.50"}),
}


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_an_endpoint_that_is_for_others_opens_the_api_and_nothing_else(kind: EndpointType) -> None:
    row = ENDPOINTS[kind]
    rules = [isolated(endpoint={"type": kind, **row.spec})]
    for source in (UPSTREAM, POD, FOREIGN_CLIENT):
        assert connects(rules, source, OWN, 6443) is row.anybody
        assert not connects(rules, source, OWN, 22)
    assert connects(rules, CLIENT, OWN, 6443)
    outer = End("192.0.2.50")
    assert connects(rules, OWN, outer, 6443) is ("address" in row.spec)
    assert not connects(rules, OWN, outer, 22)


def test_every_type_of_endpoint_has_a_row() -> None:
    assert set(ENDPOINTS) == set(OPEN_TO_ALL)
    assert {kind: row.anybody for kind, row in ENDPOINTS.items()} == dict(OPEN_TO_ALL)


def test_the_address_that_a_load_balancer_gave_is_reached() -> None:
    body = deployment(name="guest", namespace=HOME, isolation=ENABLED, endpoint={"type": "LoadBalancer", "port": 443})
    body["metadata"]["uid"] = "u"
    state = EndpointState(type="LoadBalancer", address="192.0.2.77")
    machines = IsolatedMachines.of((made("m-0"),), {})
    one = policy(body, defaulted(body), machines, managers=[], reached=[], endpoint=state)
    assert connects([one], OWN, End("192.0.2.77"), 443)
    assert not connects([one], THE_MANAGER, OWN, 22), "no manager is known"


OTHER_TEAM = {"matchLabels": {"kubernetes.io/metadata.name": "other-team"}}
AS_POD = {"matchLabels": {"app": "any"}}
PEERS: list[tuple[str, Json, End, int, str, bool]] = [
    ("pods of the namespace", {"podSelector": {"matchLabels": {"app": "any"}}}, POD, 9100, "TCP", True),
    ("other pods of it", {"podSelector": {"matchLabels": {"app": "x"}}}, POD, 9100, "TCP", False),
    ("all pods of it", {"podSelector": {}}, POD, 9100, "TCP", True),
    ("not those of another", {"podSelector": {}}, STRANGER, 9100, "TCP", False),
    (
        "a namespace",
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other-team"}}},
        STRANGER,
        1,
        "TCP",
        True,
    ),
    (
        "an expression",
        {"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["any"]}]}},
        POD,
        80,
        "TCP",
        False,
    ),
    ("an address", {"ipBlock": {"cidr": "93.184.0.0/16"}}, UPSTREAM, 443, "TCP", True),
    (
        "an address that is left out",
        {"ipBlock": {"cidr": "93.184.0.0/16", "except": ["93.184.215.0/24"]}},
        UPSTREAM,
        443,
        "TCP",
        False,
    ),
    ("a port", {"podSelector": {}, "ports": [{"port": 9100}]}, POD, 9100, "TCP", True),
    ("another port", {"podSelector": {}, "ports": [{"port": 9100}]}, POD, 9101, "TCP", False),
    ("another protocol", {"podSelector": {}, "ports": [{"port": 9100}]}, POD, 9100, "UDP", False),
    ("a range", {"podSelector": {}, "ports": [{"port": 30000, "endPort": 32767}]}, POD, 31000, "TCP", True),
    ("beyond a range", {"podSelector": {}, "ports": [{"port": 30000, "endPort": 32767}]}, POD, 32768, "TCP", False),
]


@pytest.mark.parametrize(("about", "peer", "end", "port", "protocol", "reached"), PEERS, ids=[row[0] for row in PEERS])
def test_listed_peers_are_let_in_and_out_as_they_say(
    about: str, peer: Json, end: End, port: int, protocol: str, reached: bool
) -> None:
    lets_in = isolated(isolation={**ENABLED, "allowFrom": [peer]})
    lets_out = isolated(isolation={**ENABLED, "allowTo": [peer]})
    assert connects([lets_in], end, OWN, port, protocol) is reached, about
    assert connects([lets_out], OWN, end, port, protocol) is reached, about
    assert not connects([lets_in], OWN, end, port, protocol), "the other direction stays closed"
    assert not connects([lets_out], end, OWN, port, protocol), "the other direction stays closed"


def test_upstream_opens_public_addresses_and_no_private_ones() -> None:
    source = {"type": "Upstream", "registry": "10.0.0.1:5000"}
    rules = [isolated(source=source)]
    assert connects(rules, OWN, UPSTREAM, 443)
    for private in (METADATA, End("172.20.0.1"), End("fd00::1"), POD):
        assert not connects(rules, OWN, private, 443), private


def test_a_given_machine_is_selected_by_the_label_that_its_launcher_has() -> None:
    seen = {"status": {"infrastructure": {"instance": "uid-of-vm"}}}
    body = {**machine("m-0", HOME, through={"virtualMachineInstance": "vm"}), **seen}
    given = (DeclaredMachine.model_validate(body),)
    assert selects(isolated(machines=given), "vm")
    named = isolated(machines=given, labelled={"uid-of-vm": "other-hostname"})
    assert selects(named, "other-hostname")
    assert not selects(named, "vm")
    assert not selects(None, "vm")


def test_machines_that_are_addresses_are_peers_but_cannot_be_selected() -> None:
    bare = made("rack-1", through=None, address="192.0.2.99", port=2222)
    sorted_out = IsolatedMachines.of((made("m-0"), bare), {})
    assert (list(sorted_out.launchers), sorted_out.bare) == (["m-0"], {"rack-1": ("192.0.2.99",)})
    rules = [isolated(machines=(made("m-0"), bare))]
    assert connects(rules, End("192.0.2.99"), OWN, 2380)
    assert connects(rules, OWN, End("192.0.2.99"), 10250)
    assert connects(rules, EXECUTOR, OWN, 2222)
    assert not connects(rules, End("192.0.2.98"), OWN, 2380)
    state = state_of(sorted_out, Enforcement(True, "x"))
    assert (state.reason, state.bare) == ("NoSelectablePods", ("rack-1",))
    assert "rack-1" in state.message
    assert "spec.through" in state.message


def test_issuers_of_tokens_and_sites_are_reached_by_their_fields() -> None:
    jwt = {"issuer": {"url": "https://issuer.example/x", "audiences": ["a"]}, "claimMappings": {}}
    elsewhere = {"issuer": {**jwt["issuer"], "discoveryURL": "https://keys.example:8443/y"}, "claimMappings": {}}
    whole = defaulted(deployment(authentication={"jwt": [jwt, elsewhere]}))
    assert [(one.setting, one.host, one.port) for one in reached_by(whole)] == [
        ("spec.source.mirror", "10.0.0.1", 8080),
        ("spec.source.registry", "10.0.0.1", 5000),
        ("spec.authentication.jwt[0].issuer.url", "issuer.example", 443),
        ("spec.authentication.jwt[1].issuer.discoveryURL", "keys.example", 8443),
    ]
    sites = {"type": "Upstream", "registry": "r.example", "sites": {"etcd": "https://etcd.example"}}
    assert [one.setting for one in reached_by(defaulted(deployment(source=sites)))] == [
        "spec.source.registry",
        "spec.source.sites.etcd",
    ]


def test_further_registries_are_reached_where_machines_ask_for_them() -> None:
    plain, inner = {"name": "r.example"}, {"name": "i.example:5050", "server": "http://10.0.0.9:8081"}
    whole = defaulted(deployment(runtime={"registries": [plain, inner]}))
    assert [(one.setting, one.host, one.port) for one in reached_by(whole)][2:] == [
        ("spec.runtime.registries[r.example].name", "r.example", 443),
        ("spec.runtime.registries[i.example:5050].server", "10.0.0.9", 8081),
    ]


# Fields with the address of a server that others than machines connect to.
NOT_BY_MACHINES = {
    "etcd.backup.destination.s3.endpoint": "the executor puts snapshots there",
    "addons.manifests.url": "the operator gets manifests",
    "machineSets.machines.kubevirt.image.url": "KubeVirt's importer gets disk images",
}


def servers_in(schema: Json, path: str = "") -> Iterator[str]:
    """Yield the fields of a schema that are URLs, and those that are a registry."""
    if str(schema.get("pattern", "")).startswith("^http") or path.endswith(".registry"):
        yield path
    for name, inner in (schema.get("properties") or {}).items():
        yield from servers_in(inner, f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from servers_in(schema["items"], path)


def test_every_server_that_an_object_names_is_reached_or_is_for_others() -> None:
    """So a new field with a server is not forgotten: machines reach it, or it is listed with who connects instead."""
    issuer = {"url": "https://issuer.example", "audiences": ["a"]}
    elsewhere = {**issuer, "discoveryURL": "https://keys.example"}
    mirror = deployment(
        authentication={"jwt": [{"issuer": one, "claimMappings": {}} for one in (issuer, elsewhere)]},
        runtime={"registries": [{"name": "i.example", "server": "http://10.0.0.9:8081"}]},
    )
    urls = dict.fromkeys(ReleaseSites.model_json_schema()["properties"], "https://files.example")
    upstream = deployment(source={"type": "Upstream", "registry": "r.example", "sites": urls})
    settings = [one.setting for body in (mirror, upstream) for one in reached_by(defaulted(body))]
    reached = {re.sub(r"\[[^]]*\]", "", setting).removeprefix("spec.") for setting in settings}
    (body,) = [one for one in crds() if one["spec"]["names"]["kind"] == CLUSTER_DEPLOYMENT.kind]
    (version,) = body["spec"]["versions"]
    servers = set(servers_in(version["schema"]["openAPIV3Schema"]["properties"]["spec"]))
    assert servers == reached | set(NOT_BY_MACHINES)


def test_a_name_that_cannot_be_resolved_names_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    source = {**SOURCE, "mirror": "http://mirror.example"}
    with pytest.raises(InfraError, match=r"spec\.source\.mirror: mirror\.example cannot be resolved") as caught:
        isolated(source=source)
    assert FIELD in (caught.value.hint or "")
    assert not tolerates(defaulted(deployment(source=source)))
    listed = {**ENABLED, "allowTo": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}
    assert tolerates(defaulted(deployment(source=source, isolation=listed)))


def node(runtime: str = "containerd://2", *images: str, machines: bool = True) -> Json:
    labels = {"kubevirt.io/schedulable": "true"} if machines else {}
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"containerRuntimeVersion": runtime},
        "images": [{"names": list(images)}],
    }
    return {"metadata": {"name": "n", "labels": labels}, "status": status}


@pytest.mark.parametrize(
    ("groups", "nodes", "enforced", "words"),
    [
        (["crd.projectcalico.org"], [node()], True, "Calico"),
        (["cilium.io"], None, True, "Cilium"),
        ([], [node("containerd://2", "docker.io/cloudnativelabs/kube-router:v2")], True, "kube-router"),
        ([], [node("containerd://2", "ghcr.io/flannel-io/flannel:v1")], False, "flannel enforces no"),
        ([], [node("containerd://2", "x/flannel:v1", "x/kube-router:v2")], True, "kube-router"),
        ([], [node("containerd://2", "docker.io/library/x:1")], None, "vmatrix doctor tries it"),
        ([], [], None, "vmatrix doctor tries it"),
        ([], None, None, "Nodes may not be listed"),
        ([], [node("vmatrix://0"), node("containerd://2", "kube-router:v2", machines=False)], False, "embedded"),
    ],
)
def test_whether_policies_are_enforced_is_told_by_the_plugin(
    groups: list[str], nodes: list[Json] | None, enforced: bool | None, words: str
) -> None:
    seen = enforcement(groups, nodes)
    assert seen.enforced is enforced
    assert words in seen.why


MINE = IsolatedMachines.of((made("m-0"),), {})
ON = defaulted(deployment(isolation=ENABLED))
CONDITIONS: list[tuple[IsolationState | None, bool | None, str]] = [
    (None, None, "NotYet"),
    (state_of(MINE, Enforcement(True, "x enforces it")), True, "Enforced"),
    (state_of(MINE, Enforcement(False, "y does not")), False, "NotEnforced"),
    (state_of(MINE, Enforcement(None, "who knows")), None, "EnforcementUnknown"),
    (failed_state(None, IsolationRefused(IsolationReason.REFUSED, "no")), False, "Refused"),
    (failed_state(None, IsolationRefused(IsolationReason.NAME_IN_USE, "no")), False, "NameInUse"),
    (failed_state(None, IsolationRefused(IsolationReason.NOT_RESOLVED, "no")), False, "NotResolved"),
]


@pytest.mark.parametrize(("state", "status", "reason"), CONDITIONS, ids=[row[2] for row in CONDITIONS])
def test_the_condition_says_what_is_known(state: IsolationState | None, status: bool | None, reason: str) -> None:
    assert told(state, ON)[:2] == (status, reason)
    assert told(state, defaulted(deployment()))[:2] == (False, "NotEnabled")


def test_every_reason_is_tried() -> None:
    rows = {row[2] for row in CONDITIONS} | {"NotEnabled", "NoSelectablePods"}
    assert rows == {str(reason) for reason in IsolationReason}
    assert set(STATUSES) <= set(IsolationReason)


def test_every_reason_is_explained() -> None:
    page = (ROOT / "docs" / "operator" / "isolation.md").read_text(encoding="utf-8")
    section = page.split("\n## Isolation\n")[1].split("\n## ")[0].split("| reason | status |")[1]
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", section, re.MULTILINE)
    words = {True: "True", False: "False", None: "Unknown"}
    assert dict(rows) == {str(reason): words[STATUSES.get(reason, False)] for reason in IsolationReason}


def test_what_was_selected_before_a_trouble_still_is() -> None:
    before = state_of(MINE, Enforcement(True, "x"))
    after = failed_state(before, IsolationRefused(IsolationReason.REFUSED, "no right"))
    assert (after.ready, after.machines, after.message) == (False, ("m-0",), "no right")


def covered(*names: str, **more: Any) -> IsolationState:
    return IsolationState(ready=True, reason="Enforced", machines=names, **more)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, "is not there yet"),
        (IsolationState(reason="Refused", message="no right"), "spec.isolation: no right"),
        (covered("cp-0", "w-1"), "does not select w-2 yet"),
        (covered("cp-0", "w-1", "w-2"), ""),
        (covered("cp-0", bare=("w-1", "w-2")), ""),
    ],
)
def test_a_deployment_waits_until_the_policy_selects_its_machines(state: IsolationState | None, words: str) -> None:
    verdict = next_operation(wish(isolation=ENABLED), Observed(NOW, isolation=state))
    if not words:
        assert operation(verdict).operation == "deploy"
        return
    assert isinstance(verdict, Wait)
    assert verdict.reason is WaitReason.WAITING_FOR_ISOLATION
    assert words in verdict.message


def test_without_isolation_nothing_is_waited_for() -> None:
    assert operation(next_operation(wish(), Observed(NOW))).operation == "deploy"


def test_a_machine_that_joins_waits_too_and_other_operations_do_not() -> None:
    world = replace(deployed(wish()), isolation=covered("cp-0", "w-1", "w-2"))
    more = (*MACHINES, claimed("w-3", "w"))
    bigger = {**WORKERS, "replicas": 3}
    verdict = next_operation(wish(CP, bigger, machines=more, isolation=ENABLED), world)
    assert isinstance(verdict, Wait)
    assert "does not select w-3 yet" in verdict.message
    known = replace(world, isolation=covered("cp-0", "w-1", "w-2", "w-3"))
    assert operation(next_operation(wish(CP, bigger, machines=more, isolation=ENABLED), known)).operation == "scale"
    assert isinstance(world.applied, AppliedState)
    later = wish(isolation=ENABLED, kubernetes={"kubelet": {"config": {"maxPods": 99}}})
    assert operation(next_operation(later, replace(world, isolation=None))).operation == "reconfigure"


def test_the_policy_is_the_cluster_s_and_goes_with_it() -> None:
    one = isolated()
    assert one["metadata"]["name"] == policy_name("guest") == "guest-isolation"
    (owner,) = one["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ClusterDeployment", "guest", True)
    assert one["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_a_manager_outside_of_pods_is_let_in_by_its_address() -> None:
    body = deployment(name="guest", namespace=HOME, isolation=ENABLED)
    body["metadata"]["uid"] = "u"
    machines = IsolatedMachines.of((made("m-0"),), {})
    one = policy(body, defaulted(body), machines, managers=[block("198.51.100.7/32")], reached=[])
    assert connects([one], End("198.51.100.7"), OWN, 22)
    assert not connects([one], End("198.51.100.8"), OWN, 22)
