"""Take cells away: found by label in the infra cluster, from any process on any machine, any number of times."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.cell.access import close_connections, control_directory
from harness.cell.labels import expired
from harness.errors import Leaked
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import DATA_VOLUME, NAMESPACE, POD, PVC, VM, VMI, Resource
from harness.model import LABEL_ATTEMPT, LABEL_CELL, LABEL_EXPIRES, LABEL_MANAGED, LABEL_RUN, MANAGED_BY
from harness.until import Deadline, NotYet, TimedOut, until

ORDER = (VM, VMI, DATA_VOLUME, PVC, POD)


@dataclass(frozen=True)
class Found:
    """A cell that exists in the infra cluster."""

    namespace: str
    run: str
    cell: str
    attempt: int
    expires_at: float
    phase: str


@dataclass(frozen=True)
class Selection:
    """Which cells to take away: of a run, of a cell id, only expired ones, or all; never those in `besides`."""

    run: str | None = None
    cell: str | None = None
    only_expired: bool = False
    besides: frozenset[str] = frozenset()

    def labels(self) -> str:
        """Return the label selector."""
        pairs = [(LABEL_MANAGED, MANAGED_BY), (LABEL_RUN, self.run), (LABEL_CELL, self.cell)]
        return ",".join([f"{k}={v}" for k, v in pairs if v] + ([] if self.cell else [LABEL_CELL]))


def find(cluster: Cluster, selection: Selection) -> list[Found]:
    """Return the cells of a selection, oldest first."""
    namespaces = cluster.list(NAMESPACE, labels=selection.labels()).items
    namespaces.sort(key=lambda n: str(n["metadata"].get("creationTimestamp", "")))
    chosen = [n for n in namespaces if not selection.only_expired or expired(n["metadata"].get("labels") or {})]
    return [found for found in map(_found, chosen) if found.cell not in selection.besides]


def _found(namespace: Json) -> Found:
    labels = namespace["metadata"].get("labels") or {}
    return Found(
        namespace=namespace["metadata"]["name"],
        run=labels.get(LABEL_RUN, ""),
        cell=labels.get(LABEL_CELL, ""),
        attempt=int(labels.get(LABEL_ATTEMPT, "1")),
        expires_at=float(labels.get(LABEL_EXPIRES, "0")),
        phase=(namespace.get("status") or {}).get("phase", ""),
    )


def reap(
    cluster: Cluster, selection: Selection, *, seconds: float, on_gone: Callable[[Found], None] = lambda _: None
) -> list[Found]:
    """Take every selected cell away, at once, and return them.

    Args:
        seconds: for each cell, from the first delete to the namespace gone.
        on_gone: told each cell that is gone.

    Raises:
        Leaked: something could not be removed; it is named, with what holds it.
    """
    found = find(cluster, selection)
    if not found:
        return []

    def one(cell: Found) -> Leaked | None:
        try:
            remove(cluster, cell.namespace, deadline=Deadline.after(seconds))
        except TimedOut as late:
            return Leaked(f"namespace {cell.namespace} is still there: {late.summary}", detail=late.detail)
        close_connections(control_directory(cell.run, cell.cell))
        on_gone(cell)
        return None

    with ThreadPoolExecutor(max_workers=min(8, len(found))) as pool:
        leaks = [leak for leak in pool.map(one, found) if leak is not None]
    if leaks:
        raise Leaked(
            "; ".join(leak.summary for leak in leaks),
            hint="repeat `vmatrix reap` with the same options; if it stays, the detail names what holds it",
            detail="\n".join(leak.detail for leak in leaks),
        )
    return found


def remove(cluster: Cluster, namespace: str, *, deadline: Deadline) -> None:
    """Delete a namespace in the order that hangs least (machines, disks, namespace) and wait until it is gone.

    Raises:
        TimedOut: it is still there; the detail names what remains and the namespace's own conditions.
    """
    destroy(cluster, namespace, None, deadline=deadline)
    for obj in _items(cluster, DATA_VOLUME, namespace):
        cluster.delete(DATA_VOLUME, obj["metadata"]["name"], namespace)
    cluster.delete(NAMESPACE, namespace)

    def gone() -> bool | NotYet:
        found = cluster.get(NAMESPACE, namespace)
        return True if found is None else NotYet(f"phase {found['status'].get('phase')}")

    until(
        gone,
        deadline=deadline,
        what=f"namespace {namespace} is gone",
        describe=lambda: describe(cluster, namespace),
        interval=0.2,
    )


def destroy(cluster: Cluster, namespace: str, names: Collection[str] | None, *, deadline: Deadline) -> None:
    """Delete machines (all without names), with no grace for their guests, and wait until they are gone.

    Raises:
        TimedOut: some are still there.
    """

    def there(resource: Resource) -> list[str]:
        found = (o["metadata"]["name"] for o in _items(cluster, resource, namespace))
        return [name for name in found if names is None or name in names]

    for name in there(VM):
        cluster.delete(VM, name, namespace, grace=0)

    def gone() -> bool | NotYet:
        left = {name for resource in (VM, VMI) for name in there(resource)}
        return NotYet(f"left: {', '.join(sorted(left))}") if left else True

    until(
        gone,
        deadline=deadline,
        what=f"the machines of {namespace} are gone",
        describe=lambda: describe(cluster, namespace),
        interval=0.1,
    )


def _items(cluster: Cluster, resource: Resource, namespace: str) -> Iterable[Json]:
    """List, but an API that does not serve the kind has none of it."""
    try:
        return cluster.list(resource, namespace).items
    except ApiFailure as failure:
        if failure.code == 404:
            return []
        raise


def describe(cluster: Cluster, namespace: str) -> str:
    """Say what is left in a namespace and why the API says that it is."""
    status = (cluster.get(NAMESPACE, namespace) or {}).get("status") or {}
    lines = [
        f"{condition['type']}: {condition.get('message', '')}"
        for condition in status.get("conditions") or []
        if condition["status"] == "True"
    ]
    for resource in ORDER:
        for obj in _items(cluster, resource, namespace):
            meta = obj["metadata"]
            lines.append(f"{resource.kind} {meta['name']}: finalizers {', '.join(meta.get('finalizers') or ['none'])}")
    return "\n".join(lines)
