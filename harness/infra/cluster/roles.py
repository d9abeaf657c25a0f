"""Rights as the API's own objects: rules, roles, and who has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.infra.cluster.rights import Right
from harness.kube.failures import Json
from harness.kube.resources import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, RBAC, ROLE, ROLE_BINDING

Labels = Mapping[str, str]


def rules(rights: Iterable[Right]) -> list[Json]:
    """Return the rules that allow rights: one for each kind and subresource, sorted, with no verb twice."""
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for right in rights:
        about = "/".join(part for part in (right.resource.plural, right.subresource) if part)
        verbs.setdefault((right.resource.group, about, right.names), set()).update(right.verbs)
    return [
        {
            "apiGroups": [group],
            "resources": [about],
            **({"resourceNames": list(names)} if names else {}),
            "verbs": sorted(wanted),
        }
        for (group, about, names), wanted in sorted(verbs.items())
    ]


def role(name: str, rights: Iterable[Right], namespace: str | None, labels: Labels) -> Json:
    """Return a Role in a namespace, or a ClusterRole without one."""
    kind = ROLE if namespace else CLUSTER_ROLE
    return kind.manifest(name, namespace or "", labels=labels, rules=rules(rights))


def binding(
    name: str, role_name: str, accounts: Iterable[str], home: str, namespace: str | None, labels: Labels
) -> Json:
    """Return the binding of a role to service accounts of the namespace `home`, of the role's own kind.

    Args:
        namespace: the role's; None for a ClusterRole.
    """
    kind, of = (ROLE_BINDING, ROLE) if namespace else (CLUSTER_ROLE_BINDING, CLUSTER_ROLE)
    to = {"apiGroup": RBAC, "kind": of.kind, "name": role_name}
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": home} for account in accounts]
    return kind.manifest(name, namespace or "", labels=labels, roleRef=to, subjects=subjects)
