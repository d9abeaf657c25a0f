"""Take cells away: found by label in the infra cluster, from any process on any machine, any number of times."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.cell.access import close_connections, control_directory
from harness.cell.labels import LABEL_PROJECT, expired
from harness.cell.place import selector_of
from harness.errors import Leaked
from harness.kube.client import ApiFailure, Cluster, Json, Unreachable
from harness.kube.resources import DATA_VOLUME, NAMESPACE, POD, PVC, VM, VMI, Resource
from harness.model import LABEL_ATTEMPT, LABEL_CELL, LABEL_EXPIRES, LABEL_MANAGED, LABEL_RUN, MANAGED_BY
from harness.until import Deadline, NotYet, TimedOut, until

ORDER = (VM, VMI, DATA_VOLUME, PVC, POD)
FIRST_LOOK_SECONDS, LAST_LOOK_SECONDS = 0.1, 2.0
MADE = (VM, DATA_VOLUME)  # what a cell is told by where it has no namespace of its own


@dataclass(frozen=True)
class Found:
    """A cell that exists in the infra cluster.

    shared: its namespace is not its own.
    """

    namespace: str
    run: str
    cell: str
    attempt: int
    expires_at: float
    phase: str
    shared: bool = False

    @property
    def selector(self) -> str:
        """Return the label selector of its objects, "" where it has the namespace for itself."""
        return selector_of(self.run, self.cell, self.attempt) if self.shared else ""

    @property
    def what(self) -> str:
        """Return what goes with it, for a person."""
        own = f"namespace {self.namespace}"
        return f"{self.cell} of run {self.run} in {own}" if self.shared else own


@dataclass(frozen=True)
class Selection:
    """Which cells to take away: of a run, of a cell id, only expired ones, or all; never those in `besides`.

    namespace: the one that cells share; without it each has one of its own.
    project: of a CI whose jobs made them; None: of any, or of none.
    """

    run: str | None = None
    cell: str | None = None
    only_expired: bool = False
    besides: frozenset[str] = frozenset()
    namespace: str | None = None
    project: str | None = None

    def labels(self) -> str:
        """Return the label selector."""
        pairs = [
            (LABEL_MANAGED, MANAGED_BY),
            (LABEL_RUN, self.run),
            (LABEL_CELL, self.cell),
            (LABEL_PROJECT, self.project),
        ]
        return ",".join([f"{k}={v}" for k, v in pairs if v] + ([] if self.cell else [LABEL_CELL]))


def find(cluster: Cluster, selection: Selection) -> list[Found]:
    """Return the cells of a selection, oldest first."""
    where = selection.namespace
    kinds = (NAMESPACE,) if where is None else MADE
    objects = [obj for kind in kinds for obj in cluster.list(kind, where, labels=selection.labels()).items]
    objects.sort(key=lambda n: str(n["metadata"].get("creationTimestamp", "")))
    chosen = [n for n in objects if not selection.only_expired or expired(n["metadata"].get("labels") or {})]
    each = {(found.run, found.cell, found.attempt): found for found in (_found(obj, where) for obj in reversed(chosen))}
    return [found for found in reversed(each.values()) if found.cell not in selection.besides]


def _found(obj: Json, shared: str | None) -> Found:
    labels = obj["metadata"].get("labels") or {}
    return Found(
        namespace=obj["metadata"]["name"] if shared is None else shared,
        run=labels.get(LABEL_RUN, ""),
        cell=labels.get(LABEL_CELL, ""),
        attempt=int(labels.get(LABEL_ATTEMPT, "1")),
        expires_at=float(labels.get(LABEL_EXPIRES, "0")),
        phase=(obj.get("status") or {}).get("phase", "") if shared is None else "",
        shared=shared is not None,
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
            remove(cluster, cell, deadline=Deadline.after(seconds))
        except TimedOut as late:
            return Leaked(f"{cell.what} is still there: {late.summary}", detail=late.detail)
        except (ApiFailure, Unreachable) as refused:  # one that may not be touched does not keep the others
            return Leaked(f"{cell.what} could not be taken away: {refused.summary}")
        close_connections(control_directory(cell.run, cell.cell))
        on_gone(cell)
        return None

    with ThreadPoolExecutor(max_workers=min(8, len(found))) as pool:
        leaks = [leak for leak in pool.map(one, found) if leak is not None]
    if leaks:
        raise Leaked(
            "; ".join(leak.summary for leak in leaks),
            hint="repeat `vmatrix reap` with the same options; if it stays, the detail names what holds it, and "
            "--remove-finalizers gives that up",
            detail="\n".join(leak.detail for leak in leaks),
        )
    return found


def remove(cluster: Cluster, cell: Found, *, deadline: Deadline) -> None:
    """Delete a cell in the order that hangs least (machines, disks, its namespace) and wait until it is gone.

    Raises:
        TimedOut: it is still there; the detail names what remains and the namespace's own conditions.
    """
    namespace = cell.namespace
    destroy(cluster, namespace, cell.selector, deadline=deadline)
    for obj in items(cluster, DATA_VOLUME, namespace, cell.selector):
        cluster.delete(DATA_VOLUME, obj["metadata"]["name"], namespace)
    if not cell.shared:
        cluster.delete(NAMESPACE, namespace)

    def gone() -> bool | NotYet:
        if cell.shared:  # a disk's claim and its machine's secret are the garbage collector's
            disks = (o for kind in (DATA_VOLUME, PVC) for o in items(cluster, kind, namespace, cell.selector))
            left = {o["metadata"]["name"] for o in disks}
            return NotYet(f"left: {', '.join(sorted(left))}") if left else True
        found = cluster.get(NAMESPACE, namespace)
        return True if found is None else NotYet(f"phase {found['status'].get('phase')}")

    until(
        gone,
        deadline=deadline,
        what=f"{cell.what} is gone",
        describe=lambda: describe(cluster, namespace, cell.selector),
        interval=FIRST_LOOK_SECONDS,
        slowest=LAST_LOOK_SECONDS,
    )


def destroy(cluster: Cluster, namespace: str, selector: str, *, deadline: Deadline) -> None:
    """Delete the machines that a label selector picks, with no grace for their guests, and wait until they are gone.

    Raises:
        TimedOut: some are still there.
    """

    def there(resource: Resource) -> list[str]:
        return [o["metadata"]["name"] for o in items(cluster, resource, namespace, selector)]

    for name in there(VM):
        cluster.delete(VM, name, namespace, grace=0)

    def gone() -> bool | NotYet:
        left = {name for resource in (VM, VMI) for name in there(resource)}
        return NotYet(f"left: {', '.join(sorted(left))}") if left else True

    until(
        gone,
        deadline=deadline,
        what=f"the machines of {namespace} are gone",
        describe=lambda: describe(cluster, namespace, selector),
        interval=FIRST_LOOK_SECONDS,
        slowest=LAST_LOOK_SECONDS,
    )


def items(cluster: Cluster, resource: Resource, namespace: str, selector: str) -> Iterable[Json]:
    """Return a cell's objects of a kind; an API that does not serve the kind has none of it."""
    try:
        return cluster.list(resource, namespace, labels=selector).items
    except ApiFailure as failure:
        if failure.code == 404:
            return []
        raise


def describe(cluster: Cluster, namespace: str, selector: str) -> str:
    """Say what is left in a namespace, or of a selector's objects in it, and why the API says that it is."""
    status = {} if selector else (cluster.get(NAMESPACE, namespace) or {}).get("status") or {}
    lines = [
        f"{condition['type']}: {condition.get('message', '')}"
        for condition in status.get("conditions") or []
        if condition["status"] == "True"
    ]
    for resource in ORDER:
        for obj in items(cluster, resource, namespace, selector):
            meta = obj["metadata"]
            lines.append(f"{resource.kind} {meta['name']}: finalizers {', '.join(meta.get('finalizers') or ['none'])}")
    return "\n".join(lines)
