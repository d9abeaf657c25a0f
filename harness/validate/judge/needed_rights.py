"""Whether Kubernetes' own accounts may do what they are for, and machines what they join and renew certificates by."""

from __future__ import annotations

from collections.abc import Mapping

from harness.kube import Cluster
from harness.validate.facts.expected import PROXY_MODES, ExpectedGuest
from harness.validate.facts.rights import AUTHENTICATED, Right, reviewed
from harness.validate.judge.finding import unjudged
from harness.validate.judge.mismatch import Mismatch

SYSTEM, APPS, CSR, DISCOVERY = "kube-system", "apps", "certificates.k8s.io", "discovery.k8s.io"
TOKEN_GROUP = "system:bootstrappers:kubeadm:default-node-token"  # noqa: S105 - the name of a group
# The API server's own roles ("Using RBAC Authorization", core component and controller roles) and kubeadm's ("kubeadm
# init phase bootstrap-token", "kubeadm init phase upload-config"): of each account, what nothing works without.
COMPONENTS: Mapping[str, tuple[Right, ...]] = {
    "system:kube-scheduler": (Right("create", "", "pods/binding"), Right("list", "", "nodes")),
    "system:kube-controller-manager": (Right("create", "", "serviceaccounts/token", SYSTEM), Right("list", "", "pods")),
}
CONTROLLERS: Mapping[str, Right] = {
    "attachdetach-controller": Right("patch", "", "nodes/status"),
    "certificate-controller": Right("update", CSR, "certificatesigningrequests/status"),
    "cronjob-controller": Right("create", "batch", "jobs"),
    "daemon-set-controller": Right("create", "", "pods"),
    "deployment-controller": Right("create", APPS, "replicasets"),
    "disruption-controller": Right("update", "policy", "poddisruptionbudgets/status"),
    "endpointslice-controller": Right("create", DISCOVERY, "endpointslices"),
    "endpointslicemirroring-controller": Right("create", DISCOVERY, "endpointslices"),
    "generic-garbage-collector": Right("delete", "", "pods"),
    "job-controller": Right("create", "", "pods"),
    "namespace-controller": Right("delete", "", "namespaces"),
    "node-controller": Right("update", "", "nodes"),
    "persistent-volume-binder": Right("update", "", "persistentvolumes"),
    "pod-garbage-collector": Right("delete", "", "pods"),
    "pv-protection-controller": Right("update", "", "persistentvolumes"),
    "pvc-protection-controller": Right("update", "", "persistentvolumeclaims"),
    "replicaset-controller": Right("create", "", "pods"),
    "root-ca-cert-publisher": Right("create", "", "configmaps"),
    "service-account-controller": Right("create", "", "serviceaccounts"),
    "statefulset-controller": Right("create", "", "pods"),
    "token-cleaner": Right("delete", "", "secrets", SYSTEM),
}
LOOKING = (Right("list", "", "services"), Right("list", DISCOVERY, "endpointslices"))
JOINING = (
    Right("create", CSR, "certificatesigningrequests"),
    Right("create", CSR, "certificatesigningrequests/nodeclient"),
    Right("get", "", "configmaps", SYSTEM, "kubeadm-config"),
    Right("get", "", "configmaps", SYSTEM, "kubelet-config"),
    Right("get", "", "nodes"),
)
RENEWING = (
    Right("create", CSR, "certificatesigningrequests/selfnodeclient"),
    Right("get", "", "configmaps", SYSTEM, "kubeadm-config"),
)
READING = (Right("get", "", "configmaps", "kube-public", "cluster-info"),)


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


def _accounts(expected: ExpectedGuest) -> dict[str, tuple[str, tuple[str, ...], tuple[Right, ...]]]:
    """Return who is asked about: user, groups and rights, by the name that findings have."""
    found: dict[str, tuple[str, tuple[str, ...], tuple[Right, ...]]]
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
