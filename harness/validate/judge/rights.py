"""Who may do what in a guest: nobody more than a fresh cluster allows."""

from __future__ import annotations

from collections.abc import Iterator

from harness.kube import Cluster
from harness.kube.resources import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import Json
from harness.validate.facts.rights import AUTHENTICATED, ApiRight, reviewed
from harness.validate.findings import Mismatch, differs, same_set

ACCOUNTS = "system:serviceaccounts"
# Who must not do what no default role grants to everybody, and the groups that the API server puts them in
# (kubernetes.io, "Using RBAC Authorization": groups of ServiceAccounts; "Authenticating": anonymous requests).
WHO: dict[str, tuple[str, ...]] = {
    "system:anonymous": ("system:unauthenticated",),
    "vmatrix:nobody-in-particular": (AUTHENTICATED,),
    "system:serviceaccount:default:default": (AUTHENTICATED, ACCOUNTS, f"{ACCOUNTS}:default"),
    "system:serviceaccount:kube-system:default": (AUTHENTICATED, ACCOUNTS, f"{ACCOUNTS}:kube-system"),
}
SYSTEM, RBAC, CSR = "kube-system", "rbac.authorization.k8s.io", "certificates.k8s.io"
# What makes an admin of whoever may do it, at once or by one step more (kubernetes.io, "RBAC Good Practices").
FORBIDDEN = (
    ApiRight("list", "", "secrets"),
    ApiRight("list", "", "secrets", namespace=SYSTEM),
    ApiRight("create", "", "pods"),
    ApiRight("create", "", "pods", namespace=SYSTEM),
    ApiRight("create", "", "pods/exec", namespace=SYSTEM),
    ApiRight("update", "", "configmaps", namespace=SYSTEM),
    ApiRight("patch", "apps", "daemonsets", namespace=SYSTEM),
    ApiRight("create", "", "serviceaccounts/token", namespace=SYSTEM),
    ApiRight("impersonate", "", "users"),
    ApiRight("get", "", "nodes/proxy"),
    ApiRight("patch", "", "nodes"),
    ApiRight("update", CSR, "certificatesigningrequests/approval"),
    ApiRight("create", RBAC, CLUSTER_ROLE_BINDING.plural),
    ApiRight("bind", RBAC, CLUSTER_ROLE.plural),
    ApiRight("escalate", RBAC, CLUSTER_ROLE.plural),
)
ADMIN_ROLE = "cluster-admin"
MASTERS = "Group system:masters"
MANY = ("Group system:authenticated", "Group system:unauthenticated", "Group system:nodes", "User system:anonymous")


def excessive_rights(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return what RBAC allows although it must not, and a refusal of the admin, which would make that prove nothing."""
    found = differs("the admin", "every right", True, reviewed(api, ApiRight("*", "*", "*")))
    if found:  # who may not ask about others learns nothing of them
        return found
    for user, groups in WHO.items():
        for right in FORBIDDEN:
            if reviewed(api, right, user, groups):
                found.append(Mismatch(user, f"no right to {right}", "allowed"))
    powerful = {ADMIN_ROLE, *(one["metadata"]["name"] for one in api.list(CLUSTER_ROLE).items if _allows_all(one))}
    return found + wrong_admins(api.list(CLUSTER_ROLE_BINDING).items, expected, powerful)


def _allows_all(role: Json) -> bool:
    """Tell whether a role allows everything, whatever it is called."""
    rules = role.get("rules") or ()
    return any(all("*" in (rule.get(key) or ()) for key in ("verbs", "apiGroups", "resources")) for rule in rules)


def wrong_admins(
    bindings: list[Json], expected: ExpectedGuest, powerful: set[str] | frozenset[str] = frozenset({ADMIN_ROLE})
) -> list[Mismatch]:
    """Return who is bound to cluster-admin although the product does not say so, or stands for many.

    Args:
        powerful: roles that allow everything.
    """
    bound = {b["metadata"]["name"]: set(_subjects(b)) for b in bindings if b["roleRef"]["name"] in powerful}
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
