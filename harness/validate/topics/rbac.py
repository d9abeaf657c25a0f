"""RBAC: nobody may do more than a fresh cluster allows, and Kubernetes' own accounts may do what they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from harness.validate.expected import PROXY_MODES, ExpectedGuest
from harness.validate.facts.cluster import Json
from harness.validate.findings import Mismatch, differs, same_set, unjudged

REVIEWS = "/apis/authorization.k8s.io/v1"
AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True)
class ApiRight:
    """To do something with objects of a resource (RESOURCE or RESOURCE/SUBRESOURCE): everywhere, or in a namespace."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return it in words."""
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{f' {self.name}' if self.name else ''}{place}"

    @property
    def attributes(self) -> dict[str, str]:
        """Return it as reviews take it."""
        resource, _, sub = self.resource.partition("/")
        found = {"verb": self.verb, "group": self.group, "resource": resource}
        more = {"subresource": sub, "namespace": self.namespace, "name": self.name}
        return {**found, **{key: value for key, value in more.items() if value}}


def reviewed(api: Cluster, right: ApiRight, user: str = "", groups: Sequence[str] = ()) -> bool:
    """Return whether a user has a right by a SubjectAccessReview; without one, whether who asks has it."""
    spec: dict[str, Any] = {"resourceAttributes": right.attributes}
    spec |= {"user": user, "groups": list(groups)} if user else {}
    kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return bool(api.request("POST", f"{REVIEWS}/{kind.lower()}s", body=body)["status"]["allowed"])


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


APPS, DISCOVERY = "apps", "discovery.k8s.io"
TOKEN_GROUP = "system:bootstrappers:kubeadm:default-node-token"  # noqa: S105 - the name of a group
# The API server's own roles ("Using RBAC Authorization", core component and controller roles) and kubeadm's ("kubeadm
# init phase bootstrap-token", "kubeadm init phase upload-config"): of each account, what nothing works without.
COMPONENTS: Mapping[str, tuple[ApiRight, ...]] = {
    "system:kube-scheduler": (ApiRight("create", "", "pods/binding"), ApiRight("list", "", "nodes")),
    "system:kube-controller-manager": (
        ApiRight("create", "", "serviceaccounts/token", SYSTEM),
        ApiRight("list", "", "pods"),
    ),
}
CONTROLLERS: Mapping[str, ApiRight] = {
    "attachdetach-controller": ApiRight("patch", "", "nodes/status"),
    "certificate-controller": ApiRight("update", CSR, "certificatesigningrequests/status"),
    "cronjob-controller": ApiRight("create", "batch", "jobs"),
    "daemon-set-controller": ApiRight("create", "", "pods"),
    "deployment-controller": ApiRight("create", APPS, "replicasets"),
    "disruption-controller": ApiRight("update", "policy", "poddisruptionbudgets/status"),
    "endpointslice-controller": ApiRight("create", DISCOVERY, "endpointslices"),
    "endpointslicemirroring-controller": ApiRight("create", DISCOVERY, "endpointslices"),
    "generic-garbage-collector": ApiRight("delete", "", "pods"),
    "job-controller": ApiRight("create", "", "pods"),
    "namespace-controller": ApiRight("delete", "", "namespaces"),
    "node-controller": ApiRight("update", "", "nodes"),
    "persistent-volume-binder": ApiRight("update", "", "persistentvolumes"),
    "pod-garbage-collector": ApiRight("delete", "", "pods"),
    "pv-protection-controller": ApiRight("update", "", "persistentvolumes"),
    "pvc-protection-controller": ApiRight("update", "", "persistentvolumeclaims"),
    "replicaset-controller": ApiRight("create", "", "pods"),
    "root-ca-cert-publisher": ApiRight("create", "", "configmaps"),
    "service-account-controller": ApiRight("create", "", "serviceaccounts"),
    "statefulset-controller": ApiRight("create", "", "pods"),
    "token-cleaner": ApiRight("delete", "", "secrets", SYSTEM),
}
LOOKING = (ApiRight("list", "", "services"), ApiRight("list", DISCOVERY, "endpointslices"))
JOINING = (
    ApiRight("create", CSR, "certificatesigningrequests"),
    ApiRight("create", CSR, "certificatesigningrequests/nodeclient"),
    ApiRight("get", "", "configmaps", SYSTEM, "kubeadm-config"),
    ApiRight("get", "", "configmaps", SYSTEM, "kubelet-config"),
    ApiRight("get", "", "nodes"),
)
RENEWING = (
    ApiRight("create", CSR, "certificatesigningrequests/selfnodeclient"),
    ApiRight("get", "", "configmaps", SYSTEM, "kubeadm-config"),
)
READING = (ApiRight("get", "", "configmaps", "kube-public", "cluster-info"),)


def lost_rights(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return what Kubernetes' own accounts, and machines, may not do although they have to."""
    if expected.leaves.kubeadm is None:
        why = "product.yml does not say that kubeadm made the cluster (kubeadm)"
        return [unjudged("the rights of Kubernetes' own accounts", why, whole=True)]
    return [
        Mismatch(where, f"the right to {right}", "refused")
        for where, (user, groups, rights) in _accounts(expected).items()
        for right in rights
        if not reviewed(api, right, user, groups)
    ]


def _accounts(expected: ExpectedGuest) -> dict[str, tuple[str, tuple[str, ...], tuple[ApiRight, ...]]]:
    """Return who is asked about: user, groups and rights, by the name that findings have."""
    found: dict[str, tuple[str, tuple[str, ...], tuple[ApiRight, ...]]]
    found = {user: (user, (AUTHENTICATED,), rights) for user, rights in COMPONENTS.items()}
    accounts = {**{name: (right,) for name, right in CONTROLLERS.items()}, "coredns": LOOKING}
    accounts |= {"kube-proxy": LOOKING} if expected.kube_proxy_mode in PROXY_MODES else {}
    for name, rights in accounts.items():
        user = f"system:serviceaccount:{SYSTEM}:{name}"
        found[user] = user, (AUTHENTICATED, "system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}"), rights
    joining = "system:bootstrappers", TOKEN_GROUP, AUTHENTICATED
    found[TOKEN_GROUP] = "system:bootstrap:vmatrix", joining, JOINING
    found["system:nodes"] = f"system:node:{expected.nodes[-1]}", ("system:nodes", AUTHENTICATED), RENEWING
    found["system:anonymous"] = "system:anonymous", ("system:unauthenticated",), READING
    return found
