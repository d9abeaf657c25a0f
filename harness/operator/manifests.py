"""What runs the operator in a cluster, as manifests: definitions, a role for each controller, accounts, Deployments.

deploy/operator has the same as files for kustomize; a test holds these to what is written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.infra.cluster.rights import Right, binding, role
from harness.kube.failures import Json
from harness.kube.kinds.definition import as_yaml
from harness.kube.resources import DEPLOYMENT, SERVICE, SERVICE_ACCOUNT, container_security, pod_security
from harness.operator import rights
from harness.operator.api import crds
from harness.operator.context import GIT_PORT
from harness.operator.execute.objects import TEMPORARY, USER
from harness.operator.manager import HEALTH_PORT
from harness.operator.registry import ALL, PARTS, WEBHOOKS
from harness.operator.webhooks.configurations import PORT as WEBHOOK_PORT
from harness.operator.webhooks.configurations import PORT_NAME as WEBHOOK_PORT_NAME
from harness.operator.webhooks.configurations import SERVICE_NAME, configuration_name, webhook_objects

NAME = "vmatrix-operator"
LABELS = {"app.kubernetes.io/name": NAME}
PART = "app.kubernetes.io/component"
GRACE_SECONDS = 30  # from SIGTERM to SIGKILL: registry.END_SECONDS, and what Python takes
PROBE_SECONDS = 10  # between two looks; a manager that sees nothing any more is started anew after three
FIRST_SECONDS = 1  # between two looks until it answers: everything waits for it, and its first look follows at once
READY_SECONDS = 5  # between two looks whether it is ready
STARTS = 120  # looks, two minutes: the first start on a busy node reads the whole image
# Twice what two hundred clusters take; an idle one has a third of it.
RESOURCES = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "768Mi"}}


def deployment(
    name: str,
    namespace: str,
    image: str,
    *,
    controllers: Sequence[str],
    everywhere: bool,
    host_network: bool = False,
    of_builds: Sequence[str] = (),
) -> Json:
    """Return the Deployment of a manager, which has a service account of its name.

    Args:
        controllers: those that it runs; all of them for none.
        everywhere: whether it looks at all namespaces, not at its own alone.
        host_network: whether it has its node's addresses, because API servers reach those alone.
        of_builds: further arguments, if it builds revisions of Deliveries.
    """
    labels = {**LABELS, PART: name}
    words = [] if everywhere else ["--namespace=$(POD_NAMESPACE)"]
    words += [f"--controllers={','.join(controllers)}"] if controllers else []
    words += of_builds if _runs(BUILDS, controllers) else []
    ports = {"health": HEALTH_PORT, **({WEBHOOK_PORT_NAME: WEBHOOK_PORT} if WEBHOOKS in controllers else {})}
    ports |= {GIT: GIT_PORT} if _runs(GIT, controllers) else {}
    pod = {
        "serviceAccountName": name,
        "enableServiceLinks": False,
        **({"hostNetwork": True} if host_network else {}),
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": pod_security(USER),
        "containers": [_container(image, words, ports)],
        "volumes": [{"name": "temporary", "emptyDir": {}}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return DEPLOYMENT.manifest(name, namespace, labels=LABELS, spec=spec)


def _runs(controller: str, controllers: Sequence[str]) -> bool:
    return not controllers or ALL in controllers or controller in controllers


def _container(image: str, words: Sequence[str], ports: Mapping[str, int]) -> Json:
    own = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    lives = {"httpGet": {"path": "/healthz", "port": "health"}}
    return {
        "name": "manager",
        "image": image,
        "command": ["vmatrix"],
        "args": ["operator", "run", *words],
        "env": [
            {"name": "HOME", "value": TEMPORARY},
            *({"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in own.items()),
        ],
        "ports": [{"name": port, "containerPort": number} for port, number in ports.items()],
        "livenessProbe": {**lives, "periodSeconds": PROBE_SECONDS},
        "startupProbe": {**lives, "periodSeconds": FIRST_SECONDS, "failureThreshold": STARTS},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": READY_SECONDS},
        "securityContext": container_security(),
        "resources": RESOURCES,
        "volumeMounts": [{"name": "temporary", "mountPath": TEMPORARY}],
    }


BUILDS = "builds"  # the controller
GIT = "gitwebhooks"  # the controller, its port and its Service
HEADER = "# Written by `vmatrix operator manifests --write` from harness/operator. Do not edit.\n"
USERS = f"{NAME}-machine-user"  # the role of people whose ClusterDeployments may take Machines
DELIVERERS = f"{NAME}-deliverer"  # the role of people whose Deliveries may go into guest clusters
NAMESPACE, IMAGE = NAME, "vmatrix"  # in deploy/operator; kustomize replaces both


@dataclass(frozen=True)
class Installation:
    """One operator in a cluster.

    Attributes: namespace (of the managers, and the only one they look at), image, apart (each controller has a manager
    and an account of its own), everywhere (managers look at all namespaces), webhooks (managers serve them),
    host_network (those that serve them have their nodes' addresses), of_builds (further arguments of managers that
    build revisions of Deliveries).
    """

    namespace: str = NAMESPACE
    image: str = IMAGE
    apart: bool = False
    everywhere: bool = False
    webhooks: bool = False
    host_network: bool = False
    of_builds: tuple[str, ...] = ()

    def files(self) -> dict[str, list[Json]]:
        """Return the objects by the file that they are in, without the definitions."""
        # The managers by the names of their accounts, with the controllers that each runs; none: all.
        managers = {f"{NAME}-{part.name}": (part.name,) for part in PARTS} if self.apart else {NAME: ()}
        where = None if self.everywhere else self.namespace
        made = {
            "rbac/accounts.yml": [SERVICE_ACCOUNT.manifest(name, self.namespace, labels=LABELS) for name in managers],
            "rbac/manager.yml": [
                *self._granted("manager", rights.MANAGER, managers, self.namespace),
                *self._granted("definitions", rights.DEFINITIONS, managers, None),
            ],
        }
        for part in PARTS:
            accounts = [account for account, runs in managers.items() if part.name in runs or not runs]
            rights_of_part = rights.rights_of(part)
            outside = [right for right in rights_of_part if where and not right.resource.namespaced]
            made[f"rbac/{part.name}.yml"] = self._granted(
                part.name, [right for right in rights_of_part if right not in outside], accounts, where
            )
            if outside:
                made[f"rbac/{part.name}.yml"] += self._granted(f"{part.name}-cluster", outside, accounts, None)
        served = (ALL, WEBHOOKS) if self.webhooks and not self.apart else ()
        made["manager.yml"] = [self._manager(name, runs or served) for name, runs in managers.items()]
        made["manager.yml"].append(self._git_service(f"{NAME}-{GIT}" if self.apart else NAME))
        if self.webhooks:
            made |= self._webhooks(where, list(managers))
        return made

    def _webhooks(self, where: str | None, managers: Sequence[str]) -> dict[str, list[Json]]:
        """Return what webhooks need: of a Deployment of their own where all controllers have theirs."""
        server = SERVICE_NAME if self.apart else NAME
        configuration = configuration_name(self.namespace)  # a role for each operator: it names its configurations
        about, everywhere = f"webhooks{configuration.removeprefix(NAME)}", rights.webhooks_everywhere(configuration)
        granted = [
            *self._granted("webhooks-own", rights.WEBHOOKS_OWN, [server], self.namespace),
            *self._granted("webhooks", rights.WEBHOOKS, [server], where),
            *self._granted(f"everywhere-{about}", everywhere, [server], None),
            role(USERS, rights.USE, None, LABELS),
            role(DELIVERERS, rights.INTO_GUESTS, None, LABELS),
        ]
        alone = [SERVICE_ACCOUNT.manifest(server, self.namespace, labels=LABELS)] if self.apart else []
        if self.apart:
            alone.append(self._manager(server, (WEBHOOKS,)))
        pod = {**LABELS, PART: server}
        called = webhook_objects(self.namespace, pod=pod, writers=managers, everywhere=self.everywhere, labels=LABELS)
        return {"rbac/webhooks.yml": granted, "webhooks.yml": [*alone, *called]}

    def _git_service(self, manager: str) -> Json:
        """Return the Service by which git servers, or an Ingress for them, reach the manager that hears them."""
        ports = [{"name": "http", "port": 80, "targetPort": GIT}]
        spec = {"selector": {**LABELS, PART: manager}, "ports": ports}
        return SERVICE.manifest(f"{NAME}-{GIT}", self.namespace, labels=LABELS, spec=spec)

    def _manager(self, name: str, controllers: Sequence[str]) -> Json:
        return deployment(
            name,
            self.namespace,
            self.image,
            controllers=controllers,
            everywhere=self.everywhere,
            host_network=self.host_network and WEBHOOKS in controllers,
            of_builds=self.of_builds,
        )

    def objects(self) -> list[Json]:
        """Return all objects in the order in which they are applied."""
        return [*crds.crds(), *(body for bodies in self.files().values() for body in bodies)]

    def _granted(self, about: str, granted: Iterable[Right], accounts: Iterable[str], where: str | None) -> list[Json]:
        """Return a role and its binding: in a namespace, or in all (None), where other operators may have theirs."""
        name = f"{NAME}-{about}"
        bound = name if where or self.namespace == NAMESPACE else f"{name}-{self.namespace}"
        return [role(name, granted, where, LABELS), binding(bound, name, accounts, self.namespace, where, LABELS)]


def text(objects: Iterable[Json]) -> str:
    """Return objects as YAML documents."""
    return "---\n".join(map(as_yaml, objects))


def committed() -> dict[str, str]:
    """Return the files of deploy/operator besides the definitions, the namespace and the samples."""
    files = Installation().files()
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": [*(f"crds/{name}" for name in crds.files()), "namespace.yml", *files],
        "images": [{"name": IMAGE, "newName": IMAGE, "newTag": "latest"}],
    }
    made = {**files, "kustomization.yaml": [kustomization]}
    return {name: HEADER + text(bodies) for name, bodies in made.items()}
