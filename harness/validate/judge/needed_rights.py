"""Whether Kubernetes' own accounts may do what they are for, and machines what they join and renew certificates by."""

from __future__ import annotations

from collections.abc import Mapping

from harness.kube import Cluster
from harness.validate.expected import PROXY_MODES, ExpectedGuest
from harness.validate.facts.rights import AUTHENTICATED, ApiRight, reviewed
from harness.validate.findings import Mismatch, unjudged
from harness.validate.judge.rights import CSR, SYSTEM

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
