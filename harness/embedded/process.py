"""The process of the embedded KubeVirt and CDI: what starts in which order, and how it ends.

Machines outlive it: at its start it takes over what it finds.
"""

from __future__ import annotations

import logging
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.embedded import cdi, operands, subresources
from harness.embedded.admission import configurations, serve
from harness.embedded.context import Context
from harness.embedded.crds import crds
from harness.embedded.faults import Faults
from harness.embedded.machines import Machines
from harness.embedded.machines.names import FIRST_SECOND_OCTET
from harness.embedded.namespaces import Namespaces
from harness.embedded.node import kubelet, registration
from harness.embedded.node.guests import Addresses, Guests, machine_id
from harness.embedded.node.kubelet import ForeignPods, GarbageCollection, Kubelet, Stats, instance_uid
from harness.embedded.node.registration import Placement
from harness.embedded.subresources.server import register, wait_until_available
from harness.embedded.vm.controller import VmController
from harness.embedded.vmi.agent import Agent
from harness.embedded.vmi.controller import VmiController
from harness.errors import InfraError
from harness.events import now
from harness.kube.client import Cluster, Json, own_name
from harness.kube.events import Events
from harness.kube.informer import Informers
from harness.kube.objects import dig, ensure
from harness.kube.resources import (
    CDI,
    CDI_CONFIG,
    CRD,
    KUBEVIRT,
    MUTATING_WEBHOOK,
    NAMESPACE,
    NODE,
    POD,
    STORAGE_CLASS,
    STORAGE_PROFILE,
    VALIDATING_WEBHOOK,
    Resource,
)
from harness.kube.serving import HttpsServer
from harness.until import Deadline, NotYet, until

CLUSTER_ROLE = Resource(operands.RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDING = Resource(operands.RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ESTABLISHED_SECONDS = 30.0  # the API server needs milliseconds; times the factor
STATUS_APART = (KUBEVIRT, STORAGE_PROFILE)  # their status is a subresource
OF_DEFINITIONS = (KUBEVIRT, STORAGE_PROFILE, CDI, CDI_CONFIG)
WORKERS = 12


def install(cluster: Cluster, *, ca_bundle: bytes, webhook_url: str, stretch: float = 1.0) -> None:
    """Bring the cluster to where KubeVirt and CDI are deployed.

    Args:
        cluster: acts as the user that the controllers run as; the webhooks trust it.
        ca_bundle: PEM certificates that sign the webhook server's.
        webhook_url: where the webhooks are served, https://HOST:PORT. Let the server answer before this is called.

    Raises:
        ApiFailure: the API refused something.  TimedOut: a definition was not established in time.
    """
    when = now().partition(".")[0] + "Z"
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="install") as pool:

        def ensure_all(objects: dict[Resource, list[Json]]) -> None:
            for done in [pool.submit(_ensure, cluster, r, body) for r, bodies in objects.items() for body in bodies]:
                done.result()

        definitions = crds()
        ensure_all(
            {
                CRD: definitions,
                NAMESPACE: operands.namespaces(),
                CLUSTER_ROLE: operands.cluster_roles(),
                CLUSTER_ROLE_BINDING: operands.bindings(),
                STORAGE_CLASS: [operands.storage_class()],
            }
        )
        names = [body["metadata"]["name"] for body in definitions]
        for done in [pool.submit(_wait_until_established, cluster, name, stretch) for name in names]:
            done.result()
        webhooks = configurations(url=webhook_url, ca_bundle=ca_bundle, trusted=own_name(cluster))
        ensure_all(
            {
                KUBEVIRT: [operands.kubevirt(when)],
                STORAGE_PROFILE: [operands.storage_profile(operands.STORAGE_CLASS)],
                CDI: [operands.cdi(when)],
                CDI_CONFIG: [operands.cdi_config()],
                **{of: [w for w in webhooks if w["kind"] == of.kind] for of in (MUTATING_WEBHOOK, VALIDATING_WEBHOOK)},
            }
        )


def _ensure(cluster: Cluster, resource: Resource, body: Json) -> None:
    """Make an object hold what is wanted of it.

    Objects of the definitions above are applied: an API server takes 2 s for each that is created while its definition
    has been established for less than 2 s (k8s.io/apiextensions-apiserver, pkg/apiserver/customresource_handler.go).
    """
    create = cluster.apply if resource in OF_DEFINITIONS else None
    ensure(cluster, resource, body, status_subresource=resource in STATUS_APART, create=create)


def _wait_until_established(cluster: Cluster, name: str, stretch: float) -> None:
    def established() -> bool | NotYet:
        conditions = {c["type"]: c["status"] for c in dig(cluster.get(CRD, name), "status", "conditions") or []}
        return conditions.get("Established") == "True" or NotYet(f"conditions are {conditions}")

    what = f"definition {name} to be established"
    until(established, deadline=Deadline.after(ESTABLISHED_SECONDS * stretch), what=what, interval=0.05)


log = logging.getLogger(__name__)
READY_FILE = "kubevirt.ready"
READY = "/readyz"
# What a new API server writes last, a second or more. An administrator can define kinds without it.
LAST = ("rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes")
SERVING = f"{READY}?{'&'.join(f'exclude=poststarthook/{hook}' for hook in LAST)}"
API_SECONDS = 90.0  # an API server on this host that may have been started with this process
ANSWER_SECONDS = 5.0  # one answer of it, asked for again until API_SECONDS are over
SCHEDULABLE_SECONDS = 20.0  # the node controller looks every 5 s (--node-monitor-period)
UNREADY_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


@dataclass(frozen=True)
class Options:
    """How the process was called; see __main__.py.

    stretch: factor for what it waits for at its start and at a machine's.
    namespaces: kubeconfig of whom it ends deleted namespaces as; None where the controller manager does.
    """

    kubeconfig: Path
    state: Path
    index: int
    node_names: tuple[str, ...]
    webhook_host: str
    webhook_port: int
    pki: Path
    subresources: tuple[str, int]
    stretch: float = 1.0
    namespaces: Path | None = None


def run(options: Options) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        InfraError: it could not start.
    """
    cluster = Cluster.from_kubeconfig(options.kubeconfig)
    context = Context(
        cluster=cluster,
        informers=Informers(cluster),
        events=Events(cluster),
        state=options.state,
        index=options.index,
        nodes=options.node_names,
        faults=Faults(options.state),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: context.stopping.set())
    ready = options.state / "run" / READY_FILE
    ready.parent.mkdir(parents=True, exist_ok=True)
    ready.unlink(missing_ok=True)
    context.disks.mkdir(parents=True, exist_ok=True)
    _wait_for_api(cluster, options.stretch, SERVING)
    server = _serve_webhooks(options, cluster)
    try:
        _start(context, options)
        ready.touch()
        log.info("ready")
        context.stopping.wait()
    finally:
        ready.unlink(missing_ok=True)
        _stop(context, server)


def _wait_for_api(cluster: Cluster, stretch: float, path: str) -> None:
    """Wait until the API server says at a path that it is ready."""

    def answers() -> bool | NotYet:
        try:
            cluster.request("GET", path, read_seconds=ANSWER_SECONDS)
        except InfraError as error:
            return NotYet(str(error))
        return True

    until(answers, deadline=Deadline.after(API_SECONDS * stretch), what="the API server to be ready", interval=0.1)


def _serve_webhooks(options: Options, cluster: Cluster) -> HttpsServer:
    address = (options.webhook_host, options.webhook_port)
    server = serve(address, options.pki / "webhook.crt", options.pki / "webhook.key", cluster)
    threading.Thread(target=server.serve_forever, name="webhooks", daemon=True).start()
    return server


def _start(context: Context, options: Options) -> None:
    url = f"https://{options.webhook_host}:{options.webhook_port}"
    install(context.cluster, ca_bundle=(options.pki / "ca.crt").read_bytes(), webhook_url=url, stretch=options.stretch)
    _wait_for_api(context.cluster, options.stretch, READY)
    for name in context.nodes:
        registration.register(context, name)
    registration.start_heartbeat(context)
    machines = Machines(options.state, options.index, options.stretch)
    guests = _attach(context, machines)
    if options.namespaces is not None:
        context.run(Namespaces(context, Cluster.from_kubeconfig(options.namespaces)).controller)
    _serve_subresources(context, options, guests)
    for name in context.nodes:
        address = options.webhook_host, registration.kubelet_port(context, name)
        stats = Stats(context, guests, name)
        server = kubelet.serve(address, options.pki, _console(context, machines), stats.summary)
        context.on_stop(server.shutdown)
    cdi.start(context)
    context.informers.start()
    context.informers.wait(options.stretch)
    for controller in context.controllers:
        controller.start()
    _wait_for_node(context, options.stretch)
    wait_until_available(context.cluster, options.stretch)


def _serve_subresources(context: Context, options: Options, guests: Guests) -> None:
    """Serve the aggregated API and have the cluster's API server know of it."""
    certificate, key = options.pki / "webhook.crt", options.pki / "webhook.key"
    server = subresources.serve(
        options.subresources, context.cluster, guests, context.faults, certificate=certificate, key=key
    )
    context.on_stop(server.stop)
    signal.signal(signal.SIGUSR1, lambda *_: server.cut())  # for tests: a network that drops connections
    register(context.cluster, options.subresources, (options.pki / "ca.crt").read_bytes())


def _console(context: Context, machines: Machines) -> kubelet.Console:
    """Return the function that finds the console behind a launcher pod."""
    pods = context.informers.of(POD)

    def console(namespace: str, name: str) -> Path | None:
        pod = pods.get(namespace, name)
        uid = instance_uid(pod) if pod is not None else ""
        return machines.console(machine_id(uid)) if uid else None

    return console


def _attach(context: Context, machines: Machines) -> Guests:
    """Connect the controllers of virtual machines and of this node to the context; return what drives the machines."""
    context.run(registration.NodeStatus(context).controller)
    guests = Guests(machines)
    octet = FIRST_SECOND_OCTET + context.index
    addresses = Addresses(context.cluster, context.informers.of(NAMESPACE), context.informers.of(POD), octet)
    context.run(VmController(context).controller)
    context.run(VmiController(context, Agent(context, guests, addresses)).controller)
    context.run(Kubelet(context, guests, addresses).controller)
    context.run(ForeignPods(context).controller)
    context.run(Placement(context).controller)
    context.run(GarbageCollection(context, guests, machines, addresses).controller)
    return guests


def _wait_for_node(context: Context, stretch: float) -> None:
    """Wait until the scheduler may use the Nodes: the taints of an unready one are taken off by its controller."""

    def schedulable() -> bool | NotYet:
        for name in context.nodes:
            node = context.cluster.get(NODE, name)
            if taints := {t["key"] for t in dig(node, "spec", "taints") or []} & UNREADY_TAINTS:
                return NotYet(f"node {name} has taints {', '.join(sorted(taints))}")
        return True

    what = f"node {' and node '.join(context.nodes)} to be schedulable"
    until(schedulable, deadline=Deadline.after(SCHEDULABLE_SECONDS * stretch), what=what, interval=0.1)


def _stop(context: Context, server: HttpsServer) -> None:
    context.stopping.set()
    for controller in context.controllers:
        controller.stop()
    for stopper in context.stoppers:
        stopper()
    context.informers.stop()
    server.shutdown()
    log.info("stopped; machines stay")
