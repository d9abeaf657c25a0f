"""The definitions on a real API server: what they refuse and in which words, what they fill in, what kubectl shows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from harness.artifacts.store import Store
from harness.kube.client import ApiFailure, Cluster
from harness.kube.objects import condition, dig
from harness.kube.resources import CRD, Resource
from harness.operator.api.crds import DIGEST, crds, crds_older
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE, MACHINE_SET
from harness.operator.api.rules import read
from harness.proc import run
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.played import WAIT_SECONDS
from tests.unit.operator.api.mistakes import BAD, JUDGED
from tests.unit.operator.api.objects import RELEASES, defaulted, deployment, filled, machine, wanted_set

Json = dict[str, Any]
Kubectl = Callable[..., str]
UNKNOWN_FIELD = {"unknown field"}  # a strict request is refused as a whole, before any rule
# The API server's own words, which say what is wrong.
WITHOUT_REMEDY = {
    *("set names", "no source of artifacts", "an add-on twice", "no product file"),
    "an age of nothing",
}
CP = wanted_set("cp", "control-plane")
ETCD = wanted_set("etcd", "etcd", replicas=3)


@pytest.fixture(scope="session")
def kubectl(infra: EmbeddedProvider, api: Cluster) -> Kubectl:
    """Return kubectl of the API server's own version, as administrator."""
    program = Store().obtain("kubectl", dig(api.request("GET", "/version"), "gitVersion").removeprefix("v"))

    def call(*words: str) -> str:
        command = [str(program.file("kubectl")), "--kubeconfig", str(infra.kubeconfig()), *words]
        return run(command, timeout=WAIT_SECONDS).stdout

    return call


def create(api: Cluster, resource: Resource, obj: Json, namespace: str, **query: str) -> Json:
    """Create an object in the test's namespace, with unknown fields refused as kubectl does."""
    body = {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
    made: Json = api.request("POST", resource.path(namespace), body=body, query={"fieldValidation": "Strict", **query})
    return made


def refusal(api: Cluster, resource: Resource, obj: Json, namespace: str) -> ApiFailure:
    """Return the API server's answer to an object that it refuses; nothing is made."""
    with pytest.raises(ApiFailure) as caught:
        create(api, resource, obj, namespace)
    assert api.list(resource, namespace).items == []
    return caught.value


def edited(api: Cluster, obj: Json, spec: Json) -> Json:
    """Merge into the spec of a ClusterDeployment."""
    meta = obj["metadata"]
    return api.merge(CLUSTER_DEPLOYMENT, meta["name"], {"spec": spec}, meta["namespace"])


@pytest.mark.parametrize("case", sorted(BAD.keys() - JUDGED - UNKNOWN_FIELD))
def test_a_mistake_is_refused_at_its_field_in_the_words_of_the_rules(api: Cluster, namespace: str, case: str) -> None:
    obj, field, _ = BAD[case]
    (mistake,) = read(obj, RELEASES)[1]
    failure = refusal(api, CLUSTER_DEPLOYMENT, obj, namespace)
    assert failure.code == 422
    assert field in {cause["field"] for cause in failure.causes}
    alone = case in WITHOUT_REMEDY or mistake.message == "Required value"
    assert (mistake.message if alone else f"{mistake.message}: {mistake.remedy}") in failure.message


def test_an_unknown_field_is_refused_by_name(api: Cluster, namespace: str) -> None:
    obj, field, _ = BAD["unknown field"]
    failure = refusal(api, CLUSTER_DEPLOYMENT, obj, namespace)
    assert failure.code == 400
    assert f'unknown field "{field}"' in failure.message


@pytest.mark.parametrize("case", sorted(JUDGED))
def test_what_definitions_cannot_know_is_left_to_the_rules(api: Cluster, namespace: str, case: str) -> None:
    obj, field, _ = BAD[case]
    made = create(api, CLUSTER_DEPLOYMENT, obj, namespace)
    assert [mistake.field for mistake in read(made, RELEASES)[1]] == [field]


SOUND: dict[str, Json] = {
    "least": deployment(),
    "stacked": deployment(wanted_set("cp", "control-plane", "etcd", "worker", replicas=3)),
    "external": deployment(wanted_set("cp", "control-plane", replicas=2, names=["a", "b"]), ETCD),
    "everything": deployment(
        CP,
        wanted_set("w", "worker", replicas=0),
        version="1.35.4",
        components={"etcd": "3.6.8", "cni-plugins": "1.9.1"},
        paused=True,
        network={"pods": "fd00:1::/64", "services": "fd00:2::/112", "vxlan": {"mtu": 1400}},
        runtime={"version": "2.4.2", "config": {"a": {"b": [1, None, "c"]}}},
        etcd={"extraArgs": {"quota-backend-bytes": "8589934592"}},
        kubernetes={"kubelet": {"config": {"maxPods": 50}}, "kubeProxy": {"mode": "iptables"}},
        addons=[
            {"name": "metrics-server", "version": "0.9.0"},
            {"name": "shop", "manifests": {"configMap": "shop"}},
            {"name": "web", "manifests": {"url": "https://example.org/web.yml", "sha256": "0" * 64}},
        ],
        source={"type": "Upstream", "registry": "registry.example/k8s"},
        access="PortForward",
        variables={"cluster_timeout_scale": 2, "nested": {"x": []}},
        playbooks={"image": "10.0.0.1:5000/vmatrix@sha256:" + "0" * 64, "product": {"configMap": "product"}},
        jobs={"keepFailed": 0},
        deletion={"machines": "Leave"},
    ),
}


@pytest.mark.parametrize("case", SOUND)
def test_defaults_are_those_of_the_models(api: Cluster, namespace: str, case: str) -> None:
    made = create(api, CLUSTER_DEPLOYMENT, SOUND[case], namespace)
    # Networks without a pool have defaults of the models, which the API server cannot give: another field decides.
    assert filled(defaulted(made)) == filled(defaulted(SOUND[case]))
    assert read(made, RELEASES) == (defaulted(made), [])


EDITS: dict[str, tuple[Json, Json, str, str]] = {
    "pods": (deployment(), {"network": {"pods": "10.244.0.0/16"}}, "spec.network.pods", "pods cannot change"),
    "services": (
        deployment(),
        {"network": {"services": "10.96.0.0/16"}},
        "spec.network.services",
        "services cannot change",
    ),
    "pool": (deployment(network={"pool": "a"}), {"network": {"pool": "b"}}, "spec.network.pool", "pool cannot change"),
    "pods of a pool": (
        deployment(network={"pool": "a"}),
        {"network": {"pods": "10.244.0.0/16"}},
        "spec.network.pods",
        "pods cannot change",
    ),
    "domain": (deployment(), {"network": {"dnsDomain": "k8s.local"}}, "spec.network.dnsDomain", "cannot change"),
    "plugin": (deployment(), {"network": {"plugin": "routes"}}, "spec.network.plugin", "plugin cannot change"),
    "roles": (
        deployment(CP),
        {"machineSets": [{**CP, "roles": ["control-plane", "worker"]}]},
        "spec.machineSets[0].roles",
        "roles cannot change: add a set with the other roles and scale this one to 0",
    ),
    "source": (
        deployment(CP),
        {"machineSets": [{**CP, "machines": {"names": ["a"]}}]},
        "spec.machineSets[0].machines",
        "the source of a set's machines cannot change",
    ),
    "etcd": (
        deployment(CP),
        {"machineSets": [CP, ETCD]},
        "spec.machineSets",
        "etcd cannot move between the control planes and machines of its own",
    ),
}


@pytest.mark.parametrize("case", EDITS)
def test_what_cannot_change_is_refused_with_the_way_out(api: Cluster, namespace: str, case: str) -> None:
    obj, spec, field, words = EDITS[case]
    made = create(api, CLUSTER_DEPLOYMENT, obj, namespace)
    with pytest.raises(ApiFailure) as caught:
        edited(api, made, spec)
    assert caught.value.code == 422
    assert [cause["field"] for cause in caught.value.causes] == [field]
    assert words in caught.value.message
    stored = api.get(CLUSTER_DEPLOYMENT, "guest", namespace)
    assert stored is not None
    assert stored["metadata"]["generation"] == 1


def test_what_may_change_does(api: Cluster, namespace: str) -> None:
    made = create(api, CLUSTER_DEPLOYMENT, deployment(CP), namespace)
    edited(api, made, {"version": "1.36.1", "kubernetes": {"kubeProxy": {"mode": "iptables"}}, "paused": True})
    edited(api, made, {"machineSets": [{**CP, "replicas": 3}, wanted_set("w", "worker", names=["a"])]})
    made = edited(api, made, {"machineSets": [{**CP, "replicas": 2}]})
    assert dig(made, "metadata", "generation") == 4


def test_a_role_in_another_order_is_no_change(api: Cluster, namespace: str) -> None:
    made = create(api, CLUSTER_DEPLOYMENT, deployment(wanted_set("cp", "control-plane", "worker")), namespace)
    made = edited(api, made, {"machineSets": [wanted_set("cp", "worker", "control-plane")]})
    assert made["spec"]["machineSets"][0]["roles"] == ["worker", "control-plane"]


MADE: Json = {"image": {"url": "http://m/x", "checksum": "sha256:" + "a" * 64}, "memory": "2Gi", "disk": "20Gi"}
CHECKSUM = "spec.kubevirt.image.checksum"


def without_address(**more: Any) -> Json:
    """Return a Machine that has no address."""
    found = machine(**more)
    del found["spec"]["address"]
    return found


BAD_MACHINES: dict[str, tuple[Json, str, str]] = {
    "address": (machine(address="m-0.example.org"), "spec.address", "write the address at which other machines"),
    "port": (machine(port=0), "spec.port", "greater than or equal to 1"),
    "user": (machine(user="-oProxyCommand=x"), "spec.user", "should match"),
    "hostname": (machine(hostname="a/../b"), "spec.hostname", "should match"),
    "key": (machine(keyRef={"name": "keys", "key": "../id"}), "spec.keyRef.key", "should match"),
    "neither given nor made": (without_address(), "spec", "set address for a machine that exists, or kubevirt"),
    "given and made": (machine(kubevirt=MADE), "spec", "a machine is either given or made"),
    "memory": (without_address(kubevirt={**MADE, "memory": "2G"}), "spec.kubevirt.memory", "should match"),
    "no checksum": (without_address(kubevirt={**MADE, "image": {"url": "http://m/x"}}), CHECKSUM, "Required value"),
    "name": (machine(name="m.0"), "metadata.name", "set spec.hostname, or use at most 63"),
    "no key": ({**machine(), "spec": {"address": "192.0.2.1", "user": "root"}}, "spec.keyRef", "Required value"),
}


@pytest.mark.parametrize("case", BAD_MACHINES)
def test_a_machine_that_cannot_be_named_or_reached_is_refused(api: Cluster, namespace: str, case: str) -> None:
    obj, field, words = BAD_MACHINES[case]
    failure = refusal(api, MACHINE, obj, namespace)
    assert failure.causes[0]["field"] == field
    assert words in failure.message


def test_a_claimed_machine_keeps_its_hostname(api: Cluster, namespace: str) -> None:
    create(api, MACHINE, machine(claim={"cluster": "guest", "set": "cp", "uid": "u"}), namespace)
    with pytest.raises(ApiFailure, match="the hostname of a claimed machine cannot change"):
        api.merge(MACHINE, "m-0", {"spec": {"hostname": "other"}}, namespace)
    api.merge(MACHINE, "m-0", {"spec": {"address": "192.0.2.11", "claim": None}}, namespace)
    api.merge(MACHINE, "m-0", {"spec": {"hostname": "other"}}, namespace)


def test_a_machine_stays_what_it_is_made_of(api: Cluster, namespace: str) -> None:
    create(api, MACHINE, without_address(kubevirt=MADE), namespace)
    for spec in ({"kubevirt": {"memory": "4Gi"}}, {"kubevirt": None, "address": "192.0.2.11"}):
        with pytest.raises(ApiFailure, match="delete the Machine; its set makes another one"):
            api.merge(MACHINE, "m-0", {"spec": spec}, namespace)


def test_machines_are_found_by_cluster_and_phase(api: Cluster, namespace: str) -> None:
    for name, cluster in (("m-0", "one"), ("m-1", "two")):
        create(api, MACHINE, machine(name, claim={"cluster": cluster, "set": "cp"}), namespace)
    api.merge(MACHINE, "m-0", {"status": {"phase": "Claimed"}}, namespace, subresource="status")
    for fields in ("spec.claim.cluster=one", "status.phase=Claimed"):
        assert [m["metadata"]["name"] for m in api.list(MACHINE, namespace, fields=fields).items] == ["m-0"]


def test_a_status_is_written_apart_and_only_with_known_fields(api: Cluster, namespace: str) -> None:
    create(api, CLUSTER, {**deployment(), "kind": "Cluster", "spec": None}, namespace, fieldValidation="Ignore")
    api.merge(CLUSTER, "guest", {"status": {"sequence": 3}}, namespace)
    assert dig(api.get(CLUSTER, "guest", namespace), "status") is None
    api.merge(
        CLUSTER, "guest", {"status": {"sequence": 3, "applied": {"variables": {"a": [1]}}, "other": 1}}, namespace,
        subresource="status",
    )  # fmt: skip
    assert dig(api.get(CLUSTER, "guest", namespace), "status") == {"sequence": 3, "applied": {"variables": {"a": [1]}}}


def test_kubectl_shows_what_a_cluster_is_and_does(api: Cluster, namespace: str, kubectl: Kubectl) -> None:
    create(api, CLUSTER_DEPLOYMENT, deployment(), namespace)
    moment = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": kind, "status": status, "reason": reason, "message": f"{kind}!", "lastTransitionTime": moment}
        for kind, status, reason in (("Ready", "False", "Waiting"), ("Progressing", "True", "Upgrade"))
    ]
    status = {"version": "1.36.1", "machines": "1/2", "endpoint": "https://192.0.2.1:6443", "conditions": conditions}
    api.merge(CLUSTER_DEPLOYMENT, "guest", {"status": status}, namespace, subresource="status")
    head, row = (line.split() for line in kubectl("-n", namespace, "get", "vcd").splitlines())
    assert head == ["NAME", "VERSION", "WANTED", "READY", "MACHINES", "DOING", "AGE"]
    assert row[:6] == ["guest", "1.36.1", "1.36.3", "False", "1/2", "Upgrade"]
    wide = kubectl("-n", namespace, "get", "vcd", "-o", "wide").splitlines()
    assert wide[0].split()[-2:] == ["REASON", "API"]
    assert wide[1].split()[-2:] == ["Ready!", "https://192.0.2.1:6443"]


def test_kubectl_shows_where_a_machine_is_in_its_life(api: Cluster, namespace: str, kubectl: Kubectl) -> None:
    create(api, MACHINE, machine(claim={"cluster": "guest", "set": "cp"}), namespace)
    api.merge(MACHINE, "m-0", {"status": {"phase": "Claimed"}}, namespace, subresource="status")
    head, row = (line.split() for line in kubectl("-n", namespace, "get", "vma").splitlines())
    assert head == ["NAME", "PHASE", "ADDRESS", "CLUSTER", "SET", "VERSION", "AGE"]
    assert row[:5] == ["m-0", "Claimed", "192.0.2.10", "guest", "cp"]


@pytest.mark.parametrize("short", ["vcl", "vms", "vma", "vmatrix"])
def test_kubectl_knows_the_short_names_and_the_category(namespace: str, kubectl: Kubectl, short: str) -> None:
    assert kubectl("-n", namespace, "get", short, "-o", "name") == ""


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("vcd.spec.network.vxlan.port", "Change it if machines use VXLAN"),
        ("vcd.spec.machineSets.machines", "exactly one of pool, names and kubevirt"),
        ("vcl.status.history.hint", "What to do"),
        ("vms.status.ready", "How many are ready"),
        ("vma.spec.keyRef", "private SSH key"),
    ],
)
def test_kubectl_explains_every_kind(kubectl: Kubectl, path: str, words: str) -> None:
    def explained() -> str | NotYet:  # the API server publishes a definition a moment after it serves it
        text = " ".join(kubectl("explain", path).split())
        return text if words in text else NotYet(text)

    assert words in until(explained, deadline=Deadline.after(WAIT_SECONDS), what=path, interval=0.2)


def test_definitions_of_this_version_are_not_older(api: Cluster) -> None:
    assert crds_older(api) == []


def test_an_older_definition_is_told_by_what_it_lacks(api: Cluster) -> None:
    (ours,) = (body for body in crds() if body["spec"]["names"]["kind"] == MACHINE_SET.kind)
    older = copy.deepcopy(ours)
    older["metadata"]["annotations"][DIGEST] = "older"
    older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"].pop("executions")
    older["spec"]["versions"][0]["additionalPrinterColumns"] = []
    name = ours["metadata"]["name"]
    api.merge(CRD, name, older)
    try:
        (sentence,) = crds_older(api)
    finally:
        api.merge(CRD, name, ours)
    assert sentence.startswith(f"the definition {name} is older than the operator, without status.executions: apply")
    assert crds_older(api) == []


def test_the_definitions_are_accepted_without_a_warning(api: Cluster) -> None:
    for body in crds():
        found = api.get(CRD, body["metadata"]["name"])
        assert dig(condition(found, "NamesAccepted"), "status") == "True"
        assert condition(found, "NonStructuralSchema") is None
