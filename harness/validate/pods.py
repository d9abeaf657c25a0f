"""Pods and namespaces that checks create in a guest, and waiting for them."""

from __future__ import annotations

from typing import Any

from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, POD, SERVICE_ACCOUNT, Resource
from harness.until import Deadline, NotYet, until

HTTP_PORT = 8080
INTERVAL = 0.3  # seconds between looks


def wait_until_gone(api: Cluster, resource: Resource, name: str, namespace: str | None, deadline: Deadline) -> None:
    """Wait for an object to be gone. Raises TimedOut with the object's phase."""

    def gone() -> bool | NotYet:
        obj = api.get(resource, name, namespace)
        return True if obj is None else NotYet(f"its phase is {obj.get('status', {}).get('phase')}")

    until(gone, deadline=deadline, what=f"{resource.kind} {name} to be gone", interval=INTERVAL)


def ensure_namespace(api: Cluster, name: str) -> None:
    """Create a namespace unless it exists."""
    api.ensure(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def wait_for_service_account(api: Cluster, namespace: str, deadline: Deadline) -> None:
    """Wait for the default ServiceAccount: pods created before it are refused, and retried only later."""
    until(
        lambda: api.get(SERVICE_ACCOUNT, "default", namespace) or NotYet("there is none"),
        deadline=deadline,
        what=f"namespace {namespace} to have its default ServiceAccount",
        interval=INTERVAL,
    )


def describe_pods(api: Cluster, namespace: str) -> str:
    """Return the pods of a namespace, each with its phase and its last events, as lines."""
    lines: list[str] = []
    for pod in api.list(POD, namespace).items:
        events = api.events_of(namespace, pod["metadata"]["name"])
        lines += [f"{pod['metadata']['name']} ({pod['status'].get('phase')}):", *(f"  {line}" for line in events[-5:])]
    return "\n".join(lines)


def container(name: str, image: str, **fields: Any) -> dict[str, Any]:
    """Return a small container."""
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    return {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "resources": resources, **fields}


def netexec(image: str, *arguments: str, **probe: Any) -> dict[str, Any]:
    """Return a container of agnhost's `netexec`, which answers over HTTP.

    Args:
        probe: fields of the readiness probe.
    """
    readiness = {"httpGet": {"path": "/healthz", "port": HTTP_PORT}, "periodSeconds": 1, **probe}
    arguments = ("netexec", f"--http-port={HTTP_PORT}", *arguments)
    return container("netexec", image, args=[*arguments], readinessProbe=readiness)
