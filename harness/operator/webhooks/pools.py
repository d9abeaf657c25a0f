"""Who may use which Machines: the verb `use` on machines, of a whole namespace or of single ones, as RBAC grants it.

A set that takes its machines from a pool needs the verb for all Machines of the namespace, one that names them for
each of them. Only what an edit takes in addition is asked about.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.kube.client import Cluster, Json, allowed, as_reviewed
from harness.kube.objects import dig
from harness.operator.api.resources import GROUP, MACHINE

VERB = "use"


def not_permitted(cluster: Cluster, user: Json, new: Json, old: Json | None) -> str:
    """Return what a user lacks to take the machines that an edit takes; "" when nothing is missing."""
    namespace = new["metadata"]["namespace"]
    taken = dict(_taken(new, old))
    if not taken or _may(cluster, user, namespace, ""):
        return ""
    for name, about in taken.items():
        if not name or not _may(cluster, user, namespace, name):
            of = f' "{name}"' if name else ""
            return (
                f'{MACHINE.plural}.{GROUP}{of} is forbidden: User "{user.get("username", "")}" cannot {VERB} resource '
                f'"{MACHINE.plural}" in API group "{GROUP}" in the namespace "{namespace}": {about}; '
                f"an administrator grants it with a Role that has the verb {VERB}"
            )
    return ""


def _taken(new: Json, old: Json | None) -> Iterator[tuple[str, str]]:
    """Yield the names of the Machines that an edit takes in addition ("" for a pool), and which set takes them."""
    before = {one["name"]: one for one in dig(old, "spec", "machineSets") or ()}
    for one in new["spec"]["machineSets"]:
        last, source = before.get(one["name"], {}), one["machines"]
        about = f"set {one['name']} takes its machines"
        if source.get("names"):
            known = dig(last, "machines", "names") or ()
            yield from ((name, f"{about} by name") for name in source["names"] if name not in known)
        elif source.get("pool") is not None:
            more = one.get("replicas", 1) > last.get("replicas", 1 if last else 0)
            if more or dig(last, "machines", "pool") != source["pool"]:
                yield "", f"{about} from a pool"


def _may(cluster: Cluster, user: Json, namespace: str, name: str) -> bool:
    asked = {"group": GROUP, "resource": MACHINE.plural, "verb": VERB, "namespace": namespace}
    return allowed(cluster, as_reviewed(user), {**asked, **({"name": name} if name else {})})[0]
