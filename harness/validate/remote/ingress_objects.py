"""What is behind and in front of an ingress controller: pods, Services, Secrets and Ingresses of checks."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from harness.kube import Cluster
from harness.kube.resources import INGRESS, INGRESS_CLASS, NAMESPACE, POD, SECRET, SERVICE
from harness.kube.serving import begun
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, until
from harness.validate.facts.cluster import Json
from harness.validate.facts.ingress_cases import BLUE, HOSTS, IDLE, INGRESSES, OTHER_CLASS, RED, Given
from harness.validate.pods import (
    HTTP_PORT,
    INTERVAL,
    container,
    describe_pods,
    ensure_namespace,
    wait_for_service_account,
    wait_until_gone,
)

NAME = "vmatrix-ingress"  # the namespace
NOBODY = "vmatrix.dev/nobody"  # the controller of the other class: there is none
SERVICE_PORT = 80


@dataclass
class PublishedIngresses:
    """What a guest publishes. certificates: what is in the Secret of each host, as PEM."""

    api: Cluster
    certificates: dict[str, bytes] = field(default_factory=dict)

    def give(self, wanted: Given) -> None:
        """Let an Ingress be as given, whether it is there or not."""
        if self.api.get(INGRESS, wanted.name, NAME) is None:
            self.api.create(INGRESS, _ingress(wanted))
        else:
            self.api.replace(INGRESS, _ingress(wanted))

    def take(self, name: str) -> None:
        """Take an Ingress away."""
        self.api.delete(INGRESS, name, NAME)

    def certify(self, host: str) -> None:
        """Make a new certificate for a host, and put it into the host's Secret."""
        made = begun("vmatrix ingress checks", [host], datetime.now(UTC))
        body = _secret(HOSTS.secrets[host], made.certificate, made.key)
        if self.api.get(SECRET, HOSTS.secrets[host], NAME) is None:
            self.api.create(SECRET, body)
        else:
            self.api.replace(SECRET, body)
        self.certificates[host] = made.certificate

    def addresses(self) -> Mapping[str, list[str]]:
        """Return what the status of each Ingress shows: addresses and names."""
        return {one["metadata"]["name"]: _shown(one) for one in self.api.list(INGRESS, NAME).items}

    def stand_behind(self, service: str, pod: str) -> None:
        """Let a pod be the one behind a Service."""
        self.api.merge(SERVICE, service, {"spec": {"selector": {"app": pod}}}, NAME)


def place(api: Cluster, nodes: tuple[str, ...], image: str, timeouts: Timeouts) -> PublishedIngresses:
    """Create everything; wait for the pods to be ready.

    Raises:
        TimedOut: with the pods that are not ready, and their last events.
    """
    deadline = Deadline.after(timeouts.probe_pods)
    remove(api, deadline)  # of an earlier or interrupted run
    ensure_namespace(api, NAME)
    wait_for_service_account(api, NAME, deadline)
    api.create(INGRESS_CLASS, _other_class())
    for pod, node in ((RED, nodes[0]), (BLUE, nodes[-1])):
        api.create(POD, _pod(pod, node, image))
    for service in (RED, BLUE, IDLE):
        api.create(SERVICE, _service(service))
    published = PublishedIngresses(api)
    for host in HOSTS.secrets:
        published.certify(host)
    for given in INGRESSES:
        published.give(given)
    until(
        lambda: _ready(api),
        deadline=deadline,
        what="the pods of the checks of Ingresses to be ready",
        describe=lambda: describe_pods(api, NAME),
        interval=INTERVAL,
    )
    return published


def remove(api: Cluster, deadline: Deadline) -> None:
    """Remove the other class, and the namespace with all that is in it; wait until it is gone. Idempotent."""
    api.delete(INGRESS_CLASS, OTHER_CLASS)
    if api.get(NAMESPACE, NAME) is not None:
        api.delete(NAMESPACE, NAME)
        wait_until_gone(api, NAMESPACE, NAME, None, deadline)


def _ready(api: Cluster) -> bool | NotYet:
    missing = {RED, BLUE} - {pod["metadata"]["name"] for pod in api.list(POD, NAME).items if _is_ready(pod)}
    return NotYet(f"not ready: {', '.join(sorted(missing))}") if missing else True


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _shown(ingress: Json) -> list[str]:
    there = ingress.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    return [str(one.get("ip") or one.get("hostname") or "") for one in there]


def _pod(name: str, node: str, image: str) -> Json:
    """Return a pod that answers every path with its name."""
    readiness = {"httpGet": {"path": "/", "port": HTTP_PORT}, "periodSeconds": 1}
    arguments = ["serve-hostname", f"--port={HTTP_PORT}"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAME, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container("web", image, args=arguments, readinessProbe=readiness)],
        },
    }


def _service(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAME},
        "spec": {"selector": {"app": name}, "ports": [{"port": SERVICE_PORT, "targetPort": HTTP_PORT}]},
    }


def _secret(name: str, certificate: bytes, key: bytes) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAME},
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": b64encode(certificate).decode(), "tls.key": b64encode(key).decode()},
    }


def _other_class() -> Json:
    metadata = {"name": OTHER_CLASS}
    spec = {"controller": NOBODY}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": metadata, "spec": spec}


def _ingress(given: Given) -> Json:
    hosts = dict.fromkeys(rule.host for rule in given.rules)
    paths = {host: [rule for rule in given.rules if rule.host == host] for host in hosts}
    spec: Json = {
        "rules": [
            {
                "host": host,
                "http": {
                    "paths": [
                        {
                            "path": rule.path,
                            "pathType": rule.kind,
                            "backend": {"service": {"name": rule.service, "port": {"number": SERVICE_PORT}}},
                        }
                        for rule in rules
                    ]
                },
            }
            for host, rules in paths.items()
        ],
        "tls": [{"hosts": [host], "secretName": name} for host, name in given.secrets.items()],
    }
    if given.class_name is not None:
        spec["ingressClassName"] = given.class_name
    metadata = {"name": given.name, "namespace": NAME}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": spec}
