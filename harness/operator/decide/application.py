"""The objects of an application: Deployment, Service and Ingress, as a Delivery wants them of one image.

In a guest cluster, the Secret by which its nodes pull the image is among them.

They are applied server-side, with no field but those that the Delivery is about. So whatever else is in an object, an
autoscaler's replicas above all, is other people's and stays as they want it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from harness.kube.client import Json
from harness.kube.objects import condition, dig, is_condition, owner_reference, phase
from harness.kube.resources import DEPLOYMENT, INGRESS, SECRET, SERVICE, Resource
from harness.kube.rollout import waits_for
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.delivery import ContainerResources, DeliveredRevision, Delivery, HealthProbe
from harness.operator.api.resources import (
    APPLICATION_LABEL,
    DELIVERY,
    DELIVERY_LABEL,
    DELIVERY_NAMESPACE_LABEL,
    REVISION_ANNOTATION,
)
from harness.operator.decide.delivery import RolloutState

CONTAINER = "app"
NAME_LABEL = "app.kubernetes.io/name"
# By which keys entries of a list are the same one, as the API server merges pod templates.
LIST_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "imagePullSecrets": ("name",),
    "ports": ("containerPort", "protocol"),
}


def target_namespace(delivery: Delivery) -> str:
    """Return the namespace of the application."""
    return delivery.spec.deploy.namespace or delivery.metadata.namespace


def at_home(delivery: Delivery) -> bool:
    """Tell whether the application lies where its Delivery does, and so goes with it by itself."""
    return not delivery.spec.deploy.cluster and target_namespace(delivery) == delivery.metadata.namespace


def owner_of(delivery: Delivery) -> Json | None:
    """Return the reference by which objects go with their Delivery; None where it lies elsewhere."""
    meta = delivery.metadata
    return owner_reference({"metadata": {"name": meta.name, "uid": meta.uid}}, DELIVERY) if at_home(delivery) else None


def merged(below: Any, above: Any, name: str = "") -> Any:
    """Return a value with another merged over it; lists whose entries have a key by that."""
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        names = {**below, **above}
        return {
            key: merged(below[key], above[key], key) if key in below and key in above else names[key] for key in names
        }
    keys = LIST_KEYS.get(name)
    if keys is None or not isinstance(below, list) or not isinstance(above, list):
        return above
    made = {_key(entry, keys): entry for entry in below}
    for entry in above:
        at = _key(entry, keys)
        made[at] = merged(made[at], entry) if at in made else entry
    return list(made.values())


def _key(entry: Any, keys: Sequence[str]) -> tuple[Any, ...]:
    usual = {"protocol": "TCP"}
    return tuple(entry.get(key, usual.get(key)) if isinstance(entry, Mapping) else entry for key in keys)


def application_kinds(delivery: Delivery) -> tuple[Resource, ...]:
    """Return the kinds of the objects that run an image, which its author has to be allowed to create."""
    deploy = delivery.spec.deploy
    service = (SERVICE,) if deploy.ports and deploy.service.type != "None" else ()
    return (DEPLOYMENT, *service, *((INGRESS,) if deploy.ingress is not None else ()))


PULL_SECRET_TYPE, PULL_KEY = "kubernetes.io/dockerconfigjson", ".dockerconfigjson"


def pull_secret_name(delivery: Delivery) -> str | None:
    """Return the name of the Secret by which nodes of the target pull; None where they need none."""
    reference = delivery.spec.deploy.pull_secret_ref
    if reference is None:
        return None
    return f"{delivery.metadata.name}-pull" if delivery.spec.deploy.cluster else reference.name


def application_objects(
    delivery: Delivery, entry: DeliveredRevision, *, scaled: bool, pulls: bytes | None = None
) -> list[Json]:
    """Return the objects that run an image.

    Args:
        scaled: whether somebody else decides how many pods there are.
        pulls: what the Secret by which nodes pull holds (.dockerconfigjson), where the target needs a copy of it.
    """
    owner, kinds = owner_of(delivery), application_kinds(delivery)
    made = [_pull_secret(delivery, pulls)] if pulls is not None else []
    made += [_deployment(delivery, entry, scaled=scaled)]
    made += [_service(delivery)] if SERVICE in kinds else []
    made += [_ingress(delivery)] if INGRESS in kinds else []
    if owner is not None:
        for body in made:
            body["metadata"]["ownerReferences"] = [owner]
    return made


def _labels(delivery: Delivery) -> dict[str, str]:
    meta = delivery.metadata
    own = {DELIVERY_LABEL: meta.name, DELIVERY_NAMESPACE_LABEL: meta.namespace}
    return {NAME_LABEL: meta.name, LABEL_MANAGED: MANAGED_BY, **own}


def selector(delivery: Delivery) -> dict[str, str]:
    """Return the labels by which the application's pods are found; they never change."""
    return {APPLICATION_LABEL: delivery.metadata.name}


def _pull_secret(delivery: Delivery, content: bytes) -> Json:
    data = {PULL_KEY: base64.b64encode(content).decode()}
    name, space = str(pull_secret_name(delivery)), target_namespace(delivery)
    return SECRET.manifest(name, space, labels=_labels(delivery), type=PULL_SECRET_TYPE, data=data)


def _deployment(delivery: Delivery, entry: DeliveredRevision, *, scaled: bool) -> Json:
    deploy, chosen = delivery.spec.deploy, selector(delivery)
    pod = merged(_pod(delivery, entry), deploy.template)
    pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), **chosen}
    for container in pod["spec"]["containers"]:
        if container["name"] == CONTAINER:
            container["image"] = entry.image
    count = {} if scaled or deploy.replicas is None else {"replicas": deploy.replicas}
    spec = {
        **count,
        "selector": {"matchLabels": chosen},
        # No pod of the last good revision ends before one of the next is ready in its place.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "progressDeadlineSeconds": deploy.rollout_seconds,
        "revisionHistoryLimit": 2,
        "template": pod,
    }
    body = DEPLOYMENT.manifest(delivery.metadata.name, target_namespace(delivery), labels=_labels(delivery), spec=spec)
    body["metadata"]["annotations"] = {REVISION_ANNOTATION: entry.revision}
    return body


def _pod(delivery: Delivery, entry: DeliveredRevision) -> Json:
    deploy = delivery.spec.deploy
    container: Json = {
        "name": CONTAINER,
        "image": entry.image,
        "env": [_variable(env.model_dump(mode="json", by_alias=True, exclude_none=True)) for env in deploy.env],
        "ports": [
            {"name": port.name, "containerPort": port.of_container, "protocol": port.protocol} for port in deploy.ports
        ],
        "resources": _resources(deploy.resources),
        "securityContext": {"allowPrivilegeEscalation": False},
        **_probes(delivery),
    }
    security = {"seccompProfile": {"type": "RuntimeDefault"}}
    pulls = pull_secret_name(delivery)
    spec = {
        "enableServiceLinks": False,
        "securityContext": security,
        **({"imagePullSecrets": [{"name": pulls}]} if pulls is not None else {}),
        "containers": [container],
    }
    return {"metadata": {"labels": {NAME_LABEL: delivery.metadata.name}}, "spec": spec}


def _variable(entry: Json) -> Json:
    sources = {name: entry[name] for name in ("secretKeyRef", "configMapKeyRef") if name in entry}
    return {"name": entry["name"], "valueFrom": sources} if sources else entry


def _resources(resources: ContainerResources) -> Json:
    told = resources.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {name: amounts for name, amounts in told.items() if amounts}


def _probes(delivery: Delivery) -> Json:
    deploy = delivery.spec.deploy
    tcp = next((port.of_container for port in deploy.ports if port.protocol == "TCP"), None)
    first = tcp if tcp is not None else next((port.of_container for port in deploy.ports), None)
    told = deploy.probes
    ready = told.readiness or (HealthProbe() if tcp is not None else None)
    probes = {"readinessProbe": ready, "livenessProbe": told.liveness, "startupProbe": told.startup}
    return {name: _probe(probe, probe.port or first) for name, probe in probes.items() if probe is not None}


def _probe(probe: HealthProbe, port: int | None) -> Json:
    how = {"httpGet": {"path": probe.path, "port": port}} if probe.path else {"tcpSocket": {"port": port}}
    return {
        **how,
        "periodSeconds": probe.period_seconds,
        "timeoutSeconds": probe.timeout_seconds,
        "failureThreshold": probe.failure_threshold,
    }


def _service(delivery: Delivery) -> Json:
    deploy = delivery.spec.deploy
    ports = [
        {"name": port.name, "port": port.port, "targetPort": port.of_container, "protocol": port.protocol}
        for port in deploy.ports
    ]
    spec = {"type": deploy.service.type, "selector": selector(delivery), "ports": ports}
    return SERVICE.manifest(delivery.metadata.name, target_namespace(delivery), labels=_labels(delivery), spec=spec)


def _ingress(delivery: Delivery) -> Json:
    deploy = delivery.spec.deploy
    told = deploy.ingress
    assert told is not None  # noqa: S101 - as whoever calls it has looked
    port = {"name": told.port or deploy.ports[0].name}
    backend = {"service": {"name": delivery.metadata.name, "port": port}}
    path = {"path": told.path, "pathType": "Prefix", "backend": backend}
    spec = {
        **({"ingressClassName": told.class_name} if told.class_name else {}),
        **({"tls": [{"hosts": [told.host], "secretName": told.tls_secret}]} if told.tls_secret else {}),
        "rules": [{"host": told.host, "http": {"paths": [path]}}],
    }
    return INGRESS.manifest(delivery.metadata.name, target_namespace(delivery), labels=_labels(delivery), spec=spec)


def url_of(delivery: Delivery) -> str | None:
    """Return where the application answers; None where it has no Service."""
    deploy, name = delivery.spec.deploy, delivery.metadata.name
    if deploy.ingress is not None:
        return f"{'https' if deploy.ingress.tls_secret else 'http'}://{deploy.ingress.host}{deploy.ingress.path}"
    if not deploy.ports or deploy.service.type == "None":
        return None
    return f"http://{name}.{target_namespace(delivery)}.svc:{deploy.ports[0].port}/"


def is_scaled(deployment: Json | None) -> bool:
    """Tell whether an autoscaler has decided how many pods a Deployment has.

    It writes the subresource scale, as `kubectl scale` does, whose number is a person's edit that is put back.
    """
    entries = dig(deployment, "metadata", "managedFields") or ()
    return any(
        entry.get("subresource") == "scale"
        and not str(entry.get("manager", "")).startswith("kubectl")
        and dig(entry, "fieldsV1", "f:spec", "f:replicas") is not None
        for entry in entries
    )


def left_to_autoscaler(desired: Json, there: Json) -> Json:
    """Return an object without the number of pods where an autoscaler has decided it meanwhile."""
    if desired["kind"] != DEPLOYMENT.kind or not is_scaled(there):
        return desired
    return {**desired, "spec": {name: value for name, value in desired["spec"].items() if name != "replicas"}}


# What a container waits for, or ended with, that says why a revision does not come up.
WAITS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "InvalidImageName")
PULLS = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError")
LATE = "ProgressDeadlineExceeded"


def rollout_state(deployment: Json, image: str, pods: Sequence[Json]) -> RolloutState:
    """Return how far a Deployment is with an image; `pods`: of the application."""
    waits = waits_for(deployment)
    observed = int(dig(deployment, "status", "observedGeneration") or 0) >= int(deployment["metadata"]["generation"])
    if not waits:
        return RolloutState()
    reason, why = _trouble([pod for pod in pods if _runs(pod, image)])
    words = f"{waits}{f': {why}' if why else ''}"
    if observed and is_condition(deployment, "Progressing", "False", LATE):
        return RolloutState(words, words, reason or "RolloutFailed")
    return RolloutState(words, "", reason or "Deploying")


def _runs(pod: Json, image: str) -> bool:
    return any(container.get("image") == image for container in dig(pod, "spec", "containers") or ())


def _trouble(pods: Sequence[Json]) -> tuple[str, str]:
    """Return why pods do not become ready, as one word and for people; "" where nothing says it."""
    for pod in pods:
        name = pod["metadata"]["name"]
        for status in (*(dig(pod, "status", "initContainerStatuses") or ()), *_statuses(pod)):
            waiting, ended = dig(status, "state", "waiting") or {}, dig(status, "lastState", "terminated")
            reason = str(waiting.get("reason") or "")
            if reason in (*WAITS, *PULLS):
                return reason, f"pod {name}: {reason}: {waiting.get('message') or 'no message'}"
            ended = ended or dig(status, "state", "terminated")
            if ended and ended.get("exitCode"):
                told = f"{ended.get('reason') or 'Error'}, status {ended['exitCode']}"
                return "CrashLoopBackOff", f"pod {name}: container {status['name']} ended: {told}"
        scheduled = condition(pod, "PodScheduled") or {}
        if phase(pod) == "Pending" and scheduled.get("status") == "False":
            return "Unschedulable", f"pod {name}: {scheduled.get('message') or 'no node can run it'}"
        if phase(pod) == "Running" and not is_condition(pod, "Ready", "True"):
            return "NotReady", f"pod {name} runs, and its probe does not say that it is ready"
    return "", ""


def _statuses(pod: Json) -> Sequence[Json]:
    return dig(pod, "status", "containerStatuses") or ()
