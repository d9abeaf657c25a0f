"""What the harness must be allowed to do in an infra cluster, asked of the API itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.infra.findings import Finding
from harness.kube import Cluster, Resource
from harness.kube.resources import (
    CONFIG_MAP,
    DATA_SOURCE,
    DATA_VOLUME,
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    PVC,
    RESOURCE_QUOTA,
    SECRET,
    STORAGE_CLASS,
    STORAGE_PROFILE,
    VM,
    VMI,
)

REVIEW = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False)
WHO_AM_I = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
ROLE = "vmatrix"


@dataclass(frozen=True)
class Right:
    """Verbs on a kind in all namespaces (a cell's namespace does not exist yet when this is asked)."""

    resource: Resource
    verbs: tuple[str, ...]
    why: str
    subresource: str = ""
    required: bool = True

    @property
    def plural(self) -> str:
        """Return the resource as kubectl's --resource takes it."""
        name = f"{self.resource.plural}.{self.resource.group}" if self.resource.group else self.resource.plural
        return f"{name}/{self.subresource}" if self.subresource else name


READ = ("get", "list", "watch")
RIGHTS = (
    Right(NAMESPACE, ("create", "delete", "patch", *READ), "each cell has a namespace of its own"),
    Right(RESOURCE_QUOTA, ("create", "get"), "a cell cannot take more than its share"),
    Right(SECRET, ("create", "get", "list", "delete"), "cloud-init's user data is a secret"),
    Right(CONFIG_MAP, ("create", "get", "list", "delete"), "a run records who owns it"),
    Right(VM, ("create", "delete", "patch", *READ), "machines are virtual machines"),
    Right(VMI, ("delete", *READ), "a machine's state is read from its instance"),
    Right(DATA_VOLUME, ("create", "delete", "patch", *READ), "disks are imported and cloned"),
    Right(DATA_VOLUME, ("create",), "disks are cloned from the golden image's namespace", subresource="source"),
    Right(DATA_SOURCE, ("create", "get", "list"), "golden images are found by name"),
    Right(PVC, ("delete", *READ), "a disk is gone when its claim is"),
    Right(LEASE, ("create", "get", "update"), "runs that share the cluster write down what they are about to take"),
    Right(POD, READ, "a machine's address is its launcher pod's"),
    Right(EVENT, ("list",), "failures are explained by events"),
    Right(STORAGE_CLASS, ("list",), "the default storage class is looked up", required=False),
    Right(STORAGE_PROFILE, ("get",), "the storage profile is looked up", required=False),
    Right(NODE, ("list",), "free capacity is summed up over nodes", required=False),
)


def check_access(cluster: Cluster) -> Iterator[Finding]:
    """Yield a finding for each kind of which a verb is not allowed, with the commands that allow it."""
    refused = [(right, missing) for right in RIGHTS if (missing := _refused(cluster, right))]
    subject = _subject(cluster) if refused else ""
    for right, missing in refused:
        role = f"{ROLE}-{right.resource.plural}" + (f"-{right.subresource}" if right.subresource else "")
        yield Finding(
            f"not allowed: {', '.join(missing)} {right.plural}",
            right.why,
            f"kubectl create clusterrole {role} --verb={','.join(missing)} --resource={right.plural} && "
            f"kubectl create clusterrolebinding {role} --clusterrole={role} {subject}",
            fatal=right.required,
        )


def _refused(cluster: Cluster, right: Right) -> list[str]:
    return [verb for verb in right.verbs if not _allowed(cluster, right, verb)]


def _allowed(cluster: Cluster, right: Right, verb: str) -> bool:
    attributes = {"group": right.resource.group, "resource": right.resource.plural, "verb": verb}
    if right.subresource:
        attributes["subresource"] = right.subresource
    review = {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, "spec": {"resourceAttributes": attributes}}
    answer = cluster.request("POST", REVIEW.path(), body=review)
    return bool(answer.get("status", {}).get("allowed"))


def _subject(cluster: Cluster) -> str:
    """Return the option of `kubectl create clusterrolebinding` that names who we are."""
    review = {"apiVersion": WHO_AM_I.api_version, "kind": WHO_AM_I.kind}
    answer = cluster.send("POST", WHO_AM_I.path(), body=review)
    body = answer.body if isinstance(answer.body, dict) else {}
    user = str(body.get("status", {}).get("userInfo", {}).get("username", "USER"))
    if user.startswith(SERVICE_ACCOUNT_PREFIX):
        return f"--serviceaccount={user.removeprefix(SERVICE_ACCOUNT_PREFIX)}"
    return f"--user={user}"
