"""The manager's Deployment: what `vmatrix operator run` is given in a pod.

It passes Pod Security `restricted`. It needs no cluster DNS: the API server's address is in its environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.kube.failures import Json
from harness.kube.resources import DEPLOYMENT
from harness.kube.restricted import container_security, pod_security
from harness.operator.execute.pod import TEMPORARY, USER
from harness.operator.manager import HEALTH_PORT
from harness.operator.registry import WEBHOOKS
from harness.operator.webhooks.configurations import PORT as WEBHOOK_PORT
from harness.operator.webhooks.configurations import PORT_NAME as WEBHOOK_PORT_NAME

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
) -> Json:
    """Return the Deployment of a manager, which has a service account of its name.

    Args:
        controllers: those that it runs; all of them for none.
        everywhere: whether it looks at all namespaces, not at its own alone.
        host_network: whether it has its node's addresses, because API servers reach those alone.
    """
    labels = {**LABELS, PART: name}
    words = [] if everywhere else ["--namespace=$(POD_NAMESPACE)"]
    words += [f"--controllers={','.join(controllers)}"] if controllers else []
    ports = {"health": HEALTH_PORT, **({WEBHOOK_PORT_NAME: WEBHOOK_PORT} if WEBHOOKS in controllers else {})}
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
