"""Manager process: wait for the Lease, start the controllers, serve health, metrics and webhooks, end on SIGTERM."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.errors import BadInput
from harness.kube.client import Cluster
from harness.kube.in_cluster import in_cluster_kubeconfig, own_image, own_namespace
from harness.kube.kubeconfig import Files, files_of
from harness.kube.leader import LEASE_SECONDS, Leadership, LeaseTimes
from harness.kube.serving import Health, health_served
from harness.operator.api.crds import REMEDY, crds_older
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    CLUSTER_USER,
    DELIVERY,
    ETCD_BACKUP,
    ETCD_CLUSTER,
    MACHINE,
)
from harness.operator.context import OperatorContext, OperatorOptions
from harness.operator.metrics import DeclaredObjects, of_moments
from harness.operator.registry import NAMES, WEBHOOKS, Part, add, chosen, start, stop
from harness.operator.webhooks.certificates import Certificates
from harness.operator.webhooks.configurations import PORT as WEBHOOK_PORT
from harness.operator.webhooks.server import Webhooks
from harness.until import Deadline, until


class Serves:
    """The servers of one manager; as a context, webhooks are served in its body.

    Attributes: working (set once the controllers work).
    """

    def __init__(self, context: OperatorContext, leadership: Leadership, webhooks: Webhooks | None) -> None:
        self.working = threading.Event()
        self._context = context
        self._leadership = leadership
        self._webhooks = webhooks

    def __enter__(self) -> None:
        if self._webhooks is not None:
            self._webhooks.start()

    def __exit__(self, *_: object) -> None:
        if self._webhooks is not None:
            self._webhooks.stop()

    @contextmanager
    def health(self, port: int) -> Iterator[int]:
        """Answer probes in the body; give the port. Raises BadInput if it cannot be had."""
        health = Health(self._ails, self._waits, self._figures)
        with health_served(health, port, hint="choose another: --health-port") as served:
            yield served

    def _ails(self) -> str:
        deaf = self._context.informers.deaf()
        return f"nothing is seen any more of {', '.join(deaf)}" if deaf else ""

    def _waits(self) -> str:
        """Tell what is waited for. A manager that waits for the Lease is ready: it can take over."""
        if self._webhooks is not None and not self._webhooks.serving.is_set():
            return "waiting for the webhooks' certificate"
        return "waiting for the first lists" if self._context.controllers and not self.working.is_set() else ""

    def _figures(self) -> str:
        context, working = self._context, self.working.is_set()
        made = context.metrics.text(context.controllers, leading=working)
        expires = self._webhooks.expires if self._webhooks is not None else None
        made += of_moments(self._leadership.renewed_at, expires)
        known = context.informers.known
        objects = DeclaredObjects(
            *map(known, (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE, ETCD_BACKUP, DELIVERY, CLUSTER_USER, ETCD_CLUSTER))
        )
        return made + (objects.text() if working else "")


log = logging.getLogger(__name__)
LEASE_NAME = "vmatrix-operator"
API_SECONDS = 30.0  # an API server that is being replaced is back by then
HEALTH_PORT = 8081  # as most operators': nobody has to know another


@dataclass(frozen=True)
class ManagerSettings:
    """How a manager was called.

    Attributes: kubeconfig (None: $KUBECONFIG, else the pod's own service account), namespace (the only one to look at),
    controllers (names; none: all), options (what controllers are told), health_port (0: any free one), lease_seconds,
    webhook_port (on which webhooks are served, if `controllers` says so; 0: any free one).
    """

    kubeconfig: Path | None = None
    namespace: str | None = None
    controllers: tuple[str, ...] = ()
    options: OperatorOptions = field(default_factory=OperatorOptions)
    health_port: int = HEALTH_PORT
    lease_seconds: float = LEASE_SECONDS
    webhook_port: int = WEBHOOK_PORT


def run(settings: ManagerSettings, environment: Mapping[str, str] = os.environ) -> None:
    """Work, or wait for the Lease to work, until SIGTERM or SIGINT.

    Raises:
        BadInput: what was given cannot be used, or definitions are older than this manager.
        InfraError: the API does not answer or refuses.  LeadershipLost: another manager works.
    """
    parts = chosen(settings.controllers)
    with tempfile.TemporaryDirectory(prefix="vmatrix-operator-") as folder:
        kubeconfig = kubeconfig_of(settings, environment, Path(folder))
        cluster = Cluster.from_kubeconfig(kubeconfig)
        options = settings.options
        if not options.executor_image:
            options = replace(options, executor_image=own_image(cluster, environment))
        context = OperatorContext.of(cluster, kubeconfig, namespace=settings.namespace, options=options)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: context.stopping.set())
        home = settings.namespace or own_namespace(environment) or "default"
        times = LeaseTimes.lasting(settings.lease_seconds)
        prompt = Cluster.from_kubeconfig(kubeconfig, patience=times.patience(options.stretch))
        leadership = Leadership(prompt, home, lease_name(parts), identity(), times=times)
        serving = Serves(context, leadership, _webhooks(settings, context, home))
        with serving.health(settings.health_port) as port, serving:
            log.info("health on port %d", port)
            if settings.controllers == (WEBHOOKS,):
                context.stopping.wait()
            else:
                _work(context, parts, leadership, serving.working)


def _work(context: OperatorContext, parts: tuple[Part, ...], leadership: Leadership, working: threading.Event) -> None:
    """Wait for the Lease, and have the controllers that lead work for as long as it is this process's."""
    _check_definitions(context)
    try:
        add(context, (part for part in parts if not part.leads))
        log.info("waiting for %s", leadership.where)
        if not leadership.acquire(context.stopping):
            return
        start(context, [part for part in parts if part.leads])
        working.set()
        leadership.keep(context.stopping)
    finally:
        if stop(context):  # else a look may still be under way: the Lease ends by itself
            leadership.release()
        log.info("stopped; executors go on by themselves")


def _check_definitions(context: OperatorContext) -> None:
    """Refuse definitions that would drop what this manager writes.

    Raises:
        BadInput: some are missing or older.  TimedOut: the API does not answer.
    """
    deadline = Deadline.after(API_SECONDS * context.options.stretch)
    what = "the definitions of the operator's kinds"
    older = until(lambda: (crds_older(context.cluster),), deadline=deadline, what=what)[0]
    if older:
        raise BadInput(older[0], detail="\n".join(older[1:]), hint=REMEDY)


def kubeconfig_of(settings: ManagerSettings, environment: Mapping[str, str], folder: Path) -> Files:
    """Return the kubeconfig to use; that of a pod's service account is written into `folder`.

    Raises:
        BadInput: there is none.
    """
    if settings.kubeconfig is not None:
        return settings.kubeconfig
    if environment.get("KUBECONFIG"):
        return files_of(environment, Path.home())
    own = in_cluster_kubeconfig(folder / "kubeconfig", environment)
    if own is None:
        raise BadInput("there is no kubeconfig and no service account of a pod", hint="pass --kubeconfig PATH")
    return own


def lease_name(parts: tuple[Part, ...]) -> str:
    """Return the name of the Lease: managers that run different controllers do not wait for each other."""
    names = [part.name for part in parts]
    return LEASE_NAME if len(names) == len(NAMES) else "-".join((LEASE_NAME, *names))


def identity() -> str:
    """Return a name of this process that no other process on any machine has."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


def _webhooks(settings: ManagerSettings, context: OperatorContext, home: str) -> Webhooks | None:
    if WEBHOOKS not in settings.controllers:
        return None
    certificates = Certificates(context.cluster, home)
    address = ("", settings.webhook_port)
    return Webhooks(certificates, context.options.executor_image, address, context.metrics.webhook_answered)
