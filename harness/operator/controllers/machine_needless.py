"""Whether a Machine's claim is of no use any more, and why; pure."""

from __future__ import annotations

from collections.abc import Iterable

from harness.kube.client import Json
from harness.kube.objects import deleting, dig
from harness.operator.controllers.machine_choice import oldest_first
from harness.operator.controllers.machine_use import use_of


def needless(machine: Json, deployment: Json | None, cluster: Json | None, machines: Iterable[Json]) -> str:
    """Return why a claim can be given up, "" when it cannot.

    Args:
        deployment, cluster: what the claim names, as far as it is there.
        machines: those of the namespace.
    """
    claim = machine["spec"]["claim"]
    name, set_name = claim["cluster"], claim["set"]
    if deployment is None:
        return f"cluster {name} is gone"
    if claim.get("uid") and claim["uid"] != deployment["metadata"]["uid"]:
        return f"cluster {name} is gone, and another one has its name"
    if deleting(deployment) or dig(deployment, "spec", "paused") or use_of(machine, cluster).holds:
        return ""
    wanted = next((s for s in dig(deployment, "spec", "machineSets") or [] if s["name"] == set_name), None)
    if wanted is None:
        return f"cluster {name} has no set {set_name} any more"
    names = dig(wanted, "machines", "names")
    if names and machine["metadata"]["name"] not in names:
        return f"set {set_name} of cluster {name} does not name it any more"
    own = [m for m in oldest_first(machines) if dig(m, "spec", "claim") == claim]
    own.sort(key=lambda m: not use_of(m, cluster).holds)
    kept = [m["metadata"]["name"] for m in own[: wanted.get("replicas", 1)]]
    return "" if machine["metadata"]["name"] in kept else f"set {set_name} of cluster {name} wants fewer machines"
