"""The Secret with a cluster's kubeconfig, under the name and with the labels that Cluster API's tools look for.

https://cluster-api.sigs.k8s.io/developer/core/secrets (NAME-kubeconfig, key `value`, type, cluster-name label)
"""

from __future__ import annotations

from harness.kube.client import Cluster, Json
from harness.kube.objects import dig, owner_reference
from harness.kube.resources import SECRET
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.resources import CLUSTER, CLUSTER_LABEL
from harness.operator.execute.inputs import KUBECONFIG, state_name

SECRET_TYPE, NAME_LABEL, KEY = "cluster.x-k8s.io/secret", "cluster.x-k8s.io/cluster-name", "value"


def secret_name(cluster: str) -> str:
    """Return the name of the Secret."""
    return f"{cluster}-kubeconfig"


def hand_out(api: Cluster, cluster: Json) -> bool:
    """Make the Secret hold what the playbooks kept; tell whether they kept one. Writes only what is different."""
    name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    kept = dig(api.get(SECRET, state_name(name), namespace), "data", KUBECONFIG)
    if not kept:
        return False
    found = api.get(SECRET, secret_name(name), namespace)
    if found is None:
        labels = {CLUSTER_LABEL: name, NAME_LABEL: name, LABEL_MANAGED: MANAGED_BY}
        body = SECRET.manifest(secret_name(name), namespace, labels=labels, type=SECRET_TYPE, data={KEY: kept})
        body["metadata"]["ownerReferences"] = [owner_reference(cluster, CLUSTER)]
        api.ensure(SECRET, body)
    elif dig(found, "data", KEY) != kept:
        api.merge(SECRET, secret_name(name), {"data": {KEY: kept}}, namespace)
    return True


def take_back(api: Cluster, cluster: Json) -> None:
    """Delete the Secret: there is no cluster any more that it opens."""
    api.delete(SECRET, secret_name(cluster["metadata"]["name"]), cluster["metadata"]["namespace"])
