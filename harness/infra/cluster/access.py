"""Permissions in an infra cluster, asked of its API: RBAC, and Pod Security of a namespace that cells share."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from harness.infra.cluster.rights import CELL, IMAGES, JOB, JOBS, LOOK, NAMESPACES, SCHEDULE, SHARED, SURVEY, Right
from harness.infra.findings import Finding
from harness.kube import ApiFailure, Cluster, Resource
from harness.kube.client import Json
from harness.kube.resources import NAMESPACE, POD

REVIEW = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False)
WHO_AM_I = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
RBAC_GROUP = "rbac.authorization.k8s.io"
ROLE = "vmatrix"


@dataclass(frozen=True)
class CellPlacement:
    """How cells lie in the infra cluster, which decides the rights that are needed.

    namespace: the one that all cells share; without it each has its own.
    joins: whether we give ourselves the rights in a cell's namespace once it exists; else we have them everywhere.
    images, schedule: the namespaces of golden images and reservations, where cells have namespaces of their own.
    """

    namespace: str | None = None
    joins: bool = False
    images: str = "vmatrix-images"
    schedule: str = "vmatrix-schedule"

    def asked(self) -> list[tuple[Right, str | None]]:
        """Return every right that is needed and the namespace in which (None: in all), each kind of a place once."""
        if self.namespace is not None:
            return _once([(self.namespace, SHARED), (None, (*SURVEY, *LOOK))])
        if not self.joins:
            return _once([(None, (*NAMESPACES, *CELL, *IMAGES, *SCHEDULE, *SURVEY, *LOOK))])
        jobs = tuple(right for right in JOBS if right.resource is not JOB)
        return _once([(None, jobs), (self.images, IMAGES), (self.schedule, SCHEDULE), (None, (*SURVEY, *LOOK))])


def _once(places: Sequence[tuple[str | None, Sequence[Right]]]) -> list[tuple[Right, str | None]]:
    """Return the rights of some places; what is asked of a kind for several reasons is asked once."""
    each: dict[tuple[str | None, str], Right] = {}
    for namespace, rights in places:
        for right in rights:
            before = each.get((namespace, right.plural), right)
            verbs = tuple(dict.fromkeys((*before.verbs, *right.verbs)))
            each[namespace, right.plural] = replace(before, verbs=verbs, required=before.required or right.required)
    return [(right, namespace) for (namespace, _), right in each.items()]


@dataclass(frozen=True)
class Subject:
    """Who asks, by the name that the API knows."""

    user: str

    @property
    def account(self) -> tuple[str, str] | None:
        """Return namespace and name of a service account, None for any other user."""
        if not self.user.startswith(SERVICE_ACCOUNT_PREFIX):
            return None
        namespace, _, name = self.user.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
        return namespace, name

    def option(self) -> str:
        """Return the option of `kubectl create clusterrolebinding` that names the subject."""
        return f"--serviceaccount={':'.join(self.account)}" if self.account else f"--user={self.user}"

    def reference(self) -> Json:
        """Return the subject as a binding names it."""
        if self.account:
            return {"kind": "ServiceAccount", "namespace": self.account[0], "name": self.account[1]}
        return {"apiGroup": RBAC_GROUP, "kind": "User", "name": self.user}


def check_access(
    cluster: Cluster,
    namespace: str | None = None,
    served: Collection[str] | None = None,
    *,
    without: Collection[Resource] = (),
) -> Iterator[Finding]:
    """Yield a finding for each kind of which a verb is not allowed, with the commands that allow it.

    Args:
        namespace: the one that cells share; None when each has its own.
        without: kinds that are not needed, since the settings switch them off.
        served: all group/versions of the API; what can be done without is only asked about where it is one of these.
    """
    asked = CellPlacement(namespace, joins=namespace is None and may_join(cluster)).asked()
    asked = [(right, where) for right, where in asked if right.resource not in without]
    if served is not None:
        asked = [(r, ns) for r, ns in asked if r.required or not r.resource.group or r.resource.api_version in served]
    denied = ((r, ns, [verb for verb in r.verbs if not allowed(cluster, r, verb, ns)]) for r, ns in asked)
    refused = [(right, namespace, missing) for right, namespace, missing in denied if missing]
    who = subject(cluster).option() if refused else ""
    for right, namespace, missing in refused:
        yield Finding(
            f"not allowed: {', '.join(missing)} {right.plural}" + (f" in namespace {namespace}" if namespace else ""),
            right.why,
            _remedy(right, missing, namespace, who),
            fatal=right.required,
        )


def may_join(cluster: Cluster) -> bool:
    """Tell whether we may give ourselves the rights in a cell's namespace."""
    return all(allowed(cluster, right, "bind") for right in JOBS if "bind" in right.verbs)


def _remedy(right: Right, missing: Sequence[str], namespace: str | None, who: str) -> str:
    name = "-".join(part for part in (ROLE, right.resource.plural, right.subresource, *missing) if part)
    kind, inside = ("role", f" --namespace={namespace}") if namespace else ("clusterrole", "")
    names = "".join(f" --resource-name={n}" for n in right.names)
    made = f"kubectl create {kind} {name} --verb={','.join(missing)} --resource={right.plural}{names}{inside}"
    if right.resource.group.startswith("subresources."):
        made = _remedy_of_subresource(right, missing, f"{kind} {name}", inside)
    return f"{made} && kubectl create {kind}binding {name} --{kind}={name} {who}{inside}"


def _remedy_of_subresource(right: Right, missing: Sequence[str], role: str, inside: str) -> str:
    """Return the commands that make a role on what an aggregated API serves as subresources alone.

    kubectl looks for the kind itself, which that API does not have, so the rule is put into an existing role.
    """
    resources = [f"{right.resource.plural}/{right.subresource}"]
    rule = {"apiGroups": [right.resource.group], "resources": resources, "verbs": list(missing)}
    patch = json.dumps([{"op": "replace", "path": "/rules", "value": [rule]}], separators=(",", ":"))
    return (
        f"kubectl create {role} --verb=get --resource=pods{inside} && "
        f"kubectl patch {role}{inside} --type=json -p '{patch}'"
    )


def allowed(cluster: Cluster, right: Right, verb: str, namespace: str | None = None) -> bool:
    """Ask the API whether a verb of a right is allowed, on all of the objects that it is needed on."""
    places = right.within or (namespace,)
    return all(_allowed(cluster, right, verb, place, name) for place in places for name in right.names or ("",))


def _allowed(cluster: Cluster, right: Right, verb: str, namespace: str | None, name: str) -> bool:
    optional = {"subresource": right.subresource, "namespace": namespace, "name": name}
    attributes = {
        "group": right.resource.group,
        "resource": right.resource.plural,
        "verb": verb,
        **{key: value for key, value in optional.items() if value},
    }
    review = {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, "spec": {"resourceAttributes": attributes}}
    answer = cluster.request("POST", REVIEW.path(), body=review)
    return bool(answer.get("status", {}).get("allowed"))


def subject(cluster: Cluster) -> Subject:
    """Return who we are to the API."""
    review = {"apiVersion": WHO_AM_I.api_version, "kind": WHO_AM_I.kind}
    answer = cluster.send("POST", WHO_AM_I.path(), body=review)
    body = answer.body if isinstance(answer.body, dict) else {}
    return Subject(str(body.get("status", {}).get("userInfo", {}).get("username", "USER")))


VIOLATES = "violates PodSecurity"
ENFORCE = "pod-security.kubernetes.io/enforce"


def check_namespace(cluster: Cluster, namespace: str) -> Iterator[Finding]:
    """Yield what keeps launcher pods out of a namespace that cells share: that it is gone, or its Pod Security."""
    try:
        existing = cluster.get(NAMESPACE, namespace)
    except ApiFailure as failure:
        if failure.forbidden:  # a role in a namespace needs no right to look at the namespace itself
            return
        raise
    if existing is None:
        yield Finding(
            f"namespace {namespace} does not exist", "cells share it", f"kubectl create namespace {namespace}"
        )
    elif (level := (existing["metadata"].get("labels") or {}).get(ENFORCE)) == "restricted":
        yield Finding(
            f"namespace {namespace} enforces Pod Security {level}",
            "launcher pods set no seccomp profile, so they are refused",
            f"kubectl label namespace {namespace} {ENFORCE}=baseline --overwrite",
        )
    else:
        yield from check_pod_security(cluster, namespace)


def check_pod_security(cluster: Cluster, namespace: str) -> Iterator[Finding]:
    """Yield that a pod such as a machine's launcher is refused: by a dry run, where that is allowed.

    It sees what no label says: the default of the API server's own admission configuration, and policies of others.
    """
    answer = cluster.send("POST", POD.path(namespace), body=launcher_like(namespace), query={"dryRun": "All"})
    message = str((answer.body or {}).get("message", "")) if isinstance(answer.body, dict) else str(answer.body or "")
    if answer.code == HTTPStatus.FORBIDDEN and VIOLATES in message:
        yield Finding(
            f"namespace {namespace} refuses launcher pods: {message.partition(VIOLATES)[2].strip() or message}",
            "machines get no pod: the API server's default level or a policy is stricter than `baseline`",
            f"kubectl label namespace {namespace} {ENFORCE}=baseline --overwrite",
        )


def launcher_like(namespace: str) -> dict[str, Any]:
    """Return a pod that asks for what KubeVirt 1.9's launcher pods ask for of Pod Security, and for nothing else."""
    user = 107  # qemu's in KubeVirt's images
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
        "runAsGroup": user,
        "runAsNonRoot": True,
        "runAsUser": user,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "vmatrix-doctor", "namespace": namespace},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": user, "fsGroup": user},
            "containers": [{"name": "compute", "image": "virt-launcher", "securityContext": security}],
        },
    }
