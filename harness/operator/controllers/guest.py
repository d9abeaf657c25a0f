"""Guest cluster's API: its kubeconfig Secret, a client of it, and its Nodes, watched over one connection.

https://cluster-api.sigs.k8s.io/developer/core/secrets (NAME-kubeconfig, key `value`, type, cluster-name label)
"""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import yaml

from harness.errors import InfraError, VmatrixError
from harness.files import write_atomically
from harness.kube.client import Cluster, Json
from harness.kube.informer import Key
from harness.kube.objects import controller_of, dig, ensure, owner_reference
from harness.kube.resources import NODE, SECRET
from harness.machines.keys import PrivateFiles
from harness.machines.reach.portforward import forwarding
from harness.machines.reach.ssh import through
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.endpoint import url_of
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import CLUSTER, CLUSTER_LABEL, MACHINE
from harness.operator.api.sets import CONTROL_PLANE
from harness.operator.context import OperatorContext
from harness.operator.controllers.machine_phase import claimed_by, is_down, own_address
from harness.operator.controllers.ssh import InfraApi
from harness.operator.execute.inputs import KUBECONFIG, state_name
from harness.until import grown

log = logging.getLogger(__name__)
FIRST_RETRY_SECONDS = 0.5  # pacing, doubled with each failure
LAST_RETRY_SECONDS = 60.0  # each try may cost the infra cluster's API a connection
SILENT_SECONDS = 10.0  # a connection that breaks and comes back within this is not news of the guest
Connect = Callable[[], AbstractContextManager[Cluster]]


@dataclass(frozen=True)
class GuestView:
    """What is known of a guest: its Nodes by name and a client; or why it does not answer."""

    nodes: Mapping[str, Json] = field(default_factory=dict)
    guest: Cluster | None = None
    trouble: str = "it was not asked yet"


class GuestNodes:
    """Lists and watches on a thread of its own, and tells when something changed.

    A break is followed by a list, not by more of the same watch: nodes are few, and an answer is a sign of life.

    Attributes: view (what is known now).
    """

    def __init__(self, name: str, connect: Connect, changed: Callable[[], None]) -> None:
        self.view = GuestView()
        self._name = name
        self._connect = connect
        self._changed = changed
        self._failing_since: float | None = None
        self._failures = 0
        self._stopping = threading.Event()
        threading.Thread(target=self._run, name=f"guest-{name}", daemon=True).start()

    def stop(self) -> None:
        """Tell nothing more; the connection ends at its next event or time-out."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._connect() as guest:
                    while not self._stopping.is_set():
                        self._follow(guest)
            except (VmatrixError, OSError) as error:
                self._failed(str(error))

    def _follow(self, guest: Cluster) -> None:
        """List, and watch until the watch ends."""
        listing = guest.list(NODE)
        self._failing_since, self._failures = None, 0
        nodes = {node["metadata"]["name"]: node for node in listing.items}
        self._see(GuestView(nodes, guest, ""))
        for kind, node in guest.watch(NODE, resource_version=listing.resource_version):
            if kind == "ERROR" or self._stopping.is_set():
                return
            if kind != "BOOKMARK":
                name = node["metadata"]["name"]
                others = {known: known_node for known, known_node in nodes.items() if known != name}
                nodes = others if kind == "DELETED" else {**others, name: node}
                self._see(GuestView(nodes, guest, ""))

    def _failed(self, why: str) -> None:
        """Wait before the next try; say that the guest does not answer once that has lasted."""
        now = time.monotonic()
        self._failures += 1
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since >= SILENT_SECONDS:
            log.debug("guest %s does not answer: %s", self._name, why)
            self._see(GuestView(trouble=why))
        self._stopping.wait(grown(FIRST_RETRY_SECONDS, self._failures, LAST_RETRY_SECONDS))

    def _see(self, view: GuestView) -> None:
        if view != self.view and not self._stopping.is_set():
            self.view = view
            self._changed()


SECRET_TYPE, NAME_LABEL, KEY = "cluster.x-k8s.io/secret", "cluster.x-k8s.io/cluster-name", "value"


def secret_name(cluster: str) -> str:
    """Return the name of the Secret."""
    return f"{cluster}-kubeconfig"


def _secret(cluster: Json, name: str, value: str) -> Json:
    """Return a Secret of a Cluster with a kubeconfig in base64."""
    meta = cluster["metadata"]
    labels = {CLUSTER_LABEL: meta["name"], NAME_LABEL: meta["name"], LABEL_MANAGED: MANAGED_BY}
    body = SECRET.manifest(name, meta["namespace"], labels=labels, type=SECRET_TYPE, data={KEY: value})
    body["metadata"]["ownerReferences"] = [owner_reference(cluster, CLUSTER)]
    return body


def hand_out(api: Cluster, cluster: Json) -> bool:
    """Make the Secret hold what the playbooks kept; tell whether they kept one. Writes only what is different.

    Where another cluster calls its Secret for people like this, that one gives way: the operator opens nothing else.
    """
    name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    kept = dig(api.get(SECRET, state_name(name), namespace), "data", KUBECONFIG)
    if not kept:
        return False
    body, secret = _secret(cluster, secret_name(name), kept), api.get(SECRET, secret_name(name), namespace)
    if secret is not None:
        del body["type"]  # which never changes
        if controller_of(secret) is None:
            body["metadata"] = {"name": secret_name(name), "namespace": namespace}  # somebody's own stays theirs
    ensure(api, SECRET, body)
    return True


def take_back(api: Cluster, cluster: Json) -> None:
    """Delete the Secret: there is no cluster any more that it opens."""
    api.delete(SECRET, secret_name(cluster["metadata"]["name"]), cluster["metadata"]["namespace"])


def people_secret_name(cluster: str) -> str:
    """Return the name of the Secret with the kubeconfig that names the endpoint, as Cluster API's providers call it."""
    return f"{cluster}-user-kubeconfig"


def at_server(kubeconfig: bytes, url: str) -> bytes:
    """Return a kubeconfig whose clusters are all reached at a URL."""
    whole = yaml.safe_load(kubeconfig)
    for cluster in whole["clusters"]:
        cluster["cluster"]["server"] = url
    return yaml.safe_dump(whole, sort_keys=False).encode()


def is_of_others(api: Cluster, cluster: Json) -> bool:
    """Tell whether another object has the Secret for people: a ClusterUser `kubeconfig`, or a Cluster `NAME-user`."""
    name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    secret = api.get(SECRET, people_secret_name(name), namespace)
    return secret is not None and (controller_of(secret) or {}).get("uid") != cluster["metadata"]["uid"]


def for_people(api: Cluster, cluster: Json, url: str) -> None:
    """Make the Secret for people hold the administrator's kubeconfig, if there is one, with the endpoint's URL.

    Writes only what is different, and nothing where the Secret is another object's.
    """
    name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    own = dig(api.get(SECRET, secret_name(name), namespace), "data", KEY)
    if own and not is_of_others(api, cluster):
        value = base64.b64encode(at_server(base64.b64decode(own), url)).decode()
        ensure(api, SECRET, _secret(cluster, people_secret_name(name), value))


def take_from_people(api: Cluster, cluster: Json) -> None:
    """Delete the Secret for people, unless it is another object's: there is no endpoint that it could name."""
    if not is_of_others(api, cluster):
        api.delete(SECRET, people_secret_name(cluster["metadata"]["name"]), cluster["metadata"]["namespace"])


def another_server(kubeconfig: bytes, machines: Sequence[Json]) -> str | None:
    """Return the URL of another control plane where the one that a kubeconfig names is down, None where it need not be.

    Args:
        machines: of the cluster.
    """
    try:
        named = urlsplit(yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["server"]).hostname
    except (yaml.YAMLError, LookupError, TypeError, ValueError):
        return None  # whoever opens it says what is wrong
    planes = {
        own_address(machine): is_down(machine)
        for machine in machines
        if CONTROL_PLANE in (dig(machine, "status", "roles") or ())
    }
    if not planes.get(named or "", False):
        return None
    return next((url_of(address) for address, down in sorted(planes.items()) if address and not down), None)


class NoKubeconfig(InfraError):
    """There is no Secret with a kubeconfig of the guest cluster."""


class GuestAccess:
    """Opens guest clusters."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._stretch = context.options.stretch
        self._api = InfraApi.of(context)
        self._machines = context.informers.of(MACHINE)
        self._files = PrivateFiles()
        context.on_stop(self._files.close)

    @contextmanager
    def open(self, key: Key) -> Iterator[Cluster]:
        """Give a client of a Cluster's guest; what it is reached through ends with the body.

        Raises:
            NoKubeconfig: see there.  BadInput: the kubeconfig cannot be used.
        """
        name = secret_name(key[1])
        encoded = dig(self._cluster.get(SECRET, name, key[0]), "data", KEY)
        if not encoded:
            raise NoKubeconfig(f"there is no Secret {name} with a kubeconfig as {KEY}")
        own = [DeclaredMachine.model_validate(machine) for machine in claimed_by(self._machines, key)]
        instances = {
            address: machine.instance
            for machine in own
            for address in (machine.address, machine.ipv6_address)
            if machine.instance and address
        }
        kubeconfig = base64.b64decode(encoded)
        if (instead := another_server(kubeconfig, claimed_by(self._machines, key))) is not None:
            kubeconfig = at_server(kubeconfig, instead)
        with ExitStack() as held:
            with self._files.use() as folder:  # which holds a key, only until it was read
                path = folder / "kubeconfig"
                write_atomically(path, kubeconfig, mode=0o600)
                if instances and self._api is not None:
                    tunnels = self._api.tunnels(key[0], instances, self._stretch)
                    path = through(path, held.enter_context(forwarding(tunnels)).url, folder / "proxied")
                guest = Cluster.from_kubeconfig(path)
            yield guest
