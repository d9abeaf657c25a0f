"""CAs, networks and users of clusters, on a real API server: what it refuses, and what controllers make there."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure
from harness.kube.objects import condition, dig
from harness.kube.resources import CONFIG_MAP, CSR, EVENT, ROLE_BINDING, SECRET, Resource
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    CLUSTER_NETWORK_POOL,
    CLUSTER_USER,
    MACHINE_SET,
    USER_FINALIZER,
)
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.embedded.operator.world import OPTIONS
from tests.unit.operator.api.objects import deployment, wanted_set

FORBIDDEN = 403
VXLAN = {"vnis": {"first": 100, "last": 199}}
BAD_POOLS: dict[str, tuple[Json, str]] = {
    "host bits": ({"pods": [{"cidr": "10.64.0.1/14", "prefix": 16}]}, "not a network in CIDR notation with parts"),
    "a part that is larger": ({"pods": [{"cidr": "10.64.0.0/14", "prefix": 12}]}, "not a network in CIDR notation"),
    "too many parts": ({"pods": [{"cidr": "10.0.0.0/8", "prefix": 30}]}, "at most 16 bits longer"),
    "ranges that overlap": ({"services": [{"cidr": "10.65.0.0/16", "prefix": 20}]}, "choose ranges that are apart"),
    "a range that is backwards": ({"vxlan": {"vnis": {"first": 9, "last": 3}}}, "the range ends before it begins"),
    "ports that are backwards": (
        {"vxlan": {**VXLAN, "ports": {"first": 9001, "last": 9000}}},
        "the range ends before it begins",
    ),
    "a length with a zero": ({"pods": [{"cidr": "10.64.0.0/015", "prefix": 16}]}, "not a network in CIDR notation"),
    "a port": ({"vxlan": {**VXLAN, "ports": {"first": 60000, "last": 70000}}}, "a port is too large"),
}


def pool(name: str, **spec: Any) -> Json:
    given = {
        "pods": [{"cidr": "10.64.0.0/15", "prefix": 16}],
        "services": [{"cidr": "10.96.0.0/15", "prefix": 16}],
        "vxlan": VXLAN,
        **spec,
    }
    return CLUSTER_NETWORK_POOL.manifest(name, "", labels={}, spec=given)


@pytest.mark.parametrize("case", BAD_POOLS)
def test_a_pool_with_a_mistake_is_refused(case: str, api: Cluster) -> None:
    spec, words = BAD_POOLS[case]
    with pytest.raises(ApiFailure, match="is invalid") as refused:
        api.create(CLUSTER_NETWORK_POOL, pool("refused", **spec))
    assert words in str(refused.value)


BAD_USERS: dict[str, tuple[Json, str]] = {
    "masters": ({"groups": ["system:masters"]}, "bind the ClusterRole cluster-admin"),
    "a name of Kubernetes": ({"user": "system:admin"}, "user"),
    "a Role without a namespace": ({"bindings": [{"kind": "Role", "name": "a"}]}, "a Role belongs to a namespace"),
    "a short validity": ({"validitySeconds": 60}, "600"),
}


@pytest.mark.parametrize("case", BAD_USERS)
def test_a_user_that_nobody_may_be_is_refused(case: str, api: Cluster, namespace: str) -> None:
    spec, words = BAD_USERS[case]
    with pytest.raises(ApiFailure, match="is invalid") as refused:
        api.create(CLUSTER_USER, CLUSTER_USER.manifest("x", namespace, labels={}, spec={"cluster": "guest", **spec}))
    assert words in str(refused.value)


def once(api: Cluster, kind: Resource, name: str, namespace: str, what: str, *path: str) -> Any:
    """Return a field of an object once it has a value."""

    def probe() -> Any:
        found = api.get(kind, name, namespace)
        return dig(found, *path) or NotYet(f"{found}")

    return until(probe, deadline=Deadline.after(WAIT_SECONDS), what=what, interval=INTERVAL)


def test_clusters_of_one_pool_have_networks_and_cas_of_their_own(
    declared: Declared, manager: StartManager, api: Cluster, namespace: str
) -> None:
    name = f"flat-{namespace}"
    api.create(CLUSTER_NETWORK_POOL, pool(name))
    try:
        manager("networks", "authority")
        both = ("one", "two")
        for each in both:
            declared.deployment(each, network={"pool": name})
        given = [once(api, CLUSTER, each, namespace, f"networks of {each}", "status", "networks") for each in both]
        assert sorted(one["pods"] for one in given) == ["10.64.0.0/16", "10.65.0.0/16"]
        assert sorted(one["vni"] for one in given) == [100, 101]
        pins = set()
        for each in both:
            state = once(api, CLUSTER, each, namespace, f"CAs of {each}", "status", "authority")
            assert (state["usable"], state["reason"]) == (True, "Valid")
            pins |= {part["publicKey"] for part in state["parts"]}
            secret = api.get(SECRET, f"{each}-ca", namespace)
            x509.load_pem_x509_certificate(base64.b64decode(dig(secret, "data", "tls.crt")))
        assert len(pins) == 8
        declared.deployment("three", network={"pool": name})
        told = once(api, CLUSTER, "three", namespace, "what three is told", "status", "networks")
        assert (told["allocated"], told["reason"]) == (False, "Exhausted")
        assert f"ClusterNetworkPool {name} has no pods left" in told["message"]
        said = condition(api.get(CLUSTER_NETWORK_POOL, name), "Available") or {}
        assert (said["status"], said["reason"]) == ("False", "Exhausted")
        api.delete(CLUSTER_DEPLOYMENT, "one", namespace)
        until(
            lambda: dig(api.get(CLUSTER, "three", namespace), "status", "networks", "allocated") or NotYet("not yet"),
            deadline=Deadline.after(WAIT_SECONDS),
            what="three to get what one gave up",
            interval=INTERVAL,
        )
    finally:
        api.delete(CLUSTER_NETWORK_POOL, name)


def test_a_user_opens_what_it_is_bound_to_and_nothing_else(
    declared: Declared, manager: StartManager, api: Cluster, namespace: str, infra: EmbeddedProvider, tmp_path: Path
) -> None:
    """The API of the infra cluster stands for that of a guest."""
    admin = base64.b64encode(infra.kubeconfig().read_bytes()).decode()
    declared.deployment("one")
    api.create(SECRET, SECRET.manifest("one-kubeconfig", namespace, labels={}, data={"value": admin}))
    declared.worked("one", "deploy", "m-0")
    manager("users")
    spec = {"cluster": "one", "bindings": [{"name": "view", "namespaces": [namespace]}], "validitySeconds": 600}
    api.create(CLUSTER_USER, CLUSTER_USER.manifest("alice", namespace, labels={}, spec=spec))
    expires = once(api, CLUSTER_USER, "alice", namespace, "a certificate", "status", "expires")
    kubeconfig = tmp_path / "alice"
    secret = api.get(SECRET, "one-user-alice", namespace)
    kubeconfig.write_bytes(base64.b64decode(dig(secret, "data", "value")))
    alice = Cluster.from_kubeconfig(kubeconfig)
    until(
        lambda: allowed(alice, CONFIG_MAP, namespace) or NotYet("the binding is not known yet"),
        deadline=Deadline.after(WAIT_SECONDS),
        what="alice to read ConfigMaps",
        interval=INTERVAL,
    )
    assert not allowed(alice, SECRET, namespace)
    assert not allowed(alice, CONFIG_MAP, "kube-system")
    assert api.list(CSR).items == []
    found = api.get(CLUSTER_USER, "alice", namespace)
    assert dig(found, "metadata", "finalizers") == [USER_FINALIZER]
    api.delete(CLUSTER_USER, "alice", namespace)
    until(
        lambda: not api.list(ROLE_BINDING, namespace).items or NotYet("the binding is there"),
        deadline=Deadline.after(WAIT_SECONDS),
        what="the binding to go",
        interval=INTERVAL,
    )

    def unbound() -> str | NotYet:
        said = (one["message"] for one in api.list(EVENT, namespace).items if one["reason"] == "Unbound")
        return next(said, None) or NotYet("there is no event")

    text = until(unbound, deadline=Deadline.after(WAIT_SECONDS), what="an event", interval=INTERVAL)
    assert text == f"the bindings of alice are gone; its certificate opens the API until {expires}"


def test_the_manager_signs_for_a_user_where_no_machine_has_the_keys(
    declared: Declared, manager: StartManager, api: Cluster, namespace: str, infra: EmbeddedProvider
) -> None:
    """The API of the infra cluster stands for that of a guest, which knows the CA of the Secret."""
    declared.deployment("one", authority={"keysOnMachines": False})
    manager("authority", "users")
    state = once(api, CLUSTER, "one", namespace, "its CAs", "status", "authority")
    assert (state["usable"], state["reason"]) == (True, "Valid")
    ca = base64.b64decode(dig(api.get(SECRET, "one-ca", namespace), "data", "tls.crt"))
    admin = yaml.safe_load(infra.kubeconfig().read_text(encoding="utf-8"))
    for one in admin["clusters"]:
        known = base64.b64decode(one["cluster"]["certificate-authority-data"])
        one["cluster"]["certificate-authority-data"] = base64.b64encode(known + b"\n" + ca).decode()
    data = {"value": base64.b64encode(yaml.safe_dump(admin).encode()).decode()}
    api.create(SECRET, SECRET.manifest("one-kubeconfig", namespace, labels={}, data=data))
    declared.worked("one", "deploy", "m-0")
    applied = {"status": {"applied": {"variables": {"cluster_external_ca": True}}}}
    api.merge(CLUSTER, "one", applied, namespace, subresource="status")
    spec = {"cluster": "one", "groups": ["dev"], "validitySeconds": 600}
    api.create(CLUSTER_USER, CLUSTER_USER.manifest("bob", namespace, labels={}, spec=spec))
    once(api, CLUSTER_USER, "bob", namespace, "a certificate", "status", "expires")

    def here() -> x509.Certificate | NotYet:
        found = base64.b64decode(dig(api.get(SECRET, "one-user-bob", namespace), "data", "tls.crt") or "")
        made = x509.load_pem_x509_certificate(found)
        mine = made.issuer == x509.load_pem_x509_certificate(ca).subject and made.issuer.rfc4514_string()
        return made if mine == "CN=kubernetes" else NotYet(f"{made.issuer}")

    made = until(
        here, deadline=Deadline.after(WAIT_SECONDS), what="a certificate of the Secret's CA", interval=INTERVAL
    )
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(ca))
    assert made.subject.rfc4514_string() == "CN=bob,O=dev"
    assert api.list(CSR).items == []


def test_the_keys_of_machines_that_are_left_stay_and_are_no_new_clusters(
    manager: StartManager, api: Cluster, namespace: str
) -> None:
    body = deployment(name="one", namespace=namespace, authority={"keysOnMachines": False})
    api.create(CLUSTER_DEPLOYMENT, body)
    manager("clusterdeployment", "authority", options=OPTIONS)
    once(api, CLUSTER, "one", namespace, "its CAs", "status", "authority")
    assert dig(api.get(SECRET, "one-ca", namespace), "metadata", "ownerReferences")
    api.merge(CLUSTER_DEPLOYMENT, "one", {"spec": {"deletion": {"machines": "Leave"}}}, namespace)
    once(api, SECRET, "one-ca", namespace, "no owner", "metadata", "annotations")
    left = api.get(SECRET, "one-ca", namespace)
    assert dig(left, "metadata", "ownerReferences") is None
    api.delete(CLUSTER_DEPLOYMENT, "one", namespace)

    def gone() -> bool | NotYet:
        return api.get(CLUSTER, "one", namespace) is None or NotYet("its Cluster is there")

    until(gone, deadline=Deadline.after(WAIT_SECONDS), what="the cluster to go", interval=INTERVAL)
    api.create(CLUSTER_DEPLOYMENT, body)
    state = once(api, CLUSTER, "one", namespace, "its CAs", "status", "authority")
    assert (state["usable"], state["reason"]) == (False, "SecretInUse")
    assert api.get(SECRET, "one-ca", namespace) == left


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"adopt": True}, "the operator has no keys of the CAs"),
        ({"hardening": {"kubeletCertificatesSigned": True}}, "nothing in the cluster signs what kubelets ask for"),
    ],
    ids=["adopted", "kubelets that ask"],
)
def test_keys_that_nobody_could_sign_with_are_refused(spec: Json, words: str, api: Cluster, namespace: str) -> None:
    sets = (wanted_set("cp", "control-plane", names=["m-0"]),)
    body = deployment(*sets, name="one", namespace=namespace, authority={"keysOnMachines": False}, **spec)
    with pytest.raises(ApiFailure, match="is invalid") as refused:
        api.create(CLUSTER_DEPLOYMENT, body)
    assert words in str(refused.value)


def allowed(client: Cluster, kind: Resource, namespace: str) -> bool:
    """Tell whether somebody may list a kind in a namespace."""
    try:
        client.list(kind, namespace)
    except ApiFailure as failure:
        if failure.code != FORBIDDEN:
            raise
        return False
    return True


@pytest.mark.parametrize(("number", "taken"), [(3, True), (2, False)], ids=["three", "two members of etcd"])
def test_a_set_is_scaled_unless_the_cluster_must_not_be_so(
    number: int, taken: bool, manager: StartManager, api: Cluster, namespace: str
) -> None:
    """Whoever may write the subresource needs no right on the ClusterDeployment."""
    manager("clusterdeployment", options=OPTIONS)
    api.create(CLUSTER_DEPLOYMENT, deployment(wanted_set("cp", "control-plane"), name="one", namespace=namespace))
    once(api, CLUSTER_DEPLOYMENT, "one", namespace, "its status", "status", "observedGeneration")
    body = {"spec": {"replicas": number}}
    api.merge(MACHINE_SET, "one-cp", body, namespace, subresource="scale")

    def settled() -> bool | NotYet:
        found = api.get(CLUSTER_DEPLOYMENT, "one", namespace), api.get(MACHINE_SET, "one-cp", namespace)
        wish, derived = dig(found[0], "spec", "machineSets")[0]["replicas"], dig(found[1], "spec", "replicas")
        return (wish, derived) == ((number, number) if taken else (1, 1)) or NotYet(f"{wish}, {derived}")

    until(settled, deadline=Deadline.after(WAIT_SECONDS), what="both to have the same number", interval=INTERVAL)
    said = condition(api.get(MACHINE_SET, "one-cp", namespace), "Edited")
    assert (said is None) == taken
