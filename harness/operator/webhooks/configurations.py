"""What the API server is told of the webhooks: which requests it asks about, and what it does while nobody answers.

docs/decisions/operator-webhooks.md says why each of them fails open or closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.kube.failures import Json
from harness.kube.resources import MUTATING_WEBHOOK, SERVICE, VALIDATING_WEBHOOK, Resource
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    DECLARED,
    DELIVERY,
    ETCD_CLUSTER,
    GROUP,
    MACHINE,
    MACHINE_SET,
)

NAME = "vmatrix-operator"
SECRET_NAME = SERVICE_NAME = f"{NAME}-webhooks"
PORT, PORT_NAME = 9443, "webhooks"  # as most operators': a firewall between control plane and nodes may know it
TIMEOUT_SECONDS = 10  # of an answer for which the API is asked three times; then the request is refused
DELETION_SECONDS = 3  # of an answer about a deletion, which goes on without one
DEFAULTS, DEPLOYMENTS, SETS = "/default", "/clusterdeployments", "/machinesets"
DELETIONS, CLAIMS, CLUSTERS, ETCDS = "/machines", "/claims", "/clusters", "/etcdclusters"
AUTHORS, DELIVERIES = "/authors", "/deliveries"
# Whoever deletes what is in a namespace, or what has lost its owner: a kube-controller-manager with or without separate
# accounts for its controllers.
COLLECTORS = (
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
)
WISHES = "request.operation == 'CREATE' || (!has(object.metadata.deletionTimestamp) && object.spec != oldObject.spec)"
NOTES = "object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})"
SAYS = f"{WISHES} || (!has(object.metadata.deletionTimestamp) && {NOTES})"


def service_host(namespace: str) -> str:
    """Return the name by which an API server calls the Service."""
    return f"{SERVICE_NAME}.{namespace}.svc"


def configuration_name(namespace: str) -> str:
    """Return the name of both configurations of the operator in a namespace."""
    return NAME if namespace == NAME else f"{NAME}-{namespace}"


def webhook_objects(
    namespace: str, *, pod: Mapping[str, str], writers: Iterable[str], everywhere: bool, labels: Mapping[str, str]
) -> list[Json]:
    """Return the Service and both configurations.

    Args:
        pod: labels of the pods that serve.  writers: service accounts of managers, who write MachineSets.
        everywhere: whether the operator looks at all namespaces, not at its own alone.
    """
    ports = [{"name": PORT_NAME, "port": 443, "targetPort": PORT_NAME}]
    service = SERVICE.manifest(SERVICE_NAME, namespace, labels=labels, spec={"selector": dict(pod), "ports": ports})
    own = {} if everywhere else {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    users = [*COLLECTORS, *(f"system:serviceaccount:{namespace}:{account}" for account in writers)]
    made = []
    for kind, hooks in ((MUTATING_WEBHOOK, _mutating()), (VALIDATING_WEBHOOK, _validating(users))):
        for hook in hooks:
            path = hook.pop("path")
            hook["clientConfig"] = {"service": {"namespace": namespace, "name": SERVICE_NAME, "path": path}}
            hook |= {"admissionReviewVersions": ["v1"], "sideEffects": "None", **own}
        made.append(kind.manifest(configuration_name(namespace), "", labels=labels, webhooks=hooks))
    return [service, *made]


def _mutating() -> list[Json]:
    written = ("CREATE", "UPDATE")
    return [
        _hook("defaults", DEFAULTS, _declared(*written), {"wishes": SAYS}, closed=False),
        _hook("authors", AUTHORS, _rule(DELIVERY, *written), {"wishes": SAYS}, closed=False),
    ]


def _validating(users: Iterable[str]) -> list[Json]:
    not_by_them = {"not-by-controllers": f"!(request.userInfo.username in [{', '.join(map(repr, users))}])"}
    changes = {"changes": "request.operation == 'CREATE' || object.spec != oldObject.spec"}
    claims = {"claims": "has(oldObject.spec.claim) && object.spec.?claim != oldObject.spec.?claim"}
    deletion = {"timeoutSeconds": DELETION_SECONDS}
    return [
        _hook("clusterdeployments", DEPLOYMENTS, _declared("CREATE", "UPDATE"), {"wishes": WISHES}),
        _hook("deliveries", DELIVERIES, _rule(DELIVERY, "CREATE", "UPDATE"), {"wishes": WISHES}),
        _hook("machinesets", SETS, _rule(MACHINE_SET, "CREATE", "UPDATE"), {**not_by_them, **changes}),
        _hook("machines-claimed", CLAIMS, _rule(MACHINE, "UPDATE"), {**not_by_them, **claims}, closed=False),
        _hook("machines-in-use", DELETIONS, _rule(MACHINE, "DELETE"), not_by_them, closed=False) | deletion,
        _hook("clusters-deployed", CLUSTERS, _rule(CLUSTER, "DELETE"), not_by_them, closed=False) | deletion,
        _hook("etcdclusters-in-use", ETCDS, _rule(ETCD_CLUSTER, "DELETE"), not_by_them, closed=False) | deletion,
    ]


def _rule(kind: Resource, *operations: str) -> Json:
    about = {"apiGroups": [kind.group], "apiVersions": [kind.version], "resources": [kind.plural]}
    return {**about, "scope": "Namespaced", "operations": list(operations)}


def _declared(*operations: str) -> Json:
    """Return the rule about what people declare: both kinds are judged in one way."""
    rule = _rule(CLUSTER_DEPLOYMENT, *operations)
    return {**rule, "resources": [kind.plural for kind in DECLARED]}


def _hook(name: str, path: str, rule: Json, only: Mapping[str, str], *, closed: bool = True) -> Json:
    return {
        "name": f"{name}.{GROUP}",
        "path": path,
        "rules": [rule],
        "matchConditions": [{"name": name, "expression": expression} for name, expression in only.items()],
        "failurePolicy": "Fail" if closed else "Ignore",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }
