"""Isolation of clusters by packets: two of them on one flat network that enforces NetworkPolicies.

The infra cluster is a guest of the playbooks with kube-router, whose firewall enforces policies between pods. Pods with
KubeVirt's labels are the launcher pods of two clusters: a policy knows pods by nothing else. The operator's controller
makes the policies. Every connection is tried first without isolation, where it has to come about, and once more at the
end: what is blocked in between is blocked by the policies.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

from harness import paths
from harness.artifacts import refs
from harness.artifacts.serving import Supply
from harness.artifacts.store import Store
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import condition, dig, ensure
from harness.kube.resources import CRD, NAMESPACE, NETWORK_POLICY, NODE, POD, Resource
from harness.machines.network_rules import LAUNCHER, LAUNCHER_NAME
from harness.operator.api.crds import crds
from harness.operator.api.isolation import API_CLIENT_LABEL
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    CLUSTER_LABEL,
    MACHINE,
    MACHINE_SET,
    OPERATION_LABEL,
)
from harness.operator.context import OperatorContext
from harness.operator.decide.isolation import policy_name
from harness.operator.registry import chosen, start, stop
from harness.plan import make_cell
from harness.spec import load_spec
from harness.until import Deadline, NotYet, until
from harness.validate.pods import container, describe_pods, wait_for_service_account
from tests.embedded.operator.declared import Declared
from tests.embedded.playbooks.conftest import KUBECTL, Bench, bench, cell_of, golden, index, mirror
from tests.embedded.playbooks.running import deploy
from tests.unit.operator.api.objects import machine, wanted_set

__all__ = ["bench", "golden", "index", "mirror"]
HOME, ELSEWHERE, OPERATOR = "team", "other-team", "vmatrix-operator"
IMAGE = "e2e-test-images/agnhost:2.63.0"
SSH, API, VXLAN = 22, 6443, 8472  # the last is UDP
SECONDS, INTERVAL, DIAL_SECONDS = 240.0, 1.0, 3
CLUSTERS: Mapping[str, tuple[str, ...]] = {"one": ("one-0", "one-1"), "two": ("two-0", "two-1")}
PLANE = "node-role.kubernetes.io/control-plane"
EXTERNAL = ("mirror", "registry", "infra-api")  # what is not a pod


@dataclass(frozen=True)
class Actor:
    """A pod: its namespace, its labels, and which of the nodes it is on."""

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    node: int = 0


def launcher(name: str, node: int, namespace: str = HOME) -> Actor:
    return Actor(namespace, {**LAUNCHER, LAUNCHER_NAME: name, "kubevirt.io/created-by": f"uid-of-{name}"}, node)


def executor(cluster: str, namespace: str = HOME) -> Actor:
    return Actor(namespace, {CLUSTER_LABEL: cluster, OPERATION_LABEL: "deploy"}, 1)


ACTORS: Mapping[str, Actor] = {
    **{name: launcher(name, number) for names in CLUSTERS.values() for number, name in enumerate(names)},
    "foreign": launcher("one-0", 1, ELSEWHERE),  # has the name of a machine, in another namespace
    "executor-one": executor("one"),
    "executor-two": executor("two"),
    "executor-elsewhere": executor("one", ELSEWHERE),
    "manager": Actor(OPERATOR, {"app.kubernetes.io/name": OPERATOR}, 1),
    "virt-api": Actor(ELSEWHERE, {"kubevirt.io": "virt-api"}),
    "client-one": Actor(HOME, {API_CLIENT_LABEL: "one"}),
    "client-elsewhere": Actor(ELSEWHERE, {API_CLIENT_LABEL: "one"}),
    "monitoring": Actor(ELSEWHERE, {"app": "monitoring"}, 1),
    "pod": Actor(HOME, {"app": "pod"}),
}


@dataclass(frozen=True)
class Attempt:
    """A connection: from a pod, to a pod or something else, at a port, and whether isolation lets it come about."""

    source: str
    target: str
    port: int
    isolated: bool

    def __str__(self) -> str:
        """Return it as messages have it."""
        return f"{self.source} -> {self.target}:{self.port}"


ATTEMPTS: tuple[Attempt, ...] = (
    *(
        Attempt(source, target, port, isolated=True)
        for own in CLUSTERS.values()
        for source, target in (own, own[::-1])
        for port in (SSH, API, VXLAN)
    ),
    *(
        Attempt(source, target, port, isolated=False)
        for names, others in (tuple(CLUSTERS.values()), tuple(CLUSTERS.values())[::-1])
        for source in names
        for target in others
        for port in (SSH, API, VXLAN)
    ),
    *(Attempt("foreign", "one-1", port, isolated=False) for port in (SSH, API, VXLAN)),
    *(Attempt("one-1", "foreign", port, isolated=False) for port in (SSH, API, VXLAN)),
    Attempt("executor-one", "one-0", SSH, isolated=True),
    Attempt("executor-one", "one-1", SSH, isolated=True),
    Attempt("executor-one", "one-0", API, isolated=False),
    Attempt("executor-one", "two-0", SSH, isolated=False),
    Attempt("executor-two", "two-1", SSH, isolated=True),
    Attempt("executor-two", "one-1", SSH, isolated=False),
    Attempt("executor-elsewhere", "one-0", SSH, isolated=False),
    Attempt("manager", "one-0", SSH, isolated=True),
    Attempt("manager", "one-0", API, isolated=True),
    Attempt("manager", "two-1", API, isolated=True),
    Attempt("manager", "one-0", VXLAN, isolated=False),
    Attempt("virt-api", "one-1", SSH, isolated=True),
    Attempt("virt-api", "two-0", API, isolated=True),
    Attempt("client-one", "one-0", API, isolated=True),
    Attempt("client-one", "one-0", SSH, isolated=False),
    Attempt("client-one", "two-0", API, isolated=False),
    Attempt("client-elsewhere", "one-0", API, isolated=False),
    Attempt("monitoring", "one-0", API, isolated=True),  # cluster one lists it, for this port
    Attempt("monitoring", "one-0", SSH, isolated=False),
    Attempt("monitoring", "two-0", API, isolated=False),
    Attempt("pod", "one-0", SSH, isolated=False),
    Attempt("pod", "one-1", API, isolated=False),
    Attempt("pod", "two-0", SSH, isolated=False),
    Attempt("one-0", "pod", API, isolated=False),
    Attempt("one-0", "manager", API, isolated=False),
    Attempt("two-0", "monitoring", SSH, isolated=True),  # cluster two may connect to it
    Attempt("one-0", "monitoring", SSH, isolated=False),
    *(
        Attempt(names[0], target, 0, isolated=target != "infra-api")
        for names in CLUSTERS.values()
        for target in EXTERNAL
    ),
    Attempt("pod", "infra-api", 0, isolated=True),  # policies are about machines alone
    Attempt("pod", "client-one", SSH, isolated=True),
)
MONITORING: Json = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ELSEWHERE}},
    "podSelector": {"matchLabels": {"app": "monitoring"}},
}
ISOLATION: Mapping[str, Json] = {
    "one": {"enabled": True, "allowFrom": [{**MONITORING, "ports": [{"port": API}]}]},
    "two": {"enabled": True, "allowTo": [{**MONITORING, "ports": [{"port": SSH}]}]},
}


def pod_of(name: str, actor: Actor, nodes: list[str], image: str) -> Json:
    """Return a pod that answers at all ports."""
    served = [
        container("ssh", image, args=["netexec", f"--http-port={SSH}", "--udp-port=8081"]),
        container("api", image, args=["netexec", f"--http-port={API}", "--udp-port=8082"]),
        container("vxlan", image, args=["serve-hostname", "--udp", "--http=false", f"--port={VXLAN}"]),
    ]
    spec = {
        "nodeName": nodes[actor.node % len(nodes)],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "containers": served,
    }
    return POD.manifest(name, actor.namespace, labels=dict(actor.labels), spec=spec)


@dataclass(frozen=True)
class Ground:
    """The infra cluster with both clusters' objects. addresses: of pods and of what is none, by name."""

    bench: Bench
    api: Cluster
    declared: Declared
    addresses: Mapping[str, str]

    def outcomes(self, attempts: tuple[Attempt, ...] = ATTEMPTS) -> dict[Attempt, bool]:
        """Make connections from inside of their pods; return which come about."""
        seen: dict[Attempt, bool] = {}
        for source in dict.fromkeys(one.source for one in attempts):
            mine = [one for one in attempts if one.source == source]
            words = " ".join(f"{number}/{self._dialled(one)}" for number, one in enumerate(mine))
            connect = f"/agnhost connect --timeout={DIAL_SECONDS}s"
            script = (
                f"for one in {words}; do number=${{one%%/*}}; rest=${{one#*/}}; "
                f"{connect} --protocol=${{rest%%/*}} ${{rest#*/}} >/dev/null 2>&1 && echo yes $number & done; wait"
            )
            command = f"{KUBECTL} -n {ACTORS[source].namespace} exec {source} -c ssh -- sh -c '{script}; echo done'"
            done = self.bench.on(0, command)
            *lines, last = done.stdout.split("\n")[:-1] or [""]
            assert last == "done", f"{source}: {done.stdout} {done.stderr}"
            worked = {int(line.removeprefix("yes ")) for line in lines}
            seen |= {one: number in worked for number, one in enumerate(mine)}
        return seen

    def _dialled(self, one: Attempt) -> str:
        target = self.addresses[one.target]
        return f"{'udp' if one.port == VXLAN else 'tcp'}/{target if one.target in EXTERNAL else f'{target}:{one.port}'}"

    def require(self, *, isolated: bool) -> None:
        """Require that each connection comes about or not, once the nodes have followed."""

        def wrong() -> bool | NotYet:
            seen = self.outcomes()
            expected = {one: one.isolated or not isolated for one in ATTEMPTS}
            found = [
                f"{one} {'works' if seen[one] else 'is blocked'}" for one in ATTEMPTS if seen[one] != expected[one]
            ]
            return NotYet("; ".join(found)) if found else True

        until(wrong, deadline=Deadline.after(SECONDS), what=f"connections with isolation {isolated}", interval=INTERVAL)

    def isolate(self, cluster: str, isolation: Json) -> None:
        """Change the wish of a cluster."""
        self.api.merge(CLUSTER_DEPLOYMENT, cluster, {"spec": {"isolation": isolation}}, HOME)

    def policy(self, cluster: str, *, there: bool = True) -> Json:
        """Return the policy of a cluster once it is there, or an empty object once it is not."""

        def probe() -> Json | NotYet:
            found = self.api.get(NETWORK_POLICY, policy_name(cluster), HOME)
            return (found or {}) if (found is not None) is there else NotYet(f"it is {found}")

        return until(probe, deadline=Deadline.after(SECONDS), what=f"the policy of {cluster}", interval=INTERVAL)


@pytest.fixture(scope="module")
def ground(bench: Bench) -> Iterator[Ground]:
    """Have a cluster that enforces policies, all pods in it, both clusters' objects, and the controller at work."""
    cell = make_cell(
        load_spec(paths.project_dir() / "matrix"), {**cell_of("cp1-w1").values, "addons": "network-policies"}
    )
    store, version = Store(), str(cell.vars["cluster_kubernetes_version"])
    Supply(version, refs.add_ons(store.catalogue), store).publish(bench.mirror.registry)
    deploy(bench, cell)
    api = Cluster.from_kubeconfig(bench.kubeconfig)
    serve_definitions(api)
    addresses = placed(api, f"{bench.mirror.registry}/{IMAGE}")
    mirror_url = urlsplit(bench.mirror.http)
    planes = [node for node in api.list(NODE).items if PLANE in node["metadata"]["labels"]]
    infra = next(one["address"] for one in planes[0]["status"]["addresses"] if one["type"] == "InternalIP")
    outer = {
        "mirror": f"{mirror_url.hostname}:{mirror_url.port}",
        "registry": bench.mirror.registry,
        "infra-api": f"{infra}:{API}",
    }
    declared = Declared(api, HOME, SECONDS, INTERVAL)
    made = Ground(bench, api, declared, {**addresses, **outer})
    with pytest.MonkeyPatch.context() as patch:  # the manager is the pod of that name
        patch.setitem(os.environ, "KUBERNETES_SERVICE_HOST", infra)
        patch.setitem(os.environ, "POD_NAME", "manager")
        patch.setitem(os.environ, "POD_NAMESPACE", OPERATOR)
        declare(made)
        context = OperatorContext.of(api, bench.kubeconfig, namespace=HOME)
        start(context, chosen(("isolation",)))
        yield made
        stop(context)


def serve_definitions(api: Cluster) -> None:
    """Have the operator's kinds served."""
    for body in crds():
        ensure(api, CRD, body)
    for kind in (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE_SET, MACHINE):

        def listed(kind: Resource = kind) -> bool | NotYet:
            try:
                api.list(kind)
            except ApiFailure as failure:  # not served yet, or its storage is not ready
                return NotYet(failure.summary)
            return True

        until(listed, deadline=Deadline.after(SECONDS), what=f"{kind.plural} to be served", interval=INTERVAL)


def placed(api: Cluster, image: str) -> dict[str, str]:
    """Create all pods; return their addresses once all of them answer."""
    nodes = sorted(node["metadata"]["name"] for node in api.list(NODE).items)
    for name in (HOME, ELSEWHERE, OPERATOR):
        api.create(NAMESPACE, NAMESPACE.manifest(name, "", labels={}))
        wait_for_service_account(api, name, Deadline.after(SECONDS))
    for name, actor in ACTORS.items():
        api.create(POD, pod_of(name, actor, nodes, image))

    def ready() -> dict[str, str] | NotYet:
        pods = {name: api.get(POD, name, actor.namespace) for name, actor in ACTORS.items()}
        late = [name for name, pod in pods.items() if (condition(pod, "Ready") or {}).get("status") != "True"]
        return NotYet(f"not ready: {late}") if late else {n: dig(pod, "status", "podIP") for n, pod in pods.items()}

    return until(
        ready,
        deadline=Deadline.after(SECONDS),
        what="the pods",
        describe=lambda: "\n".join(describe_pods(api, name) for name in (HOME, ELSEWHERE, OPERATOR)),
        interval=INTERVAL,
    )


def declare(ground: Ground) -> None:
    """Make both clusters and their machines, which lead through instances that have launcher pods."""
    bench_mirror = ground.bench.mirror
    source = {"type": "Mirror", "mirror": bench_mirror.http, "registry": bench_mirror.registry}
    for name, names in CLUSTERS.items():
        planes = wanted_set("cp", "control-plane", "worker", names=[names[0]])
        workers = wanted_set("w", "worker", names=[names[1]])
        wish = ground.declared.deployment(name, planes, workers, source=source)
        for one, set_name in zip(names, ("cp", "w"), strict=True):
            claim = {"cluster": name, "set": set_name, "uid": wish["metadata"]["uid"]}
            through = {"virtualMachineInstance": one}
            spec = {"address": ground.addresses[one], "through": through, "claim": claim}
            ground.api.create(MACHINE, machine(one, HOME, **spec))


def test_two_clusters_are_apart_while_they_are_isolated_and_only_then(ground: Ground) -> None:
    ground.require(isolated=False)  # every connection comes about while nothing forbids it
    for name, wish in ISOLATION.items():
        ground.isolate(name, wish)
    for name in CLUSTERS:
        ground.policy(name)
    ground.require(isolated=True)
    for name, names in CLUSTERS.items():
        seen = ground.declared.wait(name, lambda one: dig(one, "status", "isolation", "ready"), "isolated", CLUSTER)
        state = dig(seen, "status", "isolation")
        assert (state["reason"], state["enforced"]) == ("Enforced", True), state
        assert sorted(state["machines"]) == sorted(names)


def test_a_policy_that_somebody_opens_or_deletes_is_put_back(ground: Ground) -> None:
    before = ground.policy("one")
    everybody = {**before, "spec": {**before["spec"], "ingress": [{}], "egress": [{}]}}
    ground.api.replace(NETWORK_POLICY, everybody)

    def put_back() -> bool | NotYet:
        return ground.policy("one")["spec"] == before["spec"] or NotYet("it is still open")

    until(put_back, deadline=Deadline.after(SECONDS), what="the rules to be put back", interval=INTERVAL)
    ground.api.delete(NETWORK_POLICY, policy_name("two"), HOME)
    assert ground.policy("two")["metadata"]["uid"]
    ground.require(isolated=True)


def test_a_machine_that_leaves_is_let_go(ground: Ground) -> None:
    """And comes back: the policy selects it, and lets it in, from its claim on."""
    claim = dig(ground.declared.get("two-1", MACHINE), "spec", "claim")
    joins = (Attempt("two-0", "two-1", SSH, isolated=True), Attempt("pod", "two-1", SSH, isolated=False))
    for given, expected in ((None, [False, True]), (claim, [True, False])):
        ground.api.merge(MACHINE, "two-1", {"spec": {"claim": given}}, HOME)

        def followed(expected: list[bool] = expected) -> bool | NotYet:
            seen = list(ground.outcomes(joins).values())
            return seen == expected or NotYet(f"{[str(one) for one in joins]}: {seen}")

        until(followed, deadline=Deadline.after(SECONDS), what=f"a claim {given} to count", interval=INTERVAL)


def test_without_isolation_everything_is_open_again(ground: Ground) -> None:
    for name in CLUSTERS:
        ground.isolate(name, {"enabled": False})
        ground.policy(name, there=False)
    ground.require(isolated=False)
