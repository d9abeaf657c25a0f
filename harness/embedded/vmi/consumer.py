"""The pod that is a claim's first consumer, so that the scheduler chooses where the claim is bound."""

from __future__ import annotations

from harness.embedded.vmi.launcher import launcher_pod, suffix
from harness.kube.client import Json

CONSUMER = "kubevirt.io/ephemeral-provisioning"


def is_consumer(pod: Json) -> bool:
    """Tell whether a pod of an instance is only there for its claims to be bound."""
    return (pod["metadata"].get("annotations") or {}).get(CONSUMER) == "true"


def consumer_pod(vmi: Json) -> Json:
    """Return a pod that needs what the launcher will need, and ends at once: the first consumer of its claims.

    KubeVirt makes it for claims that wait for one, since what fills them must not find them in a launcher's use.
    """
    pod = launcher_pod(vmi)
    meta = pod["metadata"]
    meta["name"] = f"virt-launcher-{vmi['metadata']['name']}-{suffix(vmi['metadata']['uid'] + CONSUMER)}"
    meta["annotations"] = {**meta["annotations"], CONSUMER: "true"}
    compute = {**pod["spec"]["containers"][0], "command": ["/bin/bash", "-c", "echo", "bound PVCs"]}
    pod["spec"]["containers"] = [compute]
    del pod["spec"]["initContainers"], pod["spec"]["readinessGates"]
    return pod
