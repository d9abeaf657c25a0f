"""A pod that uses a cluster's kubeconfig with the Service of its API as the server, as the operator's page says."""

from __future__ import annotations

from harness.kube.client import Cluster, Json
from harness.kube.objects import phase
from harness.kube.resources import POD, SERVICE
from harness.operator.manifests import LABELS
from harness.until import Deadline, NotYet, until
from tests.embedded.operator_live.lived import Lived

NAME = "dialling"
SECONDS = 120.0
# The image is the manager's own, as one with a client that is there already.
PROGRAM = """
import pathlib, sys, yaml
from harness.kube.client import Cluster
from harness.kube.resources import NODE
config = yaml.safe_load(pathlib.Path("/guest/value").read_text())
config["clusters"][0]["cluster"]["server"] = sys.argv[1]
path = pathlib.Path("/tmp/kubeconfig")
path.write_text(yaml.safe_dump(config))
print(*sorted(node["metadata"]["name"] for node in Cluster.from_kubeconfig(path).list(NODE).items))
"""


def manager(lived: Lived) -> Json:
    """Return the pod of the manager."""
    labels = ",".join(f"{key}={value}" for key, value in LABELS.items())
    (found,) = lived.api.list(POD, lived.namespace, labels=labels).items
    return found


def nodes_by(lived: Lived, url: str) -> list[str]:
    """Return the nodes of the cluster that a pod sees at a URL of its Service; fail with what it said if it fails."""
    service = lived.get("guest-api", SERVICE)
    image = manager(lived)["spec"]["containers"][0]["image"]
    name = url.removeprefix("https://").partition(":")[0]
    mounts = [{"name": "guest", "mountPath": "/guest"}, {"name": "temporary", "mountPath": "/tmp"}]
    container = {"name": "c", "image": image, "command": ["python3", "-c", PROGRAM, url], "volumeMounts": mounts}
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "hostAliases": [{"ip": service["spec"]["clusterIP"], "hostnames": [name]}],  # no cluster DNS is there
        "containers": [container],
        "volumes": [
            {"name": "guest", "secret": {"secretName": "guest-kubeconfig"}},
            {"name": "temporary", "emptyDir": {}},
        ],
    }
    lived.api.create(POD, POD.manifest(NAME, lived.namespace, labels={}, spec=spec))
    try:
        return _said(lived.api, lived.namespace).split()
    finally:
        lived.api.delete(POD, NAME, lived.namespace)


def _said(api: Cluster, namespace: str) -> str:
    def ended() -> Json | NotYet:
        found = api.get(POD, NAME, namespace) or {}
        return found if phase(found) in {"Succeeded", "Failed"} else NotYet(str(found.get("status")))

    pod = until(ended, deadline=Deadline.after(SECONDS), what="the pod to end", interval=0.5)
    printed = api.pod_log(namespace, NAME, container="c")
    assert phase(pod) == "Succeeded", printed
    return printed
