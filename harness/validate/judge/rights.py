"""Who may do what in a guest: nobody more than a fresh cluster allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import CLUSTER_ROLE_BINDING
from harness.validate.facts.cluster import Json
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs, same_set

REVIEWS = "/apis/authorization.k8s.io/v1"
AUTHENTICATED = "system:authenticated"
ACCOUNTS = "system:serviceaccounts"
# Who must not do what no default role grants to everybody, and the groups that the API server puts them in
# (kubernetes.io, "Using RBAC Authorization": groups of ServiceAccounts; "Authenticating": anonymous requests).
WHO: dict[str, tuple[str, ...]] = {
    "system:anonymous": ("system:unauthenticated",),
    "vmatrix:nobody-in-particular": (AUTHENTICATED,),
    "system:serviceaccount:default:default": (AUTHENTICATED, ACCOUNTS, f"{ACCOUNTS}:default"),
    "system:serviceaccount:kube-system:default": (AUTHENTICATED, ACCOUNTS, f"{ACCOUNTS}:kube-system"),
}
FORBIDDEN = (
    ("list", "", "secrets"),
    ("create", "", "pods"),
    ("create", "rbac.authorization.k8s.io", CLUSTER_ROLE_BINDING.plural),
)
ADMIN_ROLE = "cluster-admin"
MASTERS = "Group system:masters"
MANY = ("Group system:authenticated", "Group system:unauthenticated", "Group system:nodes", "User system:anonymous")


def excessive_rights(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return what RBAC allows although it must not, and a refusal of the admin, which would make that prove nothing."""
    every = {"verb": "*", "resource": "*", "group": "*"}
    found = differs("the admin", "every right", True, _review(api, "Self", {"resourceAttributes": every}))
    if found:  # who may not ask about others learns nothing of them
        return found
    for user, groups in WHO.items():
        for verb, group, resource in FORBIDDEN:
            attributes = {"verb": verb, "group": group, "resource": resource}
            if _review(api, "", {"user": user, "groups": list(groups), "resourceAttributes": attributes}):
                found.append(Mismatch(user, f"no right to {verb} {resource}", "allowed"))
    return found + wrong_admins(api.list(CLUSTER_ROLE_BINDING).items, expected)


def wrong_admins(bindings: list[Json], expected: ExpectedGuest) -> list[Mismatch]:
    """Return who is bound to cluster-admin although the product does not say so, or stands for many."""
    bound = {b["metadata"]["name"]: set(_subjects(b)) for b in bindings if b["roleRef"]["name"] == ADMIN_ROLE}
    every = {subject for subjects in bound.values() for subject in subjects}
    if MASTERS not in every:  # the API server's own, made at every start
        return [Mismatch("ClusterRoleBindings", f"{MASTERS} bound to {ADMIN_ROLE}", "no such binding")]
    said = expected.leaves.cluster_admins
    found = [] if said is None else same_set("ClusterRoleBindings", f"{ADMIN_ROLE} for", said, every & set(said))
    for name, subjects in sorted(bound.items()):
        strangers = sorted(one for one in subjects if (one not in said if said is not None else _many(one)))
        found += (
            differs(f"ClusterRoleBinding {name}", f"{ADMIN_ROLE} for nobody else than", sorted(said or ()), strangers)
            if strangers
            else []
        )
    return found


def _subjects(binding: Json) -> Iterator[str]:
    for one in binding.get("subjects") or ():
        name = f"{one['namespace']}/{one['name']}" if one["kind"] == "ServiceAccount" else one["name"]
        yield f"{one['kind']} {name}"


def _many(subject: str) -> bool:
    accounts = subject.startswith((f"Group {ACCOUNTS}", "Group system:bootstrappers"))
    return subject in MANY or accounts or (subject.startswith("ServiceAccount ") and subject.endswith("/default"))


def _review(api: Cluster, whose: str, spec: dict[str, Any]) -> bool:
    """Return the answer to a SubjectAccessReview or a SelfSubjectAccessReview."""
    kind = f"{whose}SubjectAccessReview"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return bool(api.request("POST", f"{REVIEWS}/{kind.lower()}s", body=body)["status"]["allowed"])
