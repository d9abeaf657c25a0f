"""The operator works under exactly its roles: each controller by an account of its own, in a life with every operation.

Real kube-apiserver, kube-controller-manager and scheduler; executors' pods and most logins are played, as in
tests/embedded/operator. What nobody can play without machines is named below, with its reason.
"""

from __future__ import annotations

import base64
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness import proc
from harness.kube.client import Json
from harness.kube.failures import ApiFailure
from harness.kube.objects import condition, dig
from harness.kube.resources import CONFIG_MAP, JOB, LEASE, NAMESPACE, POD, SECRET, VM, VMI, Resource
from harness.operator import rights
from harness.operator.api.crds import crds
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    CLUSTER_NETWORK_POOL,
    DELIVERY,
    ETCD_CLUSTER,
    MACHINE_SET,
)
from harness.operator.build.job import BuildReport
from harness.operator.context import OperatorContext
from harness.operator.controllers import machine
from harness.operator.controllers.machine import Probe, ssh_probe
from harness.operator.controllers.ssh import Outcome
from harness.operator.execute.inputs import state_name
from harness.operator.manager import LEASE_NAME
from harness.operator.manifests import Installation, text
from harness.operator.registry import NAMES, PARTS, Part, start, stop
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.logins import PlayedLogins
from tests.embedded.operator.played import WAIT_SECONDS, PlayedKubelet
from tests.embedded.operator.world import NAME, OPTIONS, SUCCEEDED, World, failed
from tests.embedded.rights.audit import Ask, Witness, granted
from tests.embedded.rights.conftest import DEPLOY, Ground, Person
from tests.unit.operator.api.deliveries import IMAGE as BUILT
from tests.unit.operator.api.deliveries import delivery
from tests.unit.operator.api.objects import deployment, etcd_cluster, wanted_set

# A guest that nobody answers for, as a kubeconfig.
GUEST = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "guest", "cluster": {"server": "https://192.0.2.10:6443"}}],
    "users": [{"name": "admin", "user": {"token": "none"}}],
    "contexts": [{"name": "admin", "context": {"cluster": "guest", "user": "admin"}}],
    "current-context": "admin",
}
REAL = "real"  # names of Machines that are logged in to for real: nothing answers there
SEEN_AGAIN = {Ask("get", "", "events"), Ask("patch", "", "events")}  # of what happens twice
GROUP = "cluster.vmatrix.dev"
# What this life does not come to: another writer's change between two looks, a lost answer, an object that somebody
# deletes by hand, a guest that answers. Each has its test in tests/embedded/operator, with an administrator's client.
ELSEWHERE: dict[str, set[Ask]] = {
    "clusterdeployment": {
        Ask("get", GROUP, "clusterdeployments"),
        Ask("get", GROUP, "etcdclusters"),
        Ask("update", GROUP, "clusters"),
        Ask("patch", GROUP, "machinesets/status"),
        Ask("get", GROUP, "machinesets"),
        Ask("get", "", "configmaps"),  # a product file
    },
    # It has the one set for all of its life: tests/embedded/operator/test_etcdclusters.py.
    "etcdcluster": {
        *(Ask("get", GROUP, kind) for kind in ("clusterdeployments", "etcdclusters", "machinesets")),
        Ask("update", GROUP, "clusters"),
        *(Ask(verb, GROUP, "machinesets") for verb in ("delete", "update")),
        Ask("patch", GROUP, "machinesets/status"),
    },
    # Nobody logs in to this cluster's machines, and all of them are well: tests/embedded/operator has both.
    "inspection": {
        Ask("create", "", "events"),
        Ask("get", GROUP, "machines"),
        Ask("get", "subresources.kubevirt.io", "virtualmachineinstances/portforward"),
        *(Ask(verb, GROUP, "etcdpeers") for verb in ("create", "delete", "get")),
        Ask("patch", GROUP, "etcdpeers/status"),
    },
    "remediation": {
        Ask("create", "", "events"),
        Ask("get", "kubevirt.io", "virtualmachineinstances"),
        Ask("patch", GROUP, "machines"),
        Ask("update", "subresources.kubevirt.io", "virtualmachines/restart"),
    },
    # It publishes no API and has no add-on: tests/embedded/operator/test_endpoint.py and test_addons.py.
    "endpoint": {
        *(
            Ask(verb, group, kind)
            for group, kind in (
                ("", "services"),
                ("", "secrets"),
                ("discovery.k8s.io", "endpointslices"),
                ("networking.k8s.io", "ingresses"),
                ("gateway.networking.k8s.io", "tlsroutes"),
            )
            for verb in ("create", "delete", "get", "patch")
        ),
        Ask("patch", GROUP, "clusters/status"),
    },
    "addons": {
        Ask("create", "", "events"),
        Ask("get", "", "configmaps"),
        Ask("get", "", "secrets"),
        Ask("get", "subresources.kubevirt.io", "virtualmachineinstances/portforward"),
        Ask("patch", GROUP, "clusters/status"),
    },
    # Its CAs are made at the first look, it has no pool and no users: tests/embedded/operator/test_isolation.py.
    "authority": {Ask("create", "", "events")},
    # Its certificate is signed once, and nothing is wrong with it: tests/embedded/operator/test_etcdclusters.py.
    "etcdclients": {Ask("create", "", "events"), Ask("patch", "", "secrets")},
    "networks": {
        Ask("create", "", "events"),
        Ask("get", GROUP, "clusterdeployments"),
        Ask("patch", GROUP, "clusters/status"),
        Ask("update", GROUP, "clusternetworkpools/status"),
    },
    # Its isolation is off: tests/embedded/operator/test_network_policies.py.
    "isolation": {
        Ask("create", "", "events"),
        *(Ask(verb, "networking.k8s.io", "networkpolicies") for verb in ("create", "delete", "get", "update")),
        Ask("list", "", "pods"),
        Ask("patch", GROUP, "clusters/status"),
    },
    "users": {
        Ask("create", "", "events"),
        *(Ask(verb, "", "secrets") for verb in ("create", "get", "patch")),
        Ask("patch", GROUP, "clusterusers"),
        Ask("update", GROUP, "clusterusers/status"),
        Ask("get", "subresources.kubevirt.io", "virtualmachineinstances/portforward"),
    },
    "machineset": {Ask(verb, GROUP, "machines") for verb in ("get", "create", "delete")},
    "machine": {Ask("get", GROUP, "machines")},
    # A machine that is made, and one that is lost, need an image: tests/embedded/operator_live has both.
    "infrastructure": {
        Ask("get", "networking.k8s.io", "networkpolicies"),
        Ask("create", "", "secrets"),
        Ask("get", "", "secrets"),
        Ask("list", "", "pods"),
        Ask("list", "", "events"),
        Ask("get", "", "persistentvolumeclaims"),
        Ask("get", "kubevirt.io", "virtualmachines"),
        Ask("create", "kubevirt.io", "virtualmachines"),
        Ask("get", "kubevirt.io", "virtualmachineinstances"),
        *(Ask(verb, "cdi.kubevirt.io", "datavolumes") for verb in ("create", "get", "patch")),
    },
    "claims": {Ask("delete", GROUP, "machines")},
    "nodehealth": {Ask("get", "subresources.kubevirt.io", "virtualmachineinstances/portforward")},
    "clusterinstall": {Ask("delete", "", "configmaps"), Ask("get", "", "configmaps")},
    "executions": {
        Ask("get", "", "configmaps"),
        Ask("get", "batch", "jobs"),
        Ask("patch", "batch", "jobs"),  # one whose executor was never started
        Ask("patch", "", "secrets"),
    },
    # This cluster is never backed up or restored: tests/embedded/operator/test_backups.py and test_restores.py are.
    "restores": {Ask("create", "", "events"), Ask("update", GROUP, "etcdrestores/status")},
    "backups": {
        Ask("create", "", "events"),
        Ask("update", GROUP, "clusters/status"),
        *(Ask(verb, GROUP, "etcdbackups") for verb in ("create", "delete", "patch")),
        Ask("update", GROUP, "etcdbackups/status"),
    },
    # Its repository and registry are open, and it is delivered once: tests/embedded/operator/test_deliveries.py.
    "builds": {
        Ask("get", "", "secrets"),
        Ask("delete", "batch", "jobs"),
        *(Ask(verb, "", "configmaps") for verb in ("delete", "get", "patch")),
    },
    "rollouts": {
        Ask("get", "", "secrets"),
        Ask("list", "", "pods"),
        Ask("patch", "delivery.vmatrix.dev", "deliveries"),
        Ask("get", "subresources.kubevirt.io", "virtualmachineinstances/portforward"),
        Ask("get", "", "services"),
        *(
            Ask("delete", group, kind)
            for group, kind in (("apps", "deployments"), ("", "services"), ("", "configmaps"))
        ),
        *(Ask(verb, "networking.k8s.io", "ingresses") for verb in ("delete", "get", "patch")),
    },
    # No git server tells it anything: tests/unit/operator/controllers/test_gitwebhooks.py.
    "gitwebhooks": {
        *(Ask(verb, "delivery.vmatrix.dev", "deliveries") for verb in ("get", "patch")),
        Ask("get", "", "secrets"),
    },
}
# Kinds that every manager watches from its start: virtual machines only once a Machine is one, as in `live`.
FROM_THE_START = tuple(dict.fromkeys(kind for part in PARTS for kind in part.watches if kind not in (VM, VMI)))
# There is no claim for backups, no Delivery into another namespace, no endpoint, and no isolation.
NOT_HERE = {
    Ask("list", "networking.k8s.io", "ingressclasses"),
    Ask("list", "", "nodes"),
    Ask("get", "gateway.networking.k8s.io", "gateways"),
    Ask("get", "storage.k8s.io", "storageclasses"),
    Ask("create", "authorization.k8s.io", "subjectaccessreviews"),
}


@dataclass
class Operator:
    """An operator with an account for each controller, in a namespace with one declared cluster."""

    ground: Ground
    world: World
    contexts: list[OperatorContext]
    since: int

    def seen(self, controller: str) -> Witness:
        """Return what the audit log says of a controller."""
        return self.ground.log.of(self.user(controller), self.since)

    def user(self, controller: str) -> str:
        """Return the name that the API knows a controller by."""
        return f"system:serviceaccount:{self.world.namespace}:vmatrix-operator-{controller}"


def watched(ground: Ground, kinds: Mapping[str, Iterable[Resource]], since: int) -> None:
    """Wait until the log has the watches of users who have stopped: it has them once they ended."""

    def logged() -> bool | NotYet:
        for user, wanted in kinds.items():
            seen = {one.resource for one in ground.log.of(user, since).asked if one.verb == "watch"}
            if missing := {kind.plural for kind in wanted} - seen:
                return NotYet(f"no watch of {missing} by {user}")
        return True

    until(logged, deadline=Deadline.after(WAIT_SECONDS), what="the ends of all watches", interval=0.2)


def install(ground: Ground, *, apart: bool = False, everywhere: bool = False) -> str:
    """Apply what `vmatrix operator manifests` prints, as an administrator does; return the namespace."""
    namespace = f"operator-{secrets.token_hex(3)}"
    ground.admin.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    file = ground.folder / f"{namespace}.yml"
    installation = Installation(namespace, "registry.invalid/vmatrix:1", apart=apart, everywhere=everywhere)
    bodies = [body for body in installation.objects() if body["kind"] != "Deployment"]  # nothing pulls that image
    file.write_text(text(bodies), encoding="utf-8")
    ground.kubectl("apply", "--server-side", "-f", file)
    for body in crds():
        ground.kubectl("wait", "--for=condition=Established", f"crd/{body['metadata']['name']}", "--timeout=60s")
    return namespace


def settle(person: Person, part: Part, namespace: str) -> None:
    """Wait until the API serves the kinds of a controller, and knows its rights: it takes a moment to hear of both."""

    def listed() -> bool | NotYet:
        for kind in part.watches:
            try:
                person.cluster.list(kind, namespace)
            except ApiFailure as failure:
                return NotYet(failure.summary)
        return True

    until(listed, deadline=Deadline.after(WAIT_SECONDS), what=f"rights of {part.name}", interval=0.1)


@pytest.fixture
def operator(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    namespace = install(ground, apart=True)
    played = PlayedLogins()

    def mixed(context: OperatorContext) -> Probe:
        logged_in = ssh_probe(context)

        def probe(found: Json) -> Outcome:
            return logged_in(found) if found["metadata"]["name"].startswith(REAL) else played(found)

        return probe

    monkeypatch.setattr(machine, "ssh_probe", mixed)
    contexts = []
    people = {part: ground.account(namespace, f"vmatrix-operator-{part.name}") for part in PARTS}
    for part, person in people.items():
        settle(person, part, namespace)
    since = ground.log.size()
    try:
        for part, person in people.items():
            context = OperatorContext.of(person.cluster, person.kubeconfig, namespace=namespace, options=OPTIONS)
            contexts.append(context)
            start(context, [part])
        world = World(ground.admin, namespace, PlayedKubelet(ground.admin, namespace))
        yield Operator(ground, world, contexts, since)
    finally:
        for context in contexts:
            stop(context)


def new_key() -> str:
    """Return a private key that opens nothing."""
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    return Ed25519PrivateKey.generate().private_bytes(*form).decode()


def live(operator: Operator) -> None:
    """Have everything happen that happens to a cluster: claims, a failure, a deployment, an edit, health, a reset."""
    world = operator.world
    declared = Declared(world.api, world.namespace)
    declared.key(new_key())
    declared.machine("m-0", address="192.0.2.10")
    instance = f"{REAL}-instance"  # in an instance that is not there
    declared.machine(instance, address="192.0.2.11", through={"virtualMachineInstance": instance})
    declared.phase("m-0", "Idle")
    sets = [wanted_set("cp", "control-plane", "worker"), wanted_set("more", "worker", replicas=0)]
    body = deployment(*sets, name=NAME, namespace=world.namespace, jobs={"keepFailed": 0, "keepSucceeded": 0})
    world.api.create(CLUSTER_DEPLOYMENT, body)
    world.kubelet.job(f"{NAME}-1-deploy")
    world.kubelet.end(f"{NAME}-1-deploy", exit_code=1, message=failed("product"))
    world.history(1)
    world.annotate(retry="1")
    world.kubelet.job(f"{NAME}-2-deploy")
    kept = base64.b64encode(yaml.safe_dump(GUEST).encode()).decode()
    world.api.merge(SECRET, state_name(NAME), {"data": {"kubeconfig": kept}}, world.namespace)
    world.kubelet.end(f"{NAME}-2-deploy", message=SUCCEEDED)
    world.history(2)
    world.gone(JOB, f"{NAME}-2-deploy")
    world.gone(CONFIG_MAP, f"{NAME}-2-deploy")
    world.wait(lambda: world.get(SECRET, f"{NAME}-kubeconfig") or NotYet("not yet"), "the kubeconfig")
    declared.wait("m-0", lambda found: condition(found, "NodeReady") is not None, "looked at through its guest")
    world.edit(machineSets=[sets[0], {**sets[1], "replicas": 1}])
    declared.wait(f"{NAME}-more", lambda found: dig(found, "spec", "replicas") == 1, "larger", MACHINE_SET)
    world.edit(version="1.2.3")
    world.condition("Accepted", "False")
    world.edit(version=body["spec"]["version"], machineSets=[sets[0]])  # the other set goes
    world.condition("Accepted", "True")
    world.gone(MACHINE_SET, f"{NAME}-more")
    world.delete()
    world.kubelet.job(f"{NAME}-3-reset")
    world.kubelet.end(f"{NAME}-3-reset", message=SUCCEEDED)
    world.gone(CLUSTER_DEPLOYMENT)
    world.gone(CLUSTER)
    declared.phase("m-0", "Idle")
    keep_etcd(world, declared)
    be_delivered(world)


def keep_etcd(world: World, declared: Declared) -> None:
    """Have an EtcdCluster of one member deployed, used by a cluster that waits for machines, and reset."""

    def over(job: str) -> None:
        world.kubelet.job(job)
        world.kubelet.end(job, message=SUCCEEDED)

    world.api.create(ETCD_CLUSTER, etcd_cluster("store", world.namespace))
    over("store-1-deploy-etcd")
    declared.wait("store", lambda found: dig(found, "status", "replicas") == 1, "deployed", ETCD_CLUSTER)
    shares = deployment(name="sharer", namespace=world.namespace, etcd={"clusterRef": {"name": "store"}})
    world.api.create(CLUSTER_DEPLOYMENT, shares)
    over("store-2-etcd-users")
    declared.wait("sharer", lambda found: dig(found, "status", "etcdClient", "usable"), "served", CLUSTER)
    world.api.delete(CLUSTER_DEPLOYMENT, "sharer", world.namespace)
    world.gone(CLUSTER_DEPLOYMENT, "sharer")
    over("store-3-etcd-users")
    world.api.delete(ETCD_CLUSTER, "store", world.namespace)
    over("store-4-reset")
    world.gone(ETCD_CLUSTER, "store")
    declared.phase("m-0", "Idle")


def be_delivered(world: World) -> None:
    """Have an application built, deployed and deleted; it has no pods."""
    revision = "a" * 40
    body = delivery(namespace=world.namespace, source={"revision": revision}, deploy={"replicas": 0})
    body["metadata"] = {"name": "shop", "namespace": world.namespace}
    world.api.create(DELIVERY, body)
    job = f"shop-{revision[:12]}"
    world.kubelet.job(job)
    report = BuildReport("succeeded", revision, stage="Pushed", image=f"{BUILT}@sha256:{'a' * 64}")
    world.kubelet.end(job, message=report.to_text())

    def ready() -> bool | NotYet:
        said = condition(world.get(DELIVERY, "shop"), "Ready") or {}
        return said.get("status") == "True" or NotYet(f"it says {said}")

    world.wait(ready, "the application")
    world.api.delete(DELIVERY, "shop", world.namespace)
    world.wait(lambda: world.get(JOB, job) is None or NotYet("it is there"), "its Job to go with it")


def test_every_controller_uses_all_of_its_rights_and_needs_no_other(operator: Operator) -> None:
    live(operator)
    for context in operator.contexts:
        stop(context)
    watched(operator.ground, {operator.user(part.name): part.watches for part in PARTS}, operator.since)
    wrong: list[str] = []
    for part in PARTS:
        seen = operator.seen(part.name)
        asked = {Ask(one.verb, one.group, one.resource) for one in seen.asked}
        allowed = granted(rights.rights_of(part))
        idle = allowed - asked - SEEN_AGAIN - ELSEWHERE.get(part.name, set())
        for word, found in (("missing", asked - allowed), ("unused", idle), ("refused", seen.forbidden)):
            wrong += [f"{part.name}: {word}: {one.verb} {one.resource}" for one in sorted(found)]
    assert not wrong, "\n".join(wrong)
    everything = [one for part in PARTS for one in operator.seen(part.name).asked]
    pools = [one for one in everything if one.resource == CLUSTER_NETWORK_POOL.plural]  # which are in no namespace
    assert {one.namespace for one in pools} == {""}
    assert {one.namespace for one in everything if one not in pools} == {operator.world.namespace}


def test_a_manager_uses_its_rights_besides_those_of_controllers_and_needs_no_other(
    ground: Ground, tmp_path: Path
) -> None:
    namespace = install(ground)
    pod = {"containers": [{"name": "manager", "image": "registry.invalid/vmatrix:1"}]}
    ground.admin.create(POD, POD.manifest("manager-1", namespace, labels={}, spec=pod))
    person = ground.account(namespace, "vmatrix-operator")
    since, log = ground.log.size(), tmp_path / "manager.log"
    words: list[str | Path] = [
        "operator",
        "run",
        "--kubeconfig",
        person.kubeconfig,
        "--namespace",
        namespace,
        "--health-port",
        "0",
        "--git-port",
        "0",
    ]
    environment = {"POD_NAME": "manager-1", "POD_NAMESPACE": namespace}
    argv: list[str | Path] = [Path(sys.executable).with_name("vmatrix"), *words, "--lease-seconds", "3"]
    manager = proc.spawn(argv, log=log, env=environment)
    try:

        def renewed() -> bool | NotYet:
            asked = {(one.verb, one.resource) for one in ground.log.of(person.user, since).asked}
            if not manager.alive():
                raise AssertionError(log.read_text(encoding="utf-8"))
            works = "controllers work" in log.read_text(encoding="utf-8")
            return (works and ("update", "leases") in asked) or NotYet(log.read_text(encoding="utf-8")[-500:])

        World(ground.admin, namespace, PlayedKubelet(ground.admin, namespace)).wait(renewed, "a renewed Lease")
    finally:
        manager.stop(grace=60)
    watched(ground, {person.user: FROM_THE_START}, since)
    seen = ground.log.of(person.user, since)
    followed = {Ask(verb, kind.group, kind.plural) for kind in FROM_THE_START for verb in rights.WATCH}
    expected = granted((*rights.MANAGER, *rights.DEFINITIONS)) | followed
    asked = {Ask(one.verb, one.group, one.resource) for one in seen.asked}
    assert (sorted(asked - expected), sorted(expected - asked - NOT_HERE)) == ([], [])
    assert seen.forbidden == frozenset()
    lease = ground.admin.get(LEASE, LEASE_NAME, namespace)
    assert lease is not None
    assert not lease["spec"].get("holderIdentity"), "it was not given back"


def test_kubectl_applies_the_folder_and_the_api_takes_every_field(ground: Ground) -> None:
    ground.kubectl("apply", "--server-side", "-k", DEPLOY / "operator")
    names = ground.kubectl("get", "roles,serviceaccounts,deployments", "-n", "vmatrix-operator", "-o", "name").split()
    assert {f"role.rbac.authorization.k8s.io/vmatrix-operator-{name}" for name in NAMES} <= set(names)
    assert {"serviceaccount/vmatrix-operator", "deployment.apps/vmatrix-operator"} <= set(names)
    ground.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", DEPLOY / "operator" / "samples")
    # The namespace goes first, and some of what is in it before its turn.
    ground.kubectl("delete", "-k", DEPLOY / "operator", "--wait=false", "--ignore-not-found")
